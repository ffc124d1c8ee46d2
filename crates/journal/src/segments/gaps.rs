//! Missing segments: later ones can be left by a machine that crashed, or by a file that was truncated or lost.

use std::io::Read as _;
use std::path::Path;

use crate::format::layout::SEGMENT_BYTES;
use crate::segments::Problem;
use crate::segments::segment::SegmentPlace;

/// A range of missing orders; both ends are inclusive.
pub(crate) type Gap = (u64, u64);

/// The gap before each of the sorted orders. The first order is expected to be 0.
pub(crate) fn before_each(orders: impl Iterator<Item = u64>) -> impl Iterator<Item = Option<Gap>> {
    let mut due = 0;
    orders.map(move |order| {
        let gap = (order > due).then(|| (due, order - 1));
        due = order.saturating_add(1).max(due);
        gap
    })
}

/// Problems for those of a process's `used` slots that have no segment and nothing at the place of their first one.
pub(crate) fn of_slots(directory: &Path, found: impl Iterator<Item = u16>, used: u64) -> impl Iterator<Item = Problem> {
    before_each(found.map(u64::from).chain([used])).flatten().filter_map(|(from, to)| {
        let path = directory.join(format!("{from}.0"));
        // A running process may have created the file in the meantime.
        let mut magic = [0; 8];
        let read = regular_files::open(&path, u64::MAX).and_then(|mut file| file.read_exact(&mut magic));
        let is_there = read.is_ok() && magic != [0; 8];
        let reason = format!("the file is missing, empty or zeroed: no segment of slots {from} to {to}");
        (!is_there).then_some(Problem { path, offset: 0, reason, lost_bytes: 0 })
    })
}

/// The problem that segments of a slot are missing before this place.
pub(crate) fn problem(slot: u16, (from, to): Gap, place: &SegmentPlace) -> Problem {
    let missing = (to - from).saturating_add(1);
    let reason = match missing {
        1 => format!("segment {from} of slot {slot} is missing before this one"),
        _ => format!("segments {from} to {to} of slot {slot} are missing before this one"),
    };
    place.problem(0, reason, missing.saturating_mul(SEGMENT_BYTES as u64))
}
