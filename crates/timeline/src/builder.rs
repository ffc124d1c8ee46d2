//! Collects region instances and messages, and builds the locations of a process: what each represents, and
//! which of its siblings an interval goes to.

use std::collections::BTreeMap;

use crate::instance::{InstanceKind, RegionInstance, RegionKey, RegionNumber, Regions, Source};
use crate::messages::{EventBody, Messages, NestedEvents, RecordedEvents, TimedInstance, TimelineEvent, sort};
use journal::part::environment::Level;
use model::communicators::Comms;
use model::links::gpu_work::GpuStream;
use model::process::Process;
use model::tables::{Row, Tables, Thread};
use nccl_events::Kind;
use nccl_events::event::ProxyStep;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::Counts;
use rustc_hash::FxHashMap;

#[derive(Debug)]
pub struct Location {
    pub key: LocationKey,
    /// 0 for the location itself, 1 for its sibling `#2`.
    pub sibling: u32,
    pub instances: Vec<TimedInstance>,
    /// What is shown as one record at its end, and puts: they may overlap anything.
    pub records: Vec<TimelineEvent>,
    pub messages: Messages,
}

#[derive(Debug, Default)]
pub struct TimelineBuilder {
    /// What is shown on each thread, by index of the first thread with the same key.
    threads: Vec<ThreadRow>,
    locations: Vec<Location>,
    /// Index in `locations`, by key and sibling.
    numbers: FxHashMap<(LocationKey, u32), usize>,
    messages: BTreeMap<LocationKey, Messages>,
    level: Level,
    /// How many events are shown, by kind.
    shown: [u64; Kind::COUNT],
    /// Index of the first thread with the same key, by index of the thread.
    first_threads: Vec<u32>,
    regions: Regions,
    pub(crate) proxy_threads: Vec<Vec<u32>>,
    pub counts: Counts,
}

/// What is shown on a thread that may have several slots.
#[derive(Debug, Default)]
struct ThreadRow {
    /// The first slot that something was shown on.
    thread: Option<u32>,
    instances: Vec<TimedInstance>,
    records: Vec<TimelineEvent>,
}

/// Where a record is.
#[derive(Clone, Copy, Debug)]
pub enum RecordPlace {
    Location(LocationKey),
    /// The calls of a thread.
    Thread(u32),
}

/// The locations of a process, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Timeline {
    pub locations: Vec<Location>,
    /// Index in [`Tables::threads`] of each thread that [`LocationKey::Thread`] counts.
    pub threads: Vec<u32>,
    pub regions: Regions,
    /// Indices in [`Tables::threads`] of the threads that [`LocationKey::Proxy`] counts.
    pub proxy_threads: Vec<Vec<u32>>,
}

impl TimelineBuilder {
    /// An empty builder for a process. Locations above the level are left out.
    pub fn new(tables: &Tables, level: Level) -> Self {
        let threads = 0..index_u32(tables.threads.len());
        Self {
            threads: threads.clone().map(|_| ThreadRow::default()).collect(),
            first_threads: threads.map(|thread| tables.first_index_of_thread(thread)).collect(),
            level,
            ..Self::default()
        }
    }

    pub fn on_thread(&mut self, thread: u32, instance: TimedInstance) {
        self.regions.use_one(instance.instance.region);
        if let Some(row) = self.thread_row(thread) {
            row.instances.push(instance);
        }
    }

    fn thread_row(&mut self, thread: u32) -> Option<&mut ThreadRow> {
        let first = self.first_threads.get(index(thread)).copied().unwrap_or(thread);
        let row = self.threads.get_mut(index(first))?;
        let _thread = row.thread.get_or_insert(thread);
        Some(row)
    }

    /// Shows an event as a record at its end; nothing if the level does not have the kind.
    pub fn record(&mut self, kind: Kind, place: RecordPlace, record: TimedInstance) {
        if self.level.shows(kind) {
            self.regions.use_as_record(record.instance.region);
            self.add_record(place, record.end, EventBody::Record(record));
        }
    }

    /// Shows that a step puts data into its peer's memory, and, if known, when it was all sent. `matching` is unique.
    pub fn put(&mut self, place: RecordPlace, (row, matching): (Row<ProxyStep>, u32), (at, sent): (u64, Option<u64>)) {
        if self.level.shows(Kind::ProxyStep) {
            self.add_record(place, at, EventBody::Put(row, matching));
            if let Some(sent) = sent {
                self.add_record(place, sent, EventBody::PutComplete(row, matching));
            }
        }
    }

    fn add_record(&mut self, place: RecordPlace, time: u64, body: EventBody) {
        let records = match place {
            RecordPlace::Location(key) => {
                let number = self.number(key, 0);
                self.locations.get_mut(number).map(|location| &mut location.records)
            }
            RecordPlace::Thread(thread) => self.thread_row(thread).map(|row| &mut row.records),
        };
        if let Some(records) = records {
            records.push(TimelineEvent { time, body });
        }
    }

