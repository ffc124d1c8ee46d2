//! The counters of an archive and of each part: what was seen and what became of it.
//!
//! For every kind: `seen = written + left_out + not_shown + duplicate`. What could not even be recorded is `lost`.
//! `unfinished` and `orphan` are properties of events that were seen, not an additional outcome.

use std::collections::BTreeMap;

use crate::Kind;
use crate::gpu::GpuCount;
use crate::range::RangeCount;
use crate::sort::Gather;
use serde::{Deserialize, Serialize};

macro_rules! counts {
    ($(#[$meta:meta])* $name:ident { $($field:ident $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        #[expect(missing_docs, reason = "`docs/REFERENCE.md` §7 describes the numbers")]
        pub struct $name {
            $(pub $field: u64,)+
        }

        impl $name {
            /// The counters with their names, in the order in which they are written.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($text, self.$field),)+].into_iter()
            }

            fn all_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut u64)> {
                [$(($text, &mut self.$field),)+].into_iter()
            }

            /// The counter with this name.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut u64> {
                self.all_mut().find(|(known, _)| *known == name).map(|(_, number)| number)
            }

            /// Adds other counters to these.
            pub fn add(&mut self, other: &Self) {
                for ((_, number), (_, more)) in self.all_mut().zip(other.named()) {
                    *number = number.saturating_add(more);
                }
            }
        }
    };
}

counts! {
    /// The counters of one kind of event.
    KindCounts {
        seen "SEEN",
        written "WRITTEN",
        left_out "LEFT_OUT",
        not_shown "NOT_SHOWN",
        duplicate "DUPLICATE",
        unfinished "UNFINISHED",
        orphan "ORPHAN",
        stops "STOPS",
        states "STATES",
        lost "LOST",
        stops_lost "STOPS_LOST",
        states_lost "STATES_LOST",
        late "LATE",
        not_selected "NOT_SELECTED",
    }
}

impl KindCounts {
    /// Whether every event that was seen is accounted for.
    pub const fn adds_up(&self) -> bool {
        let known = self.written.saturating_add(self.left_out).saturating_add(self.not_shown);
        self.seen == known.saturating_add(self.duplicate)
    }
}

/// The counters of all kinds. Serialized by NCCL's names, without kinds whose counters are all 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, KindCounts>", from = "BTreeMap<String, KindCounts>")]
pub struct Kinds {
    by_number: [KindCounts; Kind::COUNT],
    unknown: KindCounts,
}

impl Kinds {
    /// The counters of one kind.
    pub fn get(&self, kind: Kind) -> &KindCounts {
        self.by_number.get(usize::from(kind as u8)).unwrap_or(&self.unknown)
    }

    /// The counters of one kind.
    pub fn get_mut(&mut self, kind: Kind) -> &mut KindCounts {
        self.by_number.get_mut(usize::from(kind as u8)).unwrap_or(&mut self.unknown)
    }

    /// The kinds with counters other than 0.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &KindCounts)> {
        let all = Kind::ALL.into_iter().map(|kind| (kind, self.get(kind)));
        all.filter(|(_, counts)| **counts != KindCounts::default())
    }

    /// The sum of a counter over all kinds.
    pub fn sum(&self, of: impl Fn(&KindCounts) -> u64) -> u64 {
        self.iter().map(|(_, counts)| of(counts)).fold(0, u64::saturating_add)
    }
}

