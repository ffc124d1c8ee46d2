//! What runs on the GPU, and when: as whoever plays it says, or on the double's own clock.

use crate::client::{Client, this_thread};
use crate::clock;
use crate::counters::{COPY_RECORDS, KERNEL_RECORDS, KERNELS};
use crate::delivery;
use crate::knobs::knobs;
use crate::level::kind;
use crate::log::fatal;
use crate::records::{self, Work};
use crate::registry;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Names something that was launched and has no record yet.
pub(crate) type Ticket = u64;

struct Running {
    work: Work,
    /// who launched it
    thread: i32,
    /// who wants its record
    clients: Vec<Arc<Client>>,
    start: u64,
    end: Option<u64>,
}

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
    let mut gpu = GPU.lock();
    action(gpu.get_or_insert_with(|| Gpu {
        running: BTreeMap::new(),
        writing: 0,
        last_end: HashMap::new(),
        next: 1,
    }))
}

/// From the launch to the start at the earliest.
const LAUNCH_NS: u64 = 8_000;

fn kind_of(work: &Work) -> u32 {
    if work.copy_kind == 0 {
        kind::CONCURRENT_KERNEL
    } else {
        kind::MEMCPY
    }
}

/// Whether a client gets the record of this.
fn wanted(client: &Client, work: &Work) -> bool {
    let own = kind_of(work);
    let kind_on =
        client.wants(own) || (own == kind::CONCURRENT_KERNEL && client.wants(kind::KERNEL));
    // With graphs traced as a whole, what runs inside has no records.
    kind_on && !(work.graph != 0 && client.wants(kind::GRAPH_TRACE))
}

fn admit(work: Work, thread: i32, start: u64, end: Option<u64>) -> Ticket {
    if work.copy_kind == 0 {
        KERNELS.add(1);
    }
    let clients = registry::clients()
        .into_iter()
        .filter(|client| wanted(client, &work))
        .collect();
    let running = Running {
        work,
        thread: if thread == 0 { this_thread() } else { thread },
        clients,
        start,
        end,
    };
    with(|gpu| {
        let ticket = gpu.next;
        gpu.next += 1;
        gpu.running.insert(ticket, running);
        ticket
    })
}

fn lag_ns() -> u64 {
    knobs().lag_ms.saturating_mul(1_000_000)
}

/// Something has begun; its end comes later. `thread` launched it, 0 is the calling one.
pub(crate) fn begin(work: Work, thread: i32, start: u64) -> Ticket {
    admit(work, thread, start, None)
}

/// It has ended. Nothing if a forced flush took its record meanwhile.
pub(crate) fn end(ticket: Ticket, end: u64) {
    let known = with(|gpu| {
        gpu.running
            .get_mut(&ticket)
            .map(|running| running.end = Some(end))
    });
    if known.is_some() {
        delivery::record_in(lag_ns(), ticket);
    }
}

/// Something with both times; on the double's own clock if `start` is 0.
pub(crate) fn run(work: Work, thread: i32, start: u64, end: u64) {
    let now = clock::realtime_ns();
    let (start, end) = if start == 0 {
        with(|gpu| {
            let last = gpu.last_end.entry((work.device, work.stream)).or_insert(0);
            let start = (now + LAUNCH_NS).max(*last);
            *last = start + knobs().kernel_ns;
            (start, *last)
        })
    } else {
        (start, end)
    };
    let ticket = admit(work, thread, start, Some(end));
    delivery::record_in(
        end.saturating_sub(now).min(1_000_000_000) + lag_ns(),
        ticket,
    );
}

/// Makes the record, if nobody has yet.
pub(crate) fn record(ticket: Ticket) {
    let taken = with(|gpu| {
        let taken = gpu.running.remove(&ticket)?;
        gpu.writing += 1;
        Some(taken)
    });
    if let Some(running) = taken {
        write(&running, running.end.unwrap_or(0));
        with(|gpu| gpu.writing -= 1);
    }
}

/// Every so many-th is asked for.
fn is_nth(counter: &AtomicU64, every: u64) -> bool {
    every != 0 && (counter.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every)
}

fn write(running: &Running, end: u64) {
    static TIMED: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let mut work = running.work;
    let is_kernel = work.copy_kind == 0;
    if is_kernel && SEEN.fetch_add(1, Ordering::Relaxed) < knobs().drop_kernels {
        running.clients.iter().for_each(|client| client.drop_one());
        return;
    }
    if knobs().no_names {
        work.name = None;
    }
    let stamp = |at: u64| if at == 0 { 0 } else { clock::stamp(at) };
    let (start, end) = if is_kernel && is_nth(&TIMED, knobs().zero_times) {
        (0, 0)
    } else {
        (stamp(running.start), stamp(end))
    };
    let Some(len) = crate::buffer::record_len(kind_of(&work)) else {
        return;
    };
    let (record, counter) = if is_kernel {
        (records::kernel(len, &work, start, end), &KERNEL_RECORDS)
    } else {
        (records::copy(len, &work, start, end), &COPY_RECORDS)
    };
    for client in &running.clients {
        client.note_work(running.thread, &record);
        counter.add(1);
    }
}

/// For a flush: makes the records of all that has ended; if `forced`, also of what runs, without an end. Gives the threads
/// that launched what has not ended.
pub(crate) fn settle(forced: bool) -> BTreeSet<i32> {
    let now = clock::realtime_ns();
    let (due, busy) = with(|gpu| {
        let due: Vec<Ticket> = gpu
            .running
            .iter()
            .filter(|(_, running)| {
                let ended = running.end.is_some_and(|end| end <= now);
                ended || (forced && running.start <= now)
            })
            .map(|(ticket, _)| *ticket)
            .collect();
        let due: Vec<Running> = due
            .iter()
            .filter_map(|ticket| gpu.running.remove(ticket))
            .collect();
        let busy = gpu.running.values().map(|running| running.thread).collect();
        (due, busy)
    });
    for running in due {
        write(&running, running.end.filter(|end| *end <= now).unwrap_or(0));
    }
    busy
}

/// Waits until everything has its record.
pub(crate) fn drain() {
    const LIMIT: Duration = Duration::from_secs(30);
    let began = Instant::now();
    while with(|gpu| gpu.writing > 0 || !gpu.running.is_empty()) {
        if began.elapsed() > LIMIT {
            fatal("fake_cupti_drain: something begun never ended");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
