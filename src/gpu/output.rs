//! Writes a backend's records to the worker's slot and the maintenance thread's slot of the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backend::Output;
use crate::host::logger;
use journal::clock::ticks;
use journal::writer::{JournalWriter, SharedSlotWriter, SlotWriter};
use nccl_events::Name;
use nccl_events::gpu::{Backend as BackendKind, GpuCount, GpuRecord};
use settings::Verbosity;

pub(super) const NAME: &str = "nccl-otf2-gpu";

pub(super) struct JournalOutput {
    writer: Arc<JournalWriter>,
    notes: SharedSlotWriter,
    verbosity: Verbosity,
    /// Requested with the first record, because it takes a mebibyte; `Some(None)` if it was refused.
    slot: Option<Option<Box<SlotWriter>>>,
    counts: [u64; GpuCount::COUNT],
    /// Whether the counts have been written since they last changed.
    is_counted: bool,
    /// Set when the session has ended without waiting for the worker.
    is_closed: Arc<AtomicBool>,
}

impl JournalOutput {
    pub(super) fn new(
        writer: Arc<JournalWriter>,
        notes: SharedSlotWriter,
        verbosity: Verbosity,
        is_closed: Arc<AtomicBool>,
    ) -> Self {
        Self { writer, notes, verbosity, slot: None, counts: [0; GpuCount::COUNT], is_counted: true, is_closed }
    }

    pub(super) fn put_counts(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) && !self.is_closed() {
            self.notes.put(ticks(), 0, &GpuRecord::Counts(self.counts));
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn slot(&mut self) -> Option<&mut SlotWriter> {
        let slot = self.slot.get_or_insert_with(|| self.writer.register(NAME).ok().map(Box::new));
        slot.as_deref_mut()
    }

    pub(super) fn say(&mut self, backend: BackendKind, text: &str, is_fault: bool) {
        if self.is_closed() {
            return;
        }
        let cut = text.chars().filter(|character| *character != '\0');
        let line = std::ffi::CString::new(cut.collect::<String>()).unwrap_or_default();
        let record = GpuRecord::Notice { backend, text: Name::from_cstr(&line) };
        self.notes.put(ticks(), 0, &record);
        match self.verbosity {
            _ if is_fault => logger::warn(text),
            Verbosity::Quiet => {}
            Verbosity::Normal => logger::info(text),
            Verbosity::Verbose => logger::warn(text),
        }
    }
}

impl Output for JournalOutput {
    fn record(&mut self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) {
        if self.is_closed() {
            return;
        }
        let has_room = match record {
            GpuRecord::Kernel(_) | GpuRecord::Copy(_) | GpuRecord::LaunchTime(_) => {
                self.slot().is_some_and(|slot_writer| slot_writer.gpu(ticks, id, record))
            }
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

    fn notice(&mut self, backend: BackendKind, text: &str) {
        self.say(backend, text, false);
    }

    fn fault(&mut self, backend: BackendKind, text: &str) {
        self.say(backend, text, true);
    }
}
