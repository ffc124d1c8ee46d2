//! Ended operations, by class.

use analysis::median;
use job::interval::Interval;
use journal::format::Symbol;
use nccl_events::archive::Timing;
use nccl_events::collective::Collective;

use super::communicators::{Member, OTHER};
use super::series::{Budget, Series};
use crate::snapshot::{Histogram, Window, seconds};

/// Limit on the bandwidths of a series kept for the median of an interval.
const MOST_BANDWIDTHS: usize = 1024;

/// An operation that ended. Symbols are from [`super::Sums::name`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedOperation {
    pub(crate) member: Member,
    pub(crate) function: Symbol,
    pub(crate) algorithm: Symbol,
    pub(crate) is_point_to_point: bool,
    pub(crate) peer: Option<i32>,
    pub(crate) bytes: u64,
    pub(crate) collective: Option<Collective>,
    /// Whether the amount of data is known: requires the number of ranks and all parts of the operation.
    pub(crate) has_bandwidth: bool,
    pub(crate) root: i32,
    /// NCCL's sequence number and the replay; `None` for sends and receives.
    pub(crate) sequence: Option<(u64, u64)>,
    pub(crate) interval: Interval,
    /// Error of the times; `None` if unknown.
    pub(crate) error_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) member: Member,
    pub(crate) function: Symbol,
    pub(crate) algorithm: Symbol,
    pub(crate) is_point_to_point: bool,
    pub(crate) peer: Option<i32>,
    pub(crate) size_class: u64,
    pub(crate) timing: &'static str,
}

impl Key {
    fn of(ended: &EndedOperation) -> Self {
        Self {
            member: ended.member,
            function: ended.function,
            algorithm: ended.algorithm,
            is_point_to_point: ended.is_point_to_point,
            peer: ended.peer,
            size_class: ended.bytes.checked_ilog2().map_or(0, |log| 1 << log),
            timing: ended.interval.timing.name(),
        }
    }

    const fn other(self, other: Symbol) -> Self {
        let member = Member { communicator: OTHER, rank: 0 };
        let timing = Timing::Enqueue.name();
        Self { member, function: other, algorithm: other, is_point_to_point: false, peer: None, size_class: 0, timing }
    }
}

#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) duration: Histogram,
    window: Window,
    /// Algorithm bandwidths of the interval. The bus bandwidth is each of these times `bus_factor`.
    bandwidths: Vec<f64>,
    bus_factor: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Operations(pub(crate) Series<Key, Sum>);

impl Operations {
    pub(crate) fn add(
        &mut self,
        ended: &EndedOperation,
        ranks: u32,
        (bounds, budget, other): (&'static [f64], &mut Budget, Symbol),
    ) {
        let key = Key::of(ended);
        let new = || Sum {
            count: 0,
            bytes: 0,
            duration: Histogram::new(bounds),
            window: Window::default(),
            bandwidths: Vec::new(),
            bus_factor: 0.0,
        };
        let place = self.0.place(key, key.other(other), budget, new);
        let Some(sum) = self.0.at(place) else {
            return;
        };
        let Interval { start, end, timing, is_shared, .. } = ended.interval;
        let duration_ns = end.saturating_sub(start);
        sum.count += 1;
        sum.bytes += ended.bytes;
        sum.duration.add(duration_ns);
        sum.window.count += 1;
        sum.window.bytes += ended.bytes;
        sum.window.duration_ns += duration_ns;
        if let Some(collective) = ended.collective
            && ended.has_bandwidth
            && timing.is_measured()
            && !is_shared
            && duration_ns > 0
            && sum.bandwidths.len() < MOST_BANDWIDTHS
        {
            sum.bandwidths.push(collective.bandwidths(ended.bytes, ranks, seconds(duration_ns)).0);
            sum.bus_factor = collective.bus_factor(ranks);
        }
    }
}

impl Sum {
    pub(crate) fn end_window(&mut self) -> Window {
        let algbw = (!self.bandwidths.is_empty()).then(|| median(&mut self.bandwidths));
        self.bandwidths.clear();
        Window { algbw, busbw: algbw.map(|algbw| algbw * self.bus_factor), ..std::mem::take(&mut self.window) }
    }
}
