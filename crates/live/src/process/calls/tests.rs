use super::*;

const CONTEXT: u32 = 0;
const THREAD: u32 = 7;

/// A group with `count` calls.
fn group(calls: &mut Calls, id: u64, count: u64) {
    calls.start_group(id, id, 1);
    for call in id + 1..=id + count {
        calls.start_call(call, (call, THREAD, id), false);
    }
}

fn launch(calls: &mut Calls, id: u64, group: u64) {
    calls.start_launch(id, (id, THREAD, group), CONTEXT);
    calls.stop_launch(id, id);
}

/// An operation of a call is reported in a plan. Times equal ids.
fn arrange(calls: &mut Calls, call: u64, start: u64, plan: u64) -> OfCall {
    calls.arrange(call, start, (CONTEXT, THREAD, plan)).0
}

fn launch_of(calls: &Calls, plan: u64, start: u64, call: &OfCall) -> Option<u64> {
    calls.launches(plan, call, CONTEXT).of(start, call).map(|launch| launch.id)
}

fn is_empty(calls: &Calls) -> bool {
    calls.groups.len() + calls.calls.len() + calls.launching.len() + calls.plans.len() == 0
}

#[test]
fn plans_that_are_reported_late_have_their_own_launches() {
    let mut calls = Calls::default();
    group(&mut calls, 10, 2);
    launch(&mut calls, 20, 10);
    launch(&mut calls, 21, 10);
    calls.stop_group(10, 30, &SeenIds::default());
    let first = arrange(&mut calls, 11, 41, 40);
    assert_eq!(launch_of(&calls, 40, 41, &first), Some(20), "the second plan is to come");
    calls.end_kernel(40, CONTEXT, [first].into_iter());
    let second = arrange(&mut calls, 12, 51, 50);
    assert_eq!(launch_of(&calls, 50, 51, &second), Some(21));
    calls.end_kernel(50, CONTEXT, [second].into_iter());
    assert!(is_empty(&calls), "{calls:?}");
}

/// A kernel has operations of two groups, and its launch names the outer one.
#[test]
fn a_launch_has_the_group_of_one_operation() {
    let mut calls = Calls::default();
    group(&mut calls, 10, 1);
    group(&mut calls, 20, 1);
    launch(&mut calls, 30, 10);
    let inner = arrange(&mut calls, 21, 41, 40);
    let outer = arrange(&mut calls, 11, 42, 40);
    assert_eq!([(41, inner), (42, outer)].map(|(start, call)| launch_of(&calls, 40, start, &call)), [Some(30); 2]);
    calls.end_kernel(40, CONTEXT, [inner, outer].into_iter());
    calls.stop_group(20, 50, &SeenIds::default());
    calls.stop_group(10, 51, &SeenIds::default());
    assert!(is_empty(&calls), "{calls:?}");
}

/// An in-place transfer of a rank to itself has calls without operations. Captured calls can be replayed at any time.
#[test]
fn calls_are_kept_as_long_as_operations_may_come() {
    let mut calls = Calls::default();
    group(&mut calls, 10, 4);
    launch(&mut calls, 20, 10);
    let operation = arrange(&mut calls, 11, 31, 30);
    calls.stop_group(10, 40, &SeenIds::default());
    calls.forget(1000, 1001);
    assert_eq!(launch_of(&calls, 30, 31, &operation), Some(20), "it is open");
    assert!(calls.has_open(10));
    calls.end_kernel(30, CONTEXT, [operation].into_iter());
    assert!(is_empty(&calls), "{calls:?}");
    calls.start_group(50, 50, 1);
    calls.start_call(51, (51, THREAD, 50), true);
    let at_capture = arrange(&mut calls, 51, 52, 0);
    calls.stop_group(50, 53, &SeenIds::default());
    calls.end_kernel(0, CONTEXT, [at_capture].into_iter());
    calls.forget(1000, 1001);
    let replays = [60, 70].map(|start| arrange(&mut calls, 51, start, 0));
    assert_eq!(replays.map(|call| call.replay), [1, 2]);
    assert!(!calls.has_open(50), "each replay is summed up for itself");
    assert!(at_capture.is_at_capture && replays.iter().all(|call| !call.is_at_capture));
}

#[test]
fn what_never_has_an_operation_is_forgotten() {
    let mut calls = Calls::default();
    for id in (10..10_000).step_by(10) {
        group(&mut calls, id, 1);
        calls.start_launch(id + 2, (id + 2, THREAD, id), CONTEXT);
        calls.start_plan(id + 3, id + 3);
    }
    calls.forget(5_000, 10_000);
    assert_eq!((calls.groups.len(), calls.calls.len(), calls.launching.len(), calls.plans.len()), (500, 500, 500, 500));
    calls.forget(10_000, 10_001);
    assert!(is_empty(&calls), "{calls:?}");
}
