//! Phases of kernel channels, on the GPU's timer.

use crate::tests::stream::{Built, Item, Stream};
use nccl_events::{Body, Kind, StateArgs, event, state};
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;

const CHANNEL: u64 = 20;

/// A kernel channel from 1100 to `stop_gpu_ns` on the GPU with these phases. The GPU's clock is 1000 ahead.
fn build(stop_gpu_ns: u64, phases: &[(u64, u64)]) -> Built {
    let mut stream = Stream::with_rank();
    stream.channel(CHANNEL, 0, (100, 200), (1100, stop_gpu_ns));
    for (number, &(gpu_ns, stop)) in (0_u8..).zip(phases) {
        let id = 30 + u64::from(number);
        let fields = Body::KernelPhase(event::KernelPhase {
            channel: 0,
            phase: number,
            name: stream.symbols.intern("compute"),
            gpu_ns,
        });
        // Reported after the fact.
        stream.event(id, CHANNEL, (195, Some(195)), fields);
        stream.state(id, 195, state::KERNEL_PHASE_STOP, StateArgs::GpuTime { gpu_ns: stop });
    }
    stream.build()
}

fn location(built: &Built) -> &[Item] {
    built.recorded(LocationKey::Communicator(0))
}

#[test]
fn phases_are_within_their_channel() {
    let built = build(1180, &[(1100, 1110), (1110, 1170), (1171, 1180)]);
    let expected = [
        (InstanceKind::Phase, 100, 110),
        (InstanceKind::Phase, 110, 170),
        (InstanceKind::Channel, 100, 180),
        (InstanceKind::Phase, 171, 180),
    ];
    assert_eq!(location(&built), expected);
    assert_eq!(built.fates(Kind::KernelPhase), (3, 3, 0));
}

#[test]
fn phases_that_cannot_be_of_their_channel_are_counted_only() {
    let cases = [
        ((1090, 1110), "before it"),
        ((1110, 1190), "after it"),
        ((1110, 0), "no stop"),
        ((1120, 1110), "backwards"),
        ((1165, 1175), "in the middle of another"),
    ];
    for (phase, why) in cases {
        let built = build(1180, &[phase, (1160, 1170)]);
        assert_eq!(location(&built).len(), 2, "{why}");
        assert_eq!(built.fates(Kind::KernelPhase), (2, 1, 1), "{why}");
        assert_eq!(built.counts.gpu_times_suspicious, 1, "{why}");
    }
}
