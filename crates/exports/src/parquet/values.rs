//! What the archive says, as columns have it.

use analysis::Trace;
use otf2::LocationGroupRef;

pub(super) fn host(trace: &Trace, process: LocationGroupRef) -> &str {
    trace.host_name(process).filter(|name| !name.is_empty()).unwrap_or("unknown")
}

/// A rank, a channel, a number of a definition.
pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
