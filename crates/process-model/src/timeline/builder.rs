//! Collects region instances, messages and metrics, and builds the locations of a process.

mod location;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

pub use self::location::LocationBuilder;
use crate::timeline::events::{Interleaved, Nested, TimedInstance, TimelineEvent, sort};
use crate::timeline::instance::{RegionKey, RegionNumber, Regions};
use crate::timeline::location::LocationKey;
use crate::timeline::messages::Messages;
use crate::timeline::metrics::Sample;
use crate::timeline::model::ProcessModel;
use journal::part::environment::Level;
use nccl_events::Kind;
use nccl_events::ids::{index, index_u32};
use nccl_events::schema::Counts;
use tables::{Tables, Thread};

#[derive(Debug)]
pub struct Location {
    pub key: LocationKey,
    /// 0 for the location itself, 1 for its sibling `#2`.
    pub sibling: u32,
    pub instances: Vec<TimedInstance>,
    pub messages: Messages,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Default)]
pub struct TimelineBuilder {
    /// What is shown on each thread, by index of the first thread with the same key.
    threads: Vec<ThreadRow>,
    locations: Vec<Location>,
    /// Index in `locations`, by key and sibling.
    numbers: FxHashMap<(LocationKey, u32), usize>,
    messages: BTreeMap<LocationKey, Messages>,
    samples: BTreeMap<LocationKey, Vec<Sample>>,
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

    /// Puts samples of a metric on a location. Samples of one metric must come in time order.
    pub fn samples(&mut self, key: LocationKey, samples: Vec<Sample>) {
        if !samples.is_empty() && self.level.shows(key.kind()) {
            self.samples.entry(key).or_default().extend(samples);
        }
    }

    /// Counts one more shown event of a kind, if the level has the kind.
    #[inline]
    pub fn shown(&mut self, kind: Kind) {
        if let Some(shown) = self.shown.get_mut(usize::from(kind as u8)) {
            *shown += 1;
        }
    }

    /// Counts what was shown and what was not, and orders the locations.
    pub fn finish(mut self, model: &ProcessModel<'_>) -> (Timeline, Counts) {
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
            location.samples = self.samples.remove(&location.key).unwrap_or_default();
            nccl_events::sort::sort_by_key(&mut location.samples, |sample| (sample.time, sample.metric));
        }
        timeline.locations.append(&mut self.locations);
        timeline.regions = self.regions;
        (timeline, self.counts)
    }
}

impl Location {
    fn new(key: LocationKey, sibling: u32, instances: Vec<TimedInstance>) -> Self {
        Self { key, sibling, instances, messages: Messages::default(), samples: Vec::new() }
    }

    pub const fn is_empty(&self) -> bool {
        self.instances.is_empty() && self.has_only_instances()
    }

    /// Whether the location has nothing but intervals, as most have.
    pub const fn has_only_instances(&self) -> bool {
        self.messages.is_empty() && self.samples.is_empty()
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
        let shown = self.messages.merge(Nested::new(instances, cut));
        Interleaved::new(shown, self.samples.iter().map(Sample::event))
    }
}
