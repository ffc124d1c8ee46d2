//! What NCCL says over and over is a number, not records.

use journal::format::record::{Record, RecordBody};
use nccl_events::event;
use nccl_events::{Body, Name, Start, State, StateArgs};

use super::{read, writer};

fn control() -> Start<Name<'static>> {
    Start { context: 1, parent: 0, rank: 0, body: Body::ProxyCtrl(event::ProxyCtrl {}) }
}

fn words(records: &[Record]) -> Vec<String> {
    let word = |record: &Record| match &record.body {
        RecordBody::Start(start) => format!("{:?}", start.body.kind()),
        RecordBody::State { state, .. } => format!("{state}"),
        RecordBody::Stop => "stop".to_owned(),
        _ => String::new(),
    };
    let words = records.iter().map(word);
    words.filter(|word| !word.is_empty()).collect()
}

#[test]
fn empty_turns_of_the_proxy_are_a_number() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("proxy").unwrap();
    let idle = |slot_writer: &mut journal::writer::SlotWriter, state: Option<u32>| {
        let id = slot_writer.start(&control()).get();
        if let Some(state) = state {
            slot_writer.state(&State { event: id, state, args: StateArgs::None });
        }
        slot_writer.stop(id);
    };
    for _ in 0..100_000 {
        idle(&mut slot_writer, None);
    }
    idle(&mut slot_writer, Some(13));
    // One that is open when something else happens is not empty.
    let open = slot_writer.start(&control());
    let _group = slot_writer.start(&Start { body: Body::Group(event::Group {}), ..control() });
    slot_writer.stop(open.get());
    let _held = slot_writer.start(&control());
    let (records, outcome) = read(directory.path());
    let expected = ["ProxyCtrl", "13", "stop", "ProxyCtrl", "Group", "stop"];
    assert_eq!(words(&records), expected);
    assert_eq!(outcome.losses.empty_controls, 100_001);
    assert!(records.is_sorted_by_key(|record| record.ticks));
}

#[test]
fn a_wait_is_recorded_once_for_each_step() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("proxy").unwrap();
    let step = |step| Start { context: 1, parent: 2, rank: 0, body: Body::ProxyStep(event::ProxyStep { step }) };
    let (one, other) = (slot_writer.start(&step(0)).get(), slot_writer.start(&step(1)).get());
    for _ in 0..5_000 {
        for event in [one, other] {
            let args = StateArgs::ProxyStep { bytes: 0 };
            slot_writer.state(&State { event, state: 20, args });
        }
    }
    for steps in [0, 0, 0, 1, 1, 2] {
        let args = StateArgs::ProxyOp { bytes: 7, steps };
        slot_writer.state(&State { event: one, state: 1, args });
    }
    let (records, outcome) = read(directory.path());
    let expected = ["ProxyStep", "ProxyStep", "20", "20", "1", "1", "1"];
    assert_eq!(words(&records), expected);
    assert_eq!(outcome.losses.repeated_waits, 10_000 - 2 + 3);
}
