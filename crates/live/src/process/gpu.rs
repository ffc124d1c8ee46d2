//! The clocks of a process and of its GPUs, and when work ran on the GPUs: by the stamps of kernel channels, by CUPTI,
//! and by CUDA events.
//!
//! A time is converted with records up to the first one after it, whenever the conversion happens. So reading a journal
//! again gives the same sums.

use std::collections::{BTreeMap, VecDeque};

use crate::process::operations::{Operations, widen};
use crate::process::{Kept, Lifecycle, SeenIds};
use clocks::gpu::{GpuClock, HostTime, Sample, SampleClock, StampBounds};
use journal::clock;
use journal::clock::{ClockPair, TickSource};
use journal::format::Symbol;
use model::links::gpu_stamps::{StampedKernel, check_stamps, find_untrusted};
use model::links::intervals::Interval;
use nccl_events::archive::Timing;
use nccl_events::event::KernelCh;
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock as GpuClockSample, GpuRecord};
use rustc_hash::FxHashMap;

/// The rate is measured across this many pairs.
const FOR_PACE: usize = 8;
/// Lines kept of the past, one per second, and the limit when pairs are read long before events.
const LINES: usize = 256;
const MOST_LINES: usize = 1 << 14;

/// The present ticks of a source on this host.
pub(crate) fn ticks_now(source: TickSource) -> Option<u64> {
    match source {
        TickSource::Monotonic => Some(clock::monotonic_ns()),
        source if source == clock::select() => Some(clock::ticks()),
        _ => clock::processor_counter(),
    }
}

/// A present reading of this process's clocks, with the ticks of a source on this host.
fn pair_now(source: TickSource) -> Option<ClockPair> {
    match source {
        TickSource::Monotonic => None,
        source if source == clock::select() => Some(ClockPair::read()),
        _ => clock::processor_counter().map(|ticks| {
            let monotonic_ns = clock::monotonic_ns();
            let realtime_ns = clock::realtime_ns();
            ClockPair { ticks, monotonic_ns, realtime_ns, monotonic_raw_ns: monotonic_ns, uncertainty_ticks: 0 }
        }),
    }
}

/// A line through a clock pair, at the rate since an earlier pair.
#[derive(Clone, Copy, Debug)]
struct Line {
    ticks: u64,
    ns: u64,
    run: u64,
    rise: u64,
    /// Half the time that reading the pair took.
    reading_ns: u64,
    /// Distance of the pair from the previous line.
    residual_ns: u64,
    error_ns: u64,
}

impl Line {
    const IDENTITY: Self = Self { ticks: 0, ns: 0, run: 1, rise: 1, reading_ns: 0, residual_ns: 0, error_ns: 0 };

    /// `None` if time did not advance.
    fn new(from: &ClockPair, to: &ClockPair) -> Option<Self> {
        let run = to.ticks.checked_sub(from.ticks).filter(|run| *run > 0)?;
        let rise = to.monotonic_ns.checked_sub(from.monotonic_ns).filter(|rise| *rise > 0)?;
        let line = Self { ticks: to.ticks, ns: to.monotonic_ns, run, rise, ..Self::IDENTITY };
        let reading_ns = line.length_ns(to.uncertainty_ticks.max(from.uncertainty_ticks) / 2);
        Some(Self { reading_ns, error_ns: reading_ns, ..line })
    }

    fn length_ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * u128::from(self.rise) / u128::from(self.run);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn ns(&self, ticks: u64) -> u64 {
        match ticks.checked_sub(self.ticks) {
            Some(since) => self.ns.saturating_add(self.length_ns(since)),
            None => self.ns.saturating_sub(self.length_ns(self.ticks - ticks)),
        }
    }
}

/// The clock of a process: converts its ticks to nanoseconds of CLOCK_MONOTONIC. A tick is converted with the clock
/// pairs that the process recorded before it, never later ones.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    source: TickSource,
    pairs: VecDeque<ClockPair>,
    /// Each line applies from its tick on.
    lines: VecDeque<Line>,
    /// The follower's own first and last pairs, used until the process has recorded two.
    ours: [Option<ClockPair>; 2],
    by_ours: Line,
}

impl ProcessClock {
    /// `since` is a pair that the follower read some time ago.
    pub(crate) fn new(source: TickSource, since: Option<ClockPair>) -> Self {
        Self { source, pairs: VecDeque::new(), lines: VecDeque::new(), ours: [since, None], by_ours: Line::IDENTITY }
    }

