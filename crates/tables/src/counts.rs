//! What was seen and what became of it: the proof that nothing is missing.
//!
//! For every kind: `seen = written + left_out + not_shown + duplicate`. What the recording half could not even
//! record is `lost`; `unfinished` and `orphan` are properties of what was seen, not a fate.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use journal::part::late::LateCallbacks;
use journal::reader::Losses;
use nccl_events::Kind;

/// The numbers of one kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindCounts {
    /// Starts in the journal.
    pub seen: u64,
    /// Shown in the trace.
    pub written: u64,
    /// Of a kind that the level leaves out, see [`journal::part::options::Level`].
    pub left_out: u64,
    /// Seen, but not shown: `docs/REFERENCE.md` §7 says when.
    pub not_shown: u64,
    /// Starts with an id that was there already.
    pub duplicate: u64,
    /// Without a stop.
    pub unfinished: u64,
    /// With a parent that this process did not record.
    pub orphan: u64,
    /// Stop records.
    pub stops: u64,
    /// State records.
    pub states: u64,
    /// Starts that could not be recorded.
    pub lost: u64,
    /// Stops that could not be recorded.
    pub stops_lost: u64,
    /// States that could not be recorded.
    pub states_lost: u64,
    /// Starts that came when recording had ended.
    pub late: u64,
    /// Starts that came while recording was off, or not of this kind.
    pub not_selected: u64,
}

impl KindCounts {
    /// The numbers by name, in the order they are written.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("SEEN", self.seen),
            ("WRITTEN", self.written),
            ("LEFT_OUT", self.left_out),
            ("NOT_SHOWN", self.not_shown),
            ("DUPLICATE", self.duplicate),
            ("UNFINISHED", self.unfinished),
            ("ORPHAN", self.orphan),
            ("STOPS", self.stops),
            ("STATES", self.states),
            ("LOST", self.lost),
            ("STOPS_LOST", self.stops_lost),
            ("STATES_LOST", self.states_lost),
            ("LATE", self.late),
            ("NOT_SELECTED", self.not_selected),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.written += other.written;
        self.left_out += other.left_out;
        self.not_shown += other.not_shown;
        self.duplicate += other.duplicate;
        self.unfinished += other.unfinished;
        self.orphan += other.orphan;
        self.stops += other.stops;
        self.states += other.states;
        self.lost += other.lost;
        self.stops_lost += other.stops_lost;
        self.states_lost += other.states_lost;
        self.late += other.late;
        self.not_selected += other.not_selected;
    }

    /// Whether everything seen is accounted for.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        self.seen == self.written + self.left_out + self.not_shown + self.duplicate
    }
}

/// The numbers of all kinds; written by NCCL's names, without the kinds that never came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, KindCounts>", from = "BTreeMap<String, KindCounts>")]
pub struct Kinds {
    by_number: [KindCounts; Kind::COUNT],
    unknown: KindCounts,
}

impl Kinds {
    /// The numbers of one kind.
    #[must_use]
    pub fn get(&self, kind: Kind) -> &KindCounts {
        self.by_number.get(usize::from(kind as u8)).unwrap_or(&self.unknown)
    }

    /// The numbers of one kind.
    pub fn get_mut(&mut self, kind: Kind) -> &mut KindCounts {
        self.by_number.get_mut(usize::from(kind as u8)).unwrap_or(&mut self.unknown)
    }

    /// The kinds that came or were lost.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &KindCounts)> {
        let all = Kind::ALL.into_iter().map(|kind| (kind, self.get(kind)));
        all.filter(|(_, counts)| **counts != KindCounts::default())
    }
}

impl From<Kinds> for BTreeMap<String, KindCounts> {
    fn from(kinds: Kinds) -> Self {
        let named = kinds.iter();
        named.map(|(kind, counts)| (kind.name().to_owned(), *counts)).collect()
    }
}

impl From<BTreeMap<String, KindCounts>> for Kinds {
    fn from(named: BTreeMap<String, KindCounts>) -> Self {
        let mut kinds = Self::default();
        for kind in Kind::ALL {
            if let Some(counts) = named.get(kind.name()) {
                *kinds.get_mut(kind) = *counts;
            }
        }
        kinds
    }
}

