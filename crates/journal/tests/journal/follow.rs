//! A journal that is followed gives what reading it gives, however often and however far each poll reads, also when it
//! is damaged anywhere; what is gone before it was read is counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use journal::clock::ClockPair;
use journal::follow::{Follower, MOST_OPEN_FILES, Polled};
use journal::layout::{MAGIC, SEGMENT_BYTES, header};
use journal::reader::{Journal, Losses, Problem, Symbols};
use journal::record::{Record, RecordBody, Symbol};
use journal::writer::{JournalWriter, Retention, SlotWriter};
use nccl_events::{Body, Name, event};
use proptest::prelude::*;

use super::{options, start, writer};

/// What is to be equal: the records of each slot, with their strings, and everything beside them.
#[derive(Debug, Default, PartialEq)]
struct Whole {
    records: BTreeMap<u16, Vec<String>>,
    problems: Vec<(PathBuf, u64, String, u64)>,
    losses: Losses,
    removed: (u64, u64, u64),
}

/// A record with its strings instead of their numbers.
fn text(record: &Record, symbols: &Symbols) -> String {
    let debug = format!("{record:?}");
    let mut parts = debug.split("Symbol(");
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').expect("a symbol");
        text += symbols.text(Symbol(number.parse().expect("a number")));
        text += rest;
    }
    text
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

fn whole(journal: &Path) -> Whole {
    let mut records = Vec::new();
    let outcome = Journal::open(journal).unwrap().read(&mut |record| records.push(record));
    let removed = &outcome.removed;
    Whole {
        records: by_slot(&records, &outcome.symbols),
        problems: sorted(outcome.problems),
        losses: outcome.losses,
        removed: (removed.segments, removed.starts, removed.since_ticks),
    }
}

/// A follower, and everything that it gave.
struct Followed {
    follower: Follower,
    records: Vec<Record>,
    problems: Vec<Problem>,
    last: Polled,
}

impl Followed {
    fn new(journal: &Path) -> Self {
        let follower = Follower::open(journal).unwrap();
        Self { follower, records: Vec::new(), problems: Vec::new(), last: Polled::default() }
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
            // What was replaced is found by the poll behind.
            if idle == 2 {
                return self;
            }
        }
        panic!("no end: {:?}", self.last);
    }

    fn whole(self) -> Whole {
        let removed = self.follower.removed();
        Whole {
            records: by_slot(&self.records, self.follower.symbols()),
            problems: sorted(self.problems),
            losses: self.last.losses,
            removed: (removed.segments, removed.starts, removed.since_ticks),
        }
    }
}

/// A small journal of three slots, cut a little behind what is committed.
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

/// Numbers without order.
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
    let expected = whole(&journal);
    assert!(expected.records.len() == 3 && expected.problems.is_empty(), "{expected:?}");
    for most_bytes in [1, 8, 100, 1000, u64::MAX] {
        let followed = Followed::new(&journal).until_idle(|| most_bytes);
        let process = Journal::open(&journal).unwrap();
        assert_eq!(followed.follower.process_tag(), process.process_tag);
        assert_eq!(followed.follower.tick_source(), process.tick_source);
        assert_eq!(followed.whole(), expected, "{most_bytes} bytes at once");
    }
}

/// Each slot has its share of every poll.
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

#[test]
fn a_journal_that_is_damaged_at_any_byte() {
    let (_directory, journal) = recorded();
    let intact = whole(&journal);
    let mut steps = numbers(1, 600);
    let (mut tried, mut damaged) = (0, 0);
    for entry in std::fs::read_dir(&journal).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(3) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            std::fs::write(&path, &changed).unwrap();
            let expected = whole(&journal);
            let followed = Followed::new(&journal).until_idle(|| u64::MAX);
            let lost = followed.last.damaged_bytes;
            assert_eq!(lost, followed.problems.iter().map(|problem| problem.lost_bytes).sum::<u64>());
            let slotless = (8 * header::SLOTLESS_LOST..8 * header::STARTED_BEFORE).contains(&at);
            let mut once = followed.whole();
            if slotless {
                // Counted in the process's first segment only.
                once.losses = expected.losses.clone();
            }
            assert_eq!(once, expected, "{} byte {at}", path.display());
            let mut stepwise = Followed::new(&journal).until_idle(&mut steps).whole();
            stepwise.losses = expected.losses.clone();
            assert_eq!(stepwise, expected, "{} byte {at}, step by step", path.display());
            damaged += usize::from(expected.records != intact.records);
            tried += 1;
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(tried > 1000 && damaged > 50, "{tried} bytes, {damaged} of them matter");
}

