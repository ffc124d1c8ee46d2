//! All slots of a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nccl_events::Kind;
use nccl_events::id::{EventId, SLOTS};

use super::lost::Lost;
use super::mapping::{JournalFile, Segment};
use super::retention::{PREPARE_FROM_BYTES, remove_old};
use super::slot::Slot;
use super::slot_writer::SlotWriter;
use super::space::{Retention, Space, Stop, WriterOptions};
use crate::format::layout::{SEGMENT_BYTES, header};
use crate::lock::Lock;

/// For a thread that fills a segment in less time, two are prepared: preparing one takes about half a millisecond, and
/// the maintenance thread may have to wait for a processor.
const FAST: Duration = Duration::from_millis(8);

/// All slots of a process and their shared state.
pub struct JournalWriter {
    pub(crate) space: Arc<Space>,
    slots: Lock<Vec<Arc<Slot>>>,
    free: Lock<Vec<SlotWriter>>,
    /// The first file of the first slot. Losses of threads without a slot are counted there, to survive the process.
    first_file: OnceLock<Arc<JournalFile>>,
    /// See [`Self::repeat_in_new_segments`].
    repeat: OnceLock<fn(&mut SlotWriter)>,
    /// Number of events that threads without a slot have started.
    slotless_sequence: AtomicU64,
}

impl std::fmt::Debug for JournalWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("JournalWriter").field("options", &self.space.options).finish_non_exhaustive()
    }
}

impl JournalWriter {
    /// A journal writer without slots.
    pub fn new(options: WriterOptions) -> Arc<Self> {
        Self::with_retention(options, None)
    }

    /// A journal writer without slots; with a retention, for a flight recording.
    pub fn with_retention(options: WriterOptions, retention: Option<Retention>) -> Arc<Self> {
        Arc::new(Self {
            space: Arc::new(Space::new(options, retention)),
            slots: Lock::new(Vec::new()),
            free: Lock::new(Vec::new()),
            first_file: OnceLock::new(),
            repeat: OnceLock::new(),
            slotless_sequence: AtomicU64::new(0),
        })
    }

    /// In a flight recording, what a thread adds to each new segment: what later records depend on.
    pub fn repeat_in_new_segments(&self, repeat: fn(&mut SlotWriter)) {
        let _known = self.repeat.set(repeat);
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().clone()
    }

    /// Gives the calling thread a slot: the slot of an ended thread, or a new one.
    pub fn register(&self, thread_name: &str) -> Result<SlotWriter, Stop> {
        let free = self.free.lock().pop();
        let mut slot_writer = match free {
            Some(slot_writer) => slot_writer,
            None => self.new_slot_writer()?,
        };
        slot_writer.repeat_in_new_segments(self.repeat.get().copied());
        slot_writer.thread_begin(thread_name);
        Ok(slot_writer)
    }

    fn new_slot_writer(&self) -> Result<SlotWriter, Stop> {
        let mut slots = self.slots.lock();
        let number = u16::try_from(slots.len()).ok().filter(|number| *number < SLOTS);
        let slot = Arc::new(Slot::new(number.ok_or_else(|| self.space.no_slot())?));
        let file = self.space.create_file(&slot)?;
        self.space.prepare(&file, 0)?;
        *slot.current.lock() = Some(Arc::clone(&file));
        let _first = self.first_file.set(Arc::clone(&file));
        slots.push(Arc::clone(&slot));
        let slot_writer = SlotWriter::new(Arc::clone(&self.space), slot, Segment::take(file, 0));
        // Counted once its header is written: readers report a counted slot without a segment as lost.
        if let Some(first) = self.first_file.get() {
            first.count_in_header(header::SLOTS);
        }
        Ok(slot_writer)
    }

    /// Ends the recording for lack of memory. Every thread still fills its current segment.
    pub fn stop_without_memory(&self) {
        if self.stop_reason().is_none() {
            let _stopped = self.space.stopped(Stop::Memory);
        }
    }

    /// Why recording stopped, if it did. The first reason is kept.
    pub fn stop_reason(&self) -> Option<Stop> {
        self.space.stop_reason()
    }

    /// Whether anything was not recorded. A recording that stopped may have lost nothing: threads fill their segments.
    pub fn has_losses(&self) -> bool {
        self.space.has_losses()
    }

