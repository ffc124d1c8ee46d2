//! What NCCL says over and over is a number, not records.

use journal::format::record::{Record, RecordBody};
use nccl_events::event;
use nccl_events::{Body, Name, Start, State, StateArgs};

use super::{read, registry};

fn control() -> Start<Name<'static>> {
    Start {
        context: 1,
        parent: 0,
        rank: 0,
        body: Body::ProxyCtrl(event::ProxyCtrl {}),
    }
}

/// What is recorded, one word each.
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
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("proxy").unwrap();
    let idle = |cursor: &mut journal::writer::Cursor, state: Option<u32>| {
        let id = cursor.start(&control()).get();
        if let Some(state) = state {
            cursor.state(&State {
                event: id,
                state,
                args: StateArgs::None,
            });
        }
        cursor.stop(id);
    };
    for _ in 0..100_000 {
        idle(&mut cursor, None);
    }
    idle(&mut cursor, Some(13));
    // One that is open when something else happens is not empty.
    let open = cursor.start(&control());
    let _group = cursor.start(&Start {
        body: Body::Group(event::Group {}),
        ..control()
    });
    cursor.stop(open.get());
    let _held = cursor.start(&control());
    let (records, outcome) = read(directory.path());
    let expected = ["ProxyCtrl", "13", "stop", "ProxyCtrl", "Group", "stop"];
    assert_eq!(words(&records), expected);
    assert_eq!(outcome.losses.empty_controls, 100_001);
    assert!(records.is_sorted_by_key(|record| record.ticks));
}

#[test]
fn a_wait_is_recorded_once_for_each_step() {
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(directory.path(), u64::MAX);
    let mut cursor = registry.register("proxy").unwrap();
    let step = |step| Start {
        context: 1,
        parent: 2,
        rank: 0,
        body: Body::ProxyStep(event::ProxyStep { step }),
    };
    let (one, other) = (cursor.start(&step(0)).get(), cursor.start(&step(1)).get());
    for _ in 0..5_000 {
        for event in [one, other] {
            let args = StateArgs::ProxyStep { bytes: 0 };
            cursor.state(&State {
                event,
                state: 20,
                args,
            });
        }
    }
    for steps in [0, 0, 0, 1, 1, 2] {
        let args = StateArgs::ProxyOp { bytes: 7, steps };
        cursor.state(&State {
            event: one,
            state: 1,
            args,
        });
    }
    let (records, outcome) = read(directory.path());
    let expected = ["ProxyStep", "ProxyStep", "20", "20", "1", "1", "1"];
    assert_eq!(words(&records), expected);
    assert_eq!(outcome.losses.repeated_waits, 10_000 - 2 + 3);
}
