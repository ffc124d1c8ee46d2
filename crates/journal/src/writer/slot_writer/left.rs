//! A slot writer whose thread has left a callback with `siglongjmp`.

use std::sync::atomic::Ordering;

use super::SlotWriter;
use crate::format::layout::{HEADER_WORDS, SEGMENT_WORDS, header, kind};
use crate::writer::lost::Lost;
use crate::writer::repeat_filter::HeldControl;
use nccl_events::Kind;
use nccl_events::id::EventId;

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
        // Its fields may be those of two events.
        let held = std::mem::replace(&mut self.held, HeldControl::NONE);
        if !held.id.is_none() {
            let _marked = self.lose_start(held.id);
            self.add(header::EMPTY_CONTROLS, u64::MAX);
        }
        self.names.forget_addresses();
        // Whether the callback was complete is not known; but each number is that of an event, recorded or lost.
        if self.has_last_start() {
            self.count_loss(Lost::UNKNOWN);
        } else {
            let _marked = self.lose_start(self.own_id.with_number(self.next_sequence - 1, Kind::Unknown));
        }
    }

    fn committed(&self) -> usize {
        let bytes = self.segment.get(header::COMMITTED).map_or(0, |word| word.load(Ordering::Relaxed));
        usize::try_from(bytes / 8).unwrap_or(SEGMENT_WORDS).clamp(HEADER_WORDS, SEGMENT_WORDS)
    }

    /// Whether the event with the last number is recorded, or counted as lost. Yes, if the segment has no event that
    /// would tell.
    fn has_last_start(&self) -> bool {
        const STARTS: std::ops::Range<u64> = kind::START as u64..kind::START as u64 + Kind::COUNT as u64;
        let last = self.next_sequence - 1;
        let at_loss = self.counters.0.get(header::STARTED_AT_LOSS - header::STALLS);
        let mut newest = at_loss.copied().unwrap_or(0);
        let mut at = HEADER_WORDS;
        while at < self.committed() {
            let word = |offset: usize| self.segment.get(at + offset).map_or(0, |word| word.load(Ordering::Relaxed));
            let head = word(0);
            if STARTS.contains(&(head & 0xff)) {
                newest = newest.max(EventId::from_raw(word(2)).sequence());
            }
            at += usize::try_from(head >> 16 & 0xffff).unwrap_or(0).max(1);
        }
        newest == 0 || newest == last
    }
}
