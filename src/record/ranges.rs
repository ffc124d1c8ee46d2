//! The calling thread's slot in the journal, and what threads say through NVTX into it: pushed ranges and marks, and
//! ranges that any thread can end. Also counts callbacks that no thread could record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::control::steps::StepsOfThread;
use crate::host::process::{ThreadCell, thread_name};
use crate::host::threads;
use crate::host::threads::{Current, ShareCell, Shares, ThreadShare};
use crate::record::open_ranges;
use crate::record::open_ranges::{OpenRanges, RangeName, count_range, named};
use crate::scorep::bridge;
use journal::clock::ticks;
use journal::writer::{JournalWriter, LostRecord, SharedSlotWriter, SlotWriter};
use nccl_events::Kind;
use nccl_events::range::{Range, RangeCount, RangeField, RangeFields};

/// Outside of any recording while NCCL still had handles: after the last finalize.
pub(super) static LATE: MissedCallbacks = MissedCallbacks::new();
/// During a recording, on a thread that has no share of it, or in a handler that interrupted its use.
pub(super) static UNRECORDED: MissedCallbacks = MissedCallbacks::new();

/// Counts callbacks that no thread could record.
pub(super) struct MissedCallbacks([AtomicU64; MISSED_PLACES]);

const MISSED_PLACES: usize = Kind::COUNT + 3;
const STOPS: usize = Kind::COUNT;
const STATES: usize = Kind::COUNT + 1;
const COMMUNICATORS: usize = Kind::COUNT + 2;

impl MissedCallbacks {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MISSED_PLACES])
    }

    pub(super) fn add(&self, what: LostRecord) {
        let place = match what {
            LostRecord::Start(kind) => kind as usize,
            LostRecord::Stop(_) => STOPS,
            LostRecord::State(_) => STATES,
            LostRecord::Communicator => COMMUNICATORS,
        };
        if let Some(count) = self.0.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the counts since the last call to `each`. The events of stops and states are not known.
    pub(super) fn take(&self, mut each: impl FnMut(LostRecord, u64)) {
        let starts = Kind::ALL.iter().map(|kind| (LostRecord::Start(*kind), *kind as usize));
        let others =
            [(LostRecord::Stop(0), STOPS), (LostRecord::State(0), STATES), (LostRecord::Communicator, COMMUNICATORS)];
        for (what, place) in starts.chain(others) {
            let count = self.0.get(place).map_or(0, |count| count.swap(0, Ordering::Relaxed));
            if count > 0 {
                each(what, count);
            }
        }
    }
}

// Ranges that any thread can end and that began before the recording are kept in a table of fixed size.

/// A range that has started and not ended; its fields are not kept, but for the number in its name.
struct StartedRange {
    /// The range's id; 0 for a free place, [`BUSY`] while it is filled.
    id: AtomicU64,
    begin_ticks: AtomicU64,
    /// Numbers of domain and name, plus 1; 0 for none.
    names: AtomicU64,
    /// The number in its name; [`NO_NUMBER`] without.
    number: AtomicU64,
}

const NO_NUMBER: u64 = u64::MAX;

const PLACES: usize = 255;
/// The place in the id of a range that is not in the table.
const NO_PLACE: u64 = 255;
const BUSY: u64 = u64::MAX;
/// How many places are looked at before a range is not kept.
const PROBES: u64 = 8;

static STARTED: [StartedRange; PLACES] = [const {
    StartedRange {
        id: AtomicU64::new(0),
        begin_ticks: AtomicU64::new(0),
        names: AtomicU64::new(0),
        number: AtomicU64::new(0),
    }
}; PLACES];
static LAST: AtomicU64 = AtomicU64::new(0);

/// A range begins that any thread can end. Returns its id, which is never 0.
pub(crate) fn start(range: &Range<RangeName>) -> u64 {
    let begin_ticks = ticks();
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let place = keep(number, begin_ticks, range);
    if place.is_none() && !RECORDING.is_on() {
        count_range(RangeCount::Lost);
    }
    let id = number << 8 | place.unwrap_or(NO_PLACE);
    record_range_of_any_thread(|slot_writer| slot_writer.start_range(begin_ticks, id, false, range));
    id
}