/// All numbers of a process, or of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// By kind.
    pub kinds: Kinds,
    /// Stops whose start is not in the journal.
    pub stops_without_start: u64,
    /// States whose start is not in the journal.
    pub states_without_start: u64,
    /// Starts that were recorded and that a flight recording removed.
    pub removed: u64,
    /// Stops of events whose start was not kept.
    pub stops_of_removed: u64,
    /// States of events whose start was not kept.
    pub states_of_removed: u64,
    /// Stops of operations that had stopped.
    pub stops_repeated: u64,
    /// States that an operation had entered before; the first counts.
    pub states_repeated: u64,
    /// States with a number that no known release defines.
    pub states_unknown: u64,
    /// Stops that could not be recorded, of all kinds.
    pub stops_lost: u64,
    /// States that could not be recorded, of all kinds.
    pub states_lost: u64,
    /// Beginnings and ends of communicators that could not be recorded.
    pub communicators_lost: u64,
    /// Proxy control events without a state that the journal only counts; they are among those seen and not shown.
    pub controls_counted_only: u64,
    /// Repetitions of a waiting state that the journal only counts; they are among the repeated states.
    pub waits_counted_only: u64,
    /// Stops that came when recording had ended.
    pub stops_late: u64,
    /// States that came when recording had ended.
    pub states_late: u64,
    /// How often a recording thread had to wait for its own segment.
    pub stalls: u64,
    /// Communicators that ended without a beginning.
    pub finalizes_without_init: u64,
    /// Context ids that `init` gave twice.
    pub contexts_twice: u64,
    /// Calls whose end was moved into the call around them so that they nest.
    pub clamped: u64,
    /// Operations that overlapped their location and went to a sibling location.
    pub overflowed: u64,
    /// Enqueueings that NCCL reported at once for several operations of a launch plan, shown one after the other.
    pub enqueued_together: u64,
    /// Operations that are shown from the end of the kernel before them, not from their launch.
    pub starts_moved: u64,
    /// What NCCL did not report the end of, closed where something else tells it: proxy operations on connections that
    /// NCCL never reports on, with their collective; steps, when their slot is used again or their operation stops.
    pub closed: u64,
    /// Kernel channels whose GPU times make no sense (host times were used), and phases (not shown).
    pub gpu_times_suspicious: u64,
    /// Of those: one of the two is 0.
    pub gpu_times_zero: u64,
    /// Of those: no timer gets there, 2^63 ns and more.
    pub gpu_times_impossible: u64,
    /// Of those: the stop lies before the start.
    pub gpu_times_backwards: u64,
    /// Of those: the stamps of a kernel launched later on the channel.
    pub gpu_times_repeated: u64,
    /// Of those: not in the order of the launches.
    pub gpu_times_out_of_order: u64,
    /// Of those: phases outside their channel, or in another phase.
    pub gpu_times_outside: u64,
    /// Operations of communicators that this process did not initialise (PXN), on locations of their own.
    pub foreign: u64,
    /// Operations of communicators of this process whose beginning could not be recorded, likewise.
    pub uninitialised: u64,
    /// Collectives that this version does not know, shown without a collective record.
    pub collectives_unknown: u64,
    /// Collectives of communicators whose size the process does not know (v1–v3): the bytes in their records
    /// are for one rank, not for all.
    pub sizes_unknown: u64,
    /// Point-to-point operations written without a message, their peer not being in the communicator.
    pub messages_without_peer: u64,
}

impl Counts {
    /// The numbers of one kind.
    pub fn kind_mut(&mut self, kind: Kind) -> &mut KindCounts {
        self.kinds.get_mut(kind)
    }

    /// Adds another process's numbers.
    pub fn add(&mut self, other: &Self) {
        for kind in Kind::ALL {
            self.kinds.get_mut(kind).add(other.kinds.get(kind));
        }
        for ((_, sum), (_, more)) in self.named_mut().into_iter().zip(other.named()) {
            *sum += more;
        }
    }

