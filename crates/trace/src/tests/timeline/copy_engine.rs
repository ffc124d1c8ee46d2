//! Collectives by copy engines: no kernel, and of the copies only the enqueueing is reported.

use crate::tests::stream::Stream;
use crate::timeline::events::Role;
use crate::timeline::instance::InstanceKind;
use crate::timeline::location::LocationKey;
use nccl_events::Body;
use nccl_events::Kind;
use nccl_events::archive::Timing;
use nccl_events::event;

/// A collective with a synchronisation and a batch; `end` is its stop.
fn stream(end: Option<u64>) -> Stream {
    let mut stream = Stream::of_rank();
    let collective = Body::CeColl(event::CeColl {
        func: stream.symbols.intern("AllGather"),
        count: 8,
        sync_strategy: stream.symbols.intern("MC"),
        stream: 0x70,
        ..event::CeColl::default()
    });
    let sync = Body::CeSync(event::CeSync { complete: false, ranks: 2 });
    let batch = Body::CeBatch(event::CeBatch { operations: 2, bytes: 64, intra_sync: false });
    stream.event(20, 0, (100, end), collective).event(21, 20, (102, Some(105)), sync).event(
        22,
        20,
        (110, Some(120)),
        batch,
    );
    stream
}

#[test]
fn it_is_an_operation_with_its_enqueueing_on_the_thread() {
    let built = stream(Some(130)).build();
    assert_eq!(built.operations(), [(100, 130, Timing::Enqueue, false)]);
    let rank = LocationKey::Communicator(0);
    assert_eq!(built.locations[&(rank, 0)], [(InstanceKind::Operation, 100, 130)]);
    let roles: Vec<Role> = built.records[&rank].iter().map(|it| it.role).collect();
    assert_eq!(roles, [Role::CollectiveBegin, Role::CollectiveEnd]);
    let on_thread = built.location(LocationKey::Thread(0));
    let parts = [(InstanceKind::Enqueue, 100, 130), (InstanceKind::Call, 102, 105), (InstanceKind::Call, 110, 120)];
    assert!(on_thread.ends_with(&parts), "{on_thread:?}");
    for kind in [Kind::CeColl, Kind::CeSync, Kind::CeBatch] {
        assert_eq!(built.fates(kind), (1, 1, 0), "{kind:?}");
    }
}

#[test]
fn one_that_never_stopped_is_not_said_to_be_a_transfer() {
    let mut stream = stream(None);
    stream.event(40, 0, (500, Some(800)), Body::Group(event::Group {}));
    assert_eq!(stream.build().operations(), [(100, 800, Timing::Enqueue, true)]);
}
