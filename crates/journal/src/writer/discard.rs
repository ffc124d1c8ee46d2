//! Removes what is older than the window: only the keeper does, segment by segment, the oldest of all slots first.
//!
//! A segment in use is never removed, nor is anything of the keeper's own slot: it has what the rest is understood
//! by, the clock pairs and the communicators, and grows by some five megabytes a day.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::format::layout::SEGMENT_BYTES;
use crate::writer::{PREPARE_FROM_BYTES, Registry, Slot, Window};

/// The used files of a slot.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// The number of the first file that is not among them yet.
    next: u32,
    files: VecDeque<UsedFile>,
}

#[derive(Clone, Copy, Debug)]
struct UsedFile {
    number: u32,
    /// When the keeper saw that the thread had left it: all it holds is older.
    since: Instant,
}

impl Used {
    fn see(&mut self, current: u32, now: Instant) {
        for number in self.next..current {
            self.files.push_back(UsedFile { number, since: now });
        }
        self.next = self.next.max(current);
    }
}

impl Slot {
    /// Whether the keeper is about to prepare a file for it.
    fn wants_segment(&self) -> bool {
        let current = self.current.lock().clone();
        self.spare.lock().is_none()
            && current.is_some_and(|file| file.committed_bytes() >= PREPARE_FROM_BYTES)
    }
}

impl Registry {
    /// Lets go of what threads have left and removes what the window does not keep.
    pub(crate) fn discard(&self, slots: &[Arc<Slot>], window: Window) {
        let now = Instant::now();
        for slot in slots {
            slot.left.lock().clear();
            let current = slot.current.lock().as_ref().map(|file| file.number());
            if let Some(current) = current
                && slot.number != 0
            {
                slot.used.lock().see(current, now);
            }
        }
        // Room for the segments that are prepared next.
        let segment = SEGMENT_BYTES as u64;
        let next = slots.iter().filter(|slot| slot.wants_segment()).count() as u64;
        let most = window.bytes.saturating_sub(segment * next);
        while let Some((slot, file)) = oldest(slots) {
            let is_old = window.time.is_some_and(|time| now - file.since > time);
            if !is_old && self.reserved_bytes() <= most {
                break;
            }
            let removed = std::fs::remove_file(self.path_of(slot, file.number));
            // What cannot be removed stays in the account, and in the archive.
            if removed.is_ok() {
                self.give_back(segment);
            }
            slot.used.lock().files.pop_front();
        }
    }
}

fn oldest(slots: &[Arc<Slot>]) -> Option<(&Slot, UsedFile)> {
    let firsts = slots
        .iter()
        .filter_map(|slot| Some((&**slot, slot.used.lock().files.front().copied()?)));
    firsts.min_by_key(|(_, file)| file.since)
}