    /// Adds a pair that the process recorded. Pairs must come in order.
    pub(crate) fn add(&mut self, pair: ClockPair) {
        if self.pairs.back().is_some_and(|last| pair.ticks <= last.ticks || pair.monotonic_ns <= last.monotonic_ns) {
            return;
        }
        if let Some(line) = self.pairs.front().and_then(|from| Line::new(from, &pair)) {
            let residual_ns = self.lines.back().map_or(0, |last| last.ns(pair.ticks).abs_diff(pair.monotonic_ns));
            let recent = self.lines.iter().rev().take(FOR_PACE);
            let (reading_ns, worst_ns) = recent
                .fold((line.reading_ns, residual_ns), |(reading_ns, residual_ns), it| {
                    (reading_ns.max(it.reading_ns), residual_ns.max(it.residual_ns))
                });
            self.lines.push_back(Line { residual_ns, error_ns: reading_ns + worst_ns, ..line });
        }
        self.pairs.push_back(pair);
        if self.pairs.len() > FOR_PACE {
            self.pairs.pop_front();
        }
        if self.lines.len() > MOST_LINES {
            self.lines.pop_front();
        }
    }

    /// Drops lines that are no longer needed: no event before these ticks is still to come.
    pub(crate) fn update(&mut self, before: u64) {
        while self.lines.len() > LINES && self.lines.get(1).is_some_and(|next| next.ticks <= before) {
            self.lines.pop_front();
        }
        if self.lines.is_empty() {
            self.ours[1] = pair_now(self.source);
            if let [Some(from), Some(to)] = &self.ours {
                self.by_ours = Line::new(from, to).unwrap_or(self.by_ours);
            }
        }
    }

    fn line(&self, ticks: u64) -> &Line {
        if self.source == TickSource::Monotonic {
            return &Line::IDENTITY;
        }
        let after = match self.lines.back() {
            Some(last) if last.ticks <= ticks => self.lines.len(),
            _ => self.lines.partition_point(|line| line.ticks <= ticks),
        };
        self.lines.get(after.saturating_sub(1)).unwrap_or(&self.by_ours)
    }

    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        self.line(ticks).ns(ticks)
    }

    /// `None` before the process has recorded two clock pairs.
    pub(crate) fn error_ns(&self, ticks: u64) -> Option<u64> {
        (self.source == TickSource::Monotonic || !self.lines.is_empty()).then(|| self.line(ticks).error_ns)
    }

    pub(crate) fn before(&self, ticks: u64, ns: u64) -> u64 {
        let line = self.line(ticks);
        let length = u128::from(ns) * u128::from(line.run) / u128::from(line.rise);
        ticks.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX))
    }

    pub(crate) fn ticks_of(&self, ns: u64) -> u64 {
        u64::MAX - self.before(u64::MAX, ns)
    }

    pub(crate) fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        match self.pairs.back().or(self.ours.iter().flatten().last()) {
            Some(pair) => pair.realtime_ns.saturating_add(monotonic_ns).saturating_sub(pair.monotonic_ns),
            None => clock::realtime_ns().saturating_sub(clock::monotonic_ns().saturating_sub(monotonic_ns)),
        }
    }
}

/// A clock is fitted to this many samples. More of them and launch times are kept: sums come seconds later.
const SAMPLES: usize = 64;
const MOST_SAMPLES: usize = 256;
const MOST_LAUNCHES: usize = 1 << 12;

type ClockKey = (GpuClockSample, u32);

#[derive(Clone, Copy, Debug)]
struct Span {
    clock: ClockKey,
    /// When it was recorded: samples of its clock may be in another file, read earlier or later.
    ticks: u64,
    start_ns: u64,
    end_ns: u64,
    uncertainty_ns: u64,
}

impl Span {
    fn widen(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.min(other.start_ns), end_ns: self.end_ns.max(other.end_ns), ..other }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    by_cupti: Option<Span>,
    by_events: Option<Span>,
}

#[derive(Debug, Default)]
struct Clock {
    samples: VecDeque<(u64, ClockSample)>,
    all: u64,
    /// The clock fitted to the samples up to this number.
    fitted: (u64, SampleClock),
}

