//! What is under way, as counters: bytes and bandwidth of a rank's operations, bandwidth of a network connection. An
//! archive has none: they follow from its operations and transfers.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::perfetto::tracks::WRITER;
use crate::source::{Selection, Source};
use analysis::units::whole;
use analysis::{Role, Slice, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, Timing};
use nccl_events::schema::definition::Sibling;
use otf2::LocationRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counter {
    BytesInFlight,
    Bandwidth,
    NetworkBandwidth,
}

impl Counter {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BytesInFlight => "nccl.bytes_in_flight",
            Self::Bandwidth => "nccl.bandwidth",
            Self::NetworkBandwidth => "nccl.network_bandwidth",
        }
    }

    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::BytesInFlight => "bytes",
            Self::Bandwidth | Self::NetworkBandwidth => "bytes/s",
        }
    }
}

/// A value that holds until the counter's next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) time_ns: u64,
    pub(crate) value: u64,
}

/// The counters of locations, each on that which it describes, never on a sibling.
pub(crate) type Counters = BTreeMap<LocationRef, BTreeMap<Counter, Vec<Sample>>>;

/// Changes of the amount under way. Exact: whatever is added is subtracted again to the last unit.
#[derive(Debug, Default)]
struct Load(Vec<(u64, i128)>);

impl Load {
    fn add(&mut self, (start, stop): (u64, u64), amount: u64) {
        if start < stop && amount > 0 {
            self.0.extend([(start, i128::from(amount)), (stop, -i128::from(amount))]);
        }
    }

    /// One sample wherever the value changes, and none before the first change from 0.
    fn samples(mut self) -> Vec<Sample> {
        self.0.sort_unstable_by_key(|(time_ns, _)| *time_ns);
        let (mut sum, mut samples) = (0, Vec::new());
        for at_once in self.0.chunk_by(|a, b| a.0 == b.0) {
            let change: i128 = at_once.iter().map(|(_, change)| change).sum();
            sum += change;
            if let Some((time_ns, _)) = at_once.first().filter(|_| change != 0) {
                samples.push(Sample { time_ns: *time_ns, value: u64::try_from(sum).unwrap_or(u64::MAX) });
            }
        }
        samples
    }
}

