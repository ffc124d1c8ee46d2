//! CUPTI's own thread: does what it is given when that is due.

use crate::variables::fatal;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Instant;

type Task = Box<dyn FnOnce() + Send>;

struct Queue {
    tasks: BTreeMap<(Instant, u64), Task>,
    next: u64,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { tasks: BTreeMap::new(), next: 0 });
static CHANGED: Condvar = Condvar::new();

/// Runs a task when it is due, or as soon as the thread is free.
pub(crate) fn put(due: Instant, task: impl FnOnce() + Send + 'static) {
    let mut queue = QUEUE.lock();
    queue.next += 1;
    if queue.next == 1 {
        let thread = std::thread::Builder::new().name("fakecupti".to_owned());
        if let Err(error) = thread.spawn(work) {
            fatal(&format!("cannot start a thread: {error}"));
        }
    }
    let key = (due, queue.next);
    queue.tasks.insert(key, Box::new(task));
    CHANGED.notify_all();
}

fn work() {
    let mut queue = QUEUE.lock();
    loop {
        match queue.tasks.first_entry() {
            None => CHANGED.wait(&mut queue),
            Some(first) if first.key().0 <= Instant::now() => {
                let task = first.remove();
                parking_lot::MutexGuard::unlocked(&mut queue, task);
            }
            Some(first) => {
                let due = first.key().0;
                let _ = CHANGED.wait_until(&mut queue, due);
            }
        }
    }
}
