//! Collects region instances and messages, and builds the locations of a process: what each represents, and
//! which of its siblings an interval goes to.

use std::collections::BTreeMap;

use crate::instance::{InstanceKind, RegionInstance, RegionKey, RegionNumber, Regions, Source};
use crate::messages::{Messages, NestedEvents, TimedInstance, TimelineEvent, sort};
use journal::part::environment::Level;
use model::communicators::Comms;
use model::links::gpu_work::GpuStream;
use model::process::Process;
use model::tables::{Tables, Thread};
use nccl_events::Kind;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::Counts;
use rustc_hash::FxHashMap;

pub(crate) use model::process::Owner;

#[derive(Debug)]
pub struct Location {
    pub key: LocationKey,
    /// 0 for the location itself, 1 for its sibling `#2`.
    pub sibling: u32,
    pub instances: Vec<TimedInstance>,
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
    pub counts: Counts,
}

/// What is shown on a thread that may have several slots.
#[derive(Debug, Default)]
struct ThreadRow {
    /// The first slot that something was shown on.
    thread: Option<u32>,
    instances: Vec<TimedInstance>,
}

/// The locations of a process, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Timeline {
    pub locations: Vec<Location>,
    /// Index in [`Tables::threads`] of each thread that [`LocationKey::Thread`] counts.
    pub threads: Vec<u32>,
    pub regions: Regions,
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
        let row = self.threads.get_mut(index(self.first_threads.get(index(thread)).copied().unwrap_or(thread)));
        if let Some(row) = row {
            let _thread = row.thread.get_or_insert(thread);
            row.instances.push(instance);
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
            self.locations.push(Location::new(key, sibling, Vec::new()));
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

    /// Counts one more shown event of a kind, if the level has the kind.
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
        let first = |instances: &[TimedInstance]| instances.iter().map(|instance| instance.start).min();
        let shown = self.threads.into_iter().filter_map(|row| Some((row.thread?, row.instances)));
        let mut threads: Vec<(u32, Vec<TimedInstance>)> = shown.collect();
        let key = |thread: u32| tables.threads.get(index(thread)).map(Thread::key);
        nccl_events::sort::sort_by_key(&mut threads, |(thread, instances)| (first(instances), key(*thread)));
        for (thread, instances) in threads {
            let key = LocationKey::Thread(index_u32(timeline.threads.len()));
            timeline.threads.push(thread);
            timeline.locations.push(Location::new(key, 0, instances));
        }
        nccl_events::sort::sort_by_key(&mut self.locations, |location| {
            (location.key.position(&model.comms), location.sibling)
        });
        for location in self.locations.iter_mut().filter(|location| location.sibling == 0) {
            location.messages = self.messages.remove(&location.key).unwrap_or_default();
        }
        timeline.locations.append(&mut self.locations);
        timeline.regions = self.regions;
        (timeline, self.counts)
    }
}

impl Location {
    fn new(key: LocationKey, sibling: u32, instances: Vec<TimedInstance>) -> Self {
        Self { key, sibling, instances, messages: Messages::default() }
    }

    pub const fn is_empty(&self) -> bool {
        self.instances.is_empty() && self.has_only_instances()
    }

    /// Whether the location has nothing but intervals, as most have.
    pub const fn has_only_instances(&self) -> bool {
        self.messages.is_empty()
    }

    /// Sorts the contents into the order that [`Self::events`] requires.
    pub fn sort(&mut self) {
        sort(&mut self.instances);
        self.messages.sort();
    }

    /// The events of the sorted location in a valid order. `instances` passes through [`Self::instances`]; `cut` counts
    /// the instances that had to be cut to nest.
    pub fn events<'a>(
        &'a self,
        instances: impl Iterator<Item = &'a TimedInstance>,
        cut: &'a mut u64,
    ) -> impl Iterator<Item = TimelineEvent> {
        self.messages.merge(NestedEvents::new(instances, cut))
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
    /// A proxy thread between transfers, by index in [`model::tables::Tables::threads`].
    Proxy(u32),
    /// A rank of a communicator, by index of the context.
    Communicator(u32),
    Stream(GpuStream),
    Channel(Owner, u8),
    /// A network connection of a rank: channel, whether it sends, peer.
    Net(Owner, u8, bool, i32),
    /// A slot of a connection, which has one step in progress at a time.
    Step(Owner, u8, bool, i32, u8),
    /// The network plugin's work for a slot.
    Plugin(Owner, u8, bool, i32, u8),
    /// The started ranges of a domain, by index in [`model::program_ranges::RangeLinks::domains`].
    Ranges(u32),
}

/// The order of locations within a process: threads, started ranges, communicators, CUDA streams, channels, network;
/// within each by communicator, rank, channel, direction, peer and slot. Contexts come in order of arrival, which
/// differs from run to run, so they only break ties.
pub type Position = (u8, LocationOwnerKey, u8, bool, i32, u8);

/// Communicator and rank, foreign ones last; then context, thread (proxy threads after calling threads) or domain.
pub type LocationOwnerKey = (u32, u32, u64);

