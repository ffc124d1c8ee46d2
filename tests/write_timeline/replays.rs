//! Replays of a CUDA graph: operations of their own; what is reported at capture did not run.

use crate::stream::{CONTEXT, Stream, proxy_op};
use nccl_profiler_otf2::write::figure::Shape;
use nccl_profiler_otf2::write::lanes::LaneKey;

#[test]
fn replays_are_numbered_and_what_was_captured_did_not_run() {
    let mut stream = Stream::default();
    stream.init(CONTEXT, 5, 2, 0);
    // Coll 13 is reported at capture, inside its group; 50 and 60 later.
    stream.collective(10, 100, true);
    for (id, at) in [(60, 6000), (50, 5000)] {
        let coll = stream.coll(id + 5, 0);
        stream.event(id, 11, (at, Some(at + 1)), coll);
        stream.event(id + 1, id, (at + 2, Some(at + 80)), proxy_op(true));
    }
    let drawn = stream.draw();
    let replays = &drawn.timeline.correlation.replays;
    let numbers: Vec<Option<u64>> = drawn
        .timeline
        .correlation
        .activities
        .iter()
        .map(|activity| replays.number(activity.operation))
        .collect();
    assert_eq!(numbers, [None, Some(2), Some(1)], "by time, not by arrival");
    assert_eq!((replays.of_call(1), replays.of_call(0)), (2, 0));
    let lane = &drawn.lanes[&(LaneKey::Communicator(0), 0)];
    let expected = [
        (Shape::Operation, 5000, 5080),
        (Shape::Operation, 6000, 6080),
    ];
    assert_eq!(lane[..], expected);
    assert_eq!(drawn.records[&LaneKey::Communicator(0)].len(), 4);
    assert_eq!(drawn.counts.foreign, 0);
}