#[test]
fn a_journal_that_ends_at_any_byte() {
    let (_directory, journal) = recorded();
    let mut steps = numbers(2, 600);
    for entry in std::fs::read_dir(&journal).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for end in (0..bytes.len()).step_by(5) {
            std::fs::write(&path, &bytes[..end]).unwrap();
            let followed = Followed::new(&journal).until_idle(&mut steps).whole();
            assert_eq!(followed, whole(&journal), "{} of {end} bytes", path.display());
        }
        std::fs::write(&path, &bytes).unwrap();
    }
}

/// A file that is cut, or overwritten, while it is followed.
#[test]
fn a_journal_that_is_damaged_while_it_is_followed() {
    let (_directory, journal) = recorded();
    let path = journal.join("1.0");
    let bytes = std::fs::read(&path).unwrap();
    let mut steps = numbers(3, 400);
    for at in (0..bytes.len()).step_by(7) {
        let mut followed = Followed::new(&journal);
        followed.poll(steps());
        let seen = followed.records.len();
        if at % 2 == 0 {
            std::fs::write(&path, &bytes[..at]).unwrap();
        } else {
            let mut changed = bytes.clone();
            changed[at..].fill(0xa5);
            std::fs::write(&path, &changed).unwrap();
        }
        let followed = followed.until_idle(&mut steps);
        assert!(followed.records.len() >= seen);
        let is_counted = !followed.problems.is_empty() || followed.last.discarded.segments > 0;
        let committed = bytes.len() - 512;
        let all = whole_of_intact(&journal, &path, &bytes).records.values().map(Vec::len).sum::<usize>();
        assert!(is_counted || followed.records.len() == all, "byte {at} of {committed}: {:?}", followed.last);
        std::fs::write(&path, &bytes).unwrap();
    }
}

fn whole_of_intact(journal: &Path, path: &Path, bytes: &[u8]) -> Whole {
    std::fs::write(path, bytes).unwrap();
    whole(journal)
}

/// A segment of another order where one was: the rest of the first is gone, the second is read from its beginning.
#[test]
fn a_segment_that_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("filler").unwrap();
    fill(&mut slot_writer, 3 * SEGMENT_BYTES / 2, &mut 0);
    let path = directory.path().join("0.0");
    let bytes = std::fs::read(&path).unwrap();
    let second = whole_second(&bytes);
    std::fs::write(&path, &bytes[..SEGMENT_BYTES]).unwrap();
    let mut followed = Followed::new(directory.path());
    followed.poll(10_000);
    let read = followed.last.bytes;
    std::fs::write(&path, &second).unwrap();
    let followed = followed.until_idle(|| 10_000);
    let discarded = followed.last.discarded;
    assert_eq!(discarded.segments, 1);
    assert!(discarded.bytes > SEGMENT_BYTES as u64 - read - 2000, "{discarded:?}");
    assert_eq!(followed.problems, []);
    let last = followed.records.last().map(|record| record.id);
    let mut expected = Vec::new();
    std::fs::write(&path, &bytes).unwrap();
    let _outcome = Journal::open(directory.path()).unwrap().read(&mut |record| expected.push(record));
    assert_eq!(last, expected.last().map(|record| record.id));
}

/// The second segment of a file as the only one.
fn whole_second(bytes: &[u8]) -> Vec<u8> {
    let second = bytes[SEGMENT_BYTES..].to_vec();
    assert_eq!(second[..8], MAGIC.to_le_bytes());
    second
}

/// Records steps, and every now and then something with strings, until about so many bytes are written.
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

