//! The clocks of a process's GPUs, and when work ran on the GPUs: by the stamps of kernel channels, by CUPTI, and by
//! CUDA events.
//!
//! A time is converted with records up to the first one after it, whenever the conversion happens. So reading a journal
//! again gives the same sums.

use std::collections::{BTreeMap, VecDeque};

use crate::process::operations::{Operations, widen};
use crate::process::{Kept, Lifecycle, SeenIds};
use clocks::gpu::{GpuClock, HostTime, Sample, SampleClock, StampBounds};
use clocks::running::RunningClock;
use journal::format::Symbol;
use model::links::gpu_stamps::{StampedKernel, check_stamps, find_untrusted};
use model::links::intervals::Interval;
use nccl_events::archive::Timing;
use nccl_events::event::KernelCh;
use nccl_events::gpu::{ALL_DEVICES, ClockSample, GpuClock as GpuClockSample, GpuRecord};
use rustc_hash::FxHashMap;

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
    fn place(&mut self, span: &Span, host: &RunningClock) -> Option<(HostTime, HostTime)> {
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
    pub(crate) fn ran(&mut self, launch: u64, is_shared: bool, host: &RunningClock) -> Option<(Interval, u64)> {
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
            let host = RunningClock::new(TickSource::Monotonic, None);
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