    /// Shows consecutive states of a thread; each ends where the next begins.
    pub fn add_parts(
        &mut self,
        kind: Kind,
        key: LocationKey,
        (source, order): (Source, u32),
        parts: &[(InstanceKind, u64)],
        (start, end): (u64, u64),
    ) {
        for (at, &(part, begin)) in parts.iter().enumerate() {
            let next = parts.get(at + 1);
            let until = next.map_or(end, |&(_, begin)| begin);
            let instance = RegionInstance {
                source,
                order,
                region: self.regions.region_of_kind(part),
                kind: part,
                is_last: next.is_none(),
            };
            let (start, end) = (begin.clamp(start, end), until.clamp(start, end));
            self.on_location_of_level(kind, key, TimedInstance { start, end, instance });
        }
    }

    /// Shows an instance unless the level does not have the kind of event.
    pub fn on_location_of_level(&mut self, kind: Kind, key: LocationKey, instance: TimedInstance) {
        if self.level.shows(kind) {
            self.on_location(key, 0, instance);
        }
    }

    pub fn create(&mut self, key: LocationKey) {
        let _number = self.number(key, 0);
    }

    pub fn on_location(&mut self, key: LocationKey, sibling: usize, instance: TimedInstance) {
        self.location(key).add(sibling, instance);
    }

    fn number(&mut self, key: LocationKey, sibling: u32) -> usize {
        let next = self.locations.len();
        let number = *self.numbers.entry((key, sibling)).or_insert(next);
        if number == next {
            self.locations.push(Location::new(key, sibling));
        }
        number
    }

    #[inline]
    pub fn region(&mut self, key: RegionKey) -> RegionNumber {
        self.regions.number(key)
    }

    /// Counts an event without a communicator of this process: another process's, or one whose beginning was lost.
    pub fn count_without_communicator(&mut self, is_foreign: bool) {
        if is_foreign {
            self.counts.foreign += 1;
        } else {
            self.counts.uninitialised += 1;
        }
    }

    pub fn messages(&mut self, key: LocationKey, messages: Messages) {
        self.messages.insert(key, messages);
    }

    /// Counts one more shown event of a kind. What the level leaves out is taken off at the end.
    #[inline]
    pub fn shown(&mut self, kind: Kind) {
        if let Some(shown) = self.shown.get_mut(usize::from(kind as u8)) {
            *shown += 1;
        }
    }

    /// Counts what was shown and what was not, and orders the locations.
    pub fn finish(mut self, model: &Process<'_>) -> (Timeline, Counts) {
        let tables = model.tables;
        for (kind, written) in Kind::ALL.into_iter().zip(self.shown) {
            let all = tables.events.count(kind) as u64;
            let counts = self.counts.kinds.get_mut(kind);
            if self.level.shows(kind) {
                counts.written += written;
                counts.not_shown += all.saturating_sub(written);
            } else {
                counts.left_out += all;
            }
        }
        let mut timeline = Timeline::default();
        let first = |row: &ThreadRow| {
            let records = row.records.iter().map(|record| record.time);
            row.instances.iter().map(|one| one.start).chain(records).min()
        };
        let shown = self.threads.into_iter().filter_map(|row| Some((row.thread?, row)));
        let mut threads: Vec<(u32, ThreadRow)> = shown.collect();
        let key = |thread: u32| tables.threads.get(index(thread)).map(Thread::key);
        nccl_events::sort::sort_by_key(&mut threads, |(thread, row)| (first(row), key(*thread)));
        for (thread, ThreadRow { instances, records, .. }) in threads {
            let key = LocationKey::Thread(index_u32(timeline.threads.len()));
            timeline.threads.push(thread);
            timeline.locations.push(Location { instances, records, ..Location::new(key, 0) });
        }
        nccl_events::sort::sort_by_key(&mut self.locations, |location| {
            (location.key.position(&model.comms), location.sibling)
        });
        for location in self.locations.iter_mut().filter(|location| location.sibling == 0) {
            location.messages = self.messages.remove(&location.key).unwrap_or_default();
        }
        timeline.locations.append(&mut self.locations);
        timeline.regions = self.regions;
        timeline.proxy_threads = self.proxy_threads;
        (timeline, self.counts)
    }
}

impl Location {
    fn new(key: LocationKey, sibling: u32) -> Self {
        Self { key, sibling, instances: Vec::new(), records: Vec::new(), messages: Messages::default() }
    }

    pub const fn is_empty(&self) -> bool {
        self.instances.is_empty() && self.has_only_instances()
    }

    /// Whether steps on it put data into the memory of peers.
    pub fn has_puts(&self) -> bool {
        self.records.iter().any(|record| matches!(record.body, EventBody::Put(..)))
    }

    /// Whether the location has nothing but intervals, as most have.
    pub const fn has_only_instances(&self) -> bool {
        self.messages.is_empty() && self.records.is_empty()
    }

    /// Sorts the contents into the order that [`Self::events`] requires.
    pub fn sort(&mut self) {
        sort(&mut self.instances);
        // A stable sort: records of one time stay in the order of their events.
        self.records.sort_by_key(|record| record.time);
        self.messages.sort();
    }

