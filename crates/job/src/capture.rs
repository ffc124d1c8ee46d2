//! Captured calls: what NCCL reports again at each launch of a CUDA graph, and what it reports while it captures.
//!
//! ```text
//!  capture   GroupApi ── CollApi (graph captured)         once, on the calling thread
//!  replay 1      Group ── Coll, parent: that CollApi      CUDA's callback thread
//!  replay 2      Group ── Coll, the same parent
//! ```
//!
//! A launch plan without network transfers and kernel channels is reported at capture instead, on the calling
//! thread inside the call's group: that is no execution, and NCCL never reports its replays. A nonblocking
//! communicator launches from a thread of its own, where the group may be over: that thread has the kernel launch.

/// An operation of a captured call, as it is reported.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub start: u64,
    /// Whether on the thread of the call.
    pub is_callers_thread: bool,
    /// Whether that thread launched a kernel of the call's group.
    pub thread_launched: bool,
    /// When the call's group stopped; `None` where the group is not known.
    pub group_stop: Option<Option<u64>>,
}

impl Reported {
    /// Whether it is reported at capture: NCCL launches a captured call only when it is captured.
    pub fn is_at_capture(&self) -> bool {
        match self.is_callers_thread {
            true => self.group_stop.is_some_and(|stop| stop.is_none_or(|stop| self.start <= stop)),
            false => self.thread_launched,
        }
    }
}
