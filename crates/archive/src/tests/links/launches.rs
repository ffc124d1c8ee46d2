//! Which launch an operation had, if its group has several.

use crate::tests::stream::{CONTEXT, Stream, group_api, launch_on};

fn group(stream: &mut Stream, id: u64, span: (u64, u64)) {
    stream.event(id, 0, (span.0, Some(span.1)), group_api(false, 2));
}

fn call_of(stream: &mut Stream, context: u64, id: u64, group: u64, at: u64) {
    let call = stream.call_on(1, false);
    stream.event_of(context, id, group, (at, Some(at + 1)), call);
}

fn launch_of(stream: &mut Stream, context: u64, id: u64, group: u64, at: u64) {
    stream.event_of(context, id, group, (at, Some(at + 2)), launch_on(1));
}

/// A task of a plan.
fn coll_of(stream: &mut Stream, context: u64, id: u64, call: u64, plan: u64, at: u64) {
    let coll = stream.coll(plan, 0);
    stream.event_of(context, id, call, (at, Some(at + 1)), coll);
}

/// When the launch of each operation began, by operation in time order.
fn launches(stream: &mut Stream) -> Vec<Option<u64>> {
    let built = stream.build();
    let operations = built.model.links.operations.all.iter();
    operations.map(|linked| linked.launch.map(|row| built.model.tables[row].start)).collect()
}

/// A group of two calls, each with its own plan, with launches at 110 and 120.
fn two_plans() -> Stream {
    let mut stream = Stream::with_rank();
    group(&mut stream, 10, (100, 190));
    call_of(&mut stream, CONTEXT, 11, 10, 101);
    call_of(&mut stream, CONTEXT, 12, 10, 103);
    launch_of(&mut stream, CONTEXT, 13, 10, 110);
    launch_of(&mut stream, CONTEXT, 14, 10, 120);
    stream
}

#[test]
fn plans_have_the_launches_of_their_communicator_in_order_and_what_was_lost_is_told_by_the_time() {
    let (one, other) = (CONTEXT, CONTEXT + 1);
    // Context, id, call, plan, time.
    let cases = [
        (&[(one, 15, 11, 900, 200), (one, 16, 12, 901, 210)][..], &[110, 120][..]),
        (&[(one, 16, 12, 901, 130)], &[120]),
        // A launch after the report cannot be the operation's own.
        (&[(one, 15, 11, 900, 112), (one, 16, 12, 901, 113)], &[110, 110]),
        (&[(one, 15, 11, 900, 200), (other, 25, 21, 902, 205), (one, 16, 12, 901, 210)], &[110, 115, 120]),
    ];
    for (colls, expected) in cases {
        let mut stream = two_plans();
        if colls.iter().any(|coll| coll.0 == other) {
            stream.init(other, 6, 2, 0);
            call_of(&mut stream, other, 21, 10, 105);
            launch_of(&mut stream, other, 23, 10, 115);
        }
        for &(context, id, call, plan, at) in colls {
            coll_of(&mut stream, context, id, call, plan, at);
        }
        assert_eq!(launches(&mut stream), expected.iter().map(|at| Some(*at)).collect::<Vec<_>>(), "{colls:?}");
    }
}

#[test]
fn a_plan_has_one_launch_also_for_tasks_of_another_group() {
    for later in [None, Some(140)] {
        let mut stream = Stream::with_rank();
        // The inner group's task made the plan; the launch names the inner group.
        group(&mut stream, 10, (100, 190));
        call_of(&mut stream, CONTEXT, 11, 10, 101);
        group(&mut stream, 20, (105, 180));
        call_of(&mut stream, CONTEXT, 21, 20, 106);
        launch_of(&mut stream, CONTEXT, 30, 20, 120);
        coll_of(&mut stream, CONTEXT, 31, 11, 900, 130);
        coll_of(&mut stream, CONTEXT, 32, 21, 900, 131);
        if let Some(at) = later {
            // This launch's plan is lost.
            launch_of(&mut stream, CONTEXT, 33, 20, at);
        }
        assert_eq!(launches(&mut stream), [Some(120), Some(120)]);
    }
}
