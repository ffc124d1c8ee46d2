//! Traffic statements of a process: never more than is certain, and the same choice on both sides.

use crate::part::traffic::{End, Passage, Traffic};
use crate::tests::stream::{CONTEXT, Stream, launch_on, proxy_op, step};
use journal::format::RecordBody;
use journal::reader::Losses;
use nccl_events::{Body, Kind, StateArgs, event, state};

/// Rank 1 of 2, on `nodes` hosts.
fn on_hosts(nodes: i32) -> Stream {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 1);
    if let Some(RecordBody::CommInit(comm)) = stream.records.last_mut().map(|one| &mut one.body) {
        comm.nodes = nodes;
    }
    stream
}

fn traffic(stream: &mut Stream) -> Traffic {
    stream.traffic(&Losses::default())
}

fn times(passages: &[Passage]) -> Vec<(u64, u64)> {
    passages.iter().map(|one| (one.entered_ns, one.left_ns)).collect()
}

/// A collective launched from 103 to 105 and enqueued from 106 to 107, with transfers until 150 and 160.
fn with_transfers(nodes: i32, sends: bool, receives: bool) -> Traffic {
    let mut stream = on_hosts(nodes);
    stream.collective(10, 100, false);
    if sends {
        stream.event(20, 13, (110, Some(150)), proxy_op(true));
    }
    if receives {
        stream.event(21, 13, (110, Some(160)), proxy_op(false));
    }
    traffic(&mut stream)
}

#[test]
fn left_is_measured_and_needs_a_receive() {
    let all = with_transfers(2, true, true);
    assert_eq!(all.functions, ["AllReduce"]);
    assert_eq!(times(&all.passages), [(103, 160)]);
    // A rank that only sends may finish before the others arrive; the end of enqueueing shows nothing.
    assert_eq!(times(&with_transfers(2, true, false).passages), [(103, 0)]);
    assert_eq!(times(&with_transfers(2, false, false).passages), [(103, 0)]);
    // Processes of one host need no comparison.
    assert_eq!(with_transfers(1, true, true), Traffic::default());
}

#[test]
fn what_has_not_ended_is_not_left() {
    let mut stream = on_hosts(2);
    stream.collective(10, 100, false);
    stream.event(20, 13, (110, Some(150)), proxy_op(false));
    stream.event(21, 13, (110, None), proxy_op(false));
    // Progress, but no stop.
    stream.state(21, 120, state::PROXY_OP_IN_PROGRESS, StateArgs::None);
    assert_eq!(times(&traffic(&mut stream).passages), [(103, 0)]);
}

#[test]
fn without_a_launch_the_data_leaves_after_the_coll() {
    for (is_send, entered) in [(true, 106), (false, 0)] {
        let mut stream = on_hosts(2);
        stream.add_coll(13, 0, (106, 107), 0);
        stream.event(20, 13, (110, Some(150)), proxy_op(is_send));
        stream.event(21, 13, (110, Some(160)), proxy_op(false));
        assert_eq!(times(&traffic(&mut stream).passages), [(entered, 160)]);
    }
}

#[test]
fn the_first_of_several_launches_is_not_too_late() {
    let mut stream = on_hosts(2);
    stream.collective(10, 100, false);
    // Another plan of the group, launched before the first was reported.
    stream.event(19, 10, (105, Some(106)), launch_on(1));
    stream.event(21, 13, (110, Some(160)), proxy_op(false));
    assert_eq!(times(&traffic(&mut stream).passages), [(103, 160)]);
}

#[test]
fn a_root_waits_or_is_waited_for() {
    // Rank 1 as the root, and as another rank.
    for (func, root, expected) in
        [("Broadcast", 1, (103, 0)), ("Broadcast", 0, (0, 160)), ("Reduce", 1, (0, 160)), ("Reduce", 0, (103, 0))]
    {
        let mut stream = on_hosts(2);
        stream.collective(10, 100, false);
        stream.event(21, 13, (110, Some(160)), proxy_op(false));
        let name = stream.symbols.intern(func);
        for (_, start) in stream.starts_mut() {
            if let Body::Coll(coll) = &mut start.body {
                (coll.func, coll.root) = (name, root);
            }
        }
        assert_eq!(times(&traffic(&mut stream).passages), [expected], "{func} {root}");
    }
}

/// A message from rank 1 to rank 0, or back, with one step.
fn message(func: &str) -> Stream {
    let (mut stream, is_send) = (on_hosts(2), func != "Recv");
    let p2p =
        Body::P2p(event::P2p { func: stream.symbols.intern(func), count: 4, channels: 1, ..event::P2p::default() });
    stream.event(30, 0, (106, Some(107)), p2p);
    stream.event(31, 30, (110, Some(160)), proxy_op(is_send));
    stream.event(32, 31, (111, Some(150)), step(0));
    stream.event(33, 31, (112, Some(151)), step(1));
    stream
}

/// From, to, channel and step, whether it is the sender's end, time.
type TransferEnd = (u32, u32, (i32, i32), bool, u64);

fn ends(traffic: &Traffic) -> Vec<TransferEnd> {
    traffic.ends.iter().map(|end: &End| (end.from, end.to, end.part, end.is_send, end.ns)).collect()
}

#[test]
fn steps_are_sent_when_they_could_be_and_received_when_they_were() {
    let mut stream = message("Send");
    stream.state(32, 120, state::PROXY_STEP_SEND_PEER_WAIT, StateArgs::None);
    // Reported when the network may already have delivered the data.
    stream.state(32, 140, state::PROXY_STEP_SEND_WAIT, StateArgs::None);
    let sent = [(1, 0, (-1, -1), true, 106), (1, 0, (0, 0), true, 120)];
    assert_eq!(ends(&traffic(&mut stream)), sent);

    let mut stream = message("Recv");
    stream.state(32, 130, state::PROXY_STEP_RECV_FLUSH_WAIT, StateArgs::None);
    let received = [(0, 1, (-1, -1), false, 160), (0, 1, (0, 0), false, 130)];
    assert_eq!(ends(&traffic(&mut stream)), received);
}

#[test]
fn without_a_direction_or_where_some_were_lost_nothing_bounds_a_clock() {
    // Version 1 of the interface reports `SendRecv`, without a direction.
    assert_eq!(traffic(&mut message("SendRecv")), Traffic::default());
    let mut losses = Losses::default();
    losses.starts[Kind::P2p as usize] = 1;
    assert_eq!(message("Send").traffic(&losses), Traffic::default());

    let mut stream = on_hosts(2);
    stream.collective(10, 100, false);
    losses.starts[Kind::Coll as usize] = 1;
    assert_eq!(stream.traffic(&losses), Traffic::default());
}

#[test]
fn a_long_run_has_a_bounded_sample_that_is_the_same_elsewhere() {
    let sample = |pace: u64| {
        let mut stream = on_hosts(2);
        for number in 0..500 {
            let base = 10 + number * 1000;
            stream.collective(base, 100 + number * pace, false);
            for (id, start) in stream.starts_mut() {
                if let Body::Coll(coll) = &mut start.body
                    && id == base + 3
                {
                    (coll.sequence, coll.count) = (number, 1 + number * 7919 % 64);
                }
            }
        }
        traffic(&mut stream)
    };
    let (one, other) = (sample(20), sample(33));
    let keys = |traffic: &Traffic| traffic.passages.iter().map(|one| one.key).collect::<Vec<_>>();
    assert_eq!(keys(&one), keys(&other));
    assert!((32..=64).contains(&one.passages.len()), "{}", one.passages.len());
}
