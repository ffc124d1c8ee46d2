//! The intervals and locations of operations, from small streams with exact times.

use crate::tests::stream::{CONTEXT, Stream, proxy_op};
use journal::format::RecordBody;
use model::communicators::CommIdentity;
use nccl_events::archive::Timing;
use nccl_events::{Body, StateArgs, event, state};
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;
use timeline::messages::Role;

#[test]
fn an_operation_is_never_its_enqueueing_when_more_is_known() {
    let mut stream = Stream::with_rank();
    stream.collective(10, 100, false);
    let enqueue = stream.build().operations();
    assert_eq!(enqueue, [(106, 107, Timing::Enqueue, false)]);

    stream.init(CONTEXT, 5, 2, 0);
    stream.collective(10, 100, false);
    stream.event(20, 13, (110, Some(150)), proxy_op(true));
    stream.event(21, 13, (110, Some(160)), proxy_op(false));
    let proxy = stream.build().operations();
    assert_eq!(proxy, [(105, 160, Timing::Proxy, false)], "launch stop to last transfer");

    stream.init(CONTEXT, 5, 2, 0);
    stream.collective(10, 100, false);
    stream.event(21, 13, (110, Some(160)), proxy_op(false));
    stream.channel(22, 13, (115, 165), (1110, 1150));
    // Launch start 103 and callback 115 for the stamp 1110, callback 165 for 1150: offset −1007 … −995, less the step
    // of the timer, which may be 40 given these stamps.
    assert_eq!(stream.build().operations(), [(89, 129, Timing::KernelChannel, false)]);
}

#[test]
fn what_is_only_enqueued_runs_with_its_kernel_and_after_earlier_ones() {
    let mut stream = Stream::with_rank();
    // One plan: an operation with a transfer, and an operation without anything linked to it.
    for (id, at) in [(10, 100), (11, 102)] {
        stream.add_coll(id, 0, (at, at + 4), 90);
    }
    stream.event(20, 10, (108, Some(200)), proxy_op(true));
    // The next plan is enqueued while that kernel runs, and has nothing linked to it.
    stream.add_coll(30, 0, (120, 121), 91);
    let built = stream.build();
    let expected =
        [(100, 200, Timing::Proxy, false), (100, 200, Timing::Kernel, false), (200, 200, Timing::Enqueue, false)];
    assert_eq!(built.operations(), expected);
    let moved: Vec<u64> = built.model.intervals.iter().flatten().map(|i| i.moved_ns).collect();
    assert_eq!(moved, [0, 0, 80]);
    assert_eq!((built.counts.starts_moved, built.counts.starts_cut), (1, 0));
    let shown = [(InstanceKind::Fused, 100, 200), (InstanceKind::Operation, 200, 200)];
    assert_eq!(built.location(LocationKey::Communicator(0)), shown);
    let records = [(InstanceKind::Operation, 100, 200); 2];
    assert_eq!(built.recorded(LocationKey::Communicator(0)), records);
}

#[test]
fn enqueueings_that_are_reported_together_follow_each_other() {
    let mut stream = Stream::with_rank();
    // Started one after the other, then stopped in the same order; then strictly one after the other.
    for (id, plan, start, stop) in
        [(10, 90, 100, 150), (11, 90, 102, 151), (12, 90, 104, 152), (13, 91, 200, 210), (14, 91, 220, 230)]
    {
        stream.add_coll(id, 0, (start, stop), plan);
    }
    let built = stream.build();
    let spans: Vec<(u64, u64)> = built
        .location(LocationKey::Thread(0))
        .iter()
        .filter(|(shape, ..)| *shape == InstanceKind::Enqueue)
        .map(|&(_, start, end)| (start, end))
        .collect();
    let expected = [(100, 102), (102, 104), (104, 150), (200, 210), (220, 230)];
    assert_eq!(spans, expected);
    assert_eq!(built.counts.enqueued_together, 3);
}

