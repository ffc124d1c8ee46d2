//! Where the worker writes: its own slot of the journal, and the maintenance's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::way::Output;
use crate::config::Verbosity;
use crate::host::logger;
use journal::clock::ticks;
use journal::writer::SharedCursor;
use journal::writer::{Cursor, Registry};
use nccl_events::Name;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{GpuRecord, Way};

/// The worker's thread and its slot.
pub(super) const NAME: &str = "nccl-otf2-gpu";

pub(super) struct Book {
    registry: Arc<Registry>,
    notes: SharedCursor,
    verbosity: Verbosity,
    /// Gotten with the first record: most of a mebibyte stays unused in a process that times nothing.
    slot: Slot,
    counts: [u64; GpuCount::COUNT],
    is_counted: bool,
    /// The session has ended without waiting any longer.
    is_closed: Arc<AtomicBool>,
}

enum Slot {
    NotAsked,
    Refused,
    Has(Box<Cursor>),
}

impl Book {
    pub(super) fn new(
        registry: Arc<Registry>,
        notes: SharedCursor,
        verbosity: Verbosity,
        is_closed: Arc<AtomicBool>,
    ) -> Self {
        Self {
            registry,
            notes,
            verbosity,
            slot: Slot::NotAsked,
            counts: [0; GpuCount::COUNT],
            is_counted: true,
            is_closed,
        }
    }

    /// Records the counts, if they have changed since.
    pub(super) fn put_counts(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) && !self.is_closed() {
            self.notes.put(ticks(), 0, &GpuRecord::Counts(self.counts));
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn slot(&mut self) -> Option<&mut Cursor> {
        if matches!(self.slot, Slot::NotAsked) {
            self.slot = match self.registry.register(NAME) {
                Ok(cursor) => Slot::Has(Box::new(cursor)),
                Err(_) => Slot::Refused,
            };
        }
        match &mut self.slot {
            Slot::Has(cursor) => Some(cursor),
            Slot::NotAsked | Slot::Refused => None,
        }
    }

    /// Says a line.
    pub(super) fn say(&mut self, way: Way, text: &str, is_fault: bool) {
        if self.is_closed() {
            return;
        }
        let cut = text.chars().filter(|character| *character != '\0');
        let line = std::ffi::CString::new(cut.collect::<String>()).unwrap_or_default();
        let record = GpuRecord::Notice {
            way,
            text: Name::from_cstr(&line),
        };
        self.notes.put(ticks(), 0, &record);
        match self.verbosity {
            _ if is_fault => logger::warn(text),
            Verbosity::Quiet => {}
            Verbosity::Normal => logger::info(text),
            Verbosity::Verbose => logger::warn(text),
        }
    }
}

impl Output for Book {
    fn record(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) {
        if self.is_closed() {
            return;
        }
        let has_room = match record {
            GpuRecord::Kernel(_) | GpuRecord::Copy(_) | GpuRecord::LaunchTime(_) => self
                .slot()
                .is_some_and(|cursor| cursor.gpu(ticks, id, record)),
            _ => self.notes.put(ticks, id, record),
        };
        if !has_room {
            self.count(GpuCount::NoRoom, 1);
        }
    }

    fn count(&mut self, count: GpuCount, more: u64) {
        if more > 0
            && let Some(total) = self.counts.get_mut(count as usize)
        {
            *total += more;
            self.is_counted = false;
        }
    }

    fn notice(&mut self, way: Way, text: &str) {
        self.say(way, text, false);
    }

    fn fault(&mut self, way: Way, text: &str) {
        self.say(way, text, true);
    }
}
