//! Events without room are counted, kind by kind.

use nccl_events::event;

use journal::format::SEGMENT_BYTES;
use journal::format::{Record, RecordBody};
use journal::reader::Outcome;
use journal::writer::{LostRecord, SlotWriter, Stop};
use nccl_events::ids::{EventId, ProcessTag};
use nccl_events::{Body, Kind, Name, NetData, State, StateArgs};

use super::{CONTROL, GROUP, Recording, TAG, read, start, state, step};

/// Kinds that differ in what matters here: the length of the record, and whether it may be held back.
const BODIES: [Body<Name<'_>>; 4] = [
    GROUP,
    Body::ProxyStep(event::ProxyStep { step: 3 }),
    Body::NetPlugin(event::NetPlugin { id: 1, data: NetData::Opaque }),
    Body::Unknown(event::Unknown { event_type: 1 << 20 }),
];

/// Number of records of a sort whose ids have this kind.
fn recorded(records: &[Record], kind: Kind, sort: fn(&RecordBody) -> bool) -> u64 {
    let such = records.iter().filter(|record| sort(&record.body) && EventId::from_raw(record.id).kind() == kind);
    such.count() as u64
}

const STARTS: fn(&RecordBody) -> bool = |body| matches!(body, RecordBody::Start(_));
const STOPS: fn(&RecordBody) -> bool = |body| *body == RecordBody::Stop;
const STATES: fn(&RecordBody) -> bool = |body| matches!(body, RecordBody::State { .. });

/// Checks that recorded and lost starts, stops and states of a kind add up to what was sent.
fn assert_whole(read: &(Vec<Record>, Outcome), kind: Kind, sent: [u64; 3]) {
    let (records, Outcome { losses, .. }) = read;
    let whole = [(STARTS, losses.starts), (STOPS, losses.stops), (STATES, losses.states)]
        .map(|(sort, lost)| recorded(records, kind, sort) + lost[kind as usize]);
    assert_eq!(whole, sent, "{kind:?}");
}

fn fill(slot_writer: &mut SlotWriter) -> u64 {
    let mut sent = 0;
    loop {
        sent += 1;
        if slot_writer.start(&start(GROUP)).is_unrecorded() {
            return sent;
        }
    }
}

/// Room is prepared ahead, so a recording that stopped may nevertheless have lost nothing.
#[test]
fn what_is_lost_is_told_apart_from_what_would_be() {
    let Recording { writer, mut slot, directory: _directory } = Recording::new(SEGMENT_BYTES as u64);
    while slot.start(&start(GROUP)).get() != 0 && writer.stop_reason().is_none() {
        let _lasts = writer.keep();
    }
    assert_eq!(writer.stop_reason(), Some(Stop::Limit));
    assert!(!writer.has_losses());
    let _sent = fill(&mut slot);
    assert!(writer.has_losses());
}

#[test]
fn the_limit_stops_recording_and_every_loss_is_counted() {
    let mut recording = Recording::new(2 * SEGMENT_BYTES as u64);
    for _ in 0..10_000 {
        for (round, body) in (1..).zip(BODIES) {
            let id = recording.start(body);
            for _ in 0..round {
                recording.slot.state(&state(id, 9));
            }
            recording.slot.stop(id.get());
        }
    }
    assert_eq!(recording.writer.stop_reason(), Some(Stop::Limit));
    assert!(recording.writer.register("another").is_err());
    let read = recording.read();
    for (round, body) in (1..).zip(BODIES) {
        let kind = body.kind();
        assert_whole(&read, kind, [10_000, 10_000, round * 10_000]);
        for lost in [read.1.losses.starts, read.1.losses.stops, read.1.losses.states] {
            assert!(lost[kind as usize] > 0, "{kind:?}: the limit was too high");
        }
    }
    assert_eq!(read.1.started, 40_000);
}

/// One thread's journal is full, another's is not: the stop of a lost event is lost as well, on either thread; the stop
/// of a recorded event is not.
#[test]
fn the_stop_of_a_lost_event_is_part_of_the_loss() {
    let Recording { directory, writer, slot: mut with_room } = Recording::new(2 * SEGMENT_BYTES as u64);
    let mut full = writer.register("full").unwrap();
    let recorded_before = full.start(&start(step(0)));
    let groups = fill(&mut full);
    let lost = full.start(&start(step(1)));
    assert_eq!((recorded_before.is_unrecorded(), lost.is_unrecorded()), (false, true));
    for id in [recorded_before, lost] {
        for number in [9, 20, 20] {
            with_room.state(&state(id, number));
        }
        with_room.stop(id.get());
    }
    // Handles of other processes may have any bits.
    let foreign = EventId::new(ProcessTag::new(7), 1, 1, Kind::Coll).unrecorded();
    with_room.stop(foreign.get());
    full.stop(foreign.get());
    full.stop(recorded_before.get());
    let read = read(directory.path());
    assert_whole(&read, Kind::ProxyStep, [2, 3, 4]);
    assert_whole(&read, Kind::Group, [groups, 0, 0]);
    let (records, outcome) = read;
    assert_eq!(recorded(&records, Kind::ProxyStep, STOPS), 1);
    assert_eq!(recorded(&records, Kind::Coll, STOPS), 1);
    assert_eq!(outcome.losses.stops[Kind::Unknown as usize], 1);
    assert_eq!(outcome.losses.stops[Kind::Coll as usize], 0);
    assert_eq!(outcome.losses.repeated_waits, 2);
    assert_eq!(outcome.started, groups + 2);
}

