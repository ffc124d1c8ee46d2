//! A snapshot as families of metrics: by our names, or by those that existing dashboards ask for.

mod inspector;
mod otel;
mod ours;

use std::borrow::Cow;

use crate::metric::{Family, Label, MetricKind, Sample, Value};
use crate::snapshot::{Communicator, Histogram, Operation, Snapshot, Window, real};

use otel::Windows;

/// Whose names and labels the families have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Ours: all that is known, in base units.
    #[default]
    Ours,
    /// Those of NVIDIA's inspector plugin.
    Inspector,
    /// Those of the OpenTelemetry profiler plugin.
    Otel,
}

/// Makes families of snapshots, which must come in the order of their time.
#[derive(Debug, Default)]
pub struct Families {
    names: Names,
    windows: Windows,
}

impl Families {
    /// Families by these names.
    #[must_use]
    pub fn new(names: Names) -> Self {
        Self { names, windows: Windows::default() }
    }

    /// The families of a snapshot; those without a sample are left out.
    pub fn of(&mut self, snapshot: &Snapshot) -> Vec<Family> {
        match self.names {
            Names::Ours => ours::families(snapshot),
            Names::Inspector => inspector::families(snapshot),
            Names::Otel => otel::families(snapshot, &mut self.windows),
        }
    }
}

/// A thing with its labels.
type Row<T> = (Vec<Label>, T);

/// What a family is, but for its samples.
struct About {
    name: Cow<'static, str>,
    unit: &'static str,
    kind: MetricKind,
    help: Cow<'static, str>,
}

impl About {
    fn new(
        kind: MetricKind,
        name: impl Into<Cow<'static, str>>,
        unit: &'static str,
        help: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), unit, kind, help: help.into() }
    }

    /// Adds the family with a sample of each row that has a value, if there is one.
    fn add<T>(self, families: &mut Vec<Family>, rows: &[Row<T>], value: impl Fn(&T) -> Option<Value>) {
        let sample = |(labels, of): &Row<T>| Some(Sample { labels: labels.clone(), value: value(of)? });
        let samples: Vec<Sample> = rows.iter().filter_map(sample).collect();
        if !samples.is_empty() {
            let Self { name, unit, kind, help } = self;
            families.push(Family { name, help, unit, kind, samples });
        }
    }
}

fn counter(name: impl Into<Cow<'static, str>>, unit: &'static str, help: impl Into<Cow<'static, str>>) -> About {
    About::new(MetricKind::Counter, name, unit, help)
}

fn gauge(name: impl Into<Cow<'static, str>>, unit: &'static str, help: impl Into<Cow<'static, str>>) -> About {
    About::new(MetricKind::Gauge, name, unit, help)
}

fn histogram(name: impl Into<Cow<'static, str>>, unit: &'static str, help: impl Into<Cow<'static, str>>) -> About {
    About::new(MetricKind::Histogram, name, unit, help)
}

fn communicator(snapshot: &Snapshot, index: usize) -> Cow<'_, Communicator> {
    snapshot.communicators.get(index).map_or_else(Cow::default, Cow::Borrowed)
}

/// `AllReduce` of `ncclAllReduce`.
fn short(function: &str) -> &str {
    function.strip_prefix("nccl").unwrap_or(function)
}

/// Operations of which the labels of another naming make one: their windows as one, with means of the bandwidths.
fn join<'s>(rows: impl Iterator<Item = Row<&'s Operation>>) -> Vec<Row<(Window, u64, Histogram)>> {
    let mut joined: std::collections::BTreeMap<Vec<Label>, (Window, u64, Histogram)> = Default::default();
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

/// The mean of two numbers that stand for so many things each.
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
    to.sum += other.sum;
}
