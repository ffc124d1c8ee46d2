//! Detects collectives that have become slow, comparing each class with its own past.
//!
//! A class's value in an interval is the median over its ranks of the median algorithm bandwidth; only timings that
//! measure work have one. Its past is the last [`PAST`] intervals in which it was not slow.

use std::collections::BTreeMap;
use std::path::Path;

use live::{Operation, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;

use super::outputs::Change;
use crate::units::{bandwidth, bytes, plural, time};

/// Number of intervals kept: ten minutes at 10 s each.
const PAST: usize = 60;

const MOST_RANKS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A bandwidth is slow if it is lower than the median of the past by this factor.
    pub(super) factor: f64,
    /// A class that is slow in this many consecutive intervals is reported.
    pub(super) intervals: usize,
    pub(super) past: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct Class {
    communicator: String,
    function: String,
    size_class: u64,
    timing: &'static str,
    algorithm: String,
}

#[derive(Debug, Default)]
struct History {
    past: Vec<f64>,
    /// Values since the class may have become slow, or fast again.
    streak: Vec<f64>,
    is_slow: bool,
    row: Option<Row>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Row {
    #[serde(flatten)]
    class: Class,
    ranks: usize,
    count: u64,
    algbw: f64,
    usual_algbw: f64,
    intervals: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LastRow {
    communicator: String,
    rank: u32,
    part: String,
    last: u64,
    caused_waiting_ns: u64,
}

/// The report of slow operations, described in `docs/REFERENCE.md` §9.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    format: u32,
    directory: String,
    time_ns: u64,
    interval_ns: u64,
    pub(super) verdict: Verdict,
    /// Slowest first.
    operations: Vec<Row>,
    /// Ranks that others waited for; longest first.
    last: Vec<LastRow>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Verdict {
    pub(super) found: bool,
    kind: &'static str,
    pub(super) text: String,
}

pub(super) struct Slow {
    limits: Limits,
    classes: BTreeMap<Class, History>,
    /// For each communicator and rank: how often it was last, and the waiting it caused, before the interval.
    before: BTreeMap<(usize, u32), (u64, u64)>,
}

impl Slow {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, classes: BTreeMap::new(), before: BTreeMap::new() }
    }

    pub(super) fn change(&mut self, directory: &Path, snapshot: &Snapshot) -> Option<(Change, Report)> {
        let had_some = self.classes.values().any(|it| it.is_slow);
        let mut is_new = false;
        for (class, operations) in classes(snapshot) {
            let Some(algbw) = median(operations.iter().filter_map(|it| it.window.algbw).collect()) else { continue };
            let history = self.classes.entry(class.clone()).or_default();
            is_new |= history.take(algbw, self.limits);
            let count = operations.iter().map(|it| it.window.count).sum();
            let usual_algbw = median(history.past.clone()).unwrap_or(algbw);
            let intervals = history.past.len();
            history.row = Some(Row { class, ranks: operations.len(), count, algbw, usual_algbw, intervals });
        }
        let last = self.last(snapshot);
        let slow = self.classes.values().filter(|it| it.is_slow).filter_map(|it| it.row.clone());
        let mut operations: Vec<Row> = slow.collect();
        nccl_events::sort::sort_by(&mut operations, |a, b| {
            (a.algbw / a.usual_algbw).total_cmp(&(b.algbw / b.usual_algbw))
        });
        let change = match operations.is_empty() {
            false if is_new => Change::Found,
            true if had_some => Change::Cleared,
            _ => return None,
        };
        let verdict = Verdict { found: !operations.is_empty(), kind: "slow", text: text(&operations, &last) };
        let directory = directory.display().to_string();
        let Snapshot { at_ns: time_ns, interval_ns, .. } = *snapshot;
        Some((change, Report { format: 1, directory, time_ns, interval_ns, verdict, operations, last }))
    }

    fn last(&mut self, snapshot: &Snapshot) -> Vec<LastRow> {
        let mut rows: Vec<LastRow> = Vec::new();
        for rank in &snapshot.ranks {
            let now = (rank.last, rank.caused_waiting_ns);
            let before = self.before.insert((rank.communicator, rank.rank), now).unwrap_or(now);
            let caused_waiting_ns = now.1.saturating_sub(before.1);
            if caused_waiting_ns > 0 {
                let communicator = snapshot.communicators.get(rank.communicator);
                let process = snapshot.processes.get(rank.process);
                rows.push(LastRow {
                    communicator: communicator.map(|it| it.name.clone()).unwrap_or_default(),
                    rank: rank.rank,
                    part: process.map(|it| it.part.clone()).unwrap_or_default(),
                    last: now.0.saturating_sub(before.0),
                    caused_waiting_ns,
                });
            }
        }
        nccl_events::sort::sort_by_key(&mut rows, |row| std::cmp::Reverse(row.caused_waiting_ns));
        rows.truncate(MOST_RANKS);
        rows
    }
}

impl History {
    /// Adds the value of an interval; returns whether it made the class slow.
    fn take(&mut self, value: f64, limits: Limits) -> bool {
        self.streak.push(value);
        let is_against = self.is_below(value, limits) != self.is_slow;
        let turns = is_against && self.streak.len() >= limits.intervals.max(1);
        if turns {
            self.is_slow = !self.is_slow;
        }
        if turns || !is_against {
            let streak = self.streak.drain(..);
            if !self.is_slow {
                self.past.extend(streak);
            }
        }
        self.past.drain(..self.past.len().saturating_sub(PAST));
        turns && self.is_slow
    }

    /// Whether a value is below the median of the past by the factor, and below nine in ten of the past values.
    fn is_below(&self, value: f64, limits: Limits) -> bool {
        let mut past = self.past.clone();
        nccl_events::sort::sort_by(&mut past, f64::total_cmp);
        let quantile = |divisor: usize| past.get(past.len() / divisor).copied();
        let is_below = |limit: Option<f64>| limit.is_some_and(|limit| value < limit);
        past.len() >= limits.past && is_below(quantile(10)) && is_below(quantile(2).map(|it| it / limits.factor))
    }
}

fn classes(snapshot: &Snapshot) -> BTreeMap<Class, Vec<&Operation>> {
    let mut classes: BTreeMap<Class, Vec<&Operation>> = BTreeMap::new();
    for operation in snapshot.operations.iter().filter(|it| it.window.algbw.is_some_and(|algbw| algbw > 0.0)) {
        let communicator = snapshot.communicators.get(operation.communicator);
        let class = Class {
            communicator: communicator.map(|it| it.name.clone()).unwrap_or_default(),
            function: operation.function.clone(),
            size_class: operation.size_class,
            timing: operation.timing,
            algorithm: operation.algorithm.clone(),
        };
        classes.entry(class).or_default().push(operation);
    }
    classes
}

/// The lower median: with two ranks, one waits for the other.
fn median(mut values: Vec<f64>) -> Option<f64> {
    nccl_events::sort::sort_by(&mut values, f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

fn text(operations: &[Row], last: &[LastRow]) -> String {
    let Some(first) = operations.first() else {
        return "No longer slow: all classes of operations are about as fast as before".to_owned();
    };
    let Class { communicator, function, size_class, .. } = &first.class;
    let mut text = format!(
        "SLOW: {function} of {} to {} in communicator {communicator}: {}, before {} (median of {})",
        bytes(*size_class),
        bytes(size_class.saturating_mul(2)),
        bandwidth(first.algbw),
        bandwidth(first.usual_algbw),
        plural(first.intervals as u64, "interval", "intervals"),
    );
    if operations.len() > 1 {
        text += &format!("; and {} more", plural(operations.len() as u64 - 1, "class", "classes"));
    }
    if let Some(LastRow { communicator, rank, last, caused_waiting_ns, .. }) = last.first() {
        let (times, waiting) = (plural(*last, "collective", "collectives"), time(*caused_waiting_ns));
        text += &format!("; rank {rank} of {communicator} came last to {times}, others waited {waiting} for it");
    }
    text
}

#[cfg(test)]
mod tests {
    use live::Window;

    use super::*;

    const LIMITS: Limits = Limits { factor: 2.0, intervals: 3, past: 5 };

    /// When the state changes, given bandwidths per interval; timings without a bandwidth do not count.
    fn changes(bandwidths: &[f64]) -> Vec<(usize, Change)> {
        let mut slow = Slow::new(LIMITS);
        let mut change = |(at, algbw): (usize, &f64)| {
            let timed = |algbw| Operation { window: Window { algbw, ..Window::default() }, ..Operation::default() };
            let operations = vec![timed(Some(*algbw)), timed(None)];
            let (change, _) = slow.change(Path::new("dir"), &Snapshot { operations, ..Snapshot::default() })?;
            Some((at, change))
        };
        bandwidths.iter().enumerate().filter_map(&mut change).collect()
    }

    #[test]
    fn slow_is_said_once_and_so_is_its_end() {
        let bandwidths = [1.0, 1.0, 1.1, 0.9, 1.0, 0.4, 0.4, 0.4, 0.4, 1.0, 0.4, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(changes(&bandwidths), [(7, Change::Found), (13, Change::Cleared)]);
    }

    #[test]
    fn what_varies_or_is_short_or_has_no_past_is_not_slow() {
        assert_eq!(changes(&[1.0, 0.3, 1.0, 0.3, 1.0, 0.3, 1.0, 0.3, 0.3, 0.3, 0.3, 0.3]), []);
        assert_eq!(changes(&[1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 1.0, 0.1, 0.1, 1.0]), []);
        assert_eq!(changes(&[1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]), []);
    }
}
