//! When an operation ran, as far as known: never how long enqueueing took (`docs/MAPPING.md` §4).

use nccl_events::archive::Timing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub start: u64,
    /// The last time seen if the operation is unfinished.
    pub end: u64,
    pub timing: Timing,
    pub unfinished: bool,
    /// How much later than its launch the operation begins, because an earlier kernel had not ended.
    pub moved_ns: u64,
    /// Whether other operations ran in the same interval: a bandwidth computed for one alone would be wrong.
    pub is_shared: bool,
}

/// What NCCL's events report about an operation. All times are the host's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    pub launched: u64,
    pub enqueued: (u64, u64),
    pub kernel: Option<(u64, u64)>,
    /// The kernel's interval as reported on the host.
    pub kernel_on_host: Option<(u64, u64)>,
    /// When the last of the proxy operations ended.
    pub proxy_last: Option<u64>,
    /// Whether some part of the operation never ended.
    pub unfinished: bool,
    /// Whether copy engines do the work: NCCL then reports only the enqueueing.
    pub is_by_copy_engines: bool,
}

/// When the earlier kernels of a communicator rank ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Earlier {
    /// End of all; unfinished kernels count with the last time seen.
    end: u64,
    known_end: u64,
}

impl Earlier {
    pub fn add(&mut self, interval: &Interval) {
        self.end = self.end.max(interval.end);
        if !interval.unfinished {
            self.known_end = self.known_end.max(interval.end);
        }
    }
}

impl Interval {
    /// The interval of one operation alone; an unfinished one extends to the last time seen.
    pub fn of(known: &Known, last_seen: u64) -> Self {
        let launched = known.launched;
        let (start, end, timing) = match *known {
            Known { kernel: Some((start, end)), .. } => (start, end, Timing::KernelChannel),
            Known { kernel_on_host: Some((start, end)), .. } => (start, end, Timing::KernelChannelHost),
            Known { proxy_last: Some(last), .. } => (launched.min(last), last, Timing::Proxy),
            Known { unfinished: true, is_by_copy_engines: false, .. } => (launched, launched, Timing::Proxy),
            Known { enqueued: (start, end), .. } => (start, end, Timing::Enqueue),
        };
        let end = if known.unfinished { last_seen.max(start) } else { end };
        Self { start, end, timing, unfinished: known.unfinished, moved_ns: 0, is_shared: false }
    }

    fn begin_at(&mut self, start: u64) {
        self.moved_ns = start.saturating_sub(self.start);
        self.start = self.start.max(start);
        self.end = self.end.max(self.start);
    }

    /// If only the launch is known, moves the start to the end of the earlier kernels.
    fn wait_for(&mut self, earlier: Earlier) {
        match self.timing {
            Timing::Proxy if self.unfinished || earlier.end < self.end => {
                self.begin_at(earlier.end.min(self.end));
            }
            // The end is unknown, too: an operation that was only enqueued may outlast unfinished ones.
            Timing::Enqueue => self.begin_at(earlier.known_end),
            _ => {}
        }
    }
}

/// Completes the intervals of one kernel: operations without times of their own ran with the others.
pub fn share_kernel(kernel: &mut [Interval], earlier: Earlier) {
    let mut known: Option<Interval> = None;
    for interval in kernel.iter_mut().filter(|interval| interval.timing != Timing::Enqueue) {
        interval.wait_for(earlier);
        let known = known.get_or_insert(Interval { timing: Timing::Kernel, moved_ns: 0, ..*interval });
        known.start = known.start.min(interval.start);
        known.end = known.end.max(interval.end);
        known.unfinished |= interval.unfinished;
    }
    for interval in kernel.iter_mut().filter(|interval| interval.timing == Timing::Enqueue) {
        match known {
            Some(known) => *interval = known,
            None => interval.wait_for(earlier),
        }
    }
}

/// From the first begin to the last end of the operations of one collective, with the timing of the least precisely
/// known operation. An operation without times of its own (`Timing::Kernel`) does not affect the timing.
pub fn around(members: impl Iterator<Item = Interval>) -> Option<Interval> {
    // The collective is a call of its own, with its own kernels.
    members.map(|member| Interval { is_shared: false, ..member }).reduce(|all, member| {
        let first = if member.start < all.start { member } else { all };
        let timing = match (all.timing, member.timing) {
            (Timing::Kernel, timing) | (timing, Timing::Kernel) => timing,
            (one, other) => one.max(other),
        };
        Interval {
            start: first.start,
            end: all.end.max(member.end),
            timing,
            unfinished: all.unfinished || member.unfinished,
            moved_ns: first.moved_ns,
            is_shared: false,
        }
    })
}
