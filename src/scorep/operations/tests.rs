use super::*;

const NEVER_WAIT: Patience =
    Patience { now_ticks: 1_000_000, after_parts_ticks: 10, without_parts_ticks: 1000, given_up_ticks: 500_000 };

fn facts(bytes: u64) -> Facts {
    Facts {
        function: Function::named(b"AllReduce"),
        context: 7,
        sequence: Some(3),
        bytes,
        peer: None,
        algorithm: Some(1),
    }
}

fn at(now_ticks: u64) -> Patience {
    Patience { now_ticks, ..NEVER_WAIT }
}

#[test]
fn an_operation_lasts_until_its_last_part_stops() {
    let operations = Operations::new();
    assert!(operations.begin(100, 50, &facts(64)));
    assert!(operations.stops(100, 60));
    assert!(operations.child_begins(101, 100, false));
    assert!(operations.child_begins(102, 100, false));
    assert!(operations.stops(101, 200));
    assert_eq!(operations.take(Some(&at(300))), None, "one is open");
    assert!(operations.stops(102, 400));
    assert_eq!(operations.take(Some(&at(405))), None, "another may come");
    let ended = operations.take(Some(&at(500))).expect("has ended");
    assert_eq!((ended.begin_ticks, ended.end_ticks), (50, 400));
    assert_eq!((ended.timing, ended.is_unfinished), (Timing::Proxy, false));
    assert_eq!(ended.facts, facts(64));
    assert_eq!(operations.take(None), None);
    assert!(!operations.child_begins(103, 100, false), "too late");
    assert!(!operations.stops(100, 600));
}

#[test]
fn without_parts_it_is_its_enqueueing() {
    let operations = Operations::new();
    operations.begin(100, 50, &facts(1));
    operations.stops(100, 60);
    assert_eq!(operations.take(Some(&at(900))), None, "parts may come");
    let ended = operations.take(Some(&at(2000))).expect("nothing came");
    assert_eq!((ended.end_ticks, ended.timing), (60, Timing::Enqueue));
}

#[test]
fn what_never_stops_does_not_hold_up_the_rest() {
    let operations = Operations::new();
    operations.begin(100, 50, &facts(1));
    operations.stops(100, 60);
    operations.child_begins(101, 100, true);
    operations.begin(200, 70, &facts(2));
    operations.stops(200, 80);
    assert_eq!(operations.take(Some(&at(400_000))), None);
    let ended = operations.take(Some(&at(600_000))).expect("given up");
    assert!(ended.is_unfinished);
    assert_eq!(operations.take(None).map(|ended| ended.facts.bytes), Some(2));
}

#[test]
fn a_full_ring_says_so_and_makes_room() {
    let operations = Operations::new();
    let kept = (0..2 * OPERATIONS as u64).filter(|n| operations.begin(1000 + n * 32, 50 + n, &facts(*n))).count();
    assert_eq!(kept, OPERATIONS);
    assert_eq!(operations.waiting(), OPERATIONS as u64);
    let first = operations.take(Some(&at(60))).expect("crowded");
    assert!(first.is_unfinished);
    assert!(operations.begin(5, 1, &facts(9)), "there is room again");
    let rest = std::iter::from_fn(|| operations.take(None));
    let bytes: Vec<u64> = rest.map(|ended| ended.facts.bytes).collect();
    let expected: Vec<u64> = (1..OPERATIONS as u64).chain([9]).collect();
    assert_eq!(bytes, expected, "in the order of starts");
}