    /// The events of the sorted location in a valid order. `instances` passes through [`Self::instances`]; `cut` counts
    /// the instances that had to be cut to nest.
    pub fn events<'a>(
        &'a self,
        instances: impl Iterator<Item = &'a TimedInstance>,
        cut: &'a mut u64,
    ) -> impl Iterator<Item = TimelineEvent> {
        RecordedEvents::new(self.messages.merge(NestedEvents::new(instances, cut)), &self.records)
    }
}

// How a location is filled:
//
// * **threads**: calls nest by construction. A call that would outlast the call around it is cut there.
// * **all others**: intervals follow each other. An interval that starts before the location is free goes to the
//   lowest free sibling (`#2`, `#3`, …). Intervals come by start, so this needs the fewest locations.

/// What a location represents. Locations are ordered by [`LocationKey::position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocationKey {
    /// A thread that called NCCL, by index in the list of such threads (first event first).
    Thread(u32),
    /// Threads of the proxy whose lives do not overlap, by index in [`Timeline::proxy_threads`].
    Proxy(u32),
    /// A rank of a communicator, by index of the context.
    Communicator(u32),
    Stream(GpuStream),
    /// The started ranges of a domain, by index in [`model::program_ranges::RangeLinks::domains`].
    Ranges(u32),
}

/// The order of locations within a process: calling threads, proxy threads, started ranges; communicators by number
/// and rank; CUDA streams. Contexts come in order of arrival, which differs from run to run, so they only break ties.
pub type Position = (u8, u32, u32, u64);

impl LocationKey {
    pub fn position(self, comms: &Comms) -> Position {
        match self {
            Self::Thread(number) => (0, 0, 0, number.into()),
            Self::Proxy(number) => (0, 1, 0, number.into()),
            Self::Ranges(domain) => (0, 2, 0, domain.into()),
            Self::Communicator(context) => match comms.member(context) {
                Some(member) => (1, member.comm, member.rank, context.into()),
                None => (1, u32::MAX, 0, context.into()),
            },
            Self::Stream(GpuStream { ordinal, context, stream }) => (2, ordinal, context, stream.into()),
        }
    }
}

/// Assigns intervals, which come by start, to free siblings: 0 is the location itself, 1 its sibling `#2`.
#[derive(Debug, Default)]
pub struct Siblings {
    free_from: Vec<u64>,
}

impl Siblings {
    pub fn free_from(&self) -> u64 {
        self.free_from.first().copied().unwrap_or(0)
    }

    /// Takes the lowest sibling that is free at `start`, until `end`.
    #[inline]
    pub fn take(&mut self, start: u64, end: u64) -> usize {
        let sibling = self.free_from.iter().position(|&from| from <= start).unwrap_or(self.free_from.len());
        match self.free_from.get_mut(sibling) {
            Some(from) => *from = end,
            None => self.free_from.push(end),
        }
        sibling
    }
}

/// A location and its siblings, to add many instances to.
#[derive(Debug)]
pub struct LocationBuilder<'c> {
    builder: &'c mut TimelineBuilder,
    key: LocationKey,
    /// Index in [`TimelineBuilder::locations`], by sibling.
    siblings: Vec<Option<usize>>,
}

impl TimelineBuilder {
    pub fn location(&mut self, key: LocationKey) -> LocationBuilder<'_> {
        LocationBuilder { builder: self, key, siblings: Vec::new() }
    }
}

impl LocationBuilder<'_> {
    /// The builder, for counts and regions.
    pub fn builder(&mut self) -> &mut TimelineBuilder {
        self.builder
    }

    #[inline]
    fn instances(&mut self, sibling: usize) -> Option<&mut Vec<TimedInstance>> {
        let number = match self.siblings.get(sibling) {
            Some(&Some(number)) => number,
            _ => self.find(sibling),
        };
        Some(&mut self.builder.locations.get_mut(number)?.instances)
    }

    #[cold]
    fn find(&mut self, sibling: usize) -> usize {
        let number = self.builder.number(self.key, index_u32(sibling));
        if self.siblings.len() <= sibling {
            self.siblings.resize(sibling + 1, None);
        }
        if let Some(known) = self.siblings.get_mut(sibling) {
            *known = Some(number);
        }
        number
    }

    /// Reserves room for `count` more on the location itself, which gets most of the instances.
    pub fn reserve(&mut self, count: usize) {
        if let Some(instances) = self.instances(0) {
            instances.reserve(count);
        }
    }

    #[inline]
    pub fn add(&mut self, sibling: usize, instance: TimedInstance) {
        self.builder.counts.overflowed += u64::from(sibling > 0);
        self.push(sibling, instance);
    }

    #[inline]
    fn push(&mut self, sibling: usize, instance: TimedInstance) {
        self.builder.regions.use_one(instance.instance.region);
        if let Some(instances) = self.instances(sibling) {
            instances.push(instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_goes_to_the_lowest_free_sibling() {
        let mut siblings = Siblings::default();
        let locations: Vec<usize> = [(0, 10), (2, 4), (3, 5), (4, 20), (10, 12)]
            .iter()
            .map(|&(start, end)| siblings.take(start, end))
            .collect();
        assert_eq!(locations, [0, 1, 2, 1, 0]);
    }
}