impl Clock {
    fn add(&mut self, ticks: u64, sample: ClockSample) {
        self.all += 1;
        self.samples.push_back((ticks, sample));
        if self.samples.len() > MOST_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Places a span with samples up to the first one after it, so that times do not depend on when they are queried.
    fn place(&mut self, span: &Span, host: &ProcessClock) -> Option<(HostTime, HostTime)> {
        let later = self.samples.iter().rev().take_while(|(ticks, _)| *ticks > span.ticks).count().saturating_sub(1);
        let until = self.all - later as u64;
        if self.fitted.0 != until {
            let samples = self.samples.iter().rev().skip(later).take(SAMPLES).map(|(ticks, sample)| {
                let host_ns = host.ns(*ticks);
                let until_ns = host.ns(ticks.saturating_add(sample.uncertainty_ticks));
                Sample { host_ns, gpu_ns: sample.gpu_ns, uncertainty_ns: until_ns.saturating_sub(host_ns) }
            });
            self.fitted = (until, SampleClock::from_samples(samples.collect()));
        }
        let (start, end) = (self.fitted.1.place(span.start_ns)?, self.fitted.1.place(span.end_ns)?);
        (start.host_ns <= end.host_ns).then_some((start, end))
    }
}

/// Times of launches from CUPTI and from CUDA events.
#[derive(Debug, Default)]
pub(crate) struct GpuWork {
    launches: Kept<Ran>,
    clocks: FxHashMap<ClockKey, Clock>,
}

impl GpuWork {
    pub(crate) fn add(&mut self, ticks: u64, launch: u64, record: &GpuRecord<Symbol>) {
        let (clock, start_ns, end_ns, uncertainty_ns) = match record {
            GpuRecord::Clock(sample) => {
                self.clocks.entry((sample.clock, sample.ordinal)).or_default().add(ticks, *sample);
                return;
            }
            // CUPTI has one clock for all devices.
            GpuRecord::Kernel(it) => ((GpuClockSample::Cupti, ALL_DEVICES), it.start_ns, it.end_ns, 0),
            GpuRecord::Copy(it) => ((GpuClockSample::Cupti, ALL_DEVICES), it.start_ns, it.end_ns, 0),
            GpuRecord::LaunchTime(it) => {
                ((GpuClockSample::Events, it.ordinal), it.start_ns, it.end_ns, it.uncertainty_ns.into())
            }
            _ => return,
        };
        // A running kernel has no end.
        if launch != 0 && start_ns != 0 && end_ns != 0 {
            let span = Span { clock, ticks, start_ns, end_ns, uncertainty_ns };
            let ran = self.launches.get_or(launch, ticks, Ran::default);
            let by = if clock.0 == GpuClockSample::Cupti { &mut ran.by_cupti } else { &mut ran.by_events };
            *by = Some(by.map_or(span, |known| known.widen(span)));
            if self.launches.len() > MOST_LAUNCHES
                && let Some(oldest) = self.launches.oldest(u64::MAX)
            {
                self.launches.remove(oldest);
            }
        }
    }

    pub(crate) fn times_launches(&self) -> bool {
        !self.clocks.is_empty()
    }

    pub(crate) fn has_timed(&self, launch: u64) -> bool {
        self.launches.get(launch).is_some()
    }

    /// Whether the time of a launch, or the next sample of its clock, is still expected.
    pub(crate) fn awaits(&self, launch: u64) -> bool {
        let Some(ran) = self.launches.get(launch) else {
            return !self.clocks.is_empty();
        };
        let mut spans = ran.by_cupti.iter().chain(&ran.by_events);
        let last = |span: &Span| Some(self.clocks.get(&span.clock)?.samples.back()?.0);
        spans.any(|span| last(span).is_some_and(|ticks| ticks <= span.ticks))
    }

