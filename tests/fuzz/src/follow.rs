//! The follower of journals that grow: it ends, and gives what the reader gives of the whole.
//!
//! Before the first piece of the input is a byte for the number of turns, and one for each turn: how many records more
//! are there, and how much is read at once; or, `ff`, that the oldest file is removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use journal::follow::{Follower, PollResult};
use journal::format::Record;
use journal::reader::Journal;

use crate::pieces;
use crate::segments::Segment;

const REMOVE: u8 = 0xff;
const MOST_POLLS: usize = 64;

type Slots = BTreeMap<u16, Vec<(u64, u64)>>;

pub(crate) fn follow(input: &[u8]) {
    let (schedule, pieces) = pieces::split(input);
    let segments = Segment::all(&pieces);
    let scratch = tempfile::tempdir().expect("a directory");
    let journal = scratch.path();
    let mut follower = Follower::open(journal).expect("an empty directory");
    let mut followed = Followed::default();
    let mut writing =
        Writing { journal, segments: &segments, shown: 0, next: 0, is_whole: Segment::are_apart(&segments) };
    let (turns, schedule) = schedule.split_first().map_or((0, schedule), |(turns, rest)| (*turns & 0xf, rest));
    for turn in schedule.iter().take(turns.into()) {
        match turn {
            &REMOVE => writing.remove(),
            turn => writing.write(1 << (turn & 0xf)),
        }
        let most_bytes = 8 << (turn >> 4);
        if followed.poll(&mut follower, most_bytes).is_none() {
            return;
        }
    }
    writing.write(usize::MAX);
    let mut polls = 0;
    loop {
        let Some(polled) = followed.poll(&mut follower, u64::MAX) else { return };
        if polled.records == 0 && polled.behind_bytes == 0 {
            break;
        }
        polls += 1;
        assert!(polls < MOST_POLLS, "nothing changes, and yet the follower is behind: {polled:?}");
    }
    if !writing.is_whole {
        return;
    }
    let mut slots = Slots::new();
    let Ok(whole) = Journal::open(journal) else { return };
    let outcome = whole.read(&mut |record: Record| add(&mut slots, &record)).expect("files that the system reads");
    if outcome.problems.is_empty() && followed.problems == 0 {
        assert_eq!(followed.slots, slots, "what the follower and the reader gave");
        assert_eq!(followed.losses, outcome.losses.total());
    }
}

#[derive(Default)]
struct Followed {
    slots: Slots,
    problems: usize,
    losses: u64,
}

impl Followed {
    fn poll(&mut self, follower: &mut Follower, most_bytes: u64) -> Option<PollResult> {
        let mut given = 0;
        let mut sink = |record: Record| {
            given += 1;
            add(&mut self.slots, &record);
        };
        let polled = follower.poll(&mut sink, most_bytes).ok()?;
        assert_eq!(polled.records, given, "records that are counted");
        self.problems += polled.problems.len();
        self.losses = polled.losses.total();
        Some(polled)
    }
}

fn add(slots: &mut Slots, record: &Record) {
    slots.entry(record.slot).or_default().push((record.ticks, record.id));
}

struct Writing<'a> {
    journal: &'a Path,
    segments: &'a [Segment],
    shown: usize,
    next: usize,
    is_whole: bool,
}

impl Writing<'_> {
    fn write(&mut self, mut records: usize) {
        while let Some(segment) = self.segments.get(self.next) {
            let left = segment.records() - self.shown;
            if records < left {
                self.shown += records;
                segment.write(self.journal, self.shown);
                return;
            }
            records -= left;
            segment.write(self.journal, usize::MAX);
            (self.shown, self.next) = (0, self.next + 1);
        }
    }

    fn remove(&mut self) {
        let mut files: Vec<_> =
            fs::read_dir(self.journal).expect("a directory").flatten().map(|entry| entry.path()).collect();
        files.sort();
        if let Some(file) = files.first() {
            fs::remove_file(file).expect("removed");
            self.is_whole = false;
        }
    }
}
