//! Proxy threads between transfers.

use crate::tests::stream::{Built, CONTEXT, Item, Stream};
use journal::format::RecordBody;
use nccl_events::{Body, Kind, Start, StateArgs, event, state};
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;

/// A state of a proxy thread: slot, id, start, stop, states.
type Control<'a> = (u16, u64, u64, Option<u64>, &'a [(u32, u64)]);

fn build(controls: &[Control<'_>]) -> Built {
    let mut stream = Stream::with_rank();
    for &(slot, id, from, to, states) in controls {
        let start = Start { parent: 0, context: CONTEXT, rank: 0, body: Body::ProxyCtrl(event::ProxyCtrl {}) };
        stream.put(slot, from, id, RecordBody::Start(start));
        for &(number, time) in states {
            stream.state(id, time, number, StateArgs::ProxyCtrl { appended: 3 });
        }
        if let Some(to) = to {
            stream.put(slot, to, id, RecordBody::Stop);
        }
    }
    stream.build()
}

/// The contents of the only row of a proxy thread.
fn location(built: &Built) -> &[Item] {
    let mut locations = built.locations.iter();
    locations.find(|(key, _)| matches!(key, LocationKey::Proxy(_))).map_or(&[], |(_, items)| items)
}

#[test]
fn states_follow_each_other() {
    let built = build(&[
        (3, 10, 100, Some(101), &[(state::PROXY_CTRL_IDLE, 100)]),
        (3, 11, 110, Some(150), &[(15, 111), (16, 149)]),
        (3, 12, 150, Some(160), &[(17, 151), (18, 159)]),
        (3, 13, 161, Some(162), &[(state::PROXY_CTRL_ACTIVE, 161)]),
    ]);
    let expected = [
        (InstanceKind::ProxyIdle, 100, 101),
        (InstanceKind::ProxySleep, 110, 149),
        (InstanceKind::ProxyWakeup, 149, 150),
        (InstanceKind::ProxyAppend, 150, 160),
        (InstanceKind::ProxyActive, 161, 162),
    ];
    assert_eq!(location(&built), expected);
    let keys = built.order.clone();
    let [LocationKey::Thread(0), LocationKey::Proxy(_), LocationKey::Communicator(0)] = keys[..] else {
        panic!("threads that call, proxy threads, communicators: {keys:?}")
    };
}

#[test]
fn turns_of_the_loop_without_a_state_are_counted_only() {
    let built = build(&[
        (3, 10, 100, Some(101), &[]),
        (3, 11, 102, Some(103), &[]),
        (3, 12, 104, Some(109), &[(17, 105), (18, 106)]),
    ]);
    assert_eq!(location(&built), [(InstanceKind::ProxyAppend, 104, 109)]);
    assert_eq!(built.fates(Kind::ProxyCtrl), (3, 1, 2));
}

#[test]
fn what_is_never_reported_to_end_ends_when_the_thread_goes_on() {
    let built = build(&[
        (3, 10, 100, None, &[(17, 101)]),
        (4, 11, 110, Some(111), &[(13, 110)]),
        (3, 12, 120, Some(130), &[(15, 121)]),
        (3, 13, 140, None, &[(15, 141)]),
        (4, 14, 900, Some(900), &[]),
    ]);
    let expected = [
        (InstanceKind::ProxyAppend, 100, 120),
        (InstanceKind::ProxySleep, 120, 130),
        (InstanceKind::ProxySleep, 140, 900),
    ];
    assert_eq!(location(&built), expected);
    assert_eq!((built.counts.closed, built.counts.starts_cut), (1, 0));
}
