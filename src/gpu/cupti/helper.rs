//! A thread for calls that may not come back.
//!
//! `cuptiActivityFlushAll` waits for CUPTI's own threads, and turning kinds off for contexts. Whoever waits for them here
//! does so for a bounded time, and goes on without them after it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Desk {
    task: Option<Task>,
    given: u64,
    done: u64,
    is_over: bool,
}

struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
}

/// The thread, from the outside.
pub(super) struct Helper {
    shared: Arc<Shared>,
    /// False when the system refused a thread: then tasks run on the thread that gives them.
    has_thread: bool,
}

impl Helper {
    pub(super) fn start() -> Self {
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk::default()),
            changed: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = journal::host::without_signals(|| {
            let builder = std::thread::Builder::new()
                .name("nccl-otf2-cupti".to_owned())
                .stack_size(512 * 1024);
            builder.spawn(move || work(&for_thread))
        });
        Self {
            shared,
            has_thread: thread.is_ok(),
        }
    }

    /// Has `task` done, and waits for that until `deadline`. False when it is not done by then, or was not even begun
    /// since an earlier one is not.
    pub(super) fn run(&self, deadline: Instant, task: impl FnOnce() + Send + 'static) -> bool {
        if !self.has_thread {
            task();
            return true;
        }
        let mut desk = self.shared.desk.lock();
        while desk.done < desk.given {
            if self
                .shared
                .changed
                .wait_until(&mut desk, deadline)
                .timed_out()
            {
                return false;
            }
        }
        desk.task = Some(Box::new(task));
        desk.given += 1;
        self.shared.changed.notify_all();
        while desk.done < desk.given {
            if self
                .shared
                .changed
                .wait_until(&mut desk, deadline)
                .timed_out()
            {
                return desk.done >= desk.given;
            }
        }
        true
    }

    /// Whether a task is not done yet.
    pub(super) fn is_busy(&self) -> bool {
        let desk = self.shared.desk.lock();
        desk.done < desk.given
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The thread is not waited for: it may hang in a task.
        self.shared.desk.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut desk = shared.desk.lock();
    loop {
        if let Some(task) = desk.task.take() {
            drop(desk);
            // A task that panics is done.
            let _panicked = catch_unwind(AssertUnwindSafe(task));
            desk = shared.desk.lock();
            desk.done += 1;
            shared.changed.notify_all();
        } else if desk.is_over {
            return;
        } else {
            shared.changed.wait(&mut desk);
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
    fn tasks_are_done_one_after_the_other() {
        let helper = Helper::start();
        let (sender, receiver) = mpsc::channel();
        for number in 0..3 {
            let sender = sender.clone();
            assert!(helper.run(soon(), move || { sender.send(number).unwrap() }));
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(helper.run(soon(), || panic!("planted")));
        assert!(!helper.is_busy());
    }

    #[test]
    fn a_task_that_hangs_is_waited_for_only_so_long() {
        let helper = Helper::start();
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
