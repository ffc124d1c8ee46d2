//! The events for launches: pairs of events, the CUDA contexts that have them, and what launching threads share and
//! keep open. A launching thread takes a pair from the list of free pairs, and leaves it to the worker with the
//! launch's id. The worker scans all pairs for ids, and puts used pairs back. No thread waits for another: the list is
//! a stack of indices, whose head changes by compare-and-swap and carries a change counter.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::driver::{CudaContext, CudaError, DeviceContext, Driver, Event, Stream};
use crate::gpu::events::reference::{References, nanoseconds};
use crate::gpu::output::{Launch, LaunchCounts, NotTimed, Output};
use crate::host::process::{ThreadCell, thread_name};
use crate::host::threads::PerThread;
use journal::clock::ticks;
use nccl_events::gpu::{GpuRecord, LaunchTime};
use nccl_events::ids::EventId;

/// The largest number of pairs per context: enough for half a second at 8000 launches a second.
pub(crate) const MOST_PAIRS: u32 = 4096;

/// No launch: the pair has not been left to the worker.
const NONE: u64 = 0;

#[derive(Debug)]
pub(crate) struct Pool {
    pairs: Box<[Pair]>,
    made: AtomicU32,
    /// The index of the first free pair, plus one; the upper half counts changes.
    head: AtomicU64,
    free: AtomicU32,
}

#[derive(Debug, Default)]
struct Pair {
    before: AtomicU64,
    after: AtomicU64,
    /// The index of the next free pair, plus one.
    next: AtomicU32,
    stream: AtomicU64,
    /// The launch's id once both events are in the stream, else [`NONE`].
    launch: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenPair {
    index: u32,
    /// The event recorded in the stream before the launch.
    pub(crate) before: Event,
    pub(crate) after: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingPair {
    pub(crate) pair: TakenPair,
    pub(crate) launch: u64,
    pub(crate) stream: u64,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            pairs: (0..MOST_PAIRS).map(|_| Pair::default()).collect(),
            made: AtomicU32::new(0),
            head: AtomicU64::new(0),
            free: AtomicU32::new(0),
        }
    }

    /// Adds a pair; called only by the worker. False if there are already [`MOST_PAIRS`].
    pub(crate) fn add(&self, before: Event, after: Event) -> bool {
        let index = self.made.load(Ordering::Relaxed);
        let Some(pair) = self.pair(index) else {
            return false;
        };
        pair.before.store(before.0, Ordering::Relaxed);
        pair.after.store(after.0, Ordering::Relaxed);
        self.made.store(index + 1, Ordering::Release);
        self.put_back(TakenPair { index, before, after });
        true
    }

