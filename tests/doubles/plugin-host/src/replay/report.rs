//! What was replayed, and what was left out and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) stream: String,
    pub(crate) plugin: String,
    pub(crate) table: u8,
    pub(crate) pid: u32,
    pub(crate) mask: u32,
    pub(crate) mask_respected: bool,
    pub(crate) threads: u64,
    pub(crate) inits: u64,
    pub(crate) finalizes: u64,
    pub(crate) kinds: BTreeMap<String, KindCounts>,
    /// By state's name: calls of `recordEventState`.
    pub(crate) states: BTreeMap<String, u64>,
    pub(crate) left_out: LeftOut,
    /// Calls that returned something else than success, or did not write their result.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) stream_gaps: StreamGaps,
    pub(crate) log_lines: u64,
    /// Lines logged without a communicator, when libnccl may be gone.
    pub(crate) late_log_lines: u64,
    pub(crate) wall_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KindCounts {
    pub(crate) start: u64,
    pub(crate) stop: u64,
    pub(crate) state: u64,
}

/// Recorded callbacks that the plugin did not get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) start_not_in_table: u64,
    pub(crate) state_not_in_table: u64,
    pub(crate) start_not_in_mask: u64,
    /// Starts below a parent with a NULL handle (up to v4).
    pub(crate) start_null_parent: u64,
    /// Stops and states of events that were not started or got a NULL handle.
    pub(crate) stop_or_state_without_handle: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamGaps {
    pub(crate) missing_inits: u64,
    pub(crate) orphan_states: u64,
    pub(crate) unknown_parents: u64,
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.late_log_lines == 0
    }
}
