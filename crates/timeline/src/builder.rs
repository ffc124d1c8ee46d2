//! Collects region instances and messages, and builds the locations of a process: what each represents, and how
//! intervals share it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::instance::{FusedKernel, InstanceKind, RegionInstance, RegionKey, RegionNumber, Regions, Source};
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
    /// Index in `locations`, by key.
    numbers: FxHashMap<LocationKey, usize>,
    /// The location that was used last, and its index.
    last: Option<(LocationKey, usize)>,
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

    /// Notes that a region is shown as a record somewhere, which takes a parameter of its name.
    pub fn use_as_record(&mut self, region: RegionNumber) {
        self.regions.use_as_record(region);
    }

    fn add_record(&mut self, place: RecordPlace, time: u64, body: EventBody) {
        let records = match place {
            RecordPlace::Location(key) => {
                let number = self.number(key);
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
            self.on_location(key, &[instance]);
        }
    }

    pub fn create(&mut self, key: LocationKey) {
        let _number = self.number(key);
    }

    pub fn on_location(&mut self, key: LocationKey, instances: &[TimedInstance]) {
        instances.iter().for_each(|one| self.regions.use_one(one.instance.region));
        let number = self.number(key);
        if let Some(location) = self.locations.get_mut(number) {
            location.instances.extend_from_slice(instances);
        }
    }

    /// Shows what may overlap, by [`TimedInstance::key`]: what would outlast what it begins in begins at its end.
    pub fn on_shared_location(&mut self, key: LocationKey, instances: &mut [TimedInstance]) {
        self.counts.starts_cut += cut_overlaps(instances);
        self.on_location(key, instances);
    }

    #[inline]
    fn number(&mut self, key: LocationKey) -> usize {
        // Fast path: consecutive events are often on one location.
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let next = self.locations.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.locations.push(Location::new(key));
        }
        self.last = Some((key, number));
        number
    }

    #[inline]
    pub fn region(&mut self, key: RegionKey) -> RegionNumber {
        self.regions.number(key)
    }

    /// Adds a kernel with several operations, given their regions; returns its index and region.
    pub fn fused(&mut self, kernel: FusedKernel, operations: Vec<RegionNumber>) -> (u32, RegionNumber) {
        self.regions.kernels.push(kernel);
        (index_u32(self.regions.kernels.len() - 1), self.regions.fused(operations))
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
        let number = self.number(key);
        if let Some(location) = self.locations.get_mut(number) {
            location.messages = messages;
        }
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
            timeline.locations.push(Location { instances, records, ..Location::new(key) });
        }
        nccl_events::sort::sort_by_key(&mut self.locations, |location| location.key.position(&model.comms));
        timeline.locations.append(&mut self.locations);
        timeline.regions = self.regions;
        timeline.proxy_threads = self.proxy_threads;
        (timeline, self.counts)
    }
}

impl Location {
    fn new(key: LocationKey) -> Self {
        Self { key, instances: Vec::new(), records: Vec::new(), messages: Messages::default() }
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
// * **communicators**: kernels follow each other, see [`crate::locations`].
// * **streams, domains**: what would outlast what it begins in begins at its end (`nccl.cut_ns`).

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

/// Makes instances nest. They are sorted by [`TimedInstance::key`] and stay in their places. Returns how many of them
/// begin later now.
fn cut_overlaps(instances: &mut [TimedInstance]) -> u64 {
    let mut cut = 0;
    // The ends of what is around, innermost last.
    let mut around: Vec<u64> = Vec::new();
    let mut delayed = BinaryHeap::new();
    let mut next = 0;
    loop {
        let in_order = instances.get(next).map(|one| (one.key(), next));
        let at = match (in_order, delayed.peek()) {
            (Some((key, _)), Some(&Reverse((delayed_key, at)))) if delayed_key < key => at,
            (None, Some(&Reverse((_, at)))) => at,
            (Some((_, at)), _) => at,
            (None, None) => return cut,
        };
        let is_new = at == next;
        if is_new {
            next += 1;
        } else {
            delayed.pop();
        }
        let Some(one) = instances.get_mut(at) else {
            return cut;
        };
        while around.pop_if(|end| *end <= one.start).is_some() {}
        match around.last() {
            Some(&end) if end < one.end => {
                cut += u64::from(is_new);
                one.start = end;
                delayed.push(Reverse((one.key(), at)));
            }
            _ => around.push(one.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::archive::RegionClass;

    #[test]
    fn what_overlaps_begins_where_the_other_ends() {
        let region = Regions::default().number(RegionKey::fixed(RegionClass::Operation, ""));
        let spans = [(0, 10), (2, 4), (3, 12), (3, 20), (5, 9), (20, 22), (20, 21)];
        let instances = (0..).zip(spans).map(|(order, (start, end))| TimedInstance {
            start,
            end,
            instance: RegionInstance::new(Source::Operation(order), order, InstanceKind::Operation, region),
        });
        let mut instances: Vec<TimedInstance> = instances.collect();
        assert_eq!(cut_overlaps(&mut instances), 2);
        let shown: Vec<(u64, u64)> = instances.iter().map(|one| (one.start, one.end)).collect();
        assert_eq!(shown, [(0, 10), (2, 4), (10, 12), (12, 20), (5, 9), (20, 22), (20, 21)]);
        sort(&mut instances);
        let mut ends_cut = 0;
        assert_eq!(NestedEvents::new(instances.iter(), &mut ends_cut).count(), 2 * spans.len());
        assert_eq!(ends_cut, 0, "they nest");
    }
}
