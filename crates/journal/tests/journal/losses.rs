//! What has no room is counted, kind by kind.

use nccl_events::event;

use journal::format::record::{Record, RecordBody};
use journal::layout::SEGMENT_BYTES;
use journal::reader::Outcome;
use journal::writer::{Lost, SlotWriter, Stop};
use nccl_events::id::{EventId, ProcessTag};
use nccl_events::{Body, Kind, Name, NetData, State, StateArgs};

use super::{TAG, read, start, writer};

/// Kinds that differ in everything that matters here: length of the record, and who may hold it back.
const BODIES: [Body<Name<'_>>; 4] = [
    Body::Group(event::Group {}),
    Body::ProxyStep(event::ProxyStep { step: 3 }),
    Body::NetPlugin(event::NetPlugin { id: 1, data: NetData::Opaque }),
    Body::Unknown(event::Unknown { event_type: 1 << 20 }),
];

fn state(event: EventId, state: u32) -> State {
    State { event: event.get(), state, args: StateArgs::None }
}

/// How many records of a sort there are of a kind, by what their ids say.
fn recorded(records: &[Record], kind: Kind, sort: fn(&RecordBody) -> bool) -> u64 {
    let such = records.iter().filter(|record| sort(&record.body) && EventId::from_raw(record.id).kind() == kind);
    such.count() as u64
}

const STARTS: fn(&RecordBody) -> bool = |body| matches!(body, RecordBody::Start(_));
const STOPS: fn(&RecordBody) -> bool = |body| *body == RecordBody::Stop;
const STATES: fn(&RecordBody) -> bool = |body| matches!(body, RecordBody::State { .. });

/// Recorded and lost starts, stops and states of a kind are together those that were sent.
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
        if slot_writer.start(&start(Body::Group(event::Group {}))).is_unrecorded() {
            return sent;
        }
    }
}

/// Room is prepared ahead. Where there is none, what was recorded may have had room nevertheless.
#[test]
fn what_is_lost_is_told_apart_from_what_would_be() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), SEGMENT_BYTES as u64);
    let mut slot_writer = writer.register("recorder").unwrap();
    while slot_writer.start(&start(Body::Group(event::Group {}))).get() != 0 && writer.stop_reason().is_none() {
        let _is_busy = writer.keep();
    }
    assert_eq!(writer.stop_reason(), Some(Stop::Limit));
    assert!(!writer.has_lost());
    let _sent = fill(&mut slot_writer);
    assert!(writer.has_lost());
}

#[test]
fn the_limit_stops_recording_and_every_loss_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), 2 * SEGMENT_BYTES as u64);
    let mut slot_writer = writer.register("filler").unwrap();
    for _ in 0..10_000 {
        for (round, body) in (1..).zip(BODIES) {
            let id = slot_writer.start(&start(body));
            for _ in 0..round {
                slot_writer.state(&state(id, 9));
            }
            slot_writer.stop(id.get());
        }
    }
    assert_eq!(writer.stop_reason(), Some(Stop::Limit));
    assert!(writer.register("another").is_err());
    let read = read(directory.path());
    for (round, body) in (1..).zip(BODIES) {
        let kind = body.kind();
        assert_whole(&read, kind, [10_000, 10_000, round * 10_000]);
        for lost in [read.1.losses.starts, read.1.losses.stops, read.1.losses.states] {
            assert!(lost[kind as usize] > 0, "{kind:?}: the limit was too high");
        }
    }
    assert_eq!(read.1.started, 40_000);
}

/// One thread's journal is full, another's is not: the stop of an event that was lost is lost as well, wherever it
/// comes; that of one that was recorded is not.
#[test]
fn the_stop_of_a_lost_event_is_part_of_the_loss() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), 2 * SEGMENT_BYTES as u64);
    let mut with_room = writer.register("room").unwrap();
    let mut full = writer.register("full").unwrap();
    let recorded_before = full.start(&start(Body::ProxyStep(event::ProxyStep { step: 0 })));
    let groups = fill(&mut full);
    let lost = full.start(&start(Body::ProxyStep(event::ProxyStep { step: 1 })));
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

/// A day of empty turns must not use up the numbers; and a control event that was held back and then found no room is
/// lost like any other.
#[test]
fn control_events_are_accounted_for() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), SEGMENT_BYTES as u64);
    let mut slot_writer = writer.register("proxy").unwrap();
    let first = slot_writer.start(&start(Body::ProxyCtrl(event::ProxyCtrl {})));
    slot_writer.stop(first.get());
    for _ in 0..1000 {
        let next = slot_writer.start(&start(Body::ProxyCtrl(event::ProxyCtrl {})));
        assert_eq!(next.sequence(), first.sequence());
        slot_writer.stop(next.get());
        // NCCL may stop what it has stopped, and what never was.
        slot_writer.stop(next.get());
        slot_writer.stop(0);
    }
    let groups = fill(&mut slot_writer);
    let held = slot_writer.start(&start(Body::ProxyCtrl(event::ProxyCtrl {})));
    slot_writer.state(&state(held, 13));
    slot_writer.stop(held.get());
    let read = read(directory.path());
    assert_whole(&read, Kind::Group, [groups, 0, 0]);
    assert_whole(&read, Kind::ProxyCtrl, [1, 1001, 1]);
    assert_eq!(read.1.losses.starts[Kind::ProxyCtrl as usize], 1);
    assert_eq!(read.1.losses.empty_controls, 1001);
    assert_eq!(read.1.started, groups + 1);
}

/// What a thread without a slot loses is counted in the mapping, so a killed process says it too.
#[test]
fn losses_without_a_slot_survive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), SEGMENT_BYTES as u64);
    let _maintenance = writer.register("maintenance").unwrap();
    assert!(writer.register("another").is_err());
    let (one, other) = (writer.slotless_id(Kind::Coll), writer.slotless_id(Kind::Coll));
    assert!(one.is_unrecorded() && one != other);
    assert_eq!((one.kind(), one.tag()), (Kind::Coll, TAG.get()));
    writer.lose(Lost::Start(Kind::Coll));
    writer.lose(Lost::Start(Kind::Coll));
    writer.lose(Lost::State(one.get()));
    writer.lose(Lost::Stop(one.get()));
    writer.lose(Lost::Stop(7));
    writer.lose(Lost::Communicator);
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
