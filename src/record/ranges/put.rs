//! Appends records to the calling thread's slot.

use crate::host::shared;
use crate::record::open_ranges::RangeName;
use crate::record::open_ranges::counts::count;
use crate::record::slot::{RECORDING, SLOT};
use nccl_events::range::{RangeCount, RangeRecord};

/// Records what happens to a range, if anything is recorded.
#[inline]
pub(super) fn put(ticks: u64, id: u64, record: &RangeRecord<RangeName>) {
    if !RECORDING.is_on() {
        return;
    }
    let is_recorded = shared::with(&SLOT, |slot| match &mut slot.slot_writer {
        Some(slot_writer) => slot_writer.range(ticks, id, record),
        None => false,
    });
    // None: the recording ends at this moment.
    if is_recorded == Some(false) {
        count(RangeCount::Lost);
    }
}
