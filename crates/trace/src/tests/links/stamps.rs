//! GPU stamps that are of another kernel, or of none: NCCL's ring was overrun.

use crate::tests::stream::{Built, CONTEXT, Stream, kernel};
use crate::timeline::instance::InstanceKind;
use crate::timeline::location::{LocationKey, Owner};
use clocks::gpu::GpuCalibration;
use nccl_events::archive::Timing;
use nccl_events::{StateArgs, state};

/// How far the GPU's timer is ahead of the host's clock.
const AHEAD_NS: u64 = 1_000_000;

/// Kernels launched 10 µs apart, each 6 µs on the GPU, whose channel tells the stamps that `reported` gives for them.
fn kernels(number: u64, reported: impl Fn(u64) -> (u64, u64)) -> Built {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0);
    for kernel_number in 0..number {
        let (base, at) = (1000 * (kernel_number + 1), begin(kernel_number));
        // The Coll (base + 3) is of the launch plan base + 100.
        stream.collective(base, at, false);
        let (start, stop) = reported(kernel_number);
        let span = (at + 2_000, Some(at + 9_000));
        stream.event(base + 4, base + 3, span, kernel(start));
        let args = StateArgs::GpuTime { gpu_ns: stop };
        stream.state(base + 4, at + 9_000, state::KERNEL_CH_STOP, args);
    }
    stream.build()
}

const fn begin(kernel_number: u64) -> u64 {
    10_000 + 10_000 * kernel_number
}

/// What the GPU wrote: it began 1 µs after the launch.
const fn truth(kernel_number: u64) -> (u64, u64) {
    let start = begin(kernel_number) + 1_000 + AHEAD_NS;
    (start, start + 6_000)
}

fn channels(built: &Built) -> Vec<(u64, u64)> {
    let items = &built.locations[&(LocationKey::Channel(Owner::Context(0), 0), 0)];
    items.iter().filter(|item| item.0 == InstanceKind::Channel).map(|item| (item.1, item.2)).collect()
}

/// Kernel 2 of 5 is shown on host times, the others where they were, and the clock is as good as ever.
fn only_kernel_2_is_suspicious(built: &Built) {
    assert_eq!(built.counts.gpu_times_suspicious, 1);
    let clock = &built.model.gpu_clocks[0];
    assert_eq!(clock.quality.calibration, GpuCalibration::Bounded);
    let residual = clock.quality.residual_ns;
    assert!(residual < 3_000, "{clock:?}");
    let operations = built.operations();
    for (number, (operation, channel)) in (0..).zip(operations.iter().zip(channels(built))) {
        if number == 2 {
            let host = (begin(2) + 2_000, begin(2) + 9_000);
            assert_eq!(channel, host);
            let expected = (host.0, host.1, Timing::KernelChannelHost, false);
            assert_eq!(*operation, expected);
        } else {
            assert_eq!((operation.0, operation.1), channel, "kernel {number}");
            assert_eq!(operation.2, Timing::KernelChannel, "kernel {number}");
            let off = channel.0.abs_diff(truth(number).0 - AHEAD_NS);
            assert!(off <= residual, "kernel {number} is {off} ns off, {clock:?}");
        }
    }
    assert_eq!(operations.len(), 5);
}

#[test]
fn true_stamps_are_all_used() {
    let built = kernels(5, truth);
    assert_eq!(built.counts.gpu_times_suspicious, 0);
    assert_eq!(built.operations().len(), 5);
    let on_gpu = |operation: &(u64, u64, Timing, bool)| operation.2 == Timing::KernelChannel;
    assert!(built.operations().iter().all(on_gpu));
}

#[test]
fn the_stamps_of_a_later_kernel_are_not_used() {
    let built = kernels(5, |number| truth(if number == 2 { 4 } else { number }));
    assert_eq!(built.counts.gpu_times_repeated, 1);
    only_kernel_2_is_suspicious(&built);
}

#[test]
fn the_stop_of_a_later_kernel_is_not_used() {
    let built = kernels(5, |number| {
        let stop = truth(if number == 2 { 4 } else { number }).1;
        (truth(number).0, stop)
    });
    assert_eq!(built.counts.gpu_times_repeated, 1);
    only_kernel_2_is_suspicious(&built);
}

#[test]
fn the_stamps_of_a_later_kernel_that_was_not_recorded_are_not_used() {
    let built = kernels(5, |number| truth(if number == 2 { 7 } else { number }));
    assert_eq!(built.counts.gpu_times_out_of_order, 1);
    only_kernel_2_is_suspicious(&built);
}

#[test]
fn the_fewest_stamps_are_out_of_order() {
    for (stamps_of, count) in [([0, 1, 2, 9, 4, 5, 6], 1), ([7, 8, 0, 1, 2, 6, 3], 3)] {
        let built = kernels(7, |number| truth(stamps_of[usize::try_from(number).expect("few")]));
        assert_eq!(built.counts.gpu_times_out_of_order, count, "{stamps_of:?}");
    }
}

#[test]
fn stamps_that_end_before_they_begin_are_not_used() {
    let built = kernels(5, |number| match number {
        2 => (truth(2).0, truth(1).1 + 7),
        _ => truth(number),
    });
    assert_eq!(built.counts.gpu_times_backwards, 1);
    only_kernel_2_is_suspicious(&built);
}

#[test]
fn stamps_that_were_never_written_are_not_used() {
    for zero in [(0, truth(2).1), (truth(2).0, 0)] {
        let built = kernels(5, |number| if number == 2 { zero } else { truth(number) });
        assert_eq!(built.counts.gpu_times_zero, 1);
        only_kernel_2_is_suspicious(&built);
    }
}

#[test]
fn stamps_that_no_timer_shows_are_not_used() {
    for impossible in [(truth(2).0, u64::MAX), (1 << 63, (1 << 63) + 7)] {
        let stamps = |number| {
            if number == 2 { impossible } else { truth(number) }
        };
        let built = kernels(5, stamps);
        assert_eq!(built.counts.gpu_times_impossible, 1);
        only_kernel_2_is_suspicious(&built);
    }
}

#[test]
fn an_overrun_of_the_whole_ring_leaves_what_is_true() {
    // Kernels 20 to 39 were read when the GPU was a ring of 64 further.
    let is_overrun = |number| (20..40).contains(&number);
    let built = kernels(200, |number| truth(if is_overrun(number) { number + 64 } else { number }));
    assert_eq!(built.counts.gpu_times_repeated, 20);
    assert_eq!(built.counts.gpu_times_suspicious, 20);
    let clock = &built.model.gpu_clocks[0];
    assert_eq!(clock.quality.calibration, GpuCalibration::Bounded);
    for (number, operation) in (0..).zip(built.operations()) {
        let on_gpu = operation.2 == Timing::KernelChannel;
        assert_eq!(on_gpu, !is_overrun(number), "kernel {number}");
        let off = operation.0.abs_diff(truth(number).0 - AHEAD_NS);
        assert!(!on_gpu || off <= clock.quality.residual_ns, "kernel {number}: {off} ns off");
    }
}

#[test]
fn the_members_of_one_launch_share_their_stamps() {
    // Fused into one kernel, two operations may be one work of the channel.
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0);
    for id in [20, 21] {
        let coll = stream.coll(500, 0);
        stream.event(id, 0, (100, Some(101)), coll);
        stream.event(id + 10, id, (200, Some(300)), kernel(5_000));
        let args = StateArgs::GpuTime { gpu_ns: 6_000 };
        stream.state(id + 10, 300, state::KERNEL_CH_STOP, args);
    }
    assert_eq!(stream.build().counts.gpu_times_suspicious, 0);
}
