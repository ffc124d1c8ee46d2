//! A thread for calls that may not return.
//!
//! `cuptiActivityFlushAll` waits for CUPTI's own threads, and disabling a kind waits for contexts. The worker waits for
//! these calls for a bounded time.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::host::process;
use in_process::panics;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    task: Option<Task>,
    started: u64,
    done: u64,
    is_over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub(super) struct Helper {
    shared: Arc<Shared>,
    /// False if the system refused a thread: then tasks run on the caller's.
    has_thread: bool,
}

impl Helper {
    pub(super) fn start() -> Self {
        let shared = Arc::new(Shared { state: Mutex::new(State::default()), changed: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        let thread = process::spawn("nccl-otf2-cupti", 512 << 10, move || work(&for_thread));
        Self { shared, has_thread: thread.is_ok() }
    }

    /// Runs `task`, and waits for it until `deadline`. False if it has not returned by then, or did not begin because
    /// an earlier one has not returned.
    pub(super) fn run(&self, deadline: Instant, task: impl FnOnce() + Send + 'static) -> bool {
        if !self.has_thread {
            task();
            return true;
        }
        let mut state = self.shared.state.lock();
        while state.done < state.started {
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        state.task = Some(Box::new(task));
        state.started += 1;
        self.shared.changed.notify_all();
        while state.done < state.started {
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                return state.done >= state.started;
            }
        }
        true
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = self.shared.state.lock();
        state.done < state.started
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Does not join the thread, which may hang in a task.
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut state = shared.state.lock();
    loop {
        if let Some(task) = state.task.take() {
            drop(state);
            // A task that panics counts as done.
            let _panicked = panics::catch(task);
            state = shared.state.lock();
            state.done += 1;
            shared.changed.notify_all();
        } else if state.is_over {
            return;
        } else {
            shared.changed.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn at_once() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn the_wait_for_a_hanging_task_is_bounded() {
        let helper = Helper::start();
        assert!(helper.run(soon(), || panic!("planted")), "a task that panics is done");
        let (let_go, hang) = mpsc::channel::<()>();
        let begun = Instant::now();
        let done = helper.run(at_once(), move || {
            let _let_go = hang.recv();
        });
        assert!(!done);
        assert!(!helper.run(at_once(), || {}));
        assert!(helper.is_busy());
        assert!(begun.elapsed() < Duration::from_secs(10));
        drop(let_go);
        assert!(helper.run(soon(), || {}));
    }
}