    /// Takes a free pair, if there is one. Callable from any thread.
    #[inline]
    pub(crate) fn take(&self) -> Option<TakenPair> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let index = low(head).checked_sub(1)?;
            let pair = self.pair(index)?;
            // If another thread takes the pair meanwhile, this value is stale, but then the head has changed.
            let next = pair.next.load(Ordering::Relaxed);
            match self.change(head, next) {
                Ok(()) => {
                    self.free.fetch_sub(1, Ordering::Relaxed);
                    return Some(self.taken(index, pair));
                }
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn put_back(&self, taken: TakenPair) {
        let Some(pair) = self.pair(taken.index) else {
            return;
        };
        pair.launch.store(NONE, Ordering::Relaxed);
        self.free.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            pair.next.store(low(head), Ordering::Relaxed);
            match self.change(head, taken.index + 1) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Leaves a pair to the worker. Both events are in the stream.
    #[inline]
    pub(crate) fn submit(&self, taken: TakenPair, launch: u64, stream: u64) {
        if let Some(pair) = self.pair(taken.index) {
            pair.stream.store(stream, Ordering::Relaxed);
            pair.launch.store(launch, Ordering::Release);
        }
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = PendingPair> {
        let made = self.made.load(Ordering::Relaxed);
        (0..made).filter_map(|index| {
            let pair = self.pair(index)?;
            let launch = pair.launch.load(Ordering::Acquire);
            (launch != NONE).then(|| PendingPair {
                pair: self.taken(index, pair),
                launch,
                stream: pair.stream.load(Ordering::Relaxed),
            })
        })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.made.load(Ordering::Relaxed) == MOST_PAIRS
    }

    pub(crate) fn size(&self) -> (u32, u32) {
        let made = self.made.load(Ordering::Relaxed);
        (made, self.free.load(Ordering::Relaxed))
    }

    pub(crate) fn free_percent(&self) -> u32 {
        let (made, free) = self.size();
        free * 100 / made.max(1)
    }

    /// Removes all pairs and returns their events. Call only when no thread launches in the context any more.
    pub(crate) fn empty(&self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(taken) = self.take() {
            events.extend([taken.before, taken.after]);
        }
        self.made.store(0, Ordering::Relaxed);
        self.free.store(0, Ordering::Relaxed);
        events
    }

    fn taken(&self, index: u32, pair: &Pair) -> TakenPair {
        TakenPair {
            index,
            before: Event(pair.before.load(Ordering::Relaxed)),
            after: Event(pair.after.load(Ordering::Relaxed)),
        }
    }

    #[inline]
    fn pair(&self, index: u32) -> Option<&Pair> {
        self.pairs.get(usize::try_from(index).ok()?)
    }

    /// Makes another pair the head if the head is still `head`; else returns the current head.
    #[inline]
    fn change(&self, head: u64, next: u32) -> Result<(), u64> {
        let changes = (head >> 32).wrapping_add(1);
        let new = changes << 32 | u64::from(next);
        // The next thread that takes the pair sees everything stored in it before.
        self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
const fn low(word: u64) -> u32 {
    word as u32
}

/// The initial number of event pairs; doubled when more than half are in use.
const FIRST_PAIRS: u32 = 512;
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The pause between two checks for unfinished launches, at the end.
const LAST_PAUSE: Duration = Duration::from_micros(500);

/// A CUDA context in which communicators were made: its events, and the times of its launches.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: DeviceContext,
    /// The context's index in the launching threads' table.
    pub(crate) entry: usize,
    pub(crate) communicators: Vec<u64>,
    pub(crate) is_open: bool,
    /// Whether this is the device's primary context, which the CUDA runtime uses.
    is_primary: bool,
    references: References,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) recorded: u64,
    pub(crate) unfinished: u64,
    /// The percentage of free pairs before the collection: afterwards nearly all are free, however many were in use.
    pub(crate) free_percent: u32,
}

impl Context {
    pub(crate) fn new(
        driver: &Driver,
        device: DeviceContext,
        entry: usize,
        pool: &Pool,
        first_ns: u64,
        out: &mut dyn Output,
    ) -> Result<Self, CudaError> {
        in_context(driver, device, || {
            let mut references = References::new(driver, device.ordinal, first_ns)?;
            add(driver, pool, FIRST_PAIRS)?;
            let until = Instant::now() + FIRST_WAIT;
            references.renew(driver, out)?;
            while !references.has_one() && Instant::now() < until {
                std::thread::sleep(LAST_PAUSE);
                references.renew(driver, out)?;
            }
            Ok(Self {
                device,
                entry,
                communicators: Vec::new(),
                is_open: false,
                is_primary: driver.has_primary(device.ordinal) == Ok(true),
                references,
            })
        })
    }

    /// Whether there is a reference. Launches before the first are not timed: they may precede the clock's zero.
    pub(crate) fn is_ready(&self) -> bool {
        self.references.has_one()
    }

    pub(crate) fn newest_ns(&self) -> Option<u64> {
        self.references.newest_ns()
    }

    /// Whether the program has reset the device; nothing made in the context may be touched then.
    pub(crate) fn is_gone(&self, driver: &Driver) -> bool {
        self.is_primary && driver.has_primary(self.device.ordinal) == Ok(false)
    }

    /// Makes a reference when it is due, records finished launches, and makes more events when they run short.
    pub(crate) fn collect(
        &mut self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
    ) -> Result<Collected, CudaError> {
        in_context(driver, self.device, || {
            self.references.renew_if_due(driver, out)?;
            let free_percent = pool.free_percent();
            let collected = self.record(driver, pool, out)?;
            if free_percent < 50 {
                add(driver, pool, pool.size().0)?;
            }
            Ok(Collected { free_percent, ..collected })
        })
    }

    /// The last collection: waits for unfinished launches until `deadline`; returns the number of recorded ones.
    pub(crate) fn collect_last(
        &mut self,
        driver: &Driver,
        pool: &Pool,
        out: &mut dyn Output,
        deadline: Instant,
    ) -> Result<u64, CudaError> {
        in_context(driver, self.device, || {
            self.references.renew(driver, out)?;
            let mut collected = self.record(driver, pool, out)?;
            let mut recorded = collected.recorded;
            while collected.unfinished > 0 && Instant::now() < deadline {
                std::thread::sleep(LAST_PAUSE);
                collected = self.record(driver, pool, out)?;
                recorded += collected.recorded;
            }
            // Puts the last launches between two samples of the clock.
            self.references.renew(driver, out)?;
            Ok(recorded)
        })
    }

    /// Destroys everything that the plugin made in the context. No thread launches in the context any more.
    pub(crate) fn destroy(self, driver: &Driver, pool: &Pool) -> Result<(), CudaError> {
        in_context(driver, self.device, || {
            for event in pool.empty() {
                driver.destroy_event(event)?;
            }
            self.references.destroy(driver)
        })
    }

    #[cfg(test)]
    pub(crate) fn renew(&mut self, driver: &Driver, out: &mut dyn Output) {
        let renewed = self.references.renew(driver, out);
        renewed.expect("a driver that answers");
    }

    fn record(&self, driver: &Driver, pool: &Pool, out: &mut dyn Output) -> Result<Collected, CudaError> {
        let mut collected = Collected::default();
        let mut pending: Vec<PendingPair> = pool.pending().collect();
        // A stream runs one thread's launches in order: the driver is not asked about those behind an unfinished one.
        nccl_events::sort::sort_by_key(&mut pending, |pending| (pending.stream, pending.launch));
        let order = |pending: &PendingPair| (pending.stream, EventId::from_raw(pending.launch).slot());
        let mut waits_in = None;
        for pending in pending {
            if waits_in != Some(order(&pending))
                && driver.is_past(pending.pair.after)?
                && let Some(time) = self.time(driver, &pending)?
            {
                out.record(ticks(), pending.launch, &GpuRecord::LaunchTime(time));
                pool.put_back(pending.pair);
                collected.recorded += 1;
            } else {
                waits_in = Some(order(&pending));
                collected.unfinished += 1;
            }
        }
        Ok(collected)
    }

    fn time(&self, driver: &Driver, pending: &PendingPair) -> Result<Option<LaunchTime>, CudaError> {
        let Some(start) = self.references.locate(driver, pending.pair.before)? else {
            return Ok(None);
        };
        // Measured between the two events, not from the reference, because the resolution is finer for short times.
        let lasted_ms = driver.elapsed_ms(pending.pair.before, pending.pair.after)?;
        // Negative only within the resolution, so the launch took no time.
        let lasted_ns = u64::try_from(nanoseconds(lasted_ms)).unwrap_or(0);
        Ok(Some(LaunchTime {
            ordinal: self.device.ordinal,
            uncertainty_ns: start.uncertainty_ns,
            stream: pending.stream,
            start_ns: start.gpu_ns,
            end_ns: start.gpu_ns.saturating_add(lasted_ns),
        }))
    }
}

/// Runs `action` on the worker with the context current.
fn in_context<T>(
    driver: &Driver,
    device: DeviceContext,
    action: impl FnOnce() -> Result<T, CudaError>,
) -> Result<T, CudaError> {
    driver.push(device.context)?;
    let result = action();
    driver.pop();
    result
}

fn add(driver: &Driver, pool: &Pool, pairs: u32) -> Result<(), CudaError> {
    for _ in 0..pairs {
        if pool.is_full() {
            break;
        }
        let before = driver.create_event()?;
        let after = driver.create_event()?;
        let _has_room = pool.add(before, after);
    }
    Ok(())
}

/// The largest number of contexts at a time, one per device.
const MOST_CONTEXTS: usize = 64;

/// State for launching threads: contexts with their pools of events, counters, and the calls around a launch.
pub(crate) struct Shared {
    pub(crate) driver: Driver,
    /// Distinguishes this session from earlier ones in threads that outlive a session.
    serial: u64,
    pub(crate) entries: Box<[Entry]>,
    pub(crate) counts: LaunchCounts,
    /// Set when the driver has shut down; the driver is not called after that.
    is_over: AtomicBool,
    pub(crate) pace_ms: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// The context's handle; 0 while its launches are not timed.
    pub(crate) context: AtomicU64,
    pub(crate) pool: OnceLock<Pool>,
}

impl From<CudaError> for NotTimed {
    fn from(error: CudaError) -> Self {
        match error {
            error if error.is_capture_error() => Self::Captured,
            CudaError::NOT_PERMITTED => Self::OnCallbackThread,
            error => Self::Refused(error.0),
        }
    }
}

impl Shared {
    pub(crate) fn new(driver: Driver) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        Self {
            driver,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            entries: (0..MOST_CONTEXTS).map(|_| Entry::default()).collect(),
            counts: LaunchCounts::default(),
            is_over: AtomicBool::new(false),
            pace_ms: AtomicU32::new(50),
        }
    }

    pub(crate) fn begins(&self, launch: Launch) {
        self.counts.launch();
        let begun = with(|thread| self.begin(launch, thread));
        if let Err(why) = begun.unwrap_or(Err(NotTimed::NoEventLeft)) {
            self.counts.not_timed(why);
        }
    }

    /// A launch ends. Does nothing if it is not timed, or began on another thread.
    pub(crate) fn ends(&self, id: EventId) {
        let open = with(|thread| thread.take(self.serial, id)).flatten();
        if let Some(Err(why)) = open.map(|open| self.end(open)) {
            self.counts.not_timed(why);
        }
    }

    fn begin(&self, launch: Launch, thread: &mut Thread) -> Result<(), NotTimed> {
        if thread.is_cuda_thread() {
            return Err(NotTimed::OnCallbackThread);
        }
        if self.is_over() {
            return Err(CudaError::DEINITIALIZED.into());
        }
        let context = self.driver.current()?;
        let (index, pool) = self.entry(context).ok_or(CudaError::NO_EVENTS)?;
        let stream = Stream(launch.stream);
        if self.driver.is_capturing(stream)? {
            return Err(NotTimed::Captured);
        }
        let pair = pool.take().ok_or(NotTimed::NoEventLeft)?;
        if let Err(error) = self.driver.record(pair.before, stream) {
            pool.put_back(pair);
            return Err(self.reject(error, index));
        }
        thread.keep(OpenPair { serial: self.serial, id: launch.id, entry: index, pair, stream });
        Ok(())
    }

    fn end(&self, open: OpenPair) -> Result<(), NotTimed> {
        let Some((_, pool)) = self.at(open.entry) else {
            return Ok(());
        };
        match self.driver.record(open.pair.after, open.stream) {
            Ok(()) => {
                pool.submit(open.pair, open.id.get(), open.stream.0);
                Ok(())
            }
            Err(error) => {
                pool.put_back(open.pair);
                Err(self.reject(error, open.entry))
            }
        }
    }

    /// The driver cannot record events in a context: stops timing its launches.
    #[cold]
    fn reject(&self, error: CudaError, entry: usize) -> NotTimed {
        let not_timed = NotTimed::from(error);
        if matches!(not_timed, NotTimed::Refused(_)) {
            self.close(entry);
        }
        not_timed
    }

    #[inline]
    fn entry(&self, context: CudaContext) -> Option<(usize, &Pool)> {
        if context.0 == 0 {
            return None;
        }
        let index = self.entries.iter().position(|entry| entry.context.load(Ordering::Acquire) == context.0)?;
        Some((index, self.at(index)?.1))
    }

    pub(crate) fn at(&self, entry: usize) -> Option<(&Entry, &Pool)> {
        let entry = self.entries.get(entry)?;
        Some((entry, entry.pool.get()?))
    }

    /// Keeps launching threads out of a context.
    pub(crate) fn close(&self, entry: usize) {
        if let Some(entry) = self.entries.get(entry) {
            entry.context.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The largest number of open launches: a thread has one, and perhaps others that never ended.
const MOST_OPEN: usize = 4;

static THREAD: PerThread<ThreadCell<Thread>> = PerThread::new();

/// Runs `action` with the calling thread's state; does nothing if there is no memory for the state.
pub(crate) fn with<T>(action: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    let new = || Some(ThreadCell::new(Thread::NEW));
    THREAD.with(new, |thread| thread.with(|| Thread::NEW, action)).flatten()
}

/// The open launches of a launching thread.
pub(crate) struct Thread {
    owner: Owner,
    open: [Option<OpenPair>; MOST_OPEN],
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Unknown,
    Program,
    Cuda,
}

#[derive(Clone, Copy)]
pub(crate) struct OpenPair {
    pub(crate) serial: u64,
    pub(crate) id: EventId,
    pub(crate) entry: usize,
    pub(crate) pair: TakenPair,
    pub(crate) stream: Stream,
}

impl Thread {
    const NEW: Self = Self { owner: Owner::Unknown, open: [None; MOST_OPEN], next: 0 };

    /// Whether this is one of CUDA's own threads, which run host functions of streams and must not call CUDA. NCCL
    /// never launches from these threads. Determined once per thread.
    pub(crate) fn is_cuda_thread(&mut self) -> bool {
        if self.owner == Owner::Unknown {
            self.owner = if is_cuda_name(&thread_name()) { Owner::Cuda } else { Owner::Program };
        }
        self.owner == Owner::Cuda
    }

    /// Keeps an open launch. Replaces the oldest, which never ended and whose events are not used again.
    pub(crate) fn keep(&mut self, open: OpenPair) {
        if let Some(slot) = self.open.get_mut(self.next) {
            *slot = Some(open);
        }
        self.next = (self.next + 1) % MOST_OPEN;
    }

    /// Removes the launch with this id, if it began on this thread.
    pub(crate) fn take(&mut self, serial: u64, id: EventId) -> Option<OpenPair> {
        let is_it = |open: &OpenPair| open.serial == serial && open.id == id;
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
    mod pool {
        use std::collections::BTreeSet;
        use std::sync::atomic::AtomicBool;

        use crate::gpu::events::pool::*;

        fn pool(pairs: u64) -> Pool {
            let pool = Pool::new();
            for pair in 0..pairs {
                assert!(pool.add(Event(2 * pair + 2), Event(2 * pair + 3)));
            }
            pool
        }

        #[test]
        fn a_pair_is_given_to_one_at_a_time() {
            const LAUNCHES: u64 = 20_000;
            const THREADS: u64 = 4;
            let pool = pool(64);
            let owners: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(0)).collect();
            let owner = |taken: &TakenPair| &owners[usize::try_from(taken.before.0).unwrap()];
            let is_over = AtomicBool::new(false);
            let mut launches = BTreeSet::new();
            std::thread::scope(|scope| {
                let threads: Vec<_> = (1..=THREADS)
                    .map(|thread| {
                        let (pool, owner) = (&pool, &owner);
                        scope.spawn(move || {
                            let mut given = 0;
                            while given < LAUNCHES {
                                let Some(taken) = pool.take() else {
                                    std::thread::yield_now();
                                    continue;
                                };
                                assert_eq!(taken.after.0, taken.before.0 + 1, "a pair");
                                assert_eq!(owner(&taken).swap(thread, Ordering::Relaxed), 0);
                                given += 1;
                                let launch = thread << 32 | given;
                                owner(&taken).store(0, Ordering::Relaxed);
                                match given % 3 {
                                    0 => pool.put_back(taken),
                                    _ => pool.submit(taken, launch, thread),
                                }
                            }
                        })
                    })
                    .collect();
                let worker = scope.spawn(|| {
                    let mut seen = BTreeSet::new();
                    loop {
                        let last = is_over.load(Ordering::Acquire);
                        for pending in pool.pending() {
                            assert_eq!(pending.stream, pending.launch >> 32, "all of one launch");
                            assert!(seen.insert(pending.launch), "twice");
                            pool.put_back(pending.pair);
                        }
                        if last {
                            return seen;
                        }
                        std::thread::yield_now();
                    }
                });
                for thread in threads {
                    thread.join().unwrap();
                }
                is_over.store(true, Ordering::Release);
                launches = worker.join().unwrap();
            });
            let left = THREADS * (LAUNCHES - LAUNCHES / 3);
            assert_eq!(u64::try_from(launches.len()).unwrap(), left);
            assert_eq!(pool.size(), (64, 64));
            assert_eq!(pool.empty().len(), 128);
        }

        #[test]
        fn a_head_is_never_the_same_again() {
            let pool = pool(3);
            // One thread reads the head and the pair below; meanwhile another takes both pairs and puts back the first.
            let head = pool.head.load(Ordering::Relaxed);
            let first = pool.take().unwrap();
            let second = pool.take().unwrap();
            pool.put_back(first);
            // If the second pair became the head, it would be handed out twice.
            assert!(pool.change(head, second.index + 1).is_err());
            assert_eq!(low(pool.head.load(Ordering::Relaxed)), low(head));
        }
    }

    mod thread {
        use crate::gpu::events::pool::*;

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
}
