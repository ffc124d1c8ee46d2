//! Traces of the same job by other profilers. Their times are CLOCK_REALTIME of the host where they were taken.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use analysis::Trace;
use nccl_events::schema::definition::ClockAnchors;
use nccl_events::sort::Gather;
use otf2::{ClockOffset, LocationRef, SystemTreeNodeRef};

use crate::error::{Error, Result};
use crate::line::Line;
use crate::source::Source;

pub(crate) fn names(traces: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut names: Vec<PathBuf> = traces.iter().filter_map(|trace| trace.file_name().map(PathBuf::from)).collect();
    nccl_events::sort::sort(&mut names);
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = twice[0].display();
        return Err(Error::Refused(format!("two of the traces are called {name}: their copies would be one file")));
    }
    Ok(names)
}

pub(crate) fn hosts(trace: &Trace, locations: impl Iterator<Item = LocationRef>) -> BTreeSet<SystemTreeNodeRef> {
    locations.filter_map(|location| trace.host(trace.group(location))).gather()
}

/// Converts CLOCK_REALTIME of a location's host to ns from the archive's start, over the span of a trace of that host.
pub(crate) fn clock(source: &Source<'_>, location: LocationRef, path: &Path, span_ns: [i128; 2]) -> Result<Line> {
    let (trace, name) = (source.trace, path.display());
    let process = trace.process(trace.group(location));
    let Some(definition) = trace.definitions.clock.as_ref().filter(|it| it.realtime_timestamp != u64::MAX) else {
        return Err(Error::Refused(format!(
            "{name} counts from 1970, and the archive does not say when it was recorded: their clocks cannot be related"
        )));
    };
    let anchors = trace.of_group(process, ClockAnchors).unwrap_or_default();
    // CLOCK_REALTIME minus CLOCK_MONOTONIC, read closest to the span, because CLOCK_REALTIME is slewed.
    let readings = anchors.iter().map(|anchor| {
        let realtime_ns = i128::from(anchor.realtime_ns);
        (realtime_ns, realtime_ns - i128::from(anchor.monotonic_ns))
    });
    let Some((_, behind_ns)) = readings.min_by_key(|(realtime_ns, _)| (realtime_ns - span_ns[0]).abs()) else {
        let recorded = trace.definitions.locations.keys().copied().filter(|it| trace.has_events(*it));
        if hosts(trace, recorded).len() < 2 {
            return Ok(Line { from: span_ns, to: span_ns }.less(source.begin_ns().into()));
        }
        return Err(Error::Refused(format!(
            "{name}: the archive is of several hosts and does not say what the clocks of {} showed \
             (NCCL::CLOCK::ANCHORS): they cannot be related",
            trace.group_name(process)
        )));
    };
    // Event files use CLOCK_MONOTONIC; the clock offsets convert it to the archive's clock.
    let offsets = trace.archive.local_definitions(location)?.clock_offsets;
    let corrected = |realtime_ns: i128| {
        let local_ns = realtime_ns - behind_ns;
        local_ns + offset_ns(&offsets, local_ns).unwrap_or(behind_ns)
    };
    Ok(Line { from: span_ns, to: span_ns.map(corrected) }.less(definition.global_offset.into()))
}

/// Refuses a trace that does not overlap the archive in time.
pub(crate) fn refuse_apart(source: &Source<'_>, clock: &Line, path: &Path, span_ns: [i128; 2]) -> Result<()> {
    let length_ns = i128::from(source.length_ns());
    let [from_ns, to_ns] = span_ns.map(|at_ns| clock.at(at_ns));
    if to_ns >= 0 && from_ns <= length_ns {
        return Ok(());
    }
    let clock = clock.inverse();
    let [theirs, ours] = [span_ns, [0, length_ns].map(|at_ns| clock.at(at_ns))].map(|span| span.map(seconds));
    Err(Error::Refused(format!(
        "{} has nothing in common with the archive: it was taken from {} to {}, the archive from {} to {} (s since \
         1970)",
        path.display(),
        theirs[0],
        theirs[1],
        ours[0],
        ours[1]
    )))
}

fn seconds(ns: i128) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// The clock offset at a time, computed as readers of OTF2 do; `None` if there are no offsets.
fn offset_ns(offsets: &[ClockOffset], local_ns: i128) -> Option<i128> {
    let behind = offsets.partition_point(|it| i128::from(it.time) < local_ns);
    let pair = match offsets {
        [] => return None,
        [only] => return Some(only.offset.into()),
        _ => &offsets[behind.clamp(1, offsets.len() - 1) - 1..][..2],
    };
    let from = [i128::from(pair[0].time), i128::from(pair[1].time)];
    let to = [i128::from(pair[0].offset), i128::from(pair[1].offset)];
    Some(if from[0] == from[1] { to[0] } else { Line { from, to }.at(local_ns) })
}

#[cfg(test)]
mod tests {
    use otf2::ClockOffset;

    use super::offset_ns;

    #[test]
    fn offsets_are_as_readers_apply_them() {
        let offset = |time, offset| ClockOffset { time, offset, standard_deviation: 0.0 };
        assert_eq!(offset_ns(&[], 5), None);
        assert_eq!(offset_ns(&[offset(0, 9)], 5), Some(9));
        let some = [offset(10, 100), offset(20, 200), offset(30, 200)];
        assert_eq!([5, 15, 25, 40].map(|at| offset_ns(&some, at)), [Some(50), Some(150), Some(200), Some(200)]);
    }
}
