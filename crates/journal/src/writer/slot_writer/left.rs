//! A slot writer whose thread has left a callback with `siglongjmp`.

use std::sync::atomic::Ordering;

use crate::format::{HEADER_WORDS, SEGMENT_WORDS, header, kind};
use crate::writer::mapping::LostRecord;
use crate::writer::names::PendingControl;
use crate::writer::slot_writer::SlotWriter;
use nccl_events::Kind;
use nccl_events::ids::EventId;

impl SlotWriter {
    /// Its use was left between any two instructions of a callback, but not in what runs [uninterrupted]: what was not
    /// committed is written over, and counted as lost.
    ///
    /// [uninterrupted]: crate::uninterrupted
    pub fn was_left(&mut self) {
        if !self.has_ended {
            self.complete_segment();
            self.at = self.committed();
        }
        self.next_sequence = self.next_sequence.max(self.newest_start() + 1);
        // Its fields may be those of two events.
        let held = std::mem::replace(&mut self.held, PendingControl::NONE);
        if !held.id.is_none() {
            self.next_sequence = self.next_sequence.max(held.id.sequence() + 1);
            let _marked = self.lose_start(held.id);
            self.add(header::EMPTY_CONTROLS, u64::MAX);
        }
        self.names.forget_addresses();
        // Whether the callback was complete is not known.
        self.count_loss(LostRecord::UNKNOWN);
    }

    fn committed(&self) -> usize {
        let bytes = self.segment.get(header::COMMITTED).map_or(0, |word| word.load(Ordering::Relaxed));
        usize::try_from(bytes / 8).unwrap_or(SEGMENT_WORDS).clamp(HEADER_WORDS, SEGMENT_WORDS)
    }

    /// The highest number of an event whose start is in the segment; 0 if there is none. A start that was committed
    /// last is there.
    fn newest_start(&self) -> u64 {
        const STARTS: std::ops::Range<u64> = kind::START as u64..kind::START as u64 + Kind::COUNT as u64;
        let (mut newest, mut at) = (0, HEADER_WORDS);
        while at < self.committed() {
            let word = |offset: usize| self.segment.get(at + offset).map_or(0, |word| word.load(Ordering::Relaxed));
            let head = word(0);
            if STARTS.contains(&(head & 0xff)) {
                newest = newest.max(EventId::from_raw(word(2)).sequence());
            }
            at += usize::try_from(head >> 16 & 0xffff).unwrap_or(0).max(1);
        }
        newest
    }
}