/// In bytes/s; `None` of what takes no time.
fn rate(bytes: u64, (start_ns, stop_ns): (u64, u64)) -> Option<u64> {
    let rate = (u128::from(bytes) * 1_000_000_000).checked_div(stop_ns.saturating_sub(start_ns).into())?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

type Loads = BTreeMap<(LocationRef, Counter), Load>;

/// The counters of what is selected; `locations` are those of the export, ascending.
pub(crate) fn counters(source: &Source<'_>, selection: &Selection<'_>, locations: &[LocationRef]) -> Result<Counters> {
    let trace = source.trace;
    let mut loads = Loads::new();
    let ranks = selection.locations_of_kinds(&[LocationKind::Communicator]);
    let rank_loads = source.each_location(&ranks, |location| operations(trace, selection, location))?;
    for (location, [bytes, bandwidth]) in ranks.iter().zip(rank_loads) {
        let rank = trace.member_of(*location).unwrap_or(*location);
        for (counter, load) in [(Counter::BytesInFlight, bytes), (Counter::Bandwidth, bandwidth)] {
            loads.entry((rank, counter)).or_default().0.extend(load.0);
        }
    }
    let connections = connections(trace, locations);
    let mut add = |location: LocationRef, load: Load| {
        if let Some(connection) = connections.get(&location) {
            loads.entry((*connection, Counter::NetworkBandwidth)).or_default().0.extend(load.0);
        }
    };
    let slots = selection.locations_of_kinds(&[LocationKind::Slot]);
    let mut with_steps = BTreeSet::new();
    for (slot, (load, transfers)) in
        slots.iter().zip(source.each_location(&slots, |location| steps(trace, selection, location))?)
    {
        with_steps.extend(transfers);
        add(*slot, load);
    }
    let lanes = selection.locations_of_kinds(&[LocationKind::Connection]);
    let lane_loads = source.each_location(&lanes, |location| transfers(trace, selection, location, &with_steps))?;
    for (lane, load) in lanes.iter().zip(lane_loads) {
        add(*lane, load);
    }
    let mut counters = Counters::new();
    for ((location, counter), load) in loads {
        counters.entry(location).or_default().insert(counter, load.samples());
    }
    Ok(counters)
}

/// Bytes and bandwidth of the operations on a communicator's location.
fn operations(trace: &Trace, selection: &Selection<'_>, location: LocationRef) -> Result<[Load; 2]> {
    let (mut in_flight, mut bandwidth) = (Load::default(), Load::default());
    selection.slices(location, |slice| {
        let Some(Role::Operation(kind)) = slice.role else { return };
        let fields = trace.fields_of(&slice.attributes);
        // What consists of sends and receives has no id of its own: these count.
        let Some(bytes) = fields.bytes.filter(|_| fields.event.is_some()) else { return };
        in_flight.add(span(slice), bytes);
        let is_known = fields.timing.is_some_and(Timing::is_measured) && fields.is_unfinished != Some(true);
        let rate = match kind {
            Kind::P2p => rate(bytes, span(slice)).filter(|_| is_known),
            _ => fields.algorithm_bandwidth.map(whole),
        };
        bandwidth.add(span(slice), rate.unwrap_or(0));
    })?;
    Ok([in_flight, bandwidth])
}

/// The bandwidth of steps while the network moves them, and the transfers with steps that have a size.
fn steps(trace: &Trace, selection: &Selection<'_>, location: LocationRef) -> Result<(Load, BTreeSet<u64>)> {
    const SEND_WAIT: usize = 2;
    const RECV_WAIT: usize = 3;
    const RECV_FLUSH_WAIT: usize = 4;
    let (mut load, mut transfers, mut received) = (Load::default(), BTreeSet::new(), None);
    selection.slices(location, |slice| {
        let fields = trace.fields_of(&slice.attributes);
        let moving = match trace.phase(slice.region) {
            Some(SEND_WAIT) => Some(span(slice)),
            Some(RECV_WAIT) => {
                received = Some((fields.event, span(slice)));
                None
            }
            // NCCL reports the size when the data is there.
            Some(RECV_FLUSH_WAIT) => received.take().filter(|wait| wait.0 == fields.event).map(|(_, span)| span),
            _ => None,
        };
        let rate = moving.and_then(|span| Some((span, rate(fields.bytes.filter(|bytes| *bytes > 0)?, span)?)));
        if let Some((span, rate)) = rate {
            transfers.extend(fields.parent);
            load.add(span, rate);
        }
    })?;
    Ok((load, transfers))
}

/// The bandwidth of whole transfers, of which NCCL reports no sizes of steps.
fn transfers(
    trace: &Trace,
    selection: &Selection<'_>,
    location: LocationRef,
    with_steps: &BTreeSet<u64>,
) -> Result<Load> {
    let (mut load, mut queued_to) = (Load::default(), None);
    selection.slices(location, |slice| {
        // Within a transfer is only its time in the queue.
        if slice.depth > 0 {
            queued_to = Some(slice.stop_ns);
            return;
        }
        let begin = queued_to.take().unwrap_or(slice.start_ns);
        let fields = trace.fields_of(&slice.attributes);
        let counts_by_step = fields.event.is_some_and(|event| with_steps.contains(&event));
        let is_open = fields.is_unfinished == Some(true);
        if slice.role != Some(Role::Work(Kind::ProxyOp)) || counts_by_step || is_open {
            return;
        }
        let wire: Wire<'_> = trace.read_fields(&slice.attributes);
        let span = (begin, slice.stop_ns);
        load.add(span, wire.bytes.and_then(|bytes| rate(bytes, span)).unwrap_or(0));
    })?;
    Ok(load)
}

nccl_events::fields! {
    struct Wire {
        bytes: WireBytes,
    }
}

const fn span(slice: &Slice) -> (u64, u64) {
    (slice.start_ns, slice.stop_ns)
}

/// The connection of each of its locations: siblings and slots follow it, by writer.
fn connections(trace: &Trace, locations: &[LocationRef]) -> BTreeMap<LocationRef, LocationRef> {
    let (mut last, mut found) = (BTreeMap::new(), BTreeMap::new());
    for location in locations {
        let writer = location.get() & WRITER;
        match trace.location_kind(*location) {
            Some(LocationKind::Connection) if trace.location_property(*location, Sibling).is_none() => {
                last.insert(writer, *location);
            }
            Some(LocationKind::Connection | LocationKind::Slot) => {}
            _ => continue,
        }
        found.extend(last.get(&writer).map(|connection| (*location, *connection)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second() {
        assert_eq!(rate(1000, (5, 15)), Some(100_000_000_000));
        assert_eq!(rate(1, (0, 3)), Some(333_333_333));
        assert_eq!(rate(1, (3, 3)), None);
        assert_eq!(rate(u64::MAX, (0, 1)), Some(u64::MAX));
    }

    #[test]
    fn what_overlaps_adds_up_and_ends_at_zero() {
        let mut load = Load::default();
        for (span, amount) in [((0, 10), 3), ((5, 20), 4), ((10, 20), 3), ((7, 7), 9), ((8, 9), 0)] {
            load.add(span, amount);
        }
        let samples = load.samples().into_iter().map(|sample| (sample.time_ns, sample.value));
        // At 10 as much begins as ends.
        assert_eq!(samples.collect::<Vec<_>>(), [(0, 3), (5, 7), (20, 0)]);
    }
}
