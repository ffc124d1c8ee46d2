//! The numbers of an archive, and of each part: what was seen and what became of it.
//!
//! For every kind: `seen = written + left_out + not_shown + duplicate`. What the recording half could not even
//! record is `lost`; `unfinished` and `orphan` are properties of what was seen, not a fate.

use std::collections::BTreeMap;

use nccl_events::Kind;
use nccl_events::gpu::GpuCount;
use serde::{Deserialize, Serialize};
use small_sort::Gather;

macro_rules! counts {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl $name {
            /// The numbers by name, in the order they are written.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($text, self.$field),)+].into_iter()
            }

            /// The number with this name.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $($text => Some(&mut self.$field),)+
                    _ => None,
                }
            }

            /// Adds others.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)+
            }
        }
    };
}

counts! {
    /// The numbers of one kind of event.
    KindCounts {
        /// Starts in the journal.
        seen "SEEN",
        /// Shown in the trace.
        written "WRITTEN",
        /// Of a kind that the level leaves out.
        left_out "LEFT_OUT",
        /// Seen, but not shown: `docs/REFERENCE.md` §7 says when.
        not_shown "NOT_SHOWN",
        /// Starts with an id that was there already.
        duplicate "DUPLICATE",
        /// Without a stop.
        unfinished "UNFINISHED",
        /// With a parent that this process did not record.
        orphan "ORPHAN",
        /// Stop records.
        stops "STOPS",
        /// State records.
        states "STATES",
        /// Starts that could not be recorded.
        lost "LOST",
        /// Stops that could not be recorded.
        stops_lost "STOPS_LOST",
        /// States that could not be recorded.
        states_lost "STATES_LOST",
        /// Starts that came when recording had ended.
        late "LATE",
        /// Starts that came while recording was off, or not of this kind.
        not_selected "NOT_SELECTED",
    }
}

