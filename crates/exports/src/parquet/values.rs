//! Converts the archive's values for columns.

use analysis::Trace;
use otf2::LocationGroupRef;

pub(super) fn host(trace: &Trace, process: LocationGroupRef) -> &str {
    trace.host_name(process).filter(|name| !name.is_empty()).unwrap_or("unknown")
}

/// For a rank, a channel, or the number of a definition.
pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