/// Takes a free place for a range.
fn keep(number: u64, begin_ticks: u64, range: &Range<RangeName>) -> Option<u64> {
    let mut places = (0..PROBES).map(|probe| (number + probe) % PLACES as u64);
    let is_free = |place: &u64| {
        let started = usize::try_from(*place).ok().and_then(|place| STARTED.get(place));
        started.is_some_and(|range| range.id.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok())
    };
    let place = places.find(is_free)?;
    let started = STARTED.get(usize::try_from(place).ok()?)?;
    let [domain, name] = [range.domain, range.name].map(|name| name.map_or(0, |name| u64::from(name.number()) + 1));
    // Pairs with the fence of `repeat_started`: who reads one of the following stores then finds `BUSY` or a later id,
    // not the id of the range that had the place before.
    fence(Ordering::Release);
    started.begin_ticks.store(begin_ticks, Ordering::Relaxed);
    started.names.store(domain | name << 32, Ordering::Relaxed);
    started.number.store(range.fields.get(RangeField::Number).unwrap_or(NO_NUMBER), Ordering::Relaxed);
    started.id.store(number << 8 | place, Ordering::Release);
    Some(place)
}

/// The range with this id ends.
pub(crate) fn end(id: u64, fields: &RangeFields) {
    if let Some(started) = usize::try_from(id & 0xff).ok().and_then(|place| STARTED.get(place)) {
        let _other_id = started.id.compare_exchange(id, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
    record_range_of_any_thread(|slot_writer| slot_writer.end_range(ticks(), id, fields));
}

/// A recording begins: repeats the ranges that have not ended.
pub(crate) fn repeat_started(slot_writer: &SharedSlotWriter) {
    for started in &STARTED {
        let id = started.id.load(Ordering::Acquire);
        let (begin_ticks, names) = (started.begin_ticks.load(Ordering::Relaxed), started.names.load(Ordering::Relaxed));
        let number = started.number.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if id == 0 || id == BUSY || started.id.load(Ordering::Relaxed) != id {
            continue;
        }
        let [domain, name] = [names & 0xffff_ffff, names >> 32].map(|number| named(number.checked_sub(1)?));
        let mut range = Range { domain, name, category: None, fields: RangeFields::default() };
        if number != NO_NUMBER {
            range.fields.add(RangeField::Number, number);
        }
        let _full = slot_writer.lock().start_range(begin_ticks, id, true, &range);
    }
}

// A thread keeps its open ranges whether or not anything is recorded, so that a recording that begins later has their
// true begin. The journal repeats them where a thread takes its slot, and in each new segment of a flight recording.

/// What NVTX functions return where there is no level.
pub(crate) const NO_LEVEL: i32 = -1;

/// A range begins on this thread. Returns its level.
#[inline]
pub(crate) fn push(range: &Range<RangeName>) -> i32 {
    let begin_ticks = ticks();
    let level = threads::with_thread_state(&SLOT, true, |mine| {
        let level = open_ranges::with(mine.state(), |stack| {
            let level = stack.next_level();
            if level.is_none() {
                stack.push_deeper(range.domain);
            }
            level
        })
        .flatten()?;
        // First, because a thread that takes its slot now repeats all ranges of its stack.
        record_range(mine, |slot_writer| slot_writer.push_range(begin_ticks, level, false, range));
        open_ranges::with(mine.state(), |stack| stack.push(begin_ticks, *range))?;
        Some(i32::from(level))
    });
    level.unwrap_or(NO_LEVEL)
}

/// The innermost open range of this domain ends on this thread. Returns its level.
#[inline]
pub(crate) fn pop(domain: RangeName, fields: &RangeFields) -> i32 {
    let level = threads::with_thread_state(&SLOT, false, |mine| {
        let level = open_ranges::with(mine.state(), |stack| {
            if stack.pops_deeper(domain) { Some(None) } else { stack.innermost(domain).map(Some) }
        })
        .flatten()?;
        let Some(level) = level else {
            return Some(NO_LEVEL);
        };
        record_range(mine, |slot_writer| slot_writer.pop_range(ticks(), level, fields));
        open_ranges::with(mine.state(), |stack| stack.pop(level))?;
        Some(i32::from(level))
    });
    level.unwrap_or_else(|| {
        count_range(RangeCount::UnbalancedPops);
        NO_LEVEL
    })
}

/// The calling thread's named steps.
pub(super) fn steps() -> StepsOfThread {
    let steps = threads::with_thread_state(&SLOT, false, |mine| open_ranges::with(mine.state(), |stack| stack.steps()));
    steps.unwrap_or_default()
}

/// Records a moment.
pub(crate) fn mark(range: &Range<RangeName>) {
    record_range_of_any_thread(|slot_writer| slot_writer.mark_range(ticks(), range));
}

/// A recording has begun: this thread takes its slot, which repeats its open ranges.
pub(crate) fn join() {
    record_range_of_any_thread(|_slot_writer| true);
}

/// Repeats the open ranges of the calling thread.
pub(super) fn repeat(slot_writer: &mut SlotWriter) {
    let _nothing_kept = threads::with_thread_state(&SLOT, false, |mine| {
        open_ranges::repeat(mine.state(), slot_writer);
        Some(())
    });
}

#[unsafe(link_section = ".data.hot")]
pub(super) static RECORDING: Current<Arc<JournalWriter>> = Current::none();

/// The calling thread's slot in the journal that is being recorded. What every callback reads comes first.
#[repr(C)]
pub(super) struct Slot {
    /// Whether Score-P is shown the events. Stored here because callbacks read the slot anyway.
    pub(super) is_shown: bool,
    /// Absent if this thread could not get a slot: its events are then only counted.
    pub(super) slot_writer: Option<SlotWriter>,
    pub(super) writer: Arc<JournalWriter>,
}

impl ThreadShare for Slot {
    type Instance = Arc<JournalWriter>;
    type ThreadState = ThreadCell<OpenRanges>;
    const CURRENT: &'static Current<Self::Instance> = &RECORDING;

    fn new(writer: Self::Instance, open_ranges: &Self::ThreadState) -> Self {
        let mut slot_writer = writer.register(&thread_name()).ok();
        if let Some(slot_writer) = &mut slot_writer {
            open_ranges::repeat(open_ranges, slot_writer);
        }
        Self { is_shown: bridge::is_on(), slot_writer, writer }
    }

    fn was_left(&mut self) {
        match &mut self.slot_writer {
            Some(slot_writer) => slot_writer.was_left(),
            None => self.writer.count_loss(LostRecord::UNKNOWN),
        }
    }

    fn leave(self) {
        if let Some(slot_writer) = self.slot_writer {
            self.writer.retire(slot_writer);
        }
    }
}

#[unsafe(link_section = ".data.hot")]
pub(super) static SLOT: Shares<Slot> = Shares::new();

/// Has the thread's slot writer record what happens to a range, if anything is recorded.
#[inline]
pub(super) fn record_range(mine: &ShareCell<Slot>, record: impl FnOnce(&mut SlotWriter) -> bool) {
    let is_recorded = mine.with_share(|slot| match &mut slot.slot_writer {
        Some(slot_writer) => record(slot_writer),
        None => false,
    });
    // None: nothing is recorded, or this is a handler that interrupted the use of the slot.
    if !is_recorded.unwrap_or(!RECORDING.is_on()) {
        count_range(RangeCount::Lost);
    }
}

/// As [`record_range`], for a thread that need not have pushed a range.
pub(super) fn record_range_of_any_thread(record: impl FnOnce(&mut SlotWriter) -> bool) {
    let _no_memory = threads::with_thread_state(&SLOT, true, |mine| {
        record_range(mine, record);
        Some(())
    });
}
