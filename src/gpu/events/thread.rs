//! The open launches of a launching thread.

use super::pool::TakenPair;
use crate::gpu::driver::Stream;
use crate::host::left::ThreadCell;
use crate::host::per_thread::PerThread;
use crate::host::process::thread_name;
use nccl_events::ids::EventId;

/// The largest number of open launches: a thread has one, and perhaps others that never ended.
const MOST_OPEN: usize = 4;

static THREAD: PerThread<ThreadCell<Thread>> = PerThread::new();

/// Runs `action` with the calling thread's state; does nothing if there is no memory for the state.
pub(super) fn with<T>(action: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    let new = || Some(ThreadCell::new(Thread::NEW));
    THREAD.with(new, |thread| thread.with(|| Thread::NEW, action)).flatten()
}

pub(super) struct Thread {
    owner: Owner,
    open: [Option<Open>; MOST_OPEN],
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Unknown,
    Program,
    Cuda,
}

#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) serial: u64,
    pub(super) id: EventId,
    pub(super) entry: usize,
    pub(super) pair: TakenPair,
    pub(super) stream: Stream,
}

impl Thread {
    const NEW: Self = Self { owner: Owner::Unknown, open: [None; MOST_OPEN], next: 0 };

    /// Whether this is one of CUDA's own threads, which run host functions of streams and must not call CUDA. NCCL
    /// never launches from these threads. Determined once per thread.
    pub(super) fn is_cuda_thread(&mut self) -> bool {
        if self.owner == Owner::Unknown {
            self.owner = if is_cuda_name(&thread_name()) { Owner::Cuda } else { Owner::Program };
        }
        self.owner == Owner::Cuda
    }

    /// Keeps an open launch. Replaces the oldest, which never ended and whose events are not used again.
    pub(super) fn keep(&mut self, open: Open) {
        if let Some(slot) = self.open.get_mut(self.next) {
            *slot = Some(open);
        }
        self.next = (self.next + 1) % MOST_OPEN;
    }

    /// Removes the launch with this id, if it began on this thread.
    pub(super) fn take(&mut self, serial: u64, id: EventId) -> Option<Open> {
        let is_it = |open: &Open| open.serial == serial && open.id == id;
        let slot = self.open.iter_mut().find(|slot| slot.as_ref().is_some_and(is_it))?;
        slot.take()
    }
}

/// Whether the name is one that the driver gives its threads: `cuda-EvtHandlr`, or `cuda` and hexadecimal digits.
fn is_cuda_name(name: &str) -> bool {
    name.strip_prefix("cuda").is_some_and(|rest| {
        rest == "-EvtHandlr" || rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_threads_are_known_by_name() {
        for name in ["cuda-EvtHandlr", "cuda00001400006"] {
            assert!(is_cuda_name(name), "{name}");
        }
        for name in ["cuda", "cuda-launcher", "cudaworker", "python3", "pt_autograd_0", ""] {
            assert!(!is_cuda_name(name), "{name}");
        }
    }
}
