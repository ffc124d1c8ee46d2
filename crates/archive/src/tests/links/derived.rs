//! Collectives that NCCL makes of sends and receives: recognised by their calls, shown around their members.

use crate::tests::stream::{Built, CONTEXT, Stream, proxy_op};
use journal::format::Symbol;
use nccl_events::collective::Pattern;
use nccl_events::{Body, event};
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;
use timeline::messages::Role;

const GROUP: u64 = 10;

/// A call of this rank, 1 of 3: a letter for each send and receive. Their ids count from 11.
fn call(stream: &mut Stream, depth: i32, calls: &str) {
    stream.init(CONTEXT, 5, 3, 1);
    let graph_captured = false;
    let group = Body::GroupApi(event::GroupApi { graph_captured, depth });
    stream.event(GROUP, 0, (100, Some(190)), group);
    for (id, func) in (GROUP + 1..).zip(calls.chars()) {
        let api = Body::P2pApi(event::P2pApi {
            func: func_of(stream, func),
            count: 4,
            datatype: stream.symbols.intern("ncclFloat32"),
            stream: 1,
            graph_captured,
            ..event::P2pApi::default()
        });
        let at = 100 + id - GROUP;
        stream.event(id, GROUP, (at, Some(at + 1)), api);
    }
}

fn func_of(stream: &mut Stream, func: char) -> Symbol {
    let name = if func == 'S' { "Send" } else { "Recv" };
    stream.symbols.intern(name)
}

/// The P2p of a call, with a transfer that ends at `until`.
fn member(stream: &mut Stream, call: u64, func: char, peer: i32, until: u64) {
    let p2p = Body::P2p(event::P2p {
        func: func_of(stream, func),
        datatype: stream.symbols.intern("ncclFloat32"),
        count: 4,
        peer,
        channels: 1,
        parent_group: 900,
        ..event::P2p::default()
    });
    let at = 200 + call - GROUP;
    stream.event(call + 100, call, (at, Some(220)), p2p);
    let transfer = proxy_op(func == 'S');
    stream.event(call + 200, call + 100, (230, Some(until)), transfer);
}

fn roles(built: &Built) -> Vec<Role> {
    built.records[&RANK].iter().map(|message| message.role).collect()
}

const RANK: LocationKey = LocationKey::Communicator(0);

fn patterns(built: &Built) -> Vec<(Pattern, u32)> {
    let derived = &built.model.links.derived;
    derived.all.iter().map(|one| (derived.call(one).expect("its call").pattern, one.missing)).collect()
}

#[test]
fn an_all_to_all_is_one_collective_around_its_messages() {
    let mut stream = Stream::default();
    call(&mut stream, 1, "SRSRSR");
    for (id, func, peer, until) in [
        (11, 'S', 0, 300),
        (12, 'R', 0, 310),
        (13, 'S', 1, 240),
        (14, 'R', 1, 240),
        (15, 'S', 2, 320),
        (16, 'R', 2, 330),
    ] {
        member(&mut stream, id, func, peer, until);
    }
    let built = stream.build();
    assert_eq!(patterns(&built), [(Pattern::AlltoAll, 0)]);
    assert_eq!(*built.location(RANK), [(InstanceKind::Derived, 201, 330)]);
    let members = built.recorded(RANK).iter().map(|&(kind, start, end)| (kind == InstanceKind::Operation, start, end));
    let expected = [(203, 240), (204, 240), (201, 300), (202, 310), (205, 320), (206, 330)];
    assert_eq!(members.collect::<Vec<_>>(), expected.map(|(start, end)| (true, start, end)));
    assert_eq!(roles(&built), [Role::CollectiveBegin, Role::CollectiveEnd], "the bytes are reported once");
    let thread = built.location(LocationKey::Thread(0));
    assert!(thread.contains(&(InstanceKind::DerivedCall, 100, 190)));
}

#[test]
fn roots_keep_their_messages() {
    for (calls, pattern) in [("SRRR", Pattern::Gather), ("SSSR", Pattern::Scatter)] {
        let mut stream = Stream::default();
        call(&mut stream, 1, calls);
        // In place, to itself: NCCL leaves both ends out.
        let func = calls.get(1..2).expect("a letter").chars().next().expect("a letter");
        member(&mut stream, if func == 'R' { 12 } else { 11 }, func, 0, 300);
        member(&mut stream, if func == 'R' { 14 } else { 13 }, func, 2, 310);
        let built = stream.build();
        assert_eq!(patterns(&built), [(pattern, 0)]);
        assert_eq!(built.location(RANK).first().map(|item| item.0), Some(InstanceKind::Derived));
        assert_eq!(roles(&built).len(), 4, "two messages, no collective");
        assert!(!roles(&built).contains(&Role::CollectiveEnd));
    }
}

#[test]
fn a_group_of_the_user_is_not_guessed_at() {
    for (depth, calls, peers) in [
        (2, "SRSRSR", [0, 1, 2]),
        (1, "SRSR", [0, 1, 2]),
        (1, "RSRSRS", [0, 1, 2]),
        // Like an all-to-all, but with two sends to one peer.
        (1, "SRSRSR", [0, 0, 1]),
    ] {
        let mut stream = Stream::default();
        call(&mut stream, depth, calls);
        for (number, (id, func)) in (GROUP + 1..).zip(calls.chars()).enumerate() {
            member(&mut stream, id, func, peers[number / 2], 300);
        }
        let built = stream.build();
        assert_eq!(patterns(&built), [], "{calls} at depth {depth} with {peers:?}");
        assert_eq!(roles(&built).len(), 2 * calls.len());
        let thread = built.location(LocationKey::Thread(0));
        assert!(!thread.iter().any(|item| item.0 == InstanceKind::DerivedCall));
    }
}
