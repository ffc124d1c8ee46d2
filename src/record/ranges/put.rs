//! Appends records to the calling thread's slot.

use crate::host::shared;
use crate::record::open_ranges::counts::count;
use crate::record::slot::{RECORDING, SLOT};
use journal::writer::SlotWriter;
use nccl_events::range::RangeCount;

/// Has the thread's slot writer record what happens to a range, if anything is recorded.
#[inline]
pub(super) fn put(record: impl FnOnce(&mut SlotWriter) -> bool) {
    if !RECORDING.is_on() {
        return;
    }
    let is_recorded = shared::with(&SLOT, |slot| match &mut slot.slot_writer {
        Some(slot_writer) => record(slot_writer),
        None => false,
    });
    // None: the recording ends at this moment.
    if is_recorded == Some(false) {
        count(RangeCount::Lost);
    }
}
