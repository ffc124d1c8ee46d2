//! Captured calls: what NCCL reports at each launch of a CUDA graph, and what it reports during capture.
//!
//! ```text
//!  capture   GroupApi ── CollApi (graph captured)         once, on the calling thread
//!  replay 1      Group ── Coll, parent: that CollApi      CUDA's callback thread
//!  replay 2      Group ── Coll, the same parent
//! ```
//!
//! A launch plan without network transfers and kernel channels is reported at capture instead, on the calling thread
//! inside the call's group. Such a report is not an execution, and NCCL never reports the replays. A nonblocking
//! communicator launches from its own thread, perhaps after the group ended: that thread has the kernel launch.

/// An operation of a captured call, as NCCL reported it.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub start: u64,
    /// Whether the thread is the one that made the call.
    pub is_callers_thread: bool,
    /// Whether the thread launched a kernel of the call's group.
    pub thread_launched: bool,
    /// When the call's group stopped; `None` if the group is unknown.
    pub group_stop: Option<Option<u64>>,
}

impl Reported {
    /// Whether the operation was reported at capture, the only time when NCCL launches a captured call.
    pub fn is_at_capture(&self) -> bool {
        match self.is_callers_thread {
            true => self.group_stop.is_some_and(|stop| stop.is_none_or(|stop| self.start <= stop)),
            false => self.thread_launched,
        }
    }
}
