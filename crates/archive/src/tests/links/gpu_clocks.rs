//! Which stamps contribute to a GPU's clock.

use crate::tests::stream::{CONTEXT, Stream, group_api, kernel, launch_on};
use clocks::gpu::{GpuCalibration, GpuClock};
use nccl_events::{StateArgs, state};

/// A kernel: its location, and when it was launched, reported and ended on the host, and began and ended on the GPU.
struct Kernel {
    context: u64,
    cuda_stream: u64,
    captured: bool,
    has_launch: bool,
    /// Times of the launch, the Coll, the callback with the start, and the callback with the stop.
    host_ns: [u64; 4],
    gpu_ns: (u64, u64),
}

/// The clocks of the ranks of two communicators that ran these kernels.
fn clocks(kernels: &[Kernel]) -> Vec<GpuClock> {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0).init(CONTEXT + 1, 6, 2, 0);
    clocks_of(stream, kernels)
}

fn clocks_of(mut stream: Stream, kernels: &[Kernel]) -> Vec<GpuClock> {
    for (number, of) in (1..).zip(kernels) {
        let base = 1000 * number;
        let [launched, coll_at, reported, ended] = of.host_ns;
        let call = stream.call_on(of.cuda_stream, of.captured);
        let coll = stream.coll(base + 100, 0);
        let context = CONTEXT + of.context;
        let call_at = (launched - 2, Some(launched - 1));
        stream.event_of(context, base, 0, (launched - 3, Some(coll_at)), group_api(of.captured, 1));
        stream.event_of(context, base + 1, base, call_at, call);
        if of.has_launch {
            stream.event_of(context, base + 2, base, (launched, Some(launched + 1)), launch_on(of.cuda_stream));
        }
        stream.event_of(context, base + 3, base + 1, (coll_at, Some(coll_at)), coll);
        stream.event_of(context, base + 4, base + 3, (reported, Some(ended)), kernel(of.gpu_ns.0));
        stream.state(base + 4, ended, state::KERNEL_CH_STOP, StateArgs::GpuTime { gpu_ns: of.gpu_ns.1 });
    }
    stream.build().model.gpu_clocks
}

/// How far the GPU's timer is ahead in these tests.
const AHEAD_NS: u64 = 1_000_000;

/// A kernel that takes 10 µs on the GPU.
const fn kernel_of(context: u64, cuda_stream: u64, host_ns: [u64; 4], start_gpu_ns: u64) -> Kernel {
    let gpu_ns = (start_gpu_ns, start_gpu_ns + 10_000);
    Kernel { context, cuda_stream, captured: false, has_launch: true, host_ns, gpu_ns }
}

/// A kernel that begins at 100 µs, launched 1 µs before, reported 1 µs after.
const fn tight(context: u64, cuda_stream: u64) -> Kernel {
    kernel_of(context, cuda_stream, [99_000, 99_500, 101_000, 111_000], 100_000 + AHEAD_NS)
}

/// A kernel that begins at 300 µs, launched 200 µs before, reported 200 µs after.
const fn loose(context: u64, cuda_stream: u64) -> Kernel {
    kernel_of(context, cuda_stream, [100_000, 100_500, 500_000, 510_000], 300_000 + AHEAD_NS)
}

#[test]
fn ranks_on_one_gpu_have_one_clock_as_good_as_the_best() {
    let clocks = clocks(&[tight(0, 0x70), loose(1, 0x70)]);
    assert_eq!(clocks[0], clocks[1]);
    assert_eq!(clocks[0].quality.calibration, GpuCalibration::Bounded);
    assert!(clocks[0].quality.residual_ns < 5_000, "{clocks:?}");
}

#[test]
fn ranks_on_different_gpus_have_different_clocks() {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0).init(CONTEXT + 1, 5, 2, 1);
    let clocks = clocks_of(stream, &[tight(0, 0x70), loose(1, 0x80)]);
    let residuals = [clocks[0].quality.residual_ns, clocks[1].quality.residual_ns];
    assert!(residuals[0] < 5_000 && residuals[1] > 200_000, "{clocks:?}");
}

#[test]
fn ranks_whose_bounds_contradict_are_not_on_one_gpu_after_all() {
    let mut other = tight(1, 0x70);
    other.gpu_ns = (other.gpu_ns.0 + AHEAD_NS, other.gpu_ns.1 + AHEAD_NS);
    let clocks = clocks(&[tight(0, 0x70), other]);
    for (clock, ahead) in clocks.iter().zip([AHEAD_NS, 2 * AHEAD_NS]) {
        assert_eq!(clock.quality.calibration, GpuCalibration::Bounded);
        let off = clock.host_ns(100_000 + ahead).abs_diff(100_000);
        assert!(off <= clock.quality.residual_ns && off < 2_000, "{clocks:?}");
    }
}

#[test]
fn the_kernel_of_a_graph_begins_after_its_operation_was_started() {
    // Captured long before, or without a recorded launch; the replay's Coll starts 1 µs before the kernel.
    for has_launch in [true, false] {
        let host_ns = [1_000, 99_000, 101_000, 111_000];
        let replay = Kernel { captured: true, has_launch, host_ns, ..tight(0, 0x70) };
        let clock = &clocks(&[replay])[0];
        assert_eq!(clock.quality.calibration, GpuCalibration::Bounded);
        assert!(clock.quality.residual_ns < 5_000, "{clock:?}");
    }
}

/// A kernel that begins at `host_ns`, with 5 µs before and after; the GPU's timer is then `ahead_ns` ahead.
const fn at(context: u64, cuda_stream: u64, host_ns: u64, ahead_ns: u64) -> Kernel {
    let reported = [host_ns - 5_000, host_ns - 4_000, host_ns + 5_000, host_ns + 15_000];
    kernel_of(context, cuda_stream, reported, host_ns + ahead_ns)
}

/// The clock would bend back and forth only because another GPU's stamps were mixed in.
#[test]
fn two_gpus_taken_for_one_do_not_bend() {
    let kernel = |number: u64| at(number % 2, 0x70, number * 100_000_000, AHEAD_NS + 15_000 * (number % 2));
    let clocks = clocks(&(1..=40).map(kernel).collect::<Vec<_>>());
    for (clock, offset) in clocks.iter().zip([AHEAD_NS, AHEAD_NS + 15_000]) {
        assert_eq!(clock.quality.calibration, GpuCalibration::Bounded);
        let off = clock.host_ns(1_000_000_000 + offset).abs_diff(1_000_000_000);
        assert!(off <= clock.quality.residual_ns && off < 6_000, "{clocks:?}");
    }
}
