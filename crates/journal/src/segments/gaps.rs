//! Segments that should be there: a machine that went down before its disk had all, or a file that was cut or lost,
//! leaves others behind them.

use std::io::Read as _;
use std::path::Path;

use crate::format::layout::SEGMENT_BYTES;
use crate::segments::Problem;
use crate::segments::segment::SegmentPlace;

/// Orders that nothing has: from, up to and including.
pub(crate) type Gap = (u64, u64);

/// What is missing before each of the orders, which are sorted and begin with 0 where nothing is missing.
pub(crate) fn before_each(orders: impl Iterator<Item = u64>) -> impl Iterator<Item = Option<Gap>> {
    let mut due = 0;
    orders.map(move |order| {
        let gap = (order > due).then(|| (due, order - 1));
        due = order.saturating_add(1).max(due);
        gap
    })
}

/// The slots without a segment and with nothing where their first one was, of a process that has used so many.
pub(crate) fn of_slots(directory: &Path, found: impl Iterator<Item = u16>, used: u64) -> impl Iterator<Item = Problem> {
    before_each(found.map(u64::from).chain([used])).flatten().filter_map(|(from, to)| {
        let path = directory.join(format!("{from}.0"));
        // A running process may have made it meanwhile.
        let mut magic = [0; 8];
        let read = regular_files::open(&path, u64::MAX).and_then(|mut file| file.read_exact(&mut magic));
        let is_there = read.is_ok() && magic != [0; 8];
        let reason = format!("the file is missing, empty or zeroed: no segment of slots {from} to {to}");
        (!is_there).then_some(Problem { path, offset: 0, reason, lost_bytes: 0 })
    })
}

/// That segments of a slot are missing before this place.
pub(crate) fn problem(slot: u16, (from, to): Gap, place: &SegmentPlace) -> Problem {
    let missing = (to - from).saturating_add(1);
    let reason = match missing {
        1 => format!("segment {from} of slot {slot} is missing before this one"),
        _ => format!("segments {from} to {to} of slot {slot} are missing before this one"),
    };
    place.problem(0, reason, missing.saturating_mul(SEGMENT_BYTES as u64))
}