impl KindCounts {
    /// Whether everything seen is accounted for.
    pub const fn adds_up(&self) -> bool {
        let known = self.written.saturating_add(self.left_out).saturating_add(self.not_shown);
        self.seen == known.saturating_add(self.duplicate)
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

    /// The sum of a number over all kinds.
    pub fn sum(&self, of: impl Fn(&KindCounts) -> u64) -> u64 {
        self.iter().map(|(_, counts)| of(counts)).fold(0, u64::saturating_add)
    }
}

impl From<Kinds> for BTreeMap<String, KindCounts> {
    fn from(kinds: Kinds) -> Self {
        let named = kinds.iter();
        named.map(|(kind, counts)| (kind.name().to_owned(), *counts)).gather()
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
    /// The numbers that belong to no kind.
    Others {
        /// Stops whose start is not in the journal.
        stops_without_start "STOPS_WITHOUT_START",
        /// States whose start is not in the journal.
        states_without_start "STATES_WITHOUT_START",
        /// Starts that were recorded and that a flight recording removed.
        removed "REMOVED",
        /// Stops of events whose start was not kept.
        stops_of_removed "STOPS_OF_REMOVED",
        /// States of events whose start was not kept.
        states_of_removed "STATES_OF_REMOVED",
        /// Stops of operations that had stopped.
        stops_repeated "STOPS_REPEATED",
        /// States that an operation had entered before; the first counts.
        states_repeated "STATES_REPEATED",
        /// States with a number that no known release defines.
        states_unknown "STATES_UNKNOWN",
        /// Stops that could not be recorded, of all kinds.
        stops_lost "STOPS_LOST",
        /// States that could not be recorded, of all kinds.
        states_lost "STATES_LOST",
        /// Beginnings and ends of communicators that could not be recorded.
        communicators_lost "COMMUNICATORS_LOST",
        /// Proxy control events without a state that the journal only counts; they are among those seen and not shown.
        controls_counted_only "CONTROLS_COUNTED_ONLY",
        /// Repetitions of a waiting state that the journal only counts; they are among the repeated states.
        waits_counted_only "WAITS_COUNTED_ONLY",
        /// Stops that came when recording had ended.
        stops_late "STOPS_LATE",
        /// States that came when recording had ended.
        states_late "STATES_LATE",
        /// How often a recording thread had to wait for its own segment.
        stalls "STALLS",
        /// Communicators that ended without a beginning.
        finalizes_without_init "FINALIZES_WITHOUT_INIT",
        /// Context ids that `init` gave twice.
        contexts_twice "CONTEXTS_TWICE",
        /// Calls whose end was moved into the call around them so that they nest.
        clamped "CLAMPED",
        /// Operations that overlapped their location and went to a sibling location.
        overflowed "OVERFLOWED",
        /// Enqueueings that NCCL reported at once for several operations of a launch plan, shown one after the other.
        enqueued_together "ENQUEUED_TOGETHER",
        /// Operations that are shown from the end of the kernel before them, not from their launch.
        starts_moved "STARTS_MOVED",
        /// What NCCL did not report the end of, closed where something else tells it: proxy operations on connections
        /// that NCCL never reports on, with their collective; steps, when their slot is used again or their operation
        /// stops.
        closed "CLOSED",
        /// Kernel channels whose GPU times make no sense (host times were used), and phases (not shown).
        gpu_times_suspicious "GPU_TIMES_SUSPICIOUS",
        /// Of those: one of the two is 0.
        gpu_times_zero "GPU_TIMES_ZERO",
        /// Of those: no timer gets there, 2^63 ns and more.
        gpu_times_impossible "GPU_TIMES_IMPOSSIBLE",
        /// Of those: the stop lies before the start.
        gpu_times_backwards "GPU_TIMES_BACKWARDS",
        /// Of those: the stamps of a kernel launched later on the channel.
        gpu_times_repeated "GPU_TIMES_REPEATED",
        /// Of those: not in the order of the launches.
        gpu_times_out_of_order "GPU_TIMES_OUT_OF_ORDER",
        /// Of those: phases outside their channel, or in another phase.
        gpu_times_outside "GPU_TIMES_OUTSIDE",
        /// Operations of communicators that this process did not initialise (PXN), on locations of their own.
        foreign "FOREIGN",
        /// Operations of communicators of this process whose beginning could not be recorded, likewise.
        uninitialised "UNINITIALISED",
        /// Collectives that this version does not know, shown without a collective record.
        collectives_unknown "COLLECTIVES_UNKNOWN",
        /// Collectives of communicators whose size the process does not know (v1–v3): the bytes in their records
        /// are for one rank, not for all.
        sizes_unknown "SIZES_UNKNOWN",
        /// Point-to-point operations written without a message, their peer not being in the communicator.
        messages_without_peer "MESSAGES_WITHOUT_PEER",
    }
}

/// All numbers of a process, or of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// By kind.
    pub kinds: Kinds,
    /// Of no kind.
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
    /// The numbers of one kind.
    pub fn kind_mut(&mut self, kind: Kind) -> &mut KindCounts {
        self.kinds.get_mut(kind)
    }

    /// Adds another process's numbers.
    pub fn add(&mut self, other: &Self) {
        for kind in Kind::ALL {
            self.kinds.get_mut(kind).add(other.kinds.get(kind));
        }
        self.others.add(&other.others);
    }

