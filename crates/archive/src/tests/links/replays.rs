//! Replays of a CUDA graph are operations of their own; operations reported at capture did not run.

use crate::tests::stream::{Stream, group_api, launch_on, proxy_op};
use journal::format::RecordBody;
use model::tables::{CollApi, EventRow};
use timeline::builder::LocationKey;
use timeline::instance::InstanceKind;

#[test]
fn replays_are_numbered_and_what_was_captured_did_not_run() {
    let mut stream = Stream::with_rank();
    // Coll 13 is reported at capture, inside its group; 50 and 60 are reported later.
    stream.collective(10, 100, true);
    for (id, at) in [(60, 6000), (50, 5000)] {
        stream.add_coll(id, 11, (at, at + 1), id + 5);
        stream.event(id + 1, id, (at + 2, Some(at + 80)), proxy_op(true));
    }
    let built = stream.build();
    let replays = &built.model.links.replays;
    assert_eq!(built.replays(), [None, Some(2), Some(1)], "by time, not by arrival");
    let (call, _) = built.model.tables.rows::<CollApi>().next().expect("one call");
    assert_eq!(replays.replays_of_call(EventRow::CollApi(call)), 2);
    let location = built.location(LocationKey::Communicator(0));
    let expected = [(InstanceKind::Operation, 5000, 5080), (InstanceKind::Operation, 6000, 6080)];
    assert_eq!(location[..], expected);
    assert_eq!(built.records[&LocationKey::Communicator(0)].len(), 4);
    assert_eq!(built.counts.foreign, 0);
}

#[test]
fn a_thread_that_launches_for_a_nonblocking_communicator_reports_at_capture() {
    let mut stream = Stream::with_rank();
    let call = stream.call_on(1, true);
    // The launching thread writes in slots 1 and 3, CUDA's callback thread in slot 2.
    for (slot, thread_id) in [(0, 100), (1, 101), (2, 102), (3, 101)] {
        stream.put(slot, 0, 0, RecordBody::ThreadBegin { thread_id, name: String::new() });
    }
    stream.event(10, 0, (100, Some(109)), group_api(true, 1));
    stream.event(11, 10, (101, Some(102)), call);
    // The group is over when the thread launches and reports.
    for (slot, id, at) in [(1, 13, 210), (3, 15, 220), (2, 14, 5000)] {
        let begun = stream.records.len();
        if slot == 1 {
            stream.event(12, 10, (200, Some(205)), launch_on(1));
        }
        stream.add_coll(id, 11, (at, at + 1), id + 100);
        for record in stream.records.iter_mut().skip(begun) {
            record.slot = slot;
        }
    }
    let built = stream.build();
    let numbers: Vec<(bool, Option<u64>)> =
        built.model.links.operations.all.iter().map(|linked| (linked.is_at_capture, linked.replay)).collect();
    assert_eq!(numbers, [(true, None), (true, None), (false, Some(1))]);
}
