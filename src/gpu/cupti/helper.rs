//! A thread for calls that may not return.
//!
//! `cuptiActivityFlushAll` waits for CUPTI's own threads, and disabling a kind waits for contexts. This thread makes
//! the calls, so that the worker waits for them only for a bounded time.

use std::sync::Arc;
use std::time::Instant;

use crate::gpu::mailbox::Mailbox;
use crate::host::process;

type Task = Box<dyn FnOnce() + Send>;

pub(super) struct Helper {
    mailbox: Arc<Mailbox<Task>>,
    /// False if the system refused to start a thread; tasks then run on the caller's thread.
    has_thread: bool,
}

impl Helper {
    pub(super) fn start() -> Self {
        let mailbox = Arc::new(Mailbox::<Task>::new());
        let for_thread = Arc::clone(&mailbox);
        let thread = process::spawn("nccl-otf2-cupti", 512 << 10, move || {
            while let Some(task) = for_thread.wait() {
                // A task that panics counts as finished.
                let _panicked = in_process::catch(task);
                for_thread.answer();
            }
        });
        Self { mailbox, has_thread: thread.is_ok() }
    }

    /// Runs `task`, and waits for it until `deadline`. False if the task has not returned by then, or did not begin
    /// because an earlier task has not returned.
    pub(super) fn run(&self, deadline: Instant, task: impl FnOnce() + Send + 'static) -> bool {
        if !self.has_thread {
            task();
            return true;
        }
        self.mailbox.is_idle(deadline) && self.mailbox.ask(Box::new(task), deadline)
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.mailbox.is_idle(Instant::now())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Does not join the thread, which may hang in a task.
        self.mailbox.close();
    }
}