#[test]
fn transfers_overlap_on_their_thread_which_is_busy_meanwhile() {
    let mut stream = Stream::with_rank();
    for (id, start, progress, end) in [(20, 100, 105, 150), (21, 101, 160, 190), (22, 300, 300, 310)] {
        stream.event(id, 0, (start, Some(end)), proxy_op(true));
        stream.state(id, progress, state::PROXY_OP_IN_PROGRESS, StateArgs::None);
    }
    let built = stream.build();
    let (net, busy) = (InstanceKind::Net, InstanceKind::Busy);
    assert_eq!(built.recorded(LocationKey::Proxy(0)), [(net, 100, 150), (net, 101, 190), (net, 300, 310)]);
    assert_eq!(built.location(LocationKey::Proxy(0)), [(busy, 100, 190), (busy, 300, 310)]);
}

#[test]
fn a_thread_is_busy_around_its_states_only() {
    let mut stream = Stream::with_rank();
    // The second transfer begins in the state in which the first one ends.
    for (id, start, end) in [(20, 100, 112), (21, 118, 150)] {
        stream.event(id, 0, (start, Some(end)), proxy_op(true));
        stream.state(id, start, state::PROXY_OP_IN_PROGRESS, StateArgs::None);
    }
    for (id, start, end) in [(30, 110, 120), (31, 130, 140)] {
        stream.event(id, 0, (start, Some(end)), Body::ProxyCtrl(event::ProxyCtrl {}));
        stream.state(id, start, state::PROXY_CTRL_APPEND, StateArgs::ProxyCtrl { appended: 1 });
    }
    let (busy, append) = (InstanceKind::Busy, InstanceKind::ProxyAppend);
    let built = stream.build();
    let mut shown = built.location(LocationKey::Proxy(0)).to_vec();
    shown.sort_by_key(|(_, start, _)| *start);
    let expected = [(busy, 100, 110), (append, 110, 120), (busy, 120, 130), (append, 130, 140), (busy, 140, 150)];
    assert_eq!(shown, expected);
}

#[test]
fn what_hangs_is_unfinished_and_only_transfers_wait_behind_it() {
    for (has_transfer, second) in [(true, (900, 900, true)), (false, (206, 207, false))] {
        let mut stream = Stream::with_rank();
        stream.collective(10, 100, false);
        stream.event(1000, 13, (108, None), proxy_op(true));
        stream.state(1000, 109, state::PROXY_OP_IN_PROGRESS, StateArgs::None);
        stream.collective(20, 200, false);
        if has_transfer {
            stream.event(1001, 23, (208, None), proxy_op(true));
        }
        stream.put(1, 900, 0, RecordBody::ThreadEnd);
        let spans: Vec<_> = stream.build().operations().iter().map(|o| (o.0, o.1, o.3)).collect();
        assert_eq!(spans, [(105, 900, true), second]);
    }
}

#[test]
fn connections_that_nccl_never_reports_on_do_not_look_like_hangs() {
    let mut stream = Stream::with_rank();
    stream.collective(10, 100, false);
    stream.event(1000, 13, (108, None), proxy_op(false));
    stream.put(1, 900, 0, RecordBody::ThreadEnd);
    let built = stream.build();
    assert_eq!(built.operations(), [(106, 107, Timing::Enqueue, false)]);
    assert_eq!(built.counts.closed, 1);
}

#[test]
fn old_versions_are_identified_by_what_operations_carry() {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 0, 0, -1);
    stream.init(CONTEXT + 1, 0, 0, -1);
    let coll = stream.coll(0, 0xbeef);
    stream.event(20, 0, (100, Some(110)), coll);
    let comms = &stream.build().model.comms;
    assert_eq!(comms.comms[0].identity, CommIdentity::Hash);
    assert_eq!((comms.comms[0].comm_id, comms.members[0].rank), (0xbeef, 1));
    assert_eq!(comms.comms[1].identity, CommIdentity::Part);
}

