//! What the kinds draw from and on.

mod row;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

pub use self::row::Row;
use crate::clocks::gpu::GpuClock;
use crate::links::comm::{Comms, Party};
use crate::links::correlate::{Activity, Correlation};
use crate::links::interval::Interval;
use crate::tables::assembly::{Assembly, Operation, Thread, ThreadKey};
use crate::tables::counts::Counts;
use crate::tables::place::{index, place};
use crate::tables::room;
use crate::tables::words::Words;
use crate::timeline::figure::Figure;
use crate::timeline::lanes::{Item, LaneKey, Owner};
use crate::timeline::messages::Messages;
use crate::timeline::metrics::Sample;
use crate::timeline::needed::Needed;
use journal::part::options::{ArchiveOptions, Level};
use journal::reader::Symbols;
use nccl_events::Kind;

/// Everything known about a process before drawing.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The operations.
    pub assembly: &'a Assembly,
    /// Their links.
    pub correlation: &'a Correlation,
    /// The communicators.
    pub comms: &'a Comms,
    /// The clocks of the GPUs, by place of the context.
    pub gpu_clocks: &'a [GpuClock],
    /// When operations ran, by place of the activity.
    pub intervals: &'a [Option<Interval>],
    /// Which threads are CUDA's own.
    pub callback_threads: &'a BTreeSet<ThreadKey>,
    /// The strings.
    pub symbols: &'a Symbols,
    /// What they mean.
    pub words: &'a Words,
    /// What of it is to be drawn, and how.
    pub options: ArchiveOptions,
}

impl Scene<'_> {
    /// When an operation stopped; the last time seen if it did not.
    #[must_use]
    pub fn end(&self, operation: &Operation) -> u64 {
        operation
            .end()
            .unwrap_or_else(|| self.assembly.span.1.max(operation.start))
    }

    /// Whether NCCL reported the stop of an operation.
    #[must_use]
    pub fn has_stopped(&self, at: u32) -> bool {
        let operation = self.assembly.operation(at);
        operation.is_some_and(|operation| operation.end().is_some())
    }

    /// Whether an operation never stopped, although NCCL would have told.
    #[must_use]
    pub fn is_unfinished(&self, at: u32) -> bool {
        let open = self
            .assembly
            .operation(at)
            .is_some_and(|operation| operation.end().is_none());
        open && !self.correlation.is_silent(at) && self.correlation.closed_at(at).is_none()
    }

    /// The activity at a place.
    #[must_use]
    pub fn activity(&self, at: u32) -> Option<&Activity> {
        self.correlation.activities.get(index(at))
    }

    /// Who took part in a collective or point-to-point operation.
    #[must_use]
    pub fn party(&self, activity: u32) -> Option<Party> {
        let operation = self
            .assembly
            .operation(self.activity(activity)?.operation)?;
        self.party_of(operation)
    }

    /// The rank that the context of an operation stands for.
    #[must_use]
    pub fn party_of(&self, operation: &Operation) -> Option<Party> {
        let context = operation.context_at()?;
        let member = self.comms.member(context)?;
        let comm = self.comms.comm(member)?;
        Some(Party {
            comm: member.comm,
            rank: member.rank,
            ranks: if comm.ranks > 0 {
                comm.ranks
            } else {
                comm.ranks_seen
            },
            knows_ranks: comm.ranks > 0,
        })
    }

    /// Whose lane an operation goes on.
    #[must_use]
    pub fn owner(&self, operation: &Operation) -> Owner {
        let context = operation.context_at();
        context
            .filter(|_| !self.assembly.names_another_process(operation))
            .map_or_else(
                || Owner::Foreign(self.assembly.context_of(operation)),
                Owner::Context,
            )
    }

    /// Counts an operation that is of no communicator of this process: it is another process's, or the beginning was lost.
    pub fn count_without_communicator(&self, operation: &Operation, canvas: &mut Canvas) {
        if self.assembly.is_foreign(operation) {
            canvas.counts.foreign += 1;
        } else {
            canvas.counts.uninitialised += 1;
        }
    }
}

/// A row of the trace with what is on it.
#[derive(Debug)]
pub struct Lane {
    /// What it is about.
    pub key: LaneKey,
    /// 0 for the lane itself, 1 for its sibling `#2`.
    pub sibling: u32,
    /// What is drawn, nested.
    pub items: Vec<Item>,
    /// Its communication records.
    pub messages: Messages,
    /// What its metrics are, by time.
    pub samples: Vec<Sample>,
}

/// Takes what is drawn and gives lanes.
#[derive(Debug, Default)]
pub struct Canvas {
    /// By place of a thread, the first with its key: what is drawn on it.
    threads: Vec<ThreadRow>,
    lanes: Vec<Drawn>,
    /// Where in `lanes` those are, by key and sibling.
    numbers: FxHashMap<(LaneKey, u32), usize>,
    messages: BTreeMap<LaneKey, Messages>,
    samples: BTreeMap<LaneKey, Vec<Sample>>,
    level: Level,
    drawn: Vec<bool>,
    /// By place of a thread: the first with the same key.
    first_threads: Vec<u32>,
    needed: Needed,
    /// What happened while drawing.
    pub counts: Counts,
}

/// What is drawn on a lane.
#[derive(Debug)]
struct Drawn {
    key: LaneKey,
    sibling: u32,
    items: Vec<Item>,
}

