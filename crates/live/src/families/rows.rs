//! Rows of labelled items, and the families made from them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::metric::{Family, Label, MetricKind, Sample, Value};
use crate::snapshot::{Communicator, Histogram, Operation, Snapshot, Window, real, seconds};

type Text = Cow<'static, str>;

pub(super) type Row<T> = (Vec<Label>, T);

/// Adds a family with a sample for each row that has a value; no family if no row has one.
pub(super) struct Table<'a, T> {
    pub(super) families: &'a mut Vec<Family>,
    pub(super) rows: &'a [Row<T>],
}

fn unit(name: &str) -> &'static str {
    let units = [("_bytes_per_second", "bytes_per_second"), ("_bytes", "bytes"), ("_seconds", "seconds")];
    units.into_iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

impl<T> Table<'_, T> {
    pub(super) fn add(
        &mut self,
        kind: MetricKind,
        (name, unit): (impl Into<Text>, &'static str),
        help: impl Into<Text>,
        value: impl Fn(&T) -> Option<Value>,
    ) {
        let sample = |(labels, of): &Row<T>| Some(Sample { labels: labels.clone(), value: value(of)? });
        let samples: Vec<Sample> = self.rows.iter().filter_map(sample).collect();
        if !samples.is_empty() {
            self.families.push(Family { name: name.into(), help: help.into(), unit, kind, samples });
        }
    }

    fn named(&mut self, kind: MetricKind, name: Text, help: impl Into<Text>, value: impl Fn(&T) -> Option<Value>) {
        let unit = unit(&name);
        self.add(kind, (name, unit), help, value);
    }

    pub(super) fn counter(&mut self, name: impl Into<Text>, help: impl Into<Text>, value: impl Fn(&T) -> u64) {
        self.named(MetricKind::Counter, name.into(), help, |it| Some(Value::Count(value(it))));
    }

    pub(super) fn seconds(&mut self, name: impl Into<Text>, help: impl Into<Text>, value: impl Fn(&T) -> u64) {
        self.named(MetricKind::Counter, name.into(), help, |it| Some(Value::Number(seconds(value(it)))));
    }

    pub(super) fn gauge<V: Into<Option<f64>>>(
        &mut self,
        name: impl Into<Text>,
        help: impl Into<Text>,
        value: impl Fn(&T) -> V,
    ) {
        self.named(MetricKind::Gauge, name.into(), help, |it| value(it).into().map(Value::Number));
    }

    pub(super) fn histogram(&mut self, name: impl Into<Text>, help: impl Into<Text>, value: impl Fn(&T) -> &Histogram) {
        self.named(MetricKind::Histogram, name.into(), help, |it| Some(Value::Histogram(value(it).into())));
    }
}

pub(super) fn communicator(snapshot: &Snapshot, index: usize) -> Cow<'_, Communicator> {
    snapshot.communicators.get(index).map_or_else(Cow::default, Cow::Borrowed)
}

pub(super) fn short(function: &str) -> &str {
    function.strip_prefix("nccl").unwrap_or(function)
}

/// Merges operations that have the same labels under another naming: sums their windows, and averages the bandwidths.
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

/// Adds a histogram to an empty one or to one with the same bounds.
fn add(to: &mut Histogram, other: &Histogram) {
    if to.counts.is_empty() {
        to.clone_from(other);
        return;
    }
    to.counts.iter_mut().zip(&other.counts).for_each(|(to, count)| *to += count);
    to.sum_ns += other.sum_ns;
}
