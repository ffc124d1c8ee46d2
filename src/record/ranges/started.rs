//! Ranges that any thread can end. Those that began before the recording are kept in a table of fixed size.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::put::put_anyway;
use crate::record::open_ranges::RangeName;
use crate::record::open_ranges::counts::count;
use crate::record::open_ranges::names::named;
use crate::record::slot::RECORDING;
use journal::clock::ticks;
use journal::writer::SharedSlotWriter;
use nccl_events::range::{Range, RangeCount, RangeField, RangeFields};

/// A range that has started and not ended; its fields are not kept, but for the number in its name.
struct Started {
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

static STARTED: [Started; PLACES] = [const {
    Started {
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
        count(RangeCount::Lost);
    }
    let id = number << 8 | place.unwrap_or(NO_PLACE);
    put_anyway(|slot_writer| slot_writer.start_range(begin_ticks, id, false, range));
    id
}

/// Takes a free place for a range.
fn keep(number: u64, begin_ticks: u64, range: &Range<RangeName>) -> Option<u64> {
    let mut places = (0..PROBES).map(|probe| (number + probe) % PLACES as u64);
    let is_free = |place: &u64| {
        let started = usize::try_from(*place).ok().and_then(|place| STARTED.get(place));
        started.is_some_and(|it| it.id.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok())
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
    put_anyway(|slot_writer| slot_writer.end_range(ticks(), id, fields));
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
