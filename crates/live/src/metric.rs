//! Metrics as exporters take them: families of samples with labels, in base units.

use std::borrow::Cow;

use crate::snapshot::{Histogram, seconds};

/// What the values of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows only.
    Counter,
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
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a counter of whole things: exact above 2^53.
    Count(u64),
    Histogram(Buckets),
}

/// A histogram in the unit of its family.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// Upper bounds, rising; `+Inf` is not among them.
    pub bounds: &'static [f64],
    /// How many are at most as large as the bound and larger than the one before; one more than there are bounds.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Buckets {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl From<&Histogram> for Buckets {
    fn from(of: &Histogram) -> Self {
        Self { bounds: of.bounds, counts: of.counts.clone(), sum: seconds(of.sum_ns) }
    }
}
