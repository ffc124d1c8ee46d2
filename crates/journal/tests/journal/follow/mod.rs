//! Following a journal yields the same as reading it, whatever the number and size of the polls, even with damage at
//! any byte; what is removed before it was read is counted.

mod damaged;
mod processes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use journal::clock::ClockPair;
use journal::follow::{Follower, PollResult};
use journal::format::Record;
use journal::format::header;
use journal::reader::{Journal, Losses, Problem, Symbols};
use journal::writer::SlotWriter;
use nccl_events::{Body, Name, event};

use super::{start, text, writer};

/// What must be equal: the records of each slot, with their strings, and everything besides records.
#[derive(Debug, Default, PartialEq)]
struct JournalContents {
    records: BTreeMap<u16, Vec<String>>,
    problems: Vec<(PathBuf, u64, String, u64)>,
    losses: Losses,
    removed: (u64, u64, u64),
}

fn by_slot(records: &[Record], symbols: &Symbols) -> BTreeMap<u16, Vec<String>> {
    let mut by_slot: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for record in records {
        by_slot.entry(record.slot).or_default().push(text(record, symbols));
    }
    by_slot
}

fn sorted(problems: Vec<Problem>) -> Vec<(PathBuf, u64, String, u64)> {
    let plain = |problem: Problem| (problem.path, problem.offset, problem.reason, problem.lost_bytes);
    let mut problems: Vec<_> = problems.into_iter().map(plain).collect();
    problems.sort();
    problems
}

fn contents(journal: &Path) -> JournalContents {
    let mut records = Vec::new();
    let outcome = Journal::open(journal).unwrap().read(&mut |record| records.push(record)).unwrap();
    let removed = &outcome.removed;
    JournalContents {
        records: by_slot(&records, &outcome.symbols),
        problems: sorted(outcome.problems),
        losses: outcome.losses,
        removed: (removed.segments, removed.starts, removed.since_ticks),
    }
}

/// A follower and everything that it returned.
struct Followed {
    follower: Follower,
    records: Vec<Record>,
    problems: Vec<Problem>,
    last: PollResult,
}

impl Followed {
    fn new(journal: &Path) -> Self {
        let follower = Follower::open(journal).unwrap();
        Self { follower, records: Vec::new(), problems: Vec::new(), last: PollResult::default() }
    }

    fn poll(&mut self, most_bytes: u64) {
        let before = self.records.len();
        let mut polled = self.follower.poll(&mut |record| self.records.push(record), most_bytes).unwrap();
        assert_eq!(polled.records, (self.records.len() - before) as u64);
        self.problems.append(&mut polled.problems);
        self.last = polled;
    }

    /// Polls until nothing is left.
    fn until_idle(mut self, mut most_bytes: impl FnMut() -> u64) -> Self {
        let mut idle = 0;
        for _poll in 0..100_000 {
            self.poll(most_bytes());
            let is_idle = self.last.behind_bytes == 0 && self.last.bytes == 0;
            idle = if is_idle { idle + 1 } else { 0 };
            // The next poll finds a replaced segment.
            if idle == 2 {
                return self;
            }
        }
        panic!("no end: {:?}", self.last);
    }

    fn contents(self) -> JournalContents {
        let removed = self.follower.removed();
        JournalContents {
            records: by_slot(&self.records, self.follower.symbols()),
            problems: sorted(self.problems),
            losses: self.last.losses,
            removed: (removed.segments, removed.starts, removed.since_ticks),
        }
    }
}

/// A small journal of three slots, truncated shortly behind the committed bytes.
fn recorded() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slots = ["maintenance", "main", "proxy"].map(|name| writer.register(name).unwrap());
    for slot_writer in &mut slots {
        slot_writer.clock_pair(&ClockPair::read());
        fill(slot_writer, 1000, &mut 0);
    }
    drop((slots, writer));
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let committed = u64::from_le_bytes(bytes[8 * header::COMMITTED..][..8].try_into().unwrap());
        bytes.truncate(usize::try_from(committed).unwrap() + 512);
        std::fs::write(&path, bytes).unwrap();
    }
    let path = directory.path().to_owned();
    (directory, path)
}

/// Pseudo-random numbers from 1 to `below`.
fn numbers(seed: u64, below: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (state >> 33) % below
    }
}

#[test]
fn every_step_gives_the_same() {
    let (_directory, journal) = recorded();
    let expected = contents(&journal);
    assert!(expected.records.len() == 3 && expected.problems.is_empty(), "{expected:?}");
    for most_bytes in [1, 8, 100, 1000, u64::MAX] {
        let followed = Followed::new(&journal).until_idle(|| most_bytes);
        let process = Journal::open(&journal).unwrap();
        assert_eq!(followed.follower.process_tag(), process.process_tag);
        assert_eq!(followed.follower.tick_source(), process.tick_source);
        assert_eq!(followed.contents(), expected, "{most_bytes} bytes at once");
    }
}

/// Each slot gets its share of every poll.
#[test]
fn no_slot_waits_for_another() {
    let (_directory, journal) = recorded();
    let mut followed = Followed::new(&journal);
    followed.poll(0);
    assert_eq!(followed.records, []);
    let behind = followed.last.behind_bytes;
    for _slot in 0..3 {
        followed.poll(1);
    }
    let slots: BTreeMap<u16, Vec<String>> = by_slot(&followed.records, followed.follower.symbols());
    assert_eq!(slots.len(), 3, "a record of each");
    assert_eq!(followed.last.behind_bytes + 3 * 48, behind, "the threads' names");
    let oldest = followed.last.oldest_unread_ticks;
    let followed = followed.until_idle(|| 1);
    let ticks = followed.records.iter().skip(3).map(|record| record.ticks);
    assert_eq!(oldest, ticks.min());
}

/// Records steps, and now and then an event with strings, until about `bytes` are written.
fn fill(slot_writer: &mut SlotWriter, bytes: usize, sent: &mut u64) {
    for step in 0..bytes / 54 {
        let step = i32::try_from(step).unwrap();
        let id = slot_writer.start(&start(Body::ProxyStep(event::ProxyStep { step })));
        *sent += 1;
        if step % 8 == 0 {
            slot_writer.stop(id.get());
            *sent += 1;
        }
        if step % 64 == 0 {
            let func = if step % 128 == 0 { c"AllReduce" } else { c"ReduceScatter" };
            let func = Name::from_cstr(func);
            let _id = slot_writer.start(&start(Body::CollApi(event::CollApi { func, ..event::CollApi::default() })));
            *sent += 1;
        }
    }
}
