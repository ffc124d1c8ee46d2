//! Kernels and copies: their locations and their operations.

use crate::tests::stream::{Built, CUPTI_AHEAD, Stream};
use clocks::gpu::GpuCalibration;
use model::links::gpu_work::{GpuStream, Link};
use nccl_events::archive::Timing;
use nccl_events::gpu::{ALL_DEVICES, Copy, GpuClock, GpuRecord, LaunchTime};
use nccl_events::schema::GpuCounts;
use nccl_events::{Body, event};

pub(super) const STREAM: GpuStream = GpuStream { ordinal: 3, context: 1, stream: 7 };

pub(super) fn fates(built: &Built) -> GpuCounts {
    built.model.links.gpu.fates
}

pub(super) fn links(built: &Built) -> Vec<(Link, u64, u64)> {
    built.model.links.gpu.all.iter().map(|work| (work.link, work.external, work.parent)).collect()
}

#[test]
fn kernels_outrank_events_and_events_kernel_channels() {
    let build = |with_kernel: bool, with_event: bool| {
        let mut stream = Stream::with_gpu();
        for time in [0, 10_000] {
            stream.sample(GpuClock::Events, 3, time, time + 500);
        }
        stream.collective(10, 100, false);
        stream.channel(22, 13, (115, 165), (1110, 1150));
        if with_kernel {
            stream.add_kernel(12, (106, 160));
        }
        if with_event {
            let time = LaunchTime { ordinal: 3, uncertainty_ns: 2, stream: 1, start_ns: 104 + 500, end_ns: 163 + 500 };
            stream.gpu(9000, 12, GpuRecord::LaunchTime(time));
        }
        stream.build().operations()[0]
    };
    assert_eq!(build(true, true), (106, 160, Timing::Cupti, false));
    assert_eq!(build(true, false), (106, 160, Timing::Cupti, false));
    assert_eq!(build(false, true), (104, 163, Timing::Event, false));
    assert_eq!(build(false, false).2, Timing::KernelChannel);
}

#[test]
fn one_kernel_carries_several_operations_and_one_operation_has_several_kernels() {
    let mut stream = Stream::with_gpu();
    stream.collective(10, 100, false);
    // A second operation in the same plan, from a call of its own.
    let call = stream.call_on(1, false);
    stream.event(110, 0, (105, Some(109)), Body::Group(event::Group {})).event(14, 10, (102, Some(103)), call);
    stream.add_coll(15, 14, (107, 108), 110);
    stream.add_kernel(12, (150, 400));
    stream.add_kernel(12, (410, 500));
    let built = stream.build();
    let both = (150, 500, Timing::Cupti, false);
    assert_eq!(built.operations(), [both, both]);
    assert!(built.model.intervals.iter().flatten().all(|interval| interval.is_shared));
    // Both are linked to the plan.
    assert_eq!(links(&built), [(Link::Launch, 12, 110); 2]);
    assert_eq!(fates(&built).launches_timed, 1);
}

#[test]
fn a_kernel_whose_launch_is_not_there_belongs_to_nothing() {
    let mut stream = Stream::with_gpu();
    stream.collective(10, 100, false);
    stream.add_kernel(999, (150, 400));
    // The id of an event that launches nothing does not count.
    stream.add_kernel(13, (500, 600));
    let built = stream.build();
    assert_eq!(built.operations()[0].2, Timing::Enqueue);
    let expected = [(Link::LaunchUnknown, 999, 0), (Link::LaunchUnknown, 13, 0)];
    assert_eq!(links(&built), expected);
    assert_eq!(fates(&built).kernels_without_launch, 2);
}