    /// Bytes reserved on disk.
    pub fn reserved_bytes(&self) -> u64 {
        self.space.reserved_bytes()
    }

    /// Takes back the slot of a thread that is ending.
    pub fn retire(&self, mut slot_writer: SlotWriter) {
        slot_writer.thread_end();
        self.free.lock().push(slot_writer);
    }

    /// Drops the slots of ended threads. Afterwards the journal writer only counts.
    pub fn close(&self) {
        let slot_writers = std::mem::take(&mut *self.free.lock());
        drop(slot_writers);
    }

    /// Counts a loss of a thread without a slot.
    pub fn count_loss(&self, what: Lost) {
        self.space.note_loss();
        if let Some(file) = self.first_file.get() {
            let place = what.index(self.space.options.tag);
            file.count_in_header(header::SLOTLESS_LOST + place);
        }
    }

    /// An id for an event that no slot can record. The id is not [`EventId::NONE`], because up to 2.27 NCCL omits the
    /// children of an event without a handle, and other threads may be able to record those.
    pub fn slotless_id(&self, kind: Kind) -> EventId {
        // Slot 0 belongs to the maintenance thread, which starts no events.
        let sequence = self.slotless_sequence.fetch_add(1, Ordering::Relaxed) + 1;
        EventId::new(self.space.options.tag, 0, sequence, kind).unrecorded()
    }

    /// One round of the maintenance thread: prepares what recording threads will need next, and releases what they
    /// have finished with. Returns how long that lasts at the pace since the last round, of the thread where it lasts
    /// the shortest; `None` if nothing was recorded.
    pub fn keep(&self) -> Option<Duration> {
        let slots = self.slots();
        for slot in &slots {
            self.remove_overtaken(slot);
        }
        if let Some(retention) = self.space.retention {
            remove_old(&self.space, &slots, retention);
        }
        let now = Instant::now();
        let mut shortest: Option<Duration> = None;
        for slot in slots {
            let Some(file) = slot.current.lock().clone() else {
                continue;
            };
            *slot.kept.lock() = Some(Arc::clone(&file));
            file.release_used();
            let (active, committed) = (file.active(), file.committed_bytes());
            let used = u64::from(file.number()) * file.segments() as u64 + active as u64;
            let segment_lasts = slot.segment_lasts(now, used * SEGMENT_BYTES as u64 + committed);
            let wanted = match segment_lasts {
                // Most threads record little and never leave their first segment.
                _ if committed < PREPARE_FROM_BYTES => 0,
                Some(lasts) if lasts < FAST && active + 2 < file.segments() => 2,
                _ => 1,
            };
            let prepared = (1..=wanted).take_while(|next| self.prepare_next(&slot, &file, active + next)).count();
            if let Some(lasts) = segment_lasts {
                let left = (1 + prepared) as f64 - committed as f64 / SEGMENT_BYTES as f64;
                let lasts = lasts.mul_f64(left.max(0.0));
                shortest = Some(shortest.map_or(lasts, |shortest| shortest.min(lasts)));
            }
        }
        shortest
    }

    /// Removes a spare file that came too late: the recording thread found none, and made a later one. It uses files in
    /// the order of their numbers, because all files before the current one count as used.
    fn remove_overtaken(&self, slot: &Slot) {
        let current = slot.current.lock().as_ref().map(|file| file.number());
        let overtaken = slot.spare.lock().take_if(|spare| Some(spare.number()) < current);
        if let Some(spare) = overtaken {
            self.space.remove_file(slot, spare.number());
        }
    }

    /// Whether a segment after the active one is prepared now.
    fn prepare_next(&self, slot: &Slot, file: &JournalFile, next: usize) -> bool {
        if next < file.segments() {
            return file.is_prepared(next) || self.space.prepare(file, next).is_ok();
        }
        if slot.spare.lock().is_some() {
            return true;
        }
        let spare = self.space.create_file(slot).ok().filter(|spare| self.space.prepare(spare, 0).is_ok());
        let is_prepared = spare.is_some();
        *slot.spare.lock() = spare;
        is_prepared
    }
}

#[cfg(test)]
mod tests;
