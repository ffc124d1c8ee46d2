//! Things with labels, and families of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::metric::{Family, Label, MetricKind, Sample, Value};
use crate::snapshot::{Communicator, Histogram, Operation, Snapshot, Window, real};

type Text = Cow<'static, str>;

pub(super) type Row<T> = (Vec<Label>, T);

pub(super) struct About {
    name: Text,
    unit: &'static str,
    kind: MetricKind,
    help: Text,
}

impl About {
    fn new(kind: MetricKind, name: impl Into<Text>, unit: &'static str, help: impl Into<Text>) -> Self {
        Self { name: name.into(), unit, kind, help: help.into() }
    }

    /// Adds the family with a sample of each row that has a value, if there is one.
    pub(super) fn add<T>(self, families: &mut Vec<Family>, rows: &[Row<T>], value: impl Fn(&T) -> Option<Value>) {
        let sample = |(labels, of): &Row<T>| Some(Sample { labels: labels.clone(), value: value(of)? });
        let samples: Vec<Sample> = rows.iter().filter_map(sample).collect();
        if !samples.is_empty() {
            let Self { name, unit, kind, help } = self;
            families.push(Family { name, help, unit, kind, samples });
        }
    }
}

pub(super) fn counter(name: impl Into<Text>, unit: &'static str, help: impl Into<Text>) -> About {
    About::new(MetricKind::Counter, name, unit, help)
}

pub(super) fn gauge(name: impl Into<Text>, unit: &'static str, help: impl Into<Text>) -> About {
    About::new(MetricKind::Gauge, name, unit, help)
}

pub(super) fn histogram(name: impl Into<Text>, unit: &'static str, help: impl Into<Text>) -> About {
    About::new(MetricKind::Histogram, name, unit, help)
}

pub(super) fn communicator(snapshot: &Snapshot, index: usize) -> Cow<'_, Communicator> {
    snapshot.communicators.get(index).map_or_else(Cow::default, Cow::Borrowed)
}

/// `AllReduce` of `ncclAllReduce`.
pub(super) fn short(function: &str) -> &str {
    function.strip_prefix("nccl").unwrap_or(function)
}

/// Operations of which the labels of another naming make one: their windows as one, with means of the bandwidths.
pub(super) fn join<'s>(rows: impl Iterator<Item = Row<&'s Operation>>) -> Vec<Row<(Window, u64, Histogram)>> {
    let mut joined: BTreeMap<Vec<Label>, (Window, u64, Histogram)> = BTreeMap::new();
    for (labels, operation) in rows {
        let (window, bytes, duration) = joined.entry(labels).or_default();
        let Window { count, bytes: window_bytes, duration_ns, algbw, busbw } = operation.window;
        window.algbw = mean((window.algbw, window.count), (algbw, count));
        window.busbw = mean((window.busbw, window.count), (busbw, count));
        window.count += count;
        window.bytes += window_bytes;
        window.duration_ns += duration_ns;
        *bytes += operation.bytes;
        add(duration, &operation.duration);
    }
    joined.into_iter().collect()
}

fn mean(one: (Option<f64>, u64), other: (Option<f64>, u64)) -> Option<f64> {
    let (Some(a), Some(b)) = (one.0, other.0) else { return one.0.or(other.0) };
    let of = real(one.1) + real(other.1);
    Some(if of > 0.0 { (a * real(one.1) + b * real(other.1)) / of } else { a })
}

/// Adds a histogram to one that is empty or has the same bounds.
fn add(to: &mut Histogram, other: &Histogram) {
    if to.counts.is_empty() {
        to.clone_from(other);
        return;
    }
    to.counts.iter_mut().zip(&other.counts).for_each(|(to, count)| *to += count);
    to.sum_ns += other.sum_ns;
}
