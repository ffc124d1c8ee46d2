//! What runs on the GPU, and when: at the player's times, or on the double's own clock.

use crate::buffer::{order, record_len};
use crate::client::Client;
use crate::level::kind;
use crate::variables::fatal;
use crate::{queue, records, registry, variables};
use c_double::{Work, count, realtime_ns, this_thread};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Names something that was launched and has no record yet.
pub(crate) type Ticket = u64;

struct Running {
    work: Work,
    clients: Vec<Arc<Client>>,
    end: Option<u64>,
}

#[derive(Default)]
struct Gpu {
    running: BTreeMap<Ticket, Running>,
    /// taken out of `running`, and its record not yet written
    writing: usize,
    /// by device and stream, of what runs on the double's own clock
    last_end: HashMap<(u32, u32), u64>,
    next: Ticket,
}

static GPU: Mutex<Option<Gpu>> = Mutex::new(None);

fn with<T>(action: impl FnOnce(&mut Gpu) -> T) -> T {
    action(GPU.lock().get_or_insert_default())
}

/// From the launch to the start at the earliest.
const LAUNCH_NS: u64 = 8_000;
/// From the end of something to its record.
const LAG: Duration = Duration::from_millis(1);

fn kind_of(work: &Work) -> u32 {
    if work.copy_kind == 0 { kind::CONCURRENT_KERNEL } else { kind::MEMCPY }
}

/// Something has begun, and ends then, if that is known.
pub(crate) fn begin(mut work: Work, end: Option<u64>) -> Ticket {
    count("kernels", u64::from(work.copy_kind == 0));
    let mut clients = registry::clients();
    clients.retain(|client| client.wants(kind_of(&work)));
    if work.thread == 0 {
        work.thread = this_thread();
    }
    let running = Running { work, clients, end };
    with(|gpu| {
        gpu.next += 1;
        gpu.running.insert(gpu.next, running);
        gpu.next
    })
}

/// It has ended. Nothing if a forced flush took its record meanwhile.
pub(crate) fn end(ticket: Ticket, end: u64) {
    with(|gpu| {
        if let Some(running) = gpu.running.get_mut(&ticket) {
            running.end = Some(end);
        }
    });
    queue::put(Instant::now() + LAG, move || record(ticket));
}

/// Something that this thread launches, with both times; on the double's own clock if it has no start.
pub(crate) fn run(mut work: Work, mut end: u64) {
    let now = realtime_ns();
    if work.start_ns == 0 {
        with(|gpu| {
            let last = gpu.last_end.entry((work.device, work.stream)).or_insert(0);
            work.start_ns = (now + LAUNCH_NS).max(*last);
            end = work.start_ns + variables::get().kernel_ns;
            *last = end;
        });
    }
    let ticket = begin(work, Some(end));
    let until_end = Duration::from_nanos(end.saturating_sub(now).min(1_000_000_000));
    queue::put(Instant::now() + until_end + LAG, move || record(ticket));
}

fn record(ticket: Ticket) {
    let taken = with(|gpu| {
        let taken = gpu.running.remove(&ticket)?;
        gpu.writing += 1;
        Some(taken)
    });
    if let Some(running) = taken {
        write(&running, running.end);
        with(|gpu| gpu.writing -= 1);
    }
}

fn write(running: &Running, end: Option<u64>) {
    static KERNELS: AtomicU64 = AtomicU64::new(0);
    let Some(len) = record_len(kind_of(&running.work)) else {
        return;
    };
    let (mut start, mut end) = (records::stamp(running.work.start_ns), end.map_or(0, records::stamp));
    let work = &running.work;
    let record = if work.copy_kind == 0 {
        let variables = variables::get();
        let number = KERNELS.fetch_add(1, Ordering::Relaxed) + 1;
        if number <= variables.drop_kernels {
            running.clients.iter().for_each(|client| client.drop_one());
            return;
        }
        if variables.zero_times != 0 && number.is_multiple_of(variables.zero_times) {
            (start, end) = (0, 0);
        }
        records::kernel(len, work, start, end)
    } else {
        records::copy(len, work, start, end)
    };
    running.clients.iter().for_each(|client| client.note_work(work.thread, &record));
}

/// Makes the records of all that has ended; if `forced`, also of what runs, without an end. Gives the threads that
/// launched what has not ended.
fn settle(forced: bool) -> BTreeSet<i32> {
    let now = realtime_ns();
    let has_ended = |running: &Running| running.end.is_some_and(|end| end <= now);
    let is_due = |_: &Ticket, running: &mut Running| has_ended(running) || (forced && running.work.start_ns <= now);
    let (due, busy): (Vec<_>, _) = with(|gpu| {
        let due = gpu.running.extract_if(.., is_due).collect();
        (due, gpu.running.values().map(|running| running.work.thread).collect())
    });
    for (_, running) in due {
        write(&running, running.end.filter(|end| *end <= now));
    }
    busy
}

/// Gives the buffers back, in the order that is asked for, and waits for that.
pub(crate) fn flush(clients: &[Arc<Client>], forced: bool) {
    let busy = settle(forced);
    let mut buffers = Vec::new();
    for client in clients {
        let taken = client.take_buffers(forced, &busy);
        buffers.extend(taken.into_iter().map(|buffer| (client.clone(), buffer)));
    }
    order(&mut buffers);
    let (done, all_done) = mpsc::channel::<()>();
    for (client, buffer) in buffers {
        let done = done.clone();
        queue::put(Instant::now(), move || {
            client.complete(buffer);
            drop(done);
        });
    }
    drop(done);
    // Until the last sender is gone: nothing is sent.
    let _ = all_done.recv();
}

pub(crate) fn drain() {
    let until = Instant::now() + Duration::from_secs(30);
    while with(|gpu| gpu.writing > 0 || !gpu.running.is_empty()) {
        if Instant::now() > until {
            fatal("fake_cupti_drain: something begun never ended");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