/// A step of a process that records, or of who follows it.
#[derive(Clone, Debug)]
enum Step {
    Record { slot: usize, bytes: usize },
    Keep,
    Poll { most_bytes: u64 },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize, 1_usize..400_000).prop_map(|(slot, bytes)| Step::Record { slot, bytes }),
        1 => (0..3_usize, 1_000_000_usize..2_500_000).prop_map(|(slot, bytes)| Step::Record { slot, bytes }),
        2 => Just(Step::Keep),
        4 => (1_u64..500_000).prop_map(|most_bytes| Step::Poll { most_bytes }),
        2 => Just(Step::Poll { most_bytes: u64::MAX }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

fn counts(records: &[Record]) -> u64 {
    let such = |record: &&Record| !matches!(record.body, RecordBody::ThreadBegin { .. });
    records.iter().filter(such).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_process_that_records(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(directory.path(), u64::MAX);
        let mut slot_writers: Vec<SlotWriter> = Vec::new();
        let mut sent = 0;
        let mut followed = Followed::new(directory.path());
        for step in steps {
            match step {
                Step::Record { slot, bytes } => {
                    while slot_writers.len() <= slot {
                        slot_writers.push(writer.register("thread").unwrap());
                    }
                    fill(&mut slot_writers[slot], bytes, &mut sent);
                }
                Step::Keep => _ = writer.keep(),
                Step::Poll { most_bytes } => followed.poll(most_bytes),
                Step::Restart => followed = Followed::new(directory.path()),
            }
        }
        let followed = followed.until_idle(|| 1 << 20);
        prop_assert_eq!(counts(&followed.records), sent);
        prop_assert_eq!(followed.last.discarded, journal::follow::Discarded::default());
        prop_assert_eq!(followed.whole(), whole(directory.path()));
    }

    /// Nothing is given twice, nothing is missing that is not counted.
    #[test]
    fn a_flight_recording(steps in steps(), megabytes in 1_u64..6) {
        let directory = tempfile::tempdir().unwrap();
        let retention = Retention { bytes: megabytes << 20, time: None };
        let writer = JournalWriter::with_retention(options(directory.path(), u64::MAX), Some(retention));
        // The first slot is kept whole.
        let _maintenance = writer.register("maintenance").unwrap();
        let mut slot_writers: Vec<SlotWriter> = Vec::new();
        let mut sent = 0;
        let mut followed = Followed::new(directory.path());
        for step in steps {
            match step {
                Step::Record { slot, bytes } => {
                    while slot_writers.len() <= slot {
                        slot_writers.push(writer.register("thread").unwrap());
                    }
                    fill(&mut slot_writers[slot], bytes, &mut sent);
                }
                Step::Keep => _ = writer.keep(),
                Step::Poll { most_bytes } => followed.poll(most_bytes),
                Step::Restart => followed = Followed::new(directory.path()),
            }
        }
        let followed = followed.until_idle(|| 1 << 20);
        prop_assert_eq!(&followed.problems, &[]);
        let starts = |records: &[Record]| {
            records.iter().filter(|record| matches!(record.body, RecordBody::Start(_))).count() as u64
        };
        let mut ids: Vec<u64> = Vec::new();
        ids.extend(followed.records.iter().filter(|record| matches!(record.body, RecordBody::Start(_))).map(|record| record.id));
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len() as u64, starts(&followed.records), "none twice");
        let started: u64 = slot_writers.iter_mut().map(|slot_writer| {
            let id = slot_writer.start(&start(Body::Group(event::Group {})));
            nccl_events::id::EventId::from_raw(id.get()).sequence() - 1
        }).sum();
        prop_assert_eq!(starts(&followed.records) + followed.last.discarded.starts, started);
        if followed.last.discarded.segments == 0 {
            prop_assert_eq!(counts(&followed.records), sent);
        }
    }
}

/// What is held open outlives its removal; beyond the bound, what is removed is counted.
#[test]
fn files_that_are_removed_are_read_to_their_end() {
    for segments in [10, MOST_OPEN_FILES + 20] {
        let directory = tempfile::tempdir().unwrap();
        let retention = Retention { bytes: u64::MAX, time: None };
        let writer = JournalWriter::with_retention(options(directory.path(), u64::MAX), Some(retention));
        let _maintenance = writer.register("maintenance").unwrap();
        let mut slot_writer = writer.register("filler").unwrap();
        let mut sent = 0;
        fill(&mut slot_writer, segments * SEGMENT_BYTES, &mut sent);
        let mut followed = Followed::new(directory.path());
        followed.poll(1000);
        std::fs::remove_dir_all(directory.path()).unwrap();
        let followed = followed.until_idle(|| 1 << 24);
        assert!(followed.last.is_removed);
        assert_eq!(followed.problems, []);
        let discarded = followed.last.discarded;
        if segments < MOST_OPEN_FILES {
            assert_eq!((counts(&followed.records), discarded.segments), (sent, 0));
        } else {
            assert!((15..30).contains(&discarded.segments), "{discarded:?}");
            assert!(discarded.bytes > 14 * SEGMENT_BYTES as u64, "{discarded:?}");
            assert!(counts(&followed.records) < sent);
        }
    }
}

/// Segments that came into use after the last poll, in a file that is held open.
#[test]
fn what_came_last_is_read_after_its_removal() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), u64::MAX);
    let mut slot_writer = writer.register("filler").unwrap();
    let mut sent = 0;
    fill(&mut slot_writer, 1000, &mut sent);
    let mut followed = Followed::new(directory.path());
    followed.poll(u64::MAX);
    assert_eq!(held(directory.path()), 2, "the writer's and the follower's");
    fill(&mut slot_writer, 3 * SEGMENT_BYTES, &mut sent);
    std::fs::remove_dir_all(directory.path()).unwrap();
    let followed = followed.until_idle(|| 1 << 20);
    assert_eq!(counts(&followed.records), sent);
    assert_eq!(followed.last.discarded.segments, 0);
    assert_eq!(held(directory.path()), 1, "the writer's");
}

/// How many descriptors of this process are of files in a directory.
fn held(directory: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(directory)).count()
}
