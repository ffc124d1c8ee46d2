//! The call of NCCL with which the recording begins.

use super::strings::Domain;
use crate::record::open_ranges::RangeName;
use crate::record::{self, ranges};
use crate::session;
use journal::uninterrupted::uninterrupted;
use nccl_events::collective::{ends_communicator, is_of_communicators};
use nccl_events::range::Range;

/// A range begins on this thread. NCCL's first one that makes a communicator begins the recording: in it a rank waits
/// for the others, before NCCL calls the profiler plugin.
#[inline]
pub(super) fn push(domain: Domain, range: &Range<RangeName>) -> i32 {
    let is_idle = domain.is_nccl && !record::is_on();
    let level = ranges::push(range);
    if is_idle {
        begin_recording(range.name);
    }
    level
}

#[cold]
#[inline(never)]
fn begin_recording(call: RangeName) {
    let is_made = |name: &str| is_of_communicators(name) && !ends_communicator(name);
    let is_first = call.is_some_and(|name| is_made(&String::from_utf8_lossy(name.text().bytes())));
    if is_first && uninterrupted(session::begin_before_init) {
        ranges::join();
    }
}
