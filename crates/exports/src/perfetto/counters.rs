//! What is under way, as counters: bytes and bandwidth of a rank's operations, bandwidth of a network connection. An
//! archive has none: they follow from its operations and transfers.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::source::{Selection, Source};
use analysis::units::whole;
use analysis::{Lane, LaneKind, Role, Slice, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, Timing};
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

#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Each on the location that it describes.
    pub(crate) locations: BTreeMap<LocationRef, BTreeMap<Counter, Vec<Sample>>>,
    /// The network bandwidth of connections, by the location of their records.
    pub(crate) connections: BTreeMap<LocationRef, BTreeMap<Lane, Vec<Sample>>>,
}

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

/// The counters of what is selected.
pub(crate) fn counters(source: &Source<'_>, selection: &Selection<'_>) -> Result<Counters> {
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
    let threads = selection.locations_of_kinds(&[LocationKind::ProxyThread]);
    let thread_loads = source.each_location(&threads, |location| connections(trace, selection, location))?;
    let mut counters = Counters::default();
    for ((location, counter), load) in loads {
        counters.locations.entry(location).or_default().insert(counter, load.samples());
    }
    for (location, loads) in threads.into_iter().zip(thread_loads) {
        let samples = loads.into_iter().map(|(lane, load)| (lane, load.samples()));
        counters.connections.insert(location, samples.collect());
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

/// The bandwidth of each connection: of its steps while the network moves them, or, where NCCL reports no sizes of
/// steps, of its transfers.
fn connections(trace: &Trace, selection: &Selection<'_>, location: LocationRef) -> Result<BTreeMap<Lane, Load>> {
    let mut loads: BTreeMap<Lane, Load> = BTreeMap::new();
    let mut with_steps = BTreeSet::new();
    // The steps of a transfer end before it.
    selection.slices(location, |slice| {
        let Some(connection) = slice.lane.and_then(|lane| lane.shows.connection()) else { return };
        let load = loads.entry(Lane { location, shows: LaneKind::Connection(connection), row: 0 }).or_default();
        let fields = trace.fields_of(&slice.attributes);
        let wire: Wire<'_> = trace.read_fields(&slice.attributes);
        match slice.role.map(Role::kind) {
            Some(Kind::ProxyStep) => {
                let moving_ns = wire.network_ns.unwrap_or(0);
                let span = match connection.is_send {
                    true => (slice.stop_ns.saturating_sub(moving_ns), slice.stop_ns),
                    false => (slice.start_ns, slice.start_ns.saturating_add(moving_ns)),
                };
                if let Some(rate) = fields.bytes.filter(|bytes| *bytes > 0).and_then(|bytes| rate(bytes, span)) {
                    with_steps.extend(fields.parent);
                    load.add(span, rate);
                }
            }
            Some(Kind::ProxyOp)
                if fields.is_unfinished != Some(true)
                    && fields.event.is_none_or(|event| !with_steps.remove(&event)) =>
            {
                let span = (slice.start_ns.saturating_add(fields.queued_ns.unwrap_or(0)), slice.stop_ns);
                load.add(span, wire.bytes.and_then(|bytes| rate(bytes, span)).unwrap_or(0));
            }
            _ => {}
        }
    })?;
    Ok(loads)
}

nccl_events::fields! {
    struct Wire {
        bytes: WireBytes,
        network_ns: WaitNetwork,
    }
}

const fn span(slice: &Slice) -> (u64, u64) {
    (slice.began_ns(), slice.stop_ns)
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