    /// When a launch ran, with the error. `is_shared`: whether the launch ran several operations.
    pub(crate) fn ran(&mut self, launch: u64, is_shared: bool, host: &ProcessClock) -> Option<(Interval, u64)> {
        let ran = self.launches.get(launch)?;
        let by_cupti = ran.by_cupti.map(|span| (span, Timing::Cupti));
        let by_events = ran.by_events.map(|span| (span, Timing::Event));
        let placed = [by_cupti, by_events].into_iter().flatten().find_map(|(span, timing)| {
            let (from, to) = self.clocks.get_mut(&span.clock)?.place(&span, host)?;
            Some((span, timing, from, to))
        });
        let (span, timing, from, to) = placed?;
        let error_ns = from.uncertainty_ns.max(to.uncertainty_ns) + span.uncertainty_ns;
        let (start, end) = (from.host_ns, to.host_ns);
        Some((Interval { start, end, timing, unfinished: false, moved_ns: 0, is_shared }, error_ns))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// 0 until the start is read.
    start: u64,
    operation: u64,
    context: u32,
    channel: u8,
    is_awaited: bool,
    gpu_start_ns: u64,
    gpu_stop_ns: u64,
    /// When the state with the stop's stamp came.
    reported: u64,
    stop: u64,
}

/// How many trusted kernels of a channel are kept to compare new ones with.
const BELIEVED: usize = 8;

/// A kernel channel that ended. Times are ticks.
#[derive(Clone, Copy, Debug)]
struct Ended {
    id: u64,
    operation: u64,
    start: u64,
    reported: u64,
    stop: u64,
    is_judged: bool,
}

/// The works of a channel, with stamps that are plausible on their own.
#[derive(Debug, Default)]
struct Ring {
    coming: Vec<(Ended, (u64, u64))>,
    /// Works to be judged, and the last trusted ones, in launch order.
    works: Vec<StampedKernel<Ended>>,
}

/// A stamp of the GPU's timer that was not after a tick of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) operation: u64,
    pub(crate) gpu_ns: u64,
    pub(crate) ticks: u64,
}

/// Kernel channels that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    all: FxHashMap<u64, Channel>,
    rings: BTreeMap<(u32, u8), Ring>,
    /// Upper bounds for the GPUs' clocks, since they were last taken.
    pub(crate) bounds: Vec<Bound>,
    pub(crate) late: u64,
}

impl Kernels {
    pub(crate) fn start(
        &mut self,
        (id, ticks): (u64, u64),
        (operation, context): (u64, u32),
        fields: &KernelCh,
        (operations, seen): (&mut Operations, &SeenIds),
    ) {
        let is_awaited = operations.touch(operation, ticks, seen).map(|it| it.open += 1).is_some();
        let one = self.all.entry(id).or_default();
        let Channel { gpu_stop_ns, reported, stop, .. } = *one;
        let (channel, gpu_start_ns) = (fields.channel, fields.gpu_ns);
        *one = Channel {
            start: ticks,
            operation,
            context,
            channel,
            is_awaited,
            gpu_start_ns,
            gpu_stop_ns,
            reported,
            stop,
        };
        if stop != 0 {
            self.stop(id, stop, operations, seen);
        }
    }

    fn get(&mut self, id: u64, seen: &SeenIds) -> Option<&mut Channel> {
        if !self.all.contains_key(&id) {
            if seen.lifecycle(id) != Lifecycle::NotStarted {
                self.late += u64::from(seen.lifecycle(id) == Lifecycle::Ended);
                return None;
            }
            self.all.insert(id, Channel::default());
        }
        self.all.get_mut(&id)
    }

    /// NCCL reports when the GPU ended the channel.
    pub(crate) fn gpu_stopped(&mut self, id: u64, ticks: u64, gpu_ns: u64, seen: &SeenIds) {
        if let Some(channel) = self.get(id, seen)
            && channel.gpu_stop_ns == 0
        {
            (channel.gpu_stop_ns, channel.reported) = (gpu_ns, ticks);
        }
    }

    pub(crate) fn stop(&mut self, id: u64, ticks: u64, operations: &mut Operations, seen: &SeenIds) {
        let Some(channel) = self.get(id, seen) else {
            return;
        };
        if channel.start == 0 {
            channel.stop = ticks;
            return;
        }
        let channel = *channel;
        self.all.remove(&id);
        let Some(operation) = operations.get_mut(channel.operation) else {
            return;
        };
        operation.open = operation.open.saturating_sub(u32::from(channel.is_awaited));
        operation.kernel_on_host = widen(operation.kernel_on_host, channel.start, ticks.max(channel.start));
        operation.last = ticks.max(operation.last);
        if let Ok(stamps) = check_stamps(channel.gpu_start_ns, channel.gpu_stop_ns) {
            operation.unjudged += 1;
            let Channel { operation, start, reported, .. } = channel;
            let ended = Ended { id, operation, start, reported, stop: ticks, is_judged: false };
            self.rings.entry((channel.context, channel.channel)).or_default().coming.push((ended, stamps));
        }
    }

