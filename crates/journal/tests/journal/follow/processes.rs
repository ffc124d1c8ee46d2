//! Processes that record while they are followed, and files that are removed in the meantime.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use journal::follow::MOST_OPEN_FILES;
use journal::format::SEGMENT_BYTES;
use journal::format::{Record, RecordBody};
use journal::writer::{JournalWriter, Retention, SlotWriter};
use proptest::prelude::*;

use super::super::{GROUP, Recording, options, start, writer};
use super::{Followed, contents, fill};

/// A step of a recording process or of its follower.
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

/// Records while the journal is followed. Returns the follower, the slots, which are still open, and the number of
/// records written.
fn records_while_followed(
    steps: Vec<Step>,
    writer: &Arc<JournalWriter>,
    directory: &Path,
) -> (Followed, Vec<SlotWriter>, u64) {
    let mut slot_writers: Vec<SlotWriter> = Vec::new();
    let mut sent = 0;
    let mut followed = Followed::new(directory);
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
            Step::Restart => followed = Followed::new(directory),
        }
    }
    (followed, slot_writers, sent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_process_that_records(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(directory.path(), u64::MAX);
        let (followed, _slot_writers, sent) = records_while_followed(steps, &writer, directory.path());
        let followed = followed.until_idle(|| 1 << 20);
        prop_assert_eq!(counts(&followed.records), sent);
        prop_assert_eq!(followed.last.discarded, journal::follow::Discarded::default());
        prop_assert_eq!(followed.contents(), contents(directory.path()));
    }

    /// No record is returned twice, and every missing record is counted.
    #[test]
    fn a_flight_recording(steps in steps(), megabytes in 1_u64..6) {
        let directory = tempfile::tempdir().unwrap();
        let retention = Retention { bytes: megabytes << 20, time: None };
        let writer = JournalWriter::with_retention(options(directory.path(), u64::MAX), Some(retention));
        // The first slot is never removed.
        let _maintenance = writer.register("maintenance").unwrap();
        let (followed, mut slot_writers, sent) = records_while_followed(steps, &writer, directory.path());
        let followed = followed.until_idle(|| 1 << 20);
        prop_assert_eq!(&followed.problems, &[]);
        let is_start = |record: &&Record| matches!(record.body, RecordBody::Start(_));
        let starts: Vec<u64> = followed.records.iter().filter(is_start).map(|record| record.id).collect();
        prop_assert_eq!(starts.iter().collect::<BTreeSet<_>>().len(), starts.len(), "none twice");
        let started: u64 = slot_writers.iter_mut().map(|slot_writer| {
            let id = slot_writer.start(&start(GROUP));
            nccl_events::ids::EventId::from_raw(id.get()).sequence() - 1
        }).sum();
        prop_assert_eq!(starts.len() as u64 + followed.last.discarded.starts, started);
        if followed.last.discarded.segments == 0 {
            prop_assert_eq!(counts(&followed.records), sent);
        }
    }
}

/// Files held open can be read after their removal; beyond the limit of open files, removed records are counted.
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

/// Segments that came into use after the last poll, in a file held open.
#[test]
fn what_came_last_is_read_after_its_removal() {
    let Recording { directory, writer: _writer, mut slot } = Recording::new(u64::MAX);
    let mut sent = 0;
    fill(&mut slot, 1000, &mut sent);
    let mut followed = Followed::new(directory.path());
    followed.poll(u64::MAX);
    assert_eq!(held(directory.path()), 1, "the follower's; the writer keeps none");
    fill(&mut slot, 3 * SEGMENT_BYTES, &mut sent);
    std::fs::remove_dir_all(directory.path()).unwrap();
    let followed = followed.until_idle(|| 1 << 20);
    assert_eq!(counts(&followed.records), sent);
    assert_eq!(followed.last.discarded.segments, 0);
    assert_eq!(held(directory.path()), 0);
}

/// Number of this process's descriptors of files in a directory.
fn held(directory: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(directory)).count()
}