#[test]
fn times_that_cannot_be_placed_are_counted_and_not_shown() {
    let mut stream = Stream::with_rank();
    stream.sample(GpuClock::Cupti, ALL_DEVICES, 50, 50 + CUPTI_AHEAD);
    stream.collective(10, 100, false);
    stream.add_kernel(12, (150, 400));
    let time = LaunchTime { ordinal: 3, uncertainty_ns: 2, stream: 1, start_ns: 5, end_ns: 6 };
    stream.gpu(9000, 12, GpuRecord::LaunchTime(time));
    let built = stream.build();
    assert_eq!(built.operations()[0].2, Timing::Enqueue);
    let fates = fates(&built);
    assert_eq!((fates.not_placed, fates.events_not_used, fates.kernels_joined), (1, 1, 0));
    let clocks = &built.model.links.gpu.clocks.all;
    assert_eq!(clocks[&(GpuClock::Cupti, ALL_DEVICES)].quality.samples, 1);
}

#[test]
fn a_kernel_that_still_ran_is_unfinished() {
    let mut stream = Stream::with_gpu();
    stream.collective(10, 100, false);
    let mut running = stream.kernel((150, 400));
    running.end_ns = 0;
    stream.gpu(9000, 12, GpuRecord::Kernel(running));
    assert_eq!(stream.build().operations(), [(150, 10_000, Timing::Cupti, true)]);
}

#[test]
fn a_copy_engine_collective_ran_while_its_copies_did() {
    let mut stream = Stream::with_gpu();
    let collective = Body::CeColl(event::CeColl {
        func: stream.symbols.intern("AllGather"),
        count: 8,
        stream: 0x70,
        ..event::CeColl::default()
    });
    stream.event(20, 0, (100, Some(130)), collective);
    for (start, end) in [(200, 240), (220, 300)] {
        let copy = Copy {
            correlation: 5,
            device: 3,
            context: 1,
            stream: 8,
            start_ns: start + CUPTI_AHEAD,
            end_ns: end + CUPTI_AHEAD,
            ..Copy::default()
        };
        stream.gpu(9000, 20, GpuRecord::Copy(copy));
    }
    let built = stream.build();
    assert_eq!(built.operations(), [(200, 300, Timing::Cupti, false)]);
    assert_eq!(links(&built), [(Link::Launch, 20, 20); 2]);
    let fates = fates(&built);
    assert_eq!((fates.copies_shown, fates.copies_joined), (2, 2));
    assert_eq!(built.counts.starts_cut, 1);
}

#[test]
fn kernels_are_close_bounds_for_the_timer_of_kernel_channels() {
    let clock = |known: Option<(u64, u64)>| {
        let mut stream = Stream::with_gpu();
        stream.collective(10, 100, false);
        // The GPU's timer is 5000 ahead: the kernel ran from 2000 to 3000, and the host was told at 60000.
        stream.channel(22, 13, (60_000, 60_100), (7000, 8000));
        if let Some(span) = known {
            stream.add_kernel(12, span);
        }
        stream.build().model.gpu_clocks[0].clone()
    };
    let without = clock(None);
    assert_eq!((without.quality.calibration, without.quality.kernel_bounds), (GpuCalibration::Bounded, 0));
    let with = clock(Some((1980, 3010)));
    assert_eq!((with.quality.calibration, with.quality.kernel_bounds), (GpuCalibration::Bounded, 2));
    // Between 2000 − 20 and 3000 + 10, and one step of the timer (1000, as far as two stamps show), against 103 …
    // 60000.
    assert!(with.quality.residual_ns < 1600 && without.quality.residual_ns > 20_000, "{with:?} {without:?}");
    assert!(with.host_ns(7000).abs_diff(2000) <= with.quality.residual_ns, "{with:?}");
    assert_eq!(with.quality.kernel_slack_ns, 0);
    // The host was told 11 µs before the kernel's end: the bounds get some slack, and report it.
    let late = clock(Some((70_000, 71_010)));
    assert_eq!((late.quality.kernel_bounds, late.quality.kernel_slack_ns), (2, 16_000));
    assert!(late.quality.residual_ns < without.quality.residual_ns, "{late:?}");
    // Impossible times are not believed.
    let wrong = clock(Some((5_070_000, 5_071_010)));
    assert_eq!((wrong.quality.kernel_bounds, wrong.quality.kernels_contradict), (0, true));
    assert_eq!(wrong.quality.residual_ns, without.quality.residual_ns);
}
