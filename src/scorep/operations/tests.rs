use super::*;
use nccl_events::ids::ProcessTag;

const NEVER_WAIT: Timeouts =
    Timeouts { now_ticks: 1_000_000, after_parts_ticks: 10, without_parts_ticks: 1000, given_up_ticks: 500_000 };

fn facts(bytes: u64) -> OperationInfo {
    OperationInfo {
        function: Function::named(b"AllReduce"),
        context: 7,
        sequence: Some(3),
        bytes,
        peer: None,
        algorithm: Some(1),
    }
}

fn id(number: u64, kind: Kind) -> u64 {
    EventId::new(ProcessTag::new(1), 1, number, kind).get()
}

fn at(now_ticks: u64) -> Timeouts {
    Timeouts { now_ticks, ..NEVER_WAIT }
}

#[test]
fn an_operation_lasts_until_its_last_part_stops() {
    for (last, timing) in [(Kind::ProxyOp, Timing::Proxy), (Kind::KernelCh, Timing::KernelChannelHost)] {
        let operations = Operations::new();
        let [operation, one, other, late] =
            [(1, Kind::Coll), (2, Kind::ProxyOp), (3, last), (4, last)].map(|(number, kind)| id(number, kind));
        assert!(operations.begin(operation, 50, &facts(64)));
        assert!(operations.stops(operation, 60));
        assert!(operations.child_begins(one, operation));
        assert!(operations.child_begins(other, operation));
        assert!(operations.stops(one, 200));
        assert_eq!(operations.take(Some(&at(300))), None, "one is open");
        assert!(operations.stops(other, 400));
        assert_eq!(operations.take(Some(&at(405))), None, "another may come");
        let ended = operations.take(Some(&at(500))).expect("has ended");
        assert_eq!((ended.begin_ticks, ended.end_ticks), (50, 400));
        assert_eq!((ended.timing, ended.is_unfinished), (timing, false));
        assert_eq!(ended.facts, facts(64));
        assert_eq!(operations.take(None), None);
        assert!(!operations.child_begins(late, operation), "too late");
        assert!(!operations.stops(operation, 600));
    }
}

#[test]
fn what_never_stops_does_not_hold_up_the_rest() {
    let operations = Operations::new();
    let [first, channel, transfer, second] =
        [(1, Kind::Coll), (2, Kind::KernelCh), (3, Kind::ProxyOp), (4, Kind::Coll)]
            .map(|(number, kind)| id(number, kind));
    operations.begin(first, 50, &facts(1));
    operations.stops(first, 60);
    operations.child_begins(channel, first);
    operations.child_begins(transfer, first);
    operations.stops(transfer, 65);
    operations.begin(second, 70, &facts(2));
    operations.stops(second, 80);
    assert_eq!(operations.take(Some(&at(400_000))), None);
    let ended = operations.take(Some(&at(600_000))).expect("given up");
    assert_eq!((ended.timing, ended.is_unfinished), (Timing::Proxy, true), "no channel said when it ended");
    assert_eq!(operations.take(None).map(|ended| ended.facts.bytes), Some(2));
}
