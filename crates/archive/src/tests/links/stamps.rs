//! GPU stamps that belong to another kernel, or to none: NCCL's ring was overrun.

use crate::tests::stream::{Built, Stream};
use clocks::gpu::GpuCalibration;
use nccl_events::archive::Timing;
use nccl_events::schema::Counts;
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;

/// How far the GPU's timer is ahead of the host's clock.
const AHEAD_NS: u64 = 1_000_000;

/// Kernels launched 10 µs apart, each 6 µs on the GPU, with the stamps that `reported` gives for them.
fn kernels(number: u64, reported: impl Fn(u64) -> (u64, u64)) -> Built {
    let mut stream = Stream::with_rank();
    for kernel_number in 0..number {
        let (base, at) = (1000 * (kernel_number + 1), begin(kernel_number));
        // The Coll (base + 3) belongs to launch plan base + 100.
        stream.collective(base, at, false);
        stream.channel(base + 4, base + 3, (at + 2_000, at + 9_000), reported(kernel_number));
    }
    stream.build()
}

const fn begin(kernel_number: u64) -> u64 {
    10_000 + 10_000 * kernel_number
}

/// The true stamps: the kernel began 1 µs after its launch.
const fn truth(kernel_number: u64) -> (u64, u64) {
    let start = begin(kernel_number) + 1_000 + AHEAD_NS;
    (start, start + 6_000)
}

fn channels(built: &Built) -> Vec<(u64, u64)> {
    let items = built.recorded(LocationKey::Communicator(0));
    items.iter().filter(|item| item.0 == InstanceKind::Channel).map(|item| (item.1, item.2)).collect()
}

/// Kernel 2 of 5 is shown on host times, the others stay where they were, and the clock is as good as before.
fn only_kernel_2_is_suspicious(built: &Built, case: &str) {
    assert_eq!(built.counts.gpu_times_suspicious, 1, "{case}");
    let clock = &built.model.gpu_clocks[0];
    assert_eq!(clock.quality.calibration, GpuCalibration::Bounded, "{case}");
    let residual = clock.quality.residual_ns;
    assert!(residual < 3_000, "{case}: {clock:?}");
    let operations = built.operations();
    for (number, (operation, channel)) in (0..).zip(operations.iter().zip(channels(built))) {
        if number == 2 {
            let host = (begin(2) + 2_000, begin(2) + 9_000);
            assert_eq!(channel, host, "{case}");
            assert_eq!(*operation, (host.0, host.1, Timing::KernelChannelHost, false), "{case}");
        } else {
            assert_eq!((operation.0, operation.1), channel, "{case}: kernel {number}");
            assert_eq!(operation.2, Timing::KernelChannel, "{case}: kernel {number}");
            let off = channel.0.abs_diff(truth(number).0 - AHEAD_NS);
            assert!(off <= residual, "{case}: kernel {number} is {off} ns off, {clock:?}");
        }
    }
    assert_eq!(operations.len(), 5);
}

#[test]
fn stamps_that_cannot_be_the_kernels_own_are_not_used() {
    let (start, stop) = truth(2);
    let repeated: fn(&Counts) -> u64 = |counts| counts.gpu_times_repeated;
    let out_of_order: fn(&Counts) -> u64 = |counts| counts.gpu_times_out_of_order;
    let backwards: fn(&Counts) -> u64 = |counts| counts.gpu_times_backwards;
    let zero: fn(&Counts) -> u64 = |counts| counts.gpu_times_zero;
    let impossible: fn(&Counts) -> u64 = |counts| counts.gpu_times_impossible;
    for (case, stamps, count) in [
        ("those of a later kernel", truth(4), repeated),
        ("the stop of a later kernel", (start, truth(4).1), repeated),
        ("those of a later kernel that was not recorded", truth(7), out_of_order),
        ("the stop before the start", (start, truth(1).1 + 7), backwards),
        ("no start", (0, stop), zero),
        ("no stop", (start, 0), zero),
        ("a stop that no timer shows", (start, u64::MAX), impossible),
        ("a start that no timer shows", (1 << 63, (1 << 63) + 7), impossible),
    ] {
        let built = kernels(5, |number| if number == 2 { stamps } else { truth(number) });
        assert_eq!(count(&built.counts), 1, "{case}");
        only_kernel_2_is_suspicious(&built, case);
    }
}

#[test]
fn the_members_of_one_launch_share_their_stamps() {
    // Two operations fused into one kernel may share one work of the channel.
    let mut stream = Stream::with_rank();
    for id in [20, 21] {
        stream.add_coll(id, 0, (100, 101), 500);
        stream.channel(id + 10, id, (200, 300), (5_000, 6_000));
    }
    assert_eq!(stream.build().counts.gpu_times_suspicious, 0);
}
