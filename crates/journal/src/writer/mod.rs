//! The recording side of the journal: a process's [`JournalWriter`] hands out [`SlotWriter`]s and their segments,
//! prepares the next ones, and copies the journal while it is being written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::format::{MAGIC, SEGMENT_BYTES, header};
use crate::host::Lock;
use crate::segments::HEADER_BYTES;
use crate::writer::mapping::{JournalFile, PREPARE_FROM_BYTES, Segment, Slot, Space, remove_old};
use nccl_events::Kind;
use nccl_events::ids::{EventId, SLOTS};

mod mapping;
mod names;
mod slot_writer;

pub use crate::writer::mapping::{LostRecord, Retention, Stop, WriterOptions};
pub use crate::writer::names::{PermanentName, PermanentText};
pub use crate::writer::slot_writer::{SharedSlotWriter, SlotWriter};

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
    pub fn count_loss(&self, what: LostRecord) {
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

// A copy has, of each segment, what is committed when its turn comes. A used-up file never changes again: a hard link
// costs nothing and survives the removal of the original. Files in use are copied segment by segment.

impl JournalWriter {
    /// Copies the journal into an existing directory. The maintenance thread does its other work between segments.
    pub fn copy_to(&self, into: &Path) -> io::Result<()> {
        let current: BTreeMap<u16, u32> = self
            .slots()
            .iter()
            .filter_map(|slot| {
                let number = slot.current.lock().as_ref()?.number();
                Some((slot.number, number))
            })
            .collect();
        let mut in_use: Vec<(PathBuf, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.space.options.directory)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let Some((slot, number)) = name.split_once('.') else {
                continue;
            };
            let (Ok(slot), Ok(number)) = (slot.parse::<u16>(), number.parse::<u32>()) else {
                continue;
            };
            let is_used_up = current.get(&slot).is_some_and(|current| number < *current);
            let copy = into.join(name);
            // Across file systems, or without hard links, copy this file as well.
            if !is_used_up || std::fs::hard_link(&path, &copy).is_err() {
                in_use.push((path, copy));
            }
        }
        for (from, to) in in_use {
            self.copy_file(&from, &to)?;
        }
        Ok(())
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let from = match File::open(from) {
            Ok(file) => file,
            // The continuing recording has removed the file in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut options = File::options();
        let to = options.write(true).create_new(true).mode(0o600).open(to)?;
        let length = from.metadata()?.len();
        let mut segment = Vec::new();
        // Without memory only the copy fails; the job continues.
        segment.try_reserve_exact(SEGMENT_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        segment.resize(SEGMENT_BYTES, 0);
        let mut at = 0;
        while at + HEADER_BYTES as u64 <= length {
            let Some(head) = segment.get_mut(..HEADER_BYTES) else {
                break;
            };
            // The header first: the bytes that it counts as committed are then complete when the rest is read.
            from.read_exact_at(head, at)?;
            let word = |index: usize| {
                let bytes = head.as_chunks::<8>().0.get(index);
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            if word(header::MAGIC) == MAGIC {
                let committed = usize::try_from(word(header::COMMITTED)).unwrap_or(0);
                let committed = committed.clamp(HEADER_BYTES, SEGMENT_BYTES);
                if let Some(records) = segment.get_mut(HEADER_BYTES..committed) {
                    from.read_exact_at(records, at + HEADER_BYTES as u64)?;
                }
                to.write_all_at(segment.get(..committed).unwrap_or(&[]), at)?;
                let _lasts = self.keep();
            }
            at += SEGMENT_BYTES as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
