//! CUPTI's own thread: completes buffers, and makes the records of what has run.

use crate::buffer::{Buffer, permute};
use crate::client::Client;
use crate::counters::BUFFERS_COMPLETED;
use crate::gpu;
use crate::knobs::knobs;
use crate::level::kind;
use crate::log::fatal;
use crate::records::{self, Work};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What CUPTI's thread has to do.
enum Task {
    /// The record of something that has run.
    Record(gpu::Ticket),
    Complete(Arc<Client>, Buffer, Option<Arc<Latch>>),
}

/// Opens when so many have gone through.
pub(crate) struct Latch {
    left: Mutex<usize>,
    open: Condvar,
}

impl Latch {
    fn new(count: usize) -> Arc<Latch> {
        Arc::new(Latch {
            left: Mutex::new(count),
            open: Condvar::new(),
        })
    }

    fn pass(&self) {
        *self.left.lock() -= 1;
        self.open.notify_all();
    }

    fn wait(&self) {
        let mut left = self.left.lock();
        while *left > 0 {
            self.open.wait(&mut left);
        }
    }
}

struct Queue {
    tasks: BTreeMap<(Instant, u64), Task>,
    next: u64,
    has_worker: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    tasks: BTreeMap::new(),
    next: 0,
    has_worker: false,
});
static CHANGED: Condvar = Condvar::new();

fn put(due: Instant, task: Task) {
    let mut queue = QUEUE.lock();
    queue.next += 1;
    let key = (due, queue.next);
    queue.tasks.insert(key, task);
    if !queue.has_worker {
        queue.has_worker = true;
        let started = std::thread::Builder::new()
            .name("fakecupti".to_owned())
            .spawn(work);
        if let Err(error) = started {
            fatal(&format!("cannot start a thread: {error}"));
        }
    }
    CHANGED.notify_all();
}

fn work() {
    let mut queue = QUEUE.lock();
    loop {
        let Some((&key, _)) = queue.tasks.first_key_value() else {
            CHANGED.wait(&mut queue);
            continue;
        };
        if key.0 > Instant::now() {
            let _ = CHANGED.wait_until(&mut queue, key.0);
            continue;
        }
        let Some(task) = queue.tasks.remove(&key) else {
            continue;
        };
        drop(queue);
        match task {
            Task::Record(ticket) => gpu::record(ticket),
            Task::Complete(client, buffer, latch) => {
                hand_over(&client, buffer);
                if let Some(latch) = latch {
                    latch.pass();
                }
            }
        }
        queue = QUEUE.lock();
    }
}

/// The record is due in so many nanoseconds.
pub(crate) fn record_in(ns: u64, ticket: gpu::Ticket) {
    put(
        Instant::now() + Duration::from_nanos(ns),
        Task::Record(ticket),
    );
}

/// A full buffer goes back.
pub(crate) fn complete(client: &Arc<Client>, buffer: Buffer) {
    put(Instant::now(), Task::Complete(client.clone(), buffer, None));
}

/// The buffers of a flush go back, in the order that is asked for; waits for that unless it is asked for late.
pub(crate) fn flush(mut buffers: Vec<(Arc<Client>, Buffer)>) {
    permute(&mut buffers, knobs().order);
    let late = knobs().late_ms;
    let due = Instant::now() + Duration::from_millis(late);
    let latch = (late == 0).then(|| Latch::new(buffers.len()));
    for (client, buffer) in buffers {
        put(due, Task::Complete(client, buffer, latch.clone()));
    }
    if let Some(latch) = latch {
        latch.wait();
    }
}

fn hand_over(client: &Client, mut buffer: Buffer) {
    buffer.reorder(knobs().order);
    if knobs().partial {
        buffer.push_broken();
    }
    BUFFERS_COMPLETED.add(1);
    client.give_back(buffer.start(), buffer.len(), buffer.valid(), buffer.thread);
    static DONE: AtomicBool = AtomicBool::new(false);
    if knobs().foreign_buffer && !DONE.swap(true, Ordering::Relaxed) {
        give_foreign(client, buffer.thread);
    }
}

/// A buffer that the tool never gave, with a kernel in it. Who writes to it crashes, and who frees it too.
fn give_foreign(client: &Client, thread: i32) {
    const LEN: usize = 4096;
    // SAFETY: a new private mapping at an address that the kernel chooses touches no existing memory.
    let mapped = unsafe {
        libc::mmap(
            null_mut(),
            LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        fatal("no memory for a foreign buffer");
    }
    let start: *mut u8 = mapped.cast();
    // SAFETY: the mapping above, which nobody else knows yet.
    let mut buffer = unsafe { Buffer::new(start, LEN, 0, thread) };
    let foreign = Work {
        correlation: 1,
        device: 0,
        context: 1,
        stream: 7,
        name: Some(c"foreign_kernel"),
        graph: 0,
        source_graph: 0,
        node: 0,
        source_node: 0,
        copy_kind: 0,
        copied: 0,
    };
    let len = crate::buffer::record_len(kind::CONCURRENT_KERNEL).unwrap_or(0);
    buffer.push(&records::kernel(len, &foreign, 1, 2));
    // SAFETY: the whole of the mapping above.
    let _ = unsafe { libc::mprotect(mapped, LEN, libc::PROT_READ) };
    client.give_back(start, LEN, buffer.valid(), thread);
}
