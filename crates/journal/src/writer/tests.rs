use crate::clock::TickSource;
use crate::reader::Journal;
use crate::writer::*;
use nccl_events::ids::ProcessTag;
use nccl_events::{Body, Start, event};

const SEGMENT: u64 = SEGMENT_BYTES as u64;

/// A flight recording with one recording thread.
struct Flight {
    writer: Arc<JournalWriter>,
    slot_writer: SlotWriter,
    slot: Arc<Slot>,
    started: u64,
    directory: tempfile::TempDir,
}

impl Flight {
    fn new(bytes: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options = WriterOptions {
            directory: directory.path().to_owned(),
            tag: ProcessTag::new(0x4e4f),
            process_id: 1,
            tick_source: TickSource::Monotonic,
            session_start_realtime_ns: 0,
            limit_bytes: u64::MAX,
        };
        let writer = JournalWriter::with_retention(options, Some(Retention { bytes, time: None }));
        // The first slot, the maintenance thread's, is never removed.
        let _maintenance = writer.register("maintenance").expect("a slot");
        let slot_writer = writer.register("recorder").expect("a slot");
        let slot = writer.slots().pop().expect("two slots");
        Self { writer, slot_writer, slot, started: 0, directory }
    }

    fn current(&self) -> u32 {
        self.slot.current.lock().as_ref().expect("a file").number()
    }

    fn record(&mut self) {
        let group = Start { context: 1, parent: 0, rank: 0, body: Body::Group(event::Group {}) };
        let _id = self.slot_writer.start(&group);
        self.started += 1;
    }

    /// Records until the slot is in another file.
    fn fill_file(&mut self) {
        let before = self.current();
        while self.current() == before {
            self.record();
        }
    }

    fn assert_account_and_records(self) {
        let files = std::fs::read_dir(self.directory.path()).expect("a listing");
        let on_disk: u64 = files.map(|file| file.expect("an entry").metadata().expect("a file").len()).sum();
        assert_eq!(self.writer.reserved_bytes(), on_disk);
        let outcome = Journal::open(self.directory.path()).expect("a journal").read(&mut |_| ()).expect("read");
        assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        assert_eq!(outcome.started, self.started, "the newest records are there");
        assert_eq!(outcome.losses.total(), 0);
    }
}

/// The recording thread runs out while the maintenance thread has made a file and not stored it yet.
#[test]
fn a_spare_file_that_comes_too_late_is_removed_and_never_used() {
    for bytes in [3 * SEGMENT, 8 * SEGMENT] {
        let mut flight = Flight::new(bytes);
        for _ in 0..10 {
            let late = flight.writer.space.create_file(&flight.slot).expect("a file");
            flight.writer.space.prepare(&late, 0).expect("room");
            let number = late.number();
            flight.fill_file();
            assert!(flight.current() > number, "the recording thread has made a later file");
            *flight.slot.spare.lock() = Some(late);
            for _ in 0..3 {
                // Runs out before the maintenance thread's next round, after it, and once more.
                flight.fill_file();
                let _lasts = flight.writer.keep();
                assert_ne!(flight.current(), number);
                let path = flight.writer.space.path_of(&flight.slot, flight.current());
                assert!(path.exists(), "{} is in use and removed", path.display());
            }
            let path = flight.writer.space.path_of(&flight.slot, number);
            assert!(!path.exists(), "{} will never be used", path.display());
        }
        flight.assert_account_and_records();
    }
}