/// What is drawn on a thread that may have several places.
#[derive(Debug, Default)]
struct ThreadRow {
    /// The place that was drawn on first.
    thread: Option<u32>,
    items: Vec<Item>,
}

/// The lanes of a process, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Drawing {
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// The threads that [`LaneKey::Thread`] counts: a place in [`Assembly::threads`] for each.
    pub threads: Vec<u32>,
    /// The regions of what is drawn.
    pub needed: Needed,
}

impl Canvas {
    /// An empty canvas for a process. What is drawn on lanes above the level is left out.
    #[must_use]
    pub fn new(assembly: &Assembly, level: Level) -> Self {
        let threads = 0..place(assembly.threads.len());
        let mut rows = Vec::new();
        rows.resize_with(assembly.threads.len(), ThreadRow::default);
        Self {
            threads: rows,
            first_threads: threads
                .map(|thread| assembly.first_place_of_thread(thread))
                .collect(),
            drawn: vec![false; assembly.operations.len()],
            level,
            ..Self::default()
        }
    }

    /// Draws on the lane of a thread.
    pub fn on_thread(&mut self, thread: u32, item: Item) {
        self.needed.note(item.figure);
        let first = self.first_threads.get(index(thread)).copied();
        let row = self.threads.get_mut(index(first.unwrap_or(thread)));
        if let Some(row) = row {
            let _thread = row.thread.get_or_insert(thread);
            room::push(&mut row.items, item);
        }
    }

    /// Makes a lane, used or not.
    pub fn lane(&mut self, key: LaneKey) {
        let _number = self.number(key, 0);
    }

    /// Draws on a lane or one of its siblings.
    pub fn on_lane(&mut self, key: LaneKey, sibling: usize, item: Item) {
        self.row(key).draw(sibling, item);
    }

    fn number(&mut self, key: LaneKey, sibling: u32) -> usize {
        let next = self.lanes.len();
        let number = *self.numbers.entry((key, sibling)).or_insert(next);
        if number == next {
            let items = Vec::new();
            self.lanes.push(Drawn {
                key,
                sibling,
                items,
            });
        }
        number
    }

    /// Notes what an operation tells of a figure that is drawn, while it is at hand.
    pub fn told(&mut self, figure: Figure, operation: &Operation) {
        self.needed.note_told(figure, operation);
    }

    /// Puts communication records on a lane.
    pub fn messages(&mut self, key: LaneKey, messages: Messages) {
        self.messages.insert(key, messages);
    }

    /// Puts samples of a metric on a lane; those of one metric come by time.
    pub fn samples(&mut self, key: LaneKey, samples: Vec<Sample>) {
        if !samples.is_empty() && self.level.draws(key.kind()) {
            self.samples.entry(key).or_default().extend(samples);
        }
    }

    /// Notes that an operation is in the trace, if the level has its kind.
    pub fn drawn(&mut self, at: u32) {
        if let Some(drawn) = self.drawn.get_mut(index(at)) {
            *drawn = true;
        }
    }

    /// Counts what was drawn and what was not, and orders the lanes.
    #[must_use]
    pub fn finish(mut self, scene: &Scene<'_>) -> (Drawing, Counts) {
        let assembly = scene.assembly;
        for kind in Kind::ALL {
            let places = assembly.places_of(kind);
            let drawn = |at: &&u32| self.drawn.get(index(**at)).is_some_and(|drawn| *drawn);
            let counts = self.counts.kinds.get_mut(kind);
            if self.level.draws(kind) {
                let written = places.iter().filter(drawn).count();
                counts.written += written as u64;
                counts.not_drawn += (places.len() - written) as u64;
            } else {
                counts.left_out += places.len() as u64;
            }
        }
        let mut drawing = Drawing::default();
        let first = |items: &[Item]| items.iter().map(|item| item.start).min();
        let rows = self.threads.into_iter();
        let drawn = rows.filter_map(|row| Some((row.thread?, row.items)));
        let mut threads: Vec<(u32, Vec<Item>)> = drawn.collect();
        let key = |thread: u32| assembly.threads.get(index(thread)).map(Thread::key);
        threads.sort_by_key(|(thread, items)| (first(items), key(*thread)));
        for (thread, items) in threads {
            let number = place(drawing.threads.len());
            drawing.threads.push(thread);
            drawing.lanes.push(Lane {
                key: LaneKey::Thread(number),
                sibling: 0,
                items,
                messages: Messages::default(),
                samples: Vec::new(),
            });
        }
        let mut lanes = self.lanes;
        lanes.sort_by_key(|lane| (lane.key.row(scene.comms), lane.sibling));
        for Drawn {
            key,
            sibling,
            items,
        } in lanes
        {
            let (messages, mut samples) = match sibling {
                0 => (self.messages.remove(&key), self.samples.remove(&key)),
                _ => (None, None),
            };
            if let Some(samples) = &mut samples {
                samples.sort_by_key(|sample| (sample.time, sample.metric));
            }
            drawing.lanes.push(Lane {
                key,
                sibling,
                items,
                messages: messages.unwrap_or_default(),
                samples: samples.unwrap_or_default(),
            });
        }
        drawing.needed = self.needed;
        (drawing, self.counts)
    }
}