impl From<Kinds> for BTreeMap<String, KindCounts> {
    fn from(kinds: Kinds) -> Self {
        kinds.iter().map(|(kind, counts)| (kind.name().to_owned(), *counts)).gather()
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

counts! {
    /// The counters that belong to no kind.
    Others {
        stops_without_start "STOPS_WITHOUT_START",
        states_without_start "STATES_WITHOUT_START",
        removed "REMOVED",
        stops_of_removed "STOPS_OF_REMOVED",
        states_of_removed "STATES_OF_REMOVED",
        stops_repeated "STOPS_REPEATED",
        states_repeated "STATES_REPEATED",
        states_unknown "STATES_UNKNOWN",
        stops_lost "STOPS_LOST",
        states_lost "STATES_LOST",
        communicators_lost "COMMUNICATORS_LOST",
        controls_counted_only "CONTROLS_COUNTED_ONLY",
        waits_counted_only "WAITS_COUNTED_ONLY",
        stops_late "STOPS_LATE",
        states_late "STATES_LATE",
        stalls "STALLS",
        finalizes_without_init "FINALIZES_WITHOUT_INIT",
        contexts_twice "CONTEXTS_TWICE",
        clamped "CLAMPED",
        starts_cut "STARTS_CUT",
        enqueued_together "ENQUEUED_TOGETHER",
        starts_moved "STARTS_MOVED",
        closed "CLOSED",
        gpu_times_suspicious "GPU_TIMES_SUSPICIOUS",
        gpu_times_zero "GPU_TIMES_ZERO",
        gpu_times_impossible "GPU_TIMES_IMPOSSIBLE",
        gpu_times_backwards "GPU_TIMES_BACKWARDS",
        gpu_times_repeated "GPU_TIMES_REPEATED",
        gpu_times_out_of_order "GPU_TIMES_OUT_OF_ORDER",
        gpu_times_outside "GPU_TIMES_OUTSIDE",
        foreign "FOREIGN",
        uninitialised "UNINITIALISED",
        collectives_unknown "COLLECTIVES_UNKNOWN",
        sizes_unknown "SIZES_UNKNOWN",
        messages_without_peer "MESSAGES_WITHOUT_PEER",
        ranges_user "RANGES_USER",
        ranges_marks "RANGES_MARKS",
        ranges_nccl "RANGES_NCCL",
        ranges_reported "RANGES_REPORTED",
        ranges_unfinished "RANGES_UNFINISHED",
        ranges_closed "RANGES_CLOSED",
        ranges_other_names "RANGES_OTHER_NAMES",
        ranges_too_deep "RANGES_TOO_DEEP",
        ranges_unbalanced_pops "RANGES_UNBALANCED_POPS",
        ranges_lost "RANGES_LOST",
    }
}

impl Others {
    /// Stores what the recorder counts about ranges.
    pub fn take_range_counts(&mut self, totals: [u64; RangeCount::COUNT]) {
        for (count, total) in RangeCount::ALL.into_iter().zip(totals) {
            *match count {
                RangeCount::OtherNames => &mut self.ranges_other_names,
                RangeCount::TooDeep => &mut self.ranges_too_deep,
                RangeCount::UnbalancedPops => &mut self.ranges_unbalanced_pops,
                RangeCount::Lost => &mut self.ranges_lost,
            } = total;
        }
    }
}

/// All counters of a process or an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// The counters by kind.
    pub kinds: Kinds,
    /// The counters that belong to no kind.
    #[serde(flatten)]
    pub others: Others,
}

impl std::ops::Deref for Counts {
    type Target = Others;

    fn deref(&self) -> &Others {
        &self.others
    }
}

impl std::ops::DerefMut for Counts {
    fn deref_mut(&mut self) -> &mut Others {
        &mut self.others
    }
}

impl Counts {
    /// The counters of one kind.
    pub fn kind_mut(&mut self, kind: Kind) -> &mut KindCounts {
        self.kinds.get_mut(kind)
    }

    /// Adds the counters of another process.
    pub fn add(&mut self, other: &Self) {
        for kind in Kind::ALL {
            self.kinds.get_mut(kind).add(other.kinds.get(kind));
        }
        self.others.add(&other.others);
    }

    /// Number of events that could not be recorded.
    pub fn lost(&self) -> u64 {
        let others = [self.stops_lost, self.states_lost, self.communicators_lost];
        others.into_iter().fold(self.kinds.sum(|kind| kind.lost), u64::saturating_add)
    }
}

counts! {
    /// Counters of GPU work: first what was recorded (see [`GpuCount`]), then what became of it.
    GpuCounts {
        launches "LAUNCHES",
        captured "CAPTURED",
        no_event_left "NO_EVENT_LEFT",
        refused "REFUSED",
        on_callback_thread "ON_CALLBACK_THREAD",
        unfinished "UNFINISHED",
        kernels "KERNELS",
        foreign_kernels "FOREIGN_KERNELS",
        kernels_without_times "KERNELS_WITHOUT_TIMES",
        copies "COPIES",
        foreign_copies "FOREIGN_COPIES",
        copies_without_times "COPIES_WITHOUT_TIMES",
        unmatched "UNMATCHED",
        dropped_by_cupti "DROPPED_BY_CUPTI",
        bad_records "BAD_RECORDS",
        foreign_buffers "FOREIGN_BUFFERS",
        late_buffers "LATE_BUFFERS",
        no_buffer_left "NO_BUFFER_LEFT",
        no_room "NO_ROOM",
        launches_timed "LAUNCHES_TIMED",
        kernels_joined "KERNELS_JOINED",
        kernels_of_graphs "KERNELS_OF_GRAPHS",
        kernels_of_graphs_unknown "KERNELS_OF_GRAPHS_UNKNOWN",
        kernels_without_launch "KERNELS_WITHOUT_LAUNCH",
        kernels_other "KERNELS_OTHER",
        copies_shown "COPIES_SHOWN",
        copies_joined "COPIES_JOINED",
        not_placed "NOT_PLACED",
        events_not_used "EVENTS_NOT_USED",
    }
}

impl GpuCounts {
    /// Stores the recorder's totals, which are the first counters in [`Self::named`].
    pub fn take_recorded(&mut self, totals: [u64; GpuCount::COUNT]) {
        self.all_mut().zip(totals).for_each(|((_, number), total)| *number = total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_totals_come_first_and_in_their_order() {
        for (count, (name, _)) in GpuCount::ALL.into_iter().zip(GpuCounts::default().named()) {
            assert!(name.replace('_', "").eq_ignore_ascii_case(&format!("{count:?}")), "{name} {count:?}");
        }
    }
}
