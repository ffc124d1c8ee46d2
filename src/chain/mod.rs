//! The chained profiler plugins (`NCCL_OTF2_CHAIN`), without C: where their libraries are, what each asks for, which
//! handle each has for an event, and what it did not get. `abi/chained/` calls the plugins in the callbacks in which
//! NCCL calls this plugin, without locking or allocating.

mod asked;
mod handles;
mod library;
mod report;

pub(crate) use asked::{asked_by, asks_for, begin_use, follow_masks, is_in_use, mask_of, note_asked};
pub(crate) use handles::{ABSENT, HandleTable, Handles, NONE};
pub(crate) use library::{Library, is_own};
pub(crate) use report::{Count, count, leave_out, report, take_report, took};

use settings::MOST_CHAINED;

pub(crate) const PLUGINS: usize = MOST_CHAINED;
