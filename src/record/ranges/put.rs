//! Appends records to the calling thread's slot.

use crate::host::shared::{self, Mine};
use crate::record::open_ranges::counts::count;
use crate::record::slot::{RECORDING, SLOT, Slot};
use journal::writer::SlotWriter;
use nccl_events::range::RangeCount;

/// Has the thread's slot writer record what happens to a range, if anything is recorded.
#[inline]
pub(super) fn put(mine: &Mine<Slot>, record: impl FnOnce(&mut SlotWriter) -> bool) {
    let is_recorded = mine.with_share(|slot| match &mut slot.slot_writer {
        Some(slot_writer) => record(slot_writer),
        None => false,
    });
    // None: nothing is recorded, or this is a handler that interrupted the use of the slot.
    if !is_recorded.unwrap_or(!RECORDING.is_on()) {
        count(RangeCount::Lost);
    }
}

/// As [`put`], for a thread that need not have pushed a range.
pub(super) fn put_anyway(record: impl FnOnce(&mut SlotWriter) -> bool) {
    let _no_memory = shared::kept(&SLOT, true, |mine| {
        put(mine, record);
        Some(())
    });
}
