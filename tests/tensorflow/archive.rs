//! What an archive has, in the terms of a viewer of lines with events.

use std::collections::BTreeMap;

use whole_plugin::scratch::Scratch;

use whole_plugin::regions::row_of;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionTotals {
    pub(crate) events: u64,
    pub(crate) time_ns: u64,
    pub(crate) bytes: u64,
}

/// By name; processes may have lines of one name.
pub(crate) type Lines = BTreeMap<String, RegionTotals>;

/// The region instances and records of the archive of a job, by the row that shows them.
pub(crate) fn lines_of(scratch: &Scratch) -> Lines {
    let mut lines = Lines::new();
    for region in scratch.archive().regions() {
        let bytes = region.number("nccl.bytes").unwrap_or(0);
        let seen = lines.entry(row_of(&region)).or_default();
        seen.events += 1;
        seen.time_ns += region.end_ns - region.start_ns;
        seen.bytes += bytes;
    }
    lines
}