    /// Everything that could not be recorded.
    pub fn lost(&self) -> u64 {
        let others = [self.stops_lost, self.states_lost, self.communicators_lost];
        others.into_iter().fold(self.kinds.sum(|kind| kind.lost), u64::saturating_add)
    }
}

counts! {
    /// What is known of the work of GPUs: first what was recorded, see [`GpuCount`], then what became of it.
    GpuCounts {
        /// Launches and copy-engine collectives that were to be timed.
        launches "LAUNCHES",
        /// Of those: the stream captured a graph, so nothing ran.
        captured "CAPTURED",
        /// Of those: not timed, no prepared event was left.
        no_event_left "NO_EVENT_LEFT",
        /// Of those: not timed, the driver or CUPTI refused.
        refused "REFUSED",
        /// Of those: not timed, the thread may not call CUDA.
        on_callback_thread "ON_CALLBACK_THREAD",
        /// Of those: their times were unknown when recording ended.
        unfinished "UNFINISHED",
        /// Kernel records from CUPTI.
        kernels "KERNELS",
        /// Of those: of no NCCL launch, and not recorded.
        foreign_kernels "FOREIGN_KERNELS",
        /// Of those: without times.
        kernels_without_times "KERNELS_WITHOUT_TIMES",
        /// Copy records from CUPTI.
        copies "COPIES",
        /// Of those: of no NCCL collective, and not recorded.
        foreign_copies "FOREIGN_COPIES",
        /// Of those: without times.
        copies_without_times "COPIES_WITHOUT_TIMES",
        /// External ids whose launch had no kernel or copy record in time.
        unmatched "UNMATCHED",
        /// Records that CUPTI reports as dropped.
        dropped_by_cupti "DROPPED_BY_CUPTI",
        /// Records that could not be read.
        bad_records "BAD_RECORDS",
        /// Buffers that another user of CUPTI got instead of the plugin, or the other way round.
        foreign_buffers "FOREIGN_BUFFERS",
        /// Buffers that came back after recording had ended.
        late_buffers "LATE_BUFFERS",
        /// Buffers that CUPTI asked for in vain: their records are lost.
        no_buffer_left "NO_BUFFER_LEFT",
        /// Records that were not recorded because the journal had no room.
        no_room "NO_ROOM",
        /// Launches and copy-engine collectives whose run time is known.
        launches_timed "LAUNCHES_TIMED",
        /// Kernels shown: of a launch that is known.
        kernels_joined "KERNELS_JOINED",
        /// Kernels shown: of a graph, and of which captured launch is known.
        kernels_of_graphs "KERNELS_OF_GRAPHS",
        /// Kernels shown: of a graph, and of which operation is not known.
        kernels_of_graphs_unknown "KERNELS_OF_GRAPHS_UNKNOWN",
        /// Kernels shown: of a launch that is not in the journal.
        kernels_without_launch "KERNELS_WITHOUT_LAUNCH",
        /// Kernels shown that belong to no launch and no graph.
        kernels_other "KERNELS_OTHER",
        /// Copies shown.
        copies_shown "COPIES_SHOWN",
        /// Of those: of a collective that is known.
        copies_joined "COPIES_JOINED",
        /// Kernels and copies with times that cannot be placed.
        not_placed "NOT_PLACED",
        /// Times by CUDA events that cannot be placed, or of a launch that is not in the journal.
        events_not_used "EVENTS_NOT_USED",
    }
}

impl GpuCounts {
    /// Takes in the totals of the recording half. They are the first that [`Self::named`] gives.
    pub fn take_recorded(&mut self, totals: [u64; GpuCount::COUNT]) {
        for (count, total) in GpuCount::ALL.into_iter().zip(totals) {
            *self.recorded_mut(count) = total;
        }
    }

    const fn recorded_mut(&mut self, count: GpuCount) -> &mut u64 {
        match count {
            GpuCount::Launches => &mut self.launches,
            GpuCount::Captured => &mut self.captured,
            GpuCount::NoEventLeft => &mut self.no_event_left,
            GpuCount::Refused => &mut self.refused,
            GpuCount::OnCallbackThread => &mut self.on_callback_thread,
            GpuCount::Unfinished => &mut self.unfinished,
            GpuCount::Kernels => &mut self.kernels,
            GpuCount::ForeignKernels => &mut self.foreign_kernels,
            GpuCount::KernelsWithoutTimes => &mut self.kernels_without_times,
            GpuCount::Copies => &mut self.copies,
            GpuCount::ForeignCopies => &mut self.foreign_copies,
            GpuCount::CopiesWithoutTimes => &mut self.copies_without_times,
            GpuCount::Unmatched => &mut self.unmatched,
            GpuCount::DroppedByCupti => &mut self.dropped_by_cupti,
            GpuCount::BadRecords => &mut self.bad_records,
            GpuCount::ForeignBuffers => &mut self.foreign_buffers,
            GpuCount::LateBuffers => &mut self.late_buffers,
            GpuCount::NoBufferLeft => &mut self.no_buffer_left,
            GpuCount::NoRoom => &mut self.no_room,
        }
    }
}
