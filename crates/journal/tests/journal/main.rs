//! The reading side gets what the recording side writes, record by record, and reads a torn journal up to the
//! tear.

mod follow;
mod in_order;
mod losses;
mod round_trip;
mod segments;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::clock;
use journal::format::{Record, Symbol};
use journal::reader::{Journal, Outcome, Symbols};
use journal::writer::{JournalWriter, SlotWriter, WriterOptions};
use nccl_events::ids::{EventId, ProcessTag};
use nccl_events::{Body, Name, Start, State, StateArgs, event};
use tempfile::TempDir;

/// The tag of the recording process.
const TAG: ProcessTag = ProcessTag::new(0x4e4f);

fn options(directory: &Path, limit_bytes: u64) -> WriterOptions {
    WriterOptions {
        directory: directory.to_owned(),
        tag: TAG,
        process_id: std::process::id(),
        tick_source: clock::select(),
        session_start_realtime_ns: 42,
        limit_bytes,
    }
}

fn writer(directory: &Path, limit_bytes: u64) -> Arc<JournalWriter> {
    JournalWriter::new(options(directory, limit_bytes))
}

fn read(directory: &Path) -> (Vec<Record>, Outcome) {
    let mut records = Vec::new();
    let journal = Journal::open(directory).unwrap();
    assert_eq!((journal.process_tag, journal.session_start_realtime_ns), (TAG.get(), 42));
    assert_eq!(journal.process_id, std::process::id());
    let outcome = journal.read(&mut |record| records.push(record)).unwrap();
    (records, outcome)
}

fn start(body: Body<Name<'_>>) -> Start<Name<'_>> {
    Start { context: 1, parent: 2, rank: 0, body }
}

fn state(event: EventId, state: u32) -> State {
    State { event: event.get(), state, args: StateArgs::None }
}

const GROUP: Body<Name<'static>> = Body::Group(event::Group {});
const CONTROL: Body<Name<'static>> = Body::ProxyCtrl(event::ProxyCtrl {});

fn step(step: i32) -> Body<Name<'static>> {
    Body::ProxyStep(event::ProxyStep { step })
}

/// A process with one recording thread.
struct Recording {
    directory: TempDir,
    writer: Arc<JournalWriter>,
    slot: SlotWriter,
}

impl Recording {
    fn new(limit_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(directory.path(), limit_bytes);
        let slot = writer.register("tester").unwrap();
        Self { directory, writer, slot }
    }

    fn start(&mut self, body: Body<Name<'_>>) -> EventId {
        self.slot.start(&start(body))
    }

    /// Starts steps, each a record of 48 bytes.
    fn steps(&mut self, count: usize) {
        for number in 0..count {
            let _id = self.start(step(i32::try_from(number).unwrap()));
        }
    }

    /// The thread's first file.
    fn file(&self) -> PathBuf {
        self.directory.path().join("0.0")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.file()).unwrap()
    }

    fn read(&self) -> (Vec<Record>, Outcome) {
        read(self.directory.path())
    }
}

/// The debug text, with strings in place of their numbers.
fn text(value: &impl Debug, symbols: &Symbols) -> String {
    let debug = format!("{value:?}");
    let mut parts = debug.split("Symbol(");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').unwrap();
        text += &format!("{:?}", symbols.text(Symbol(number.parse().unwrap())));
        text += rest;
    }
    text
}