    /// Everything that could not be recorded.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let starts: u64 = self.kinds.iter().map(|(_, counts)| counts.lost).sum();
        starts + self.stops_lost + self.states_lost + self.communicators_lost
    }

    /// Takes in what the recording half could not record.
    pub fn add_losses(&mut self, losses: &Losses) {
        let by_kind = losses.starts.iter().zip(&losses.stops).zip(&losses.states);
        for (kind, ((starts, stops), states)) in Kind::ALL.into_iter().zip(by_kind) {
            let counts = self.kind_mut(kind);
            counts.lost += starts;
            counts.stops_lost += stops;
            counts.states_lost += states;
            self.stops_lost += stops;
            self.states_lost += states;
        }
        self.communicators_lost += losses.communicators;
        self.stalls += losses.stalls;
        self.states_repeated += losses.repeated_waits;
        self.waits_counted_only += losses.repeated_waits;
        self.controls_counted_only += losses.empty_controls;
        if losses.empty_controls > 0 {
            let controls = self.kind_mut(Kind::ProxyCtrl);
            controls.seen += losses.empty_controls;
            controls.not_shown += losses.empty_controls;
        }
    }

    /// A part that an earlier version wrote says how many stops and states were lost, not of which kind: of
    /// [`Kind::Unknown`].
    pub fn lay_losses_to_kinds(&mut self) {
        let laid = |of: fn(&KindCounts) -> u64| self.kinds.iter().map(|(_, kind)| of(kind)).sum();
        let stops = self.stops_lost.saturating_sub(laid(|kind| kind.stops_lost));
        let states = self.states_lost.saturating_sub(laid(|kind| kind.states_lost));
        let unknown = self.kind_mut(Kind::Unknown);
        unknown.stops_lost += stops;
        unknown.states_lost += states;
    }

    /// Takes in what came and was not wanted.
    pub fn add_not_selected(&mut self, starts: &[u64; Kind::COUNT]) {
        for (kind, starts) in Kind::ALL.into_iter().zip(starts) {
            self.kind_mut(kind).not_selected += starts;
        }
    }

    /// Takes in what came when recording had ended.
    pub fn add_late(&mut self, late: &LateCallbacks) {
        for kind in Kind::ALL {
            if let Some(starts) = late.starts.get(kind.name()) {
                let sum = &mut self.kind_mut(kind).late;
                *sum = sum.saturating_add(*starts);
            }
        }
        self.stops_late = self.stops_late.saturating_add(late.stops);
        self.states_late = self.states_late.saturating_add(late.states);
    }
}

macro_rules! named_counts {
    ($($name:literal $field:ident),+ $(,)?) => {
        impl Counts {
            /// The numbers that are not by kind, by name, in the order they are written.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field)),+]
            }

            fn named_mut(&mut self) -> Vec<(&'static str, &mut u64)> {
                vec![$(($name, &mut self.$field)),+]
            }
        }
    };
}

named_counts! {
    "STOPS_WITHOUT_START" stops_without_start,
    "STATES_WITHOUT_START" states_without_start,
    "REMOVED" removed,
    "STOPS_OF_REMOVED" stops_of_removed,
    "STATES_OF_REMOVED" states_of_removed,
    "STOPS_REPEATED" stops_repeated,
    "STATES_REPEATED" states_repeated,
    "STATES_UNKNOWN" states_unknown,
    "STOPS_LOST" stops_lost,
    "STATES_LOST" states_lost,
    "COMMUNICATORS_LOST" communicators_lost,
    "CONTROLS_COUNTED_ONLY" controls_counted_only,
    "WAITS_COUNTED_ONLY" waits_counted_only,
    "STOPS_LATE" stops_late,
    "STATES_LATE" states_late,
    "STALLS" stalls,
    "FINALIZES_WITHOUT_INIT" finalizes_without_init,
    "CONTEXTS_TWICE" contexts_twice,
    "CLAMPED" clamped,
    "OVERFLOWED" overflowed,
    "ENQUEUED_TOGETHER" enqueued_together,
    "STARTS_MOVED" starts_moved,
    "CLOSED" closed,
    "GPU_TIMES_SUSPICIOUS" gpu_times_suspicious,
    "GPU_TIMES_ZERO" gpu_times_zero,
    "GPU_TIMES_IMPOSSIBLE" gpu_times_impossible,
    "GPU_TIMES_BACKWARDS" gpu_times_backwards,
    "GPU_TIMES_REPEATED" gpu_times_repeated,
    "GPU_TIMES_OUT_OF_ORDER" gpu_times_out_of_order,
    "GPU_TIMES_OUTSIDE" gpu_times_outside,
    "FOREIGN" foreign,
    "UNINITIALISED" uninitialised,
    "COLLECTIVES_UNKNOWN" collectives_unknown,
    "SIZES_UNKNOWN" sizes_unknown,
    "MESSAGES_WITHOUT_PEER" messages_without_peer,
}