#[test]
fn records_of_a_fused_kernel_are_in_the_order_of_enqueueing() {
    // On another rank the first may end last: the order must be the same there.
    for ends in [(150, 170), (170, 150)] {
        let mut stream = Stream::with_rank();
        for (id, at, end) in [(10, 100, ends.0), (11, 100, ends.1)] {
            stream.add_coll(id, 0, (at, at + 4), 90);
            stream.event(id + 10, id, (108, Some(end)), proxy_op(true));
        }
        let records = &stream.build().records[&LocationKey::Communicator(0)];
        let order: Vec<(u32, Role)> = records.iter().map(|m| (m.operation, m.role)).collect();
        let expected = [
            (0, Role::CollectiveBegin),
            (0, Role::CollectiveEnd),
            (1, Role::CollectiveBegin),
            (1, Role::CollectiveEnd),
        ];
        assert_eq!(order, expected, "ends {ends:?}");
    }
}

#[test]
fn a_location_is_named_by_the_thread_that_did_something() {
    let mut stream = Stream::default();
    // The maintenance thread's slot is begun by the thread of the first init.
    for (slot, name) in [(0, "maintenance"), (1, "main")] {
        let (thread_id, name) = (100, name.to_owned());
        stream.put(slot, 0, 0, RecordBody::ThreadBegin { thread_id, name });
    }
    stream.init(CONTEXT, 5, 2, 0);
    stream.records[2].slot = 1;
    assert_eq!(stream.build().threads, ["main"]);
}

#[test]
fn a_copy_engine_collective_without_a_stop_is_not_said_to_be_a_transfer() {
    let mut stream = Stream::with_rank();
    let batch = Body::CeBatch(event::CeBatch { operations: 2, bytes: 64, intra_sync: false });
    stream.event(20, 0, (100, None), Body::CeColl(event::CeColl::default()));
    stream.event(22, 20, (110, Some(120)), batch);
    stream.event(40, 0, (500, Some(800)), Body::Group(event::Group {}));
    assert_eq!(stream.build().operations(), [(100, 800, Timing::Enqueue, true)]);
}

/// Operations of one kernel each, with a transfer that ends at this time, or does not end.
fn with_transfers(operations: &[(u64, Option<u64>)]) -> Stream {
    let mut stream = Stream::with_rank();
    for (number, &(at, end)) in (1..).zip(operations) {
        let (coll, transfer) = (10 * number, 10 * number + 1);
        stream.add_coll(coll, 0, (at, at + 1), 900 + number);
        stream.event(transfer, coll, (at + 2, end), proxy_op(true));
        stream.state(transfer, at + 3, state::PROXY_OP_IN_PROGRESS, StateArgs::None);
    }
    stream
}

#[test]
fn kernels_follow_each_other() {
    let rank = LocationKey::Communicator(0);
    let (one, fused) = (InstanceKind::Operation, InstanceKind::Fused);
    // The second is over before the first, the third ends later.
    let built = with_transfers(&[(100, Some(200)), (110, Some(150)), (120, Some(300))]).build();
    assert_eq!(built.location(rank), [(fused, 100, 200), (one, 200, 300)]);
    assert_eq!(built.recorded(rank), [(one, 110, 150), (one, 100, 200)]);
    let roles: Vec<(u32, Role)> = built.records[&rank].iter().map(|m| (m.operation, m.role)).collect();
    let collective = |operation| [(operation, Role::CollectiveBegin), (operation, Role::CollectiveEnd)];
    assert_eq!(roles, [collective(0), collective(1), collective(2)].concat());
}

#[test]
fn what_did_not_end_had_ended_when_a_later_kernel_began() {
    let mut stream = with_transfers(&[(100, None), (110, None)]);
    stream.add_coll(30, 0, (400, 401), 903);
    stream.channel(31, 30, (410, 480), (1410, 1450));
    stream.put(1, 900, 0, RecordBody::ThreadEnd);
    let built = stream.build();
    let shown = built.location(LocationKey::Communicator(0)).to_vec();
    let begin = shown[2].1;
    assert!(begin < 500, "{shown:?}");
    assert_eq!(shown[..2], [(InstanceKind::Operation, 100, begin), (InstanceKind::Operation, begin, begin)]);
}
