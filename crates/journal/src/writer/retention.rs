//! Flight recordings: removes what exceeds the retention, segment by segment, oldest first across all slots.
//!
//! Runs on the maintenance thread only. A segment in use is never removed, nor is any segment of the maintenance
//! thread's own slot: it contains the clock pairs and the communicators, without which the rest has no meaning, and
//! grows by about five megabytes a day.

use std::sync::Arc;
use std::time::Instant;

use super::slot::{Slot, UsedFile};
use super::space::{Retention, Space};
use crate::format::layout::SEGMENT_BYTES;

/// Fill level at which the maintenance thread prepares the next segment: at full speed the rest lasts less than 1 ms.
pub(crate) const PREPARE_FROM_BYTES: u64 = SEGMENT_BYTES as u64 / 8;

/// Whether the maintenance thread is about to prepare a file for the slot.
fn wants_segment(slot: &Slot) -> bool {
    let current = slot.current.lock().clone();
    slot.spare.lock().is_none() && current.is_some_and(|file| file.committed_bytes() >= PREPARE_FROM_BYTES)
}

/// Unmaps the files that threads have finished with, and removes files beyond the retention.
pub(crate) fn remove_old(space: &Space, slots: &[Arc<Slot>], retention: Retention) {
    let now = Instant::now();
    for slot in slots {
        slot.left.lock().clear();
        let current = slot.current.lock().as_ref().map(|file| file.number());
        if let Some(current) = current
            && slot.number != 0
        {
            slot.used.lock().extend_to(current, now);
        }
    }
    // Leave room for the segments that are prepared next.
    let segment = SEGMENT_BYTES as u64;
    let next = slots.iter().filter(|slot| wants_segment(slot)).count() as u64;
    let most = retention.bytes.saturating_sub(segment * next);
    while let Some((slot, file)) = oldest(slots) {
        let is_old = retention.time.is_some_and(|time| now - file.since > time);
        if !is_old && space.reserved_bytes() <= most {
            break;
        }
        space.remove_file(slot, file.number);
        slot.used.lock().files.pop_front();
    }
}

fn oldest(slots: &[Arc<Slot>]) -> Option<(&Slot, UsedFile)> {
    let firsts = slots.iter().filter_map(|slot| Some((&**slot, slot.used.lock().files.front().copied()?)));
    firsts.min_by_key(|(_, file)| file.since)
}