impl LocationKey {
    /// The kind of event that the location exists for: a level without the kind has no such location.
    pub const fn kind(self) -> Kind {
        match self {
            // These are not specific to a kind of event; each has an option of its own.
            Self::Thread(_) | Self::Communicator(_) | Self::Stream(_) | Self::Ranges(_) => Kind::Coll,
            Self::Proxy(_) => Kind::ProxyCtrl,
            Self::Channel(..) => Kind::KernelCh,
            Self::Net(..) => Kind::ProxyOp,
            Self::Step(..) => Kind::ProxyStep,
            Self::Plugin(..) => Kind::NetPlugin,
        }
    }

    pub fn position(self, comms: &Comms) -> Position {
        let owner_key = |owner| match owner {
            Owner::Context(context) => match comms.member(context) {
                Some(member) => (member.comm, member.rank, u64::from(context)),
                None => (u32::MAX, 0, u64::from(context)),
            },
            Owner::Foreign(id) => (u32::MAX, u32::MAX, id),
        };
        match self {
            Self::Thread(number) => (0, (0, 0, u64::from(number)), 0, false, 0, 0),
            Self::Proxy(thread) => (0, (1, 0, u64::from(thread)), 0, false, 0, 0),
            Self::Ranges(domain) => (0, (2, 0, u64::from(domain)), 0, false, 0, 0),
            Self::Communicator(context) => (1, owner_key(Owner::Context(context)), 0, false, 0, 0),
            Self::Stream(GpuStream { ordinal, context, stream }) => {
                (2, (ordinal, context, stream.into()), 0, false, 0, 0)
            }
            Self::Channel(owner, channel) => (3, owner_key(owner), channel, false, 0, 0),
            Self::Net(owner, channel, send, peer) => (4, owner_key(owner), channel, send, peer, 0),
            Self::Step(owner, channel, send, peer, slot) => (4, owner_key(owner), channel, send, peer, 2 * slot + 1),
            Self::Plugin(owner, channel, send, peer, slot) => (4, owner_key(owner), channel, send, peer, 2 * slot + 2),
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

/// Items by location. Events mostly arrive in time order, so each location is nearly sorted.
#[derive(Debug)]
pub struct ByLocation<T> {
    numbers: FxHashMap<LocationKey, u32>,
    locations: Vec<(LocationKey, Vec<T>)>,
}

impl<T: Ord> ByLocation<T> {
    pub(crate) fn new() -> Self {
        Self { numbers: FxHashMap::default(), locations: Vec::new() }
    }

    pub fn add(&mut self, key: LocationKey, one: T) {
        let next = index_u32(self.locations.len());
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.locations.push((key, Vec::new()));
        }
        if let Some((_, all)) = self.locations.get_mut(index(number)) {
            all.push(one);
        }
    }

    /// The locations in order, each with its items in order.
    pub fn in_order(self) -> Vec<(LocationKey, Vec<T>)> {
        let mut locations = self.locations;
        nccl_events::sort::sort_by_key(&mut locations, |(key, _)| *key);
        for (_, all) in &mut locations {
            // A stable sort is faster on sorted runs.
            all.sort();
        }
        locations
    }
}

/// A location and its siblings, to add many instances to.
#[derive(Debug)]
pub struct LocationBuilder<'c> {
    builder: &'c mut TimelineBuilder,
    key: LocationKey,
    is_shown: bool,
    /// Index in [`TimelineBuilder::locations`], by sibling.
    siblings: Vec<Option<usize>>,
}

impl TimelineBuilder {
    pub fn location(&mut self, key: LocationKey) -> LocationBuilder<'_> {
        LocationBuilder { is_shown: self.level.shows(key.kind()), builder: self, key, siblings: Vec::new() }
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
        if self.is_shown
            && let Some(instances) = self.instances(0)
        {
            instances.reserve(count);
        }
    }

    #[inline]
    pub fn add(&mut self, sibling: usize, instance: TimedInstance) {
        if !self.is_shown {
            return;
        }
        if sibling > 0 && !instance.instance.kind.is_part() {
            self.builder.counts.overflowed += 1;
        }
        self.push(sibling, instance);
    }

    /// Adds consecutive parts of one event; each ends where the next begins.
    pub fn add_parts(
        &mut self,
        sibling: usize,
        (source, order): (Source, u32),
        parts: &[(InstanceKind, u64)],
        end: u64,
    ) {
        if !self.is_shown {
            return;
        }
        if sibling > 0 {
            self.builder.counts.overflowed += 1;
        }
        for (at, &(kind, begin)) in parts.iter().enumerate() {
            let next = parts.get(at + 1);
            let until = next.map_or(end, |&(_, begin)| begin);
            let instance = RegionInstance {
                source,
                order,
                region: self.builder.regions.region_of_kind(kind),
                kind,
                is_last: next.is_none(),
            };
            let (start, end) = (begin.min(end), until.min(end));
            self.push(sibling, TimedInstance { start, end, instance });
        }
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