/// Starts, states and stops in journal order.
fn words(records: &[Record]) -> Vec<String> {
    let word = |record: &Record| match &record.body {
        RecordBody::Start(start) => Some(format!("{:?}", start.body.kind())),
        RecordBody::State { state, .. } => Some(state.to_string()),
        RecordBody::Stop => Some("stop".to_owned()),
        _ => None,
    };
    records.iter().filter_map(word).collect()
}

/// A day of empty iterations of the proxy's loop adds one counter to the journal and uses up no event numbers.
#[test]
fn empty_turns_of_the_proxy_are_a_number() {
    let mut recording = Recording::new(SEGMENT_BYTES as u64);
    let first = recording.start(CONTROL);
    recording.slot.stop(first.get());
    for _ in 0..100_000 {
        let next = recording.start(CONTROL);
        assert_eq!(next.sequence(), first.sequence());
        recording.slot.stop(next.get());
    }
    // NCCL may stop an event twice, or one that never existed.
    recording.slot.stop(first.get());
    recording.slot.stop(0);
    let busy = recording.start(CONTROL);
    recording.slot.state(&state(busy, 13));
    recording.slot.stop(busy.get());
    // A control event that is open when something else happens is not empty.
    let open = recording.start(CONTROL);
    let _group = recording.start(GROUP);
    recording.slot.stop(open.get());
    let (records, outcome) = recording.read();
    assert_eq!(words(&records), ["stop", "ProxyCtrl", "13", "stop", "ProxyCtrl", "Group", "stop"]);
    assert_eq!(outcome.losses.empty_controls, 100_001);
    assert!(records.is_sorted_by_key(|record| record.ticks));
    // A held event that finds no room later is lost like any other.
    let groups = 1 + fill(&mut recording.slot);
    let held = recording.start(CONTROL);
    recording.slot.state(&state(held, 13));
    recording.slot.stop(held.get());
    let read = recording.read();
    assert_whole(&read, Kind::Group, [groups, 0, 0]);
    assert_whole(&read, Kind::ProxyCtrl, [3, 4, 2]);
    assert_eq!((read.1.losses.starts[Kind::ProxyCtrl as usize], read.1.started), (1, groups + 3));
}

#[test]
fn a_wait_is_recorded_once_for_each_step() {
    let mut recording = Recording::new(u64::MAX);
    let (one, other) = (recording.start(step(0)).get(), recording.start(step(1)).get());
    for event in [one, other].repeat(5_000) {
        recording.slot.state(&State { event, state: 20, args: StateArgs::ProxyStep { bytes: 0 } });
    }
    for steps in [0, 0, 0, 1, 1, 2] {
        let args = StateArgs::ProxyOp { bytes: 7, steps };
        recording.slot.state(&State { event: one, state: 1, args });
    }
    let (records, outcome) = recording.read();
    assert_eq!(words(&records), ["ProxyStep", "ProxyStep", "20", "20", "1", "1", "1"]);
    assert_eq!(outcome.losses.repeated_waits, 10_000 - 2 + 3);
}

/// Losses of a thread without a slot are counted in the mapping, so they survive a killed process.
#[test]
fn losses_without_a_slot_survive_the_process() {
    let Recording { directory, writer, slot: _slot } = Recording::new(SEGMENT_BYTES as u64);
    assert!(writer.register("another").is_err());
    let (one, other) = (writer.slotless_id(Kind::Coll), writer.slotless_id(Kind::Coll));
    assert!(one.is_unrecorded() && one != other);
    assert_eq!((one.kind(), one.tag()), (Kind::Coll, TAG.get()));
    writer.count_loss(LostRecord::Start(Kind::Coll));
    writer.count_loss(LostRecord::Start(Kind::Coll));
    writer.count_loss(LostRecord::State(one.get()));
    writer.count_loss(LostRecord::Stop(one.get()));
    writer.count_loss(LostRecord::Stop(7));
    writer.count_loss(LostRecord::Communicator);
    let (_, outcome) = read(directory.path());
    let losses = outcome.losses;
    let of = |kind: Kind| {
        let index = kind as usize;
        (losses.starts[index], losses.stops[index], losses.states[index])
    };
    assert_eq!(of(Kind::Coll), (2, 1, 1));
    assert_eq!(of(Kind::Unknown), (0, 1, 0));
    assert_eq!((losses.communicators, losses.total()), (1, 6));
    assert_eq!(outcome.started, 2);
}
