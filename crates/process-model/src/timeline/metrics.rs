//! Metrics: how much is in progress on a location over time. `docs/MAPPING.md` §6 defines each exactly.
//!
//! A sample holds until the next sample of the same metric and location. There is one for every change of the value,
//! and none before the first change from 0.

use std::collections::BTreeMap;

use journal::part::environment::{Metric, MetricSet};
use otf2::MetricRef;

use nccl_events::ids::index_u32;

/// A metric's number in a part: its index among the part's metrics.
pub fn reference(set: MetricSet, metric: Metric) -> MetricRef {
    match set.iter().position(|known| known == metric) {
        Some(number) => MetricRef::new(index_u32(number)),
        None => MetricRef::UNDEFINED,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub time: u64,
    pub metric: Metric,
    pub value: u64,
}

/// The amount in progress over time. Exact: whatever is added is subtracted again to the last unit.
#[derive(Debug, Default)]
pub struct Load {
    changes: BTreeMap<u64, i128>,
}

impl Load {
    pub fn add(&mut self, span: (u64, u64), amount: u64) {
        if span.0 < span.1 && amount > 0 {
            *self.changes.entry(span.0).or_insert(0) += i128::from(amount);
            *self.changes.entry(span.1).or_insert(0) -= i128::from(amount);
        }
    }

    pub fn samples(&self, metric: Metric) -> Vec<Sample> {
        let mut sum = 0;
        let samples = self.changes.iter().filter(|(_, change)| **change != 0).map(|(&time, &change)| {
            sum += change;
            let value = u64::try_from(sum).unwrap_or(u64::MAX);
            Sample { time, metric, value }
        });
        samples.collect()
    }
}

/// Bytes per second, rounded down; `None` if no time passed.
pub fn rate(bytes: u64, span: (u64, u64)) -> Option<u64> {
    let nanoseconds = span.1.checked_sub(span.0).filter(|&length| length > 0)?;
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanoseconds);
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_per_second() {
        assert_eq!(rate(1000, (5, 15)), Some(100_000_000_000));
        assert_eq!(rate(1, (0, 3)), Some(333_333_333));
        assert_eq!(rate(1, (3, 3)), None);
        assert_eq!(rate(u64::MAX, (0, 1)), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn the_integral_is_what_was_moved(
            moves in proptest::collection::vec((0_u64..50, 0_u64..20, 0_u64..1000), 0..40)
        ) {
            let mut load = Load::default();
            let mut expected = 0;
            for (start, length, amount) in moves {
                load.add((start, start + length), amount);
                expected += length * amount;
            }
            let samples = load.samples(Metric::Bandwidth);
            let integral: u64 = samples.windows(2).map(|two| two[0].value * (two[1].time - two[0].time)).sum();
            prop_assert_eq!(integral, expected);
            prop_assert_eq!(samples.last().map_or(0, |last| last.value), 0);
            prop_assert!(samples.windows(2).all(|two| two[0].time < two[1].time && two[0].value != two[1].value));
        }
    }
}
