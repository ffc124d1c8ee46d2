//! Proxy steps: what they waited for, one after the other, and their records on the thread of the proxy.

use crate::tests::stream::{Built, FOREIGN, Stream, proxy_op, step};
use journal::part::environment::Level;
use nccl_events::archive::Timing;
use nccl_events::{Body, Kind, StateArgs, event, state};
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;
use timeline::locations::network::StepWaits;

const OP: u64 = 20;

/// A rank with a proxy operation that stops at `stop`.
fn transfer(is_send: bool, stop: Option<u64>) -> Stream {
    let mut stream = Stream::with_rank();
    stream.event(OP, 0, (100, stop), proxy_op(is_send));
    stream
}

const THREAD: LocationKey = LocationKey::Proxy(0);

/// The steps on the thread of the proxy: start and end.
fn steps(built: &Built) -> Vec<(u64, u64)> {
    let items = built.recorded(THREAD).iter().filter(|(kind, ..)| *kind == InstanceKind::Step);
    items.map(|&(_, start, end)| (start, end)).collect()
}

/// What the steps that ended at `end` waited for.
fn waits(built: &Built, end: u64) -> Vec<StepWaits> {
    built.model.tables.rows::<event::ProxyStep>().map(|(_, step)| StepWaits::new(step, end)).collect()
}

fn states(stream: &mut Stream, id: u64, states: &[(u32, u64)]) {
    for &(number, time) in states {
        stream.state(id, time, number, StateArgs::ProxyStep { bytes: time });
    }
}

/// Whether the step sends, the reported states, the expected waits: for the GPU, the peer, the network, the flush.
type Case<'a> = (bool, &'a [(u32, u64)], [u64; 4]);

#[test]
fn what_a_step_waits_for_is_a_chain() {
    let cases: [Case<'_>; 5] = [
        // The peer's credit is requested repeatedly: the first time counts.
        (true, &[(8, 101), (20, 110), (20, 115), (20, 118), (9, 120)], [10, 10, 30, 0]),
        (true, &[(8, 101), (9, 120)], [20, 0, 30, 0]),
        (false, &[(10, 100), (11, 120), (12, 130)], [20, 0, 20, 10]),
        // The first state was lost.
        (false, &[(12, 130)], [20, 0, 30, 0]),
        (true, &[], [0, 0, 0, 0]),
    ];
    for (is_send, reported, [gpu_ns, peer_ns, network_ns, flush_ns]) in cases {
        let mut stream = transfer(is_send, Some(200));
        stream.event(30, OP, (100, Some(150)), step(3));
        states(&mut stream, 30, reported);
        let built = stream.build();
        assert_eq!(waits(&built, 150), [StepWaits { gpu_ns, peer_ns, network_ns, flush_ns }], "{reported:?}");
        assert_eq!(steps(&built), [(100, 150)]);
        assert_eq!(built.fates(Kind::ProxyStep), (1, 1, 0));
    }
}

#[test]
fn a_step_without_stop_ends_when_its_slot_is_used_again_or_its_operation_stops() {
    let mut stream = transfer(false, Some(190));
    stream.event(30, OP, (100, None), step(0));
    stream.event(31, OP, (140, None), step(8));
    let built = stream.build();
    assert_eq!(steps(&built), [(100, 140), (140, 190)]);
    assert_eq!((built.counts.closed, built.counts.starts_cut), (2, 0));
    assert_eq!(built.counts.kinds.get(Kind::ProxyStep).unfinished, 2);
}

#[test]
fn a_step_of_a_transfer_that_hangs_is_shown_to_the_end() {
    let mut stream = transfer(true, None);
    stream.state(OP, 101, state::PROXY_OP_IN_PROGRESS, StateArgs::None);
    stream.event(30, OP, (102, None), step(0));
    states(&mut stream, 30, &[(8, 103), (20, 104)]);
    stream.event(40, 0, (500, Some(800)), Body::Group(event::Group {}));
    let built = stream.build();
    assert_eq!(steps(&built), [(102, 800)]);
    assert_eq!(waits(&built, 800), [StepWaits { gpu_ns: 2, peer_ns: 696, ..StepWaits::default() }]);
    assert_eq!(built.counts.closed, 0);
}

#[test]
fn a_step_without_its_operation_is_counted() {
    let mut stream = transfer(true, Some(200));
    stream.event(30, 0, (100, Some(150)), step(0));
    stream.event(31, 999, (100, Some(150)), step(0));
    stream.event(32, 30, (100, Some(150)), step(0));
    let built = stream.build();
    assert_eq!(built.fates(Kind::ProxyStep), (3, 0, 3));
}

#[test]
fn transfers_for_another_process_are_on_the_thread_that_does_them() {
    let mut stream = Stream::with_rank();
    stream.event_of(FOREIGN, OP, FOREIGN | 1, (100, Some(190)), proxy_op(true));
    // The step's own context is not used: with PXN it is the other process's, without a pid.
    stream.event_of(FOREIGN, 30, OP, (110, Some(120)), step(9));
    let built = stream.build();
    assert_eq!(built.recorded(THREAD), [(InstanceKind::Step, 110, 120), (InstanceKind::Net, 100, 190)]);
}

/// A collective with a transfer of two steps that overlap: 1000 bytes from 120 to 130, 500 from 125 to 135.
fn overlapping_steps() -> Stream {
    let mut stream = Stream::with_rank();
    stream.collective(10, 100, false);
    stream.event(20, 13, (110, Some(150)), proxy_op(true));
    for (id, number, bytes, begin) in [(30, 0, 1000, 120), (31, 1, 500, 125)] {
        stream.event(id, 20, (112, Some(begin + 10)), step(number));
        let args = StateArgs::ProxyStep { bytes };
        stream.state(id, begin, state::PROXY_STEP_SEND_WAIT, args);
    }
    stream
}

#[test]
fn a_level_leaves_out_records_and_counts_but_knows_when_operations_ran() {
    for (level, operations, steps) in [(Level::Light, 0, 0), (Level::Standard, 1, 0), (Level::Full, 1, 2)] {
        let mut stream = overlapping_steps();
        stream.level = level;
        let built = stream.build();
        let counts = |kind| {
            let counts = built.counts.kinds.get(kind);
            assert!(counts.adds_up(), "{kind:?} {counts:?}");
            (counts.written, counts.left_out, counts.not_shown)
        };
        assert_eq!(counts(Kind::ProxyOp), (operations, 1 - operations, 0));
        assert_eq!(counts(Kind::ProxyStep), (steps, 2 - steps, 0));
        assert_eq!(built.order.contains(&THREAD), level != Level::Light, "{level:?}");
        assert_eq!(built.operations(), [(105, 150, Timing::Proxy, false)]);
    }
}