    /// Judges the stamps reported in a span of 2^`shift` ticks once all threads were read up to the end of the next
    /// span. Spans do not depend on when they are read, so neither does the verdict.
    pub(crate) fn judge(&mut self, until: u64, shift: u32, operations: &mut Operations) {
        for ring in self.rings.values_mut() {
            while let Some(span) = ring.first_span(shift).filter(|span| span + 2 <= until >> shift) {
                ring.take_in(span + 1, shift, operations);
                ring.judge(span, shift, &mut self.bounds, operations);
            }
        }
    }
}

impl Ring {
    fn first_span(&self, shift: u32) -> Option<u64> {
        let works = self.works.iter().map(|work| &work.of).filter(|of| !of.is_judged);
        works.chain(self.coming.iter().map(|(of, _)| of)).map(|of| of.stop >> shift).min()
    }

    fn take_in(&mut self, last: u64, shift: u32, operations: &Operations) {
        let ended = self.coming.extract_if(.., |(of, _)| of.stop >> shift <= last);
        for (of, (start_gpu_ns, stop_gpu_ns)) in ended {
            let started = operations.get(of.operation).and_then(|operation| operation.started);
            let (enqueued, plan) = started.map_or((of.start, 0), |started| (started.enqueued, started.plan));
            self.works.push(StampedKernel { enqueued, plan, start_gpu_ns, stop_gpu_ns, of });
        }
        let order =
            |work: &StampedKernel<Ended>| (work.enqueued, work.plan, work.start_gpu_ns, work.stop_gpu_ns, work.of.id);
        if !self.works.is_sorted_by_key(order) {
            self.works.sort_unstable_by_key(order);
        }
    }

    fn judge(&mut self, span: u64, shift: u32, bounds: &mut Vec<Bound>, operations: &mut Operations) {
        let mut distrusted = Vec::new();
        find_untrusted(&self.works, |of, _| distrusted.push(of.id));
        distrusted.sort_unstable();
        let mut believed = 0;
        self.works.retain_mut(|work| {
            let of = &mut work.of;
            if of.is_judged || of.stop >> shift != span {
                believed += usize::from(of.is_judged);
                return true;
            }
            of.is_judged = true;
            let Some(operation) = operations.get_mut(of.operation) else {
                return false;
            };
            operation.unjudged = operation.unjudged.saturating_sub(1);
            if distrusted.binary_search(&of.id).is_ok() {
                return false;
            }
            operation.gpu = widen(operation.gpu, work.start_gpu_ns, work.stop_gpu_ns);
            let bound = |gpu_ns, ticks| Bound { operation: of.operation, gpu_ns, ticks };
            bounds.push(bound(work.start_gpu_ns, of.start));
            bounds.extend((of.reported != 0).then(|| bound(work.stop_gpu_ns, of.reported)));
            believed += 1;
            true
        });
        self.works.retain(|work| {
            let is_forgotten = work.of.is_judged && believed > BELIEVED;
            believed -= usize::from(is_forgotten);
            !is_forgotten
        });
    }
}

/// Limit on the bounds that are kept on either side.
const MOST_BOUNDS: usize = 64;
/// The clock is fitted after each of the `FIRST` operations, then after every `OPERATIONS`, or after `MOST_AGE_NS`.
const FIRST: u64 = 16;
const OPERATIONS: u64 = 64;
const MOST_AGE_NS: u64 = 1_000_000_000;

/// The GPU's timer on the host's clock, from the latest bounds of a communicator rank: pairs of a stamp and a host time
/// in ns. The stamp was not before (`lower`) or not after (`upper`) that time.
///
/// A kernel is placed by its own bounds and earlier ones. Only kernels decide when the clock is fitted again, so that
/// times do not depend on when they are queried.
#[derive(Debug, Default)]
pub(crate) struct RecentBounds {
    lower: VecDeque<(u64, u64)>,
    upper: VecDeque<(u64, u64)>,
    operations: u64,
    fitted_gpu_ns: u64,
    clock: GpuClock,
}

fn keep(bounds: &mut VecDeque<(u64, u64)>, bound: Option<(u64, u64)>) {
    bounds.extend(bound);
    if bounds.len() > MOST_BOUNDS {
        bounds.pop_front();
    }
}

impl RecentBounds {
    /// Adds an operation whose kernel began at this stamp. Operations must come in order.
    pub(crate) fn add(&mut self, gpu_ns: u64, not_before: Option<(u64, u64)>, not_after: Option<(u64, u64)>) {
        keep(&mut self.lower, not_before);
        keep(&mut self.upper, not_after);
        self.operations += 1;
        let is_old = gpu_ns.saturating_sub(self.fitted_gpu_ns) >= MOST_AGE_NS;
        if self.operations <= FIRST || self.operations.is_multiple_of(OPERATIONS) || is_old {
            self.fitted_gpu_ns = gpu_ns;
            self.fit();
        }
    }

