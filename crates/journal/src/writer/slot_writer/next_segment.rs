//! The transition to the next segment, where the recording thread meets the maintenance thread.

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use super::SlotWriter;
use crate::clock::ticks;
use crate::format::encode::Sink as _;
use crate::format::layout::{
    FORMAT_VERSION, HEADER_WORDS, MAGIC, SEGMENT_BYTES, SEGMENT_WORDS, header, kind, pair, segment_flag,
};
use crate::uninterrupted::uninterrupted;
use crate::writer::mapping::{JournalFile, Segment};
use nccl_events::Kind;

/// Used segments that may be resident before the recording thread releases them itself.
const MOST_UNRELEASED: usize = 1;

impl SlotWriter {
    /// Moves on to the next segment. Returns false if there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn advance(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        let (file, index) = (self.segment.file(), self.segment.index() + 1);
        if file.is_prepared(index) {
            // Takes no lock. So it needs no system call, which blocking signals would be.
            let segment = Segment::take(Arc::clone(file), index);
            self.begin_segment(segment);
            return true;
        }
        uninterrupted(|| self.make_next())
    }

    /// Moves on to a segment that the maintenance thread has not prepared, or to the next file.
    fn make_next(&mut self) -> bool {
        let index = self.segment.index() + 1;
        let next = if index < self.segment.file().segments() {
            let file = Arc::clone(self.segment.file());
            self.ready(file, index)
        } else {
            self.next_file()
        };
        let Some(next) = next else {
            // Append nothing more, not even what would fit: it could name a string whose own record found no room.
            self.at = SEGMENT_WORDS;
            self.has_ended = true;
            return false;
        };
        self.begin_segment(next);
        if self.space.retention.is_some() {
            self.make_self_contained();
        }
        true
    }

    fn begin_segment(&mut self, segment: Segment) {
        self.segment = segment;
        let file = self.segment.file();
        if file.unreleased() > MOST_UNRELEASED {
            // The maintenance thread is late, and used segments must not accumulate in memory.
            file.release_used();
            self.stall();
        }
        self.at = HEADER_WORDS;
        self.write_header(self.order + 1);
    }

    /// The thread has left a callback with `siglongjmp`, perhaps while it began a segment.
    pub(super) fn complete_segment(&mut self) {
        let word = |place: usize| self.segment.get(place).map_or(0, |word| word.load(Ordering::Relaxed));
        if word(header::MAGIC) == MAGIC {
            self.order = word(header::ORDER);
        } else {
            self.write_header(self.order + 1);
        }
    }

    /// Repeats what later records depend on, because the segments before this one will be removed.
    fn make_self_contained(&mut self) {
        self.names.record_anew();
        if let Some(thread) = self.thread {
            let _fits = self.put(kind::THREAD_BEGIN, 0, 0, thread);
        }
        if let Some(repeat) = self.repeat {
            repeat(self);
        }
    }

    fn ready(&mut self, file: Arc<JournalFile>, index: usize) -> Option<Segment> {
        if !file.is_prepared(index) {
            self.stall();
            self.space.prepare(&file, index).ok()?;
        }
        Some(Segment::take(file, index))
    }

    /// A new file for the slot, with its first segment prepared.
    fn next_file(&mut self) -> Option<Segment> {
        // A spare file that came too late stays there for the maintenance thread to remove.
        let number = self.segment.file().number();
        let spare = self.slot.spare.try_lock().and_then(|mut spare| spare.take_if(|spare| spare.number() > number));
        let file = match spare {
            Some(file) => file,
            None => self.space.create_file(&self.slot).ok()?,
        };
        let segment = self.ready(Arc::clone(&file), 0)?;
        if self.space.retention.is_some()
            && let Some(mut left) = self.slot.left.try_lock()
            && left.len() < left.capacity()
        {
            // Leave the file for the maintenance thread to unmap.
            left.push(Arc::clone(self.segment.file()));
        }
        // The maintenance thread holds this lock only while it copies the pointer. If it holds the lock now, it keeps
        // working on the old file, and this thread prepares its own segments until the next file.
        if let Some(mut current) = self.slot.current.try_lock() {
            *current = Some(file);
        }
        Some(segment)
    }

    /// Writes the header of the slot's segment with this number.
    pub(super) fn write_header(&mut self, order: u64) {
        let options = &self.space.options;
        let set = |index: usize, value: u64| {
            if let Some(word) = self.segment.get(index) {
                word.store(value, Ordering::Relaxed);
            }
        };
        let slot = u32::from(self.slot.number) << 16;
        #[expect(clippy::cast_possible_truncation, reason = "128")]
        let head = HEADER_WORDS as u32;
        set(header::VERSION, pair(FORMAT_VERSION, head | slot));
        set(header::ORDER, order);
        let source = u32::from(options.tick_source as u8) << 16;
        set(header::PROCESS, pair(u32::from(options.tag.get()) | source, options.process_id));
        set(header::SESSION, options.session_start_realtime_ns);
        set(header::BYTES, SEGMENT_BYTES as u64);
        set(header::TICKS, ticks());
        set(header::COMMITTED, 8 * HEADER_WORDS as u64);
        for (index, total) in (header::STALLS..).zip(self.counters.0) {
            set(index, total);
        }
        if self.space.retention.is_some() {
            let held = u64::from(!self.held.id.is_none());
            let first = header::LOST_STARTS - header::STALLS;
            let lost = self.counters.0.iter().skip(first).take(Kind::COUNT);
            set(header::STARTED_BEFORE, self.next_sequence - 1 - held);
            set(header::LOST_BEFORE, lost.sum());
            set(header::FLAGS, segment_flag::FLIGHT);
        }
        if let Some(magic) = self.segment.get(header::MAGIC) {
            magic.store(MAGIC, Ordering::Release);
        }
        // After the header, also to a signal handler on this thread: see `complete_segment`.
        compiler_fence(Ordering::SeqCst);
        self.order = order;
    }

    /// Counts that this thread did the maintenance thread's work.
    fn stall(&mut self) {
        self.add(header::STALLS, 1);
    }
}
