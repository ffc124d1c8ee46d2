//! Metrics for exporters: families of samples with labels, in base units.

use std::borrow::Cow;

use crate::snapshot::{Histogram, seconds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name with its base unit, such as `nccl_operation_bytes`; exporters add `_total` to counters.
    pub name: Cow<'static, str>,
    pub help: Cow<'static, str>,
    /// `bytes`, `seconds`, `bytes_per_second`, `ratio`; empty for plain numbers.
    pub unit: &'static str,
    pub kind: MetricKind,
    pub samples: Vec<Sample>,
}

pub type Label = (&'static str, String);

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In the order of the family, without duplicate names.
    pub labels: Vec<Label>,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(f64),
    /// An integer counter: exact above 2^53.
    Count(u64),
    Histogram(Buckets),
}

/// A histogram in the unit of its family.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// Upper bounds, rising, without `+Inf`.
    pub bounds: &'static [f64],
    /// For each bound, the number of values up to it and above the previous bound; the last count has no bound.
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
