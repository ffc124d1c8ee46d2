//! The time of torch.profiler, which is CLOCK_REALTIME of its host, and that of the archive.

use analysis::property;
use otf2::{AttributeValue, ClockOffset, LocationRef};

use crate::error::Result;
use crate::kineto::job::Job;
use crate::kineto::line::Line;

/// From CLOCK_REALTIME of the host of a rank (ns since 1970) to ns after the beginning of the archive, for a time span.
pub(super) fn of_rank(job: &Job<'_>, rank: u32, span_ns: [i128; 2]) -> Result<Line> {
    let (trace, begin_ns) = (job.source.trace, i128::from(job.source.begin_ns()));
    let process = trace.definitions.location_groups.get(&job.process(rank));
    let anchors = process.and_then(|it| property(&trace.definitions, &it.properties, "NCCL::CLOCK::ANCHORS"));
    let anchors = anchors.and_then(|text: AttributeValue| trace.text(text)).unwrap_or_default();
    // CLOCK_REALTIME less CLOCK_MONOTONIC, as it was nearest to the span: it is slewed.
    let readings = anchors.split(", ").filter_map(|anchor| {
        let numbers: Vec<i128> = anchor.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [_ticks, monotonic_ns, _raw_ns, realtime_ns] = numbers[..] else { return None };
        Some((realtime_ns, realtime_ns - monotonic_ns))
    });
    let nearest = readings.min_by_key(|(realtime_ns, _)| (realtime_ns - span_ns[0]).abs());
    let location: Option<LocationRef> = job.locations_of(rank).next();
    let (Some((_, behind_ns)), Some(location)) = (nearest, location) else {
        return Ok(Line { from: span_ns, to: span_ns }.less(begin_ns));
    };
    // Event files have CLOCK_MONOTONIC; the archive's clock is what the offsets make of it.
    let offsets = trace.archive.local_definitions(location)?.clock_offsets;
    let corrected = |realtime_ns: i128| {
        let local_ns = realtime_ns - behind_ns;
        local_ns + offset_ns(&offsets, local_ns).unwrap_or(behind_ns)
    };
    let first_ns = trace.definitions.clock.as_ref().map_or(0, |clock| i128::from(clock.global_offset));
    Ok(Line { from: span_ns, to: span_ns.map(corrected) }.less(first_ns))
}

/// The clock offset at a time, as readers of OTF2 compute it; none where there is none.
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