    fn fit(&mut self) {
        let mut bounds = StampBounds::default();
        self.lower.iter().for_each(|&(gpu_ns, host_ns)| bounds.not_before(gpu_ns, host_ns));
        self.upper.iter().for_each(|&(gpu_ns, host_ns)| bounds.not_after(gpu_ns, host_ns));
        self.clock = bounds.clock();
    }

    pub(crate) const fn clock(&self) -> &GpuClock {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    mod clock {
        use crate::process::gpu::*;

        fn pair(ticks: u64, monotonic_ns: u64) -> ClockPair {
            ClockPair { ticks, monotonic_ns, realtime_ns: 0, monotonic_raw_ns: 0, uncertainty_ticks: 40 }
        }

        /// 2 ticks per ns; from the third pair on the system's clock is 100 ns ahead.
        fn clock(pairs: usize) -> ProcessClock {
            let mut clock = ProcessClock::new(TickSource::Tsc, None);
            let all = [pair(10_000, 5_000), pair(20_000, 10_000), pair(40_000, 20_100), pair(60_000, 30_100)];
            all.into_iter().take(pairs).for_each(|pair| clock.add(pair));
            clock
        }

        #[test]
        fn a_time_does_not_depend_on_later_pairs() {
            for ticks in [0, 10_000, 19_998, 20_000, 39_999] {
                assert_eq!((clock(2).ns(ticks), clock(2).error_ns(ticks)), (ticks / 2, Some(10)));
                assert_eq!((clock(4).ns(ticks), clock(4).error_ns(ticks)), (ticks / 2, Some(10)));
            }
            assert_eq!((clock(3).ns(40_000), clock(3).error_ns(40_000)), (20_100, Some(110)));
            assert_eq!(clock(4).ns(59_999), clock(3).ns(59_999));
            assert_eq!(clock(2).before(39_999, 10_000), 19_999);
        }

        #[test]
        fn clock_lines_survive_until_backlog_is_read() {
            let mut clock = ProcessClock::new(TickSource::Tsc, None);
            // The n-th second lasts n ns.
            let at = |second: u64| pair(second * 1_000, (1..=second).sum());
            (1..2_000).for_each(|second| clock.add(at(second)));
            clock.update(10_000);
            assert_eq!(clock.ns(10_000), at(10).monotonic_ns);
            clock.update(1_999_000);
            assert_ne!(clock.ns(10_000), at(10).monotonic_ns);
            assert_eq!(clock.ns(1_900_000), at(1_900).monotonic_ns);
        }
    }

    mod work {
        use journal::clock::TickSource;
        use nccl_events::gpu::LaunchTime;

        use crate::process::gpu::*;

        /// Samples of a clock and times of launches are in different files. This clock's pace changes with each sample.
        #[test]
        fn times_do_not_depend_on_the_order_of_reading() {
            let sample = |at: u64| {
                let gpu_ns = at + at * at / 1_000_000;
                let sample = ClockSample { clock: GpuClockSample::Events, ordinal: 0, gpu_ns, uncertainty_ticks: 1 };
                (at, 0, GpuRecord::Clock(sample))
            };
            let time = |at: u64| {
                let [start_ns, end_ns] = [at - 400_000, at - 300_000].map(|ns| ns + ns * ns / 1_000_000);
                let time = LaunchTime { ordinal: 0, stream: 0, start_ns, end_ns, uncertainty_ns: 0 };
                (at, 7, GpuRecord::LaunchTime(time))
            };
            let samples = [1, 2, 3, 4, 5].map(|at| sample(1_000_000 * at));
            let host = ProcessClock::new(TickSource::Monotonic, None);
            let ran = |read_before: usize| {
                let mut work = GpuWork::default();
                let (before, after) = samples.split_at(read_before);
                for (ticks, launch, record) in before.iter().chain([&time(2_500_000)]).chain(after) {
                    work.add(*ticks, *launch, record);
                }
                assert!(!work.awaits(7));
                work.ran(7, false, &host).map(|(interval, error_ns)| (interval.start, interval.end, error_ns))
            };
            assert!(ran(2).is_some());
            assert_eq!([0, 1, 3, 5].map(ran), [ran(2); 4]);
        }
    }
}
