//! What a launching thread remembers.

use std::cell::RefCell;

use super::pool::Taken;
use crate::gpu::driver::Stream;
use crate::record;
use nccl_events::id::EventId;

/// Launches that a thread has begun and not ended: one, but for those that never end.
const MOST_OPEN: usize = 4;

thread_local! {
    static THREAD: RefCell<Thread> = const { RefCell::new(Thread::NEW) };
}

/// Does something with what the calling thread remembers; nothing when the thread is ending.
pub(super) fn with<T>(action: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD
        .try_with(|thread| Some(action(&mut *thread.try_borrow_mut().ok()?)))
        .ok()
        .flatten()
}

/// What a launching thread remembers.
pub(super) struct Thread {
    whose: Whose,
    open: [Option<Open>; MOST_OPEN],
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    NotAsked,
    Programs,
    Cudas,
}

/// A launch that has begun.
#[derive(Clone, Copy)]
pub(super) struct Open {
    /// Of which session.
    pub(super) serial: u64,
    pub(super) id: EventId,
    /// The context's place in the table.
    pub(super) entry: usize,
    pub(super) pair: Taken,
    pub(super) stream: Stream,
}

impl Thread {
    const NEW: Self = Self {
        whose: Whose::NotAsked,
        open: [None; MOST_OPEN],
        next: 0,
    };

    /// Whether it is one of CUDA's own threads, which run host functions of streams and may call nothing of CUDA.
    /// NCCL launches from none; asked once a thread.
    pub(super) fn is_cudas(&mut self) -> bool {
        if self.whose == Whose::NotAsked {
            self.whose = if is_name_of_cudas(&record::thread_name()) {
                Whose::Cudas
            } else {
                Whose::Programs
            };
        }
        self.whose == Whose::Cudas
    }

    /// A launch that never ended loses its place, and its events are not used again.
    pub(super) fn keep(&mut self, open: Open) {
        if let Some(place) = self.open.get_mut(self.next) {
            *place = Some(open);
        }
        self.next = (self.next + 1) % MOST_OPEN;
    }

    /// The launch with this id, if it was begun here.
    pub(super) fn take(&mut self, serial: u64, id: EventId) -> Option<Open> {
        let is_it = |open: &Open| open.serial == serial && open.id == id;
        let place = self
            .open
            .iter_mut()
            .find(|place| place.as_ref().is_some_and(is_it))?;
        place.take()
    }
}

/// As the driver calls its threads: `cuda-EvtHandlr`, or `cuda` and digits.
fn is_name_of_cudas(name: &str) -> bool {
    name.strip_prefix("cuda").is_some_and(|rest| {
        rest == "-EvtHandlr" || rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cudas_own_threads_are_known_by_name() {
        for name in ["cuda-EvtHandlr", "cuda00001400006"] {
            assert!(is_name_of_cudas(name), "{name}");
        }
        for name in [
            "cuda",
            "cuda-launcher",
            "cudaworker",
            "python3",
            "pt_autograd_0",
            "",
        ] {
            assert!(!is_name_of_cudas(name), "{name}");
        }
    }
}
