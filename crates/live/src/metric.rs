//! Metrics as exporters take them: families of samples with labels, in base units.

use std::borrow::Cow;

use crate::snapshot::Histogram;

/// What the values of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows only.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bounds.
    Histogram,
}

/// A metric with all its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name in base units, as `nccl_operation_bytes`; exporters add `_total` to counters.
    pub name: Cow<'static, str>,
    /// What it measures, in one sentence.
    pub help: Cow<'static, str>,
    /// `bytes`, `seconds`, `bytes_per_second`, `ratio`; empty for plain numbers.
    pub unit: &'static str,
    /// What its values are.
    pub kind: MetricKind,
    /// One for each set of labels.
    pub samples: Vec<Sample>,
}

/// A label with its value.
pub type Label = (&'static str, String);

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In the order of the family; no name twice.
    pub labels: Vec<Label>,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a counter of whole things: exact above 2^53.
    Count(u64),
    /// Of a histogram.
    Histogram(Histogram),
}
