//! A slot that several threads write in turn: the maintenance thread's.

use std::sync::Arc;

use nccl_events::Name;
use nccl_events::gpu::GpuRecord;
use parking_lot::{Mutex, MutexGuard};

use super::SlotWriter;

/// A [`SlotWriter`] behind a lock. Not for callbacks.
#[derive(Clone, Debug)]
pub struct SharedSlotWriter(Arc<Mutex<SlotWriter>>);

impl SharedSlotWriter {
    /// Puts a slot writer behind a lock.
    pub fn new(slot_writer: SlotWriter) -> Self {
        Self(Arc::new(Mutex::new(slot_writer)))
    }

    /// Locks the slot writer.
    pub fn lock(&self) -> MutexGuard<'_, SlotWriter> {
        self.0.lock()
    }

    /// Records data about GPUs at `ticks`. Returns false if there was no room.
    #[expect(clippy::must_use_candidate, reason = "what had no room is counted by the slot_writer")]
    pub fn put(&self, ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) -> bool {
        self.lock().gpu(ticks, id, record)
    }
}
