//! A journal that is followed while its process records: to the end of the process, whichever that is, and at the pace
//! of a flight recording.

use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::follow::{Follower, Polled};
use journal::reader::Journal;
use journal::record::{Record, RecordBody};
use whole_plugin::process::{LIMIT, Running, start, wait_for};
use whole_plugin::scratch::Scratch;

/// Rounds of each of two threads: three events in two and a half megabytes.
const ROUNDS: u64 = 10_000;

/// Two threads that record some megabytes in some hundred milliseconds.
fn script(rounds: u64) -> String {
    format!(
        "init c id=0x1234 name=train ranks=1 rank=0
         parallel 2 {{
           repeat {rounds} {{
             start ga%t GroupApi ctx=c depth=1
             start ca%t CollApi ctx=c parent=ga%t func=AllReduce count=7 datatype=ncclFloat32 root=0 stream=0x77
             stop ca%t
             start co%t Coll ctx=c parent=ca%t rank=0 func=AllReduce count=7 datatype=ncclFloat32 channels=1 warps=8
             stop co%t
             stop ga%t
           }}
         }}
         join"
    )
}

/// Who follows, and what was given.
struct Followed {
    follower: Follower,
    starts: u64,
    records: u64,
    polls: u64,
    last: Polled,
}

impl Followed {
    fn new(journal: &Path) -> Self {
        let follower = Follower::open(journal).expect("a journal");
        Self { follower, starts: 0, records: 0, polls: 0, last: Polled::default() }
    }

    fn poll(&mut self, most_bytes: u64) {
        let starts = &mut self.starts;
        let mut sink = |record: Record| *starts += u64::from(matches!(record.body, RecordBody::Start(_)));
        self.last = self.follower.poll(&mut sink, most_bytes).expect("followed");
        assert_eq!(self.last.problems, []);
        self.records += self.last.records;
        self.polls += u64::from(self.last.records > 0);
    }

    fn read_rest(&mut self) {
        self.poll(u64::MAX);
        assert_eq!(self.last.behind_bytes, 0);
        assert_eq!(self.last.oldest_unread_ticks, None);
    }

    /// Polls until the process has ended.
    fn beside(&mut self, running: Running, most_bytes: u64) {
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| running.wait(LIMIT).with_code(0));
            while !ended.is_finished() {
                self.poll(most_bytes);
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ended = ended.join().expect("the script ran");
        });
    }
}

/// The journal of the only process. Its first files may be gone already.
fn journal(scratch: &Scratch) -> PathBuf {
    wait_for("journal", || {
        let part = std::fs::read_dir(scratch.out().join("parts")).ok()?.next()?;
        let journal = part.ok()?.path().join("journal");
        journal.is_dir().then_some(journal)
    })
}

/// Starts and records of the whole journal.
fn whole(journal: &Path) -> (u64, u64) {
    let mut starts = 0;
    let mut sink = |record: Record| starts += u64::from(matches!(record.body, RecordBody::Start(_)));
    let outcome = Journal::open(journal).expect("a journal").read(&mut sink);
    assert_eq!(outcome.problems, []);
    (starts, outcome.records)
}

#[test]
fn a_process_is_followed_to_its_end() {
    let scratch = Scratch::new();
    let running = start(scratch.script(&script(ROUNDS)).env("NCCL_OTF2_FINALIZE", "offline"));
    let journal = journal(&scratch);
    let mut followed = Followed::new(&journal);
    followed.beside(running, 1 << 20);
    assert!(followed.polls > 3, "{} polls while it ran", followed.polls);
    followed.read_rest();
    assert_eq!((followed.starts, followed.records), whole(&journal));
    assert_eq!(followed.starts, 2 * 3 * ROUNDS);
    // Who follows later comes to the same.
    let mut late = Followed::new(&journal);
    late.read_rest();
    assert_eq!((late.starts, late.records), (followed.starts, followed.records));
}

/// The process writes its part and removes its journal, which is read to its end all the same.
#[test]
fn a_journal_that_its_process_removes() {
    let scratch = Scratch::new();
    let running = start(&mut scratch.script(&script(ROUNDS)));
    let journal = journal(&scratch);
    let mut followed = Followed::new(&journal);
    // Slower than it is written.
    followed.beside(running, 1 << 9);
    assert!(!journal.exists(), "written");
    assert!(followed.last.behind_bytes > 0 && followed.last.oldest_unread_ticks.is_some(), "{:?}", followed.last);
    followed.read_rest();
    assert!(followed.last.is_removed);
    assert_eq!((followed.starts, followed.last.discarded.segments), (2 * 3 * ROUNDS, 0));
}

#[test]
fn a_process_that_is_killed() {
    let scratch = Scratch::new();
    let running = start(&mut scratch.script(&script(100_000_000)));
    let journal = journal(&scratch);
    let mut followed = Followed::new(&journal);
    while followed.starts < 100_000 {
        followed.poll(1 << 22);
    }
    running.kill();
    followed.read_rest();
    assert_eq!((followed.starts, followed.records), whole(&journal));
}

/// What a flight recording removes faster than it is read is counted to the event.
#[test]
fn a_flight_recording_is_followed_or_counted() {
    for is_whole in [true, false] {
        let scratch = Scratch::new();
        let mut command = scratch.script(&script(10 * ROUNDS));
        command.env("NCCL_OTF2_MODE", "flight").env("NCCL_OTF2_FLIGHT_SIZE", "8M");
        let running = start(command.env("NCCL_OTF2_FINALIZE", "offline"));
        let journal = journal(&scratch);
        let mut followed = Followed::new(&journal);
        if is_whole {
            followed.beside(running, u64::MAX);
        } else {
            // Found when there is little, read when most of it is gone.
            followed.poll(0);
            let _ended = running.wait(LIMIT).with_code(0);
        }
        followed.read_rest();
        let discarded = followed.last.discarded;
        assert_eq!(followed.starts + discarded.starts, 2 * 3 * 10 * ROUNDS, "{discarded:?}");
        if is_whole {
            println!("followed: {discarded:?}");
        } else {
            assert!(discarded.segments > 10, "{discarded:?}");
        }
    }
}
