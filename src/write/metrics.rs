//! Metrics: how much is under way on a lane, as it changes. `docs/MAPPING.md` §2 defines each exactly.
//!
//! A sample holds until the next one of its metric on the same lane. There is one wherever the value changes, and none
//! before the first change from 0.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use otf2::MetricRef;
use serde::{Deserialize, Serialize};

use super::place::place;

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Bytes of the operations under way, on a communicator lane.
    BytesInFlight,
    /// Algorithm bandwidth of the operations under way, on a communicator lane.
    Bandwidth,
    /// Bandwidth of the transfers under way, on a net lane.
    NetworkBandwidth,
}

impl Metric {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::BytesInFlight, Self::Bandwidth, Self::NetworkBandwidth];

    /// The name that it is chosen by.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::BytesInFlight => "bytes-in-flight",
            Self::Bandwidth => "bandwidth",
            Self::NetworkBandwidth => "network-bandwidth",
        }
    }

    /// The name in the archive.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BytesInFlight => "nccl.bytes_in_flight",
            Self::Bandwidth => "nccl.bandwidth",
            Self::NetworkBandwidth => "nccl.network_bandwidth",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::BytesInFlight => {
                "Sum of nccl.bytes of the operations under way on the rank of the communicator, until the next sample"
            }
            Self::Bandwidth => {
                "Sum of the algorithm bandwidths of the operations under way on the rank of the communicator, \
                 as far as they are known, until the next sample"
            }
            Self::NetworkBandwidth => {
                "Sum of the bandwidths of the transfers under way on the connection, until the next sample"
            }
        }
    }

    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::BytesInFlight => "bytes",
            Self::Bandwidth | Self::NetworkBandwidth => "bytes/s",
        }
    }

    /// Whether it is about communicator lanes; else it is about net lanes.
    #[must_use]
    pub const fn is_on_communicator(self) -> bool {
        !matches!(self, Self::NetworkBandwidth)
    }
}

/// Some of the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Metric>", into = "Vec<Metric>")]
pub struct MetricSet(u8);

impl MetricSet {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Metric::ALL.into_iter().collect()
    }

    /// Whether a metric is in it.
    #[must_use]
    pub const fn has(self, metric: Metric) -> bool {
        self.0 >> metric as u8 & 1 == 1
    }

    /// The metrics in it, in order.
    pub fn iter(self) -> impl Iterator<Item = Metric> {
        Metric::ALL
            .into_iter()
            .filter(move |metric| self.has(*metric))
    }

    /// A metric's number in a part: its place among those that the part has.
    #[must_use]
    pub fn reference(self, metric: Metric) -> MetricRef {
        match self.iter().position(|known| known == metric) {
            Some(number) => MetricRef::new(place(number)),
            None => MetricRef::UNDEFINED,
        }
    }
}

impl FromIterator<Metric> for MetricSet {
    fn from_iter<T: IntoIterator<Item = Metric>>(metrics: T) -> Self {
        let bits = metrics.into_iter().map(|metric| 1 << metric as u8);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

impl From<Vec<Metric>> for MetricSet {
    fn from(metrics: Vec<Metric>) -> Self {
        metrics.into_iter().collect()
    }
}

impl From<MetricSet> for Vec<Metric> {
    fn from(set: MetricSet) -> Self {
        set.iter().collect()
    }
}

impl fmt::Display for MetricSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Metric::option).collect();
        match names.as_slice() {
            [] => formatter.write_str("none"),
            names => formatter.write_str(&names.join(",")),
        }
    }
}

impl FromStr for MetricSet {
    type Err = String;

    /// A list of names, `all` or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        for word in text
            .split([',', ' ', '+'])
            .filter(|word| !word.trim().is_empty())
        {
            let plain = word.to_ascii_lowercase().replace('_', "-");
            let found = match plain.as_str() {
                "all" => Self::all(),
                "none" => Self::default(),
                name => {
                    let mut known = Metric::ALL.into_iter();
                    let metric = known.find(|metric| metric.option() == name);
                    let metric = metric.ok_or_else(|| {
                        let names = Metric::ALL.map(Metric::option).join(", ");
                        format!("{word} is none of all, none, {names}")
                    })?;
                    std::iter::once(metric).collect()
                }
            };
            set.0 |= found.0;
        }
        Ok(set)
    }
}

/// A metric's value from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From when.
    pub time: u64,
    /// Which metric.
    pub metric: Metric,
    /// Its value.
    pub value: u64,
}

/// What is under way, summed up over time. Exact: what is added is taken away again to the last unit.
#[derive(Debug, Default)]
pub struct Load {
    changes: BTreeMap<u64, i128>,
}

impl Load {
    /// Something is under way.
    pub fn add(&mut self, span: (u64, u64), amount: u64) {
        if span.0 < span.1 && amount > 0 {
            *self.changes.entry(span.0).or_insert(0) += i128::from(amount);
            *self.changes.entry(span.1).or_insert(0) -= i128::from(amount);
        }
    }

    /// The value wherever it changes.
    #[must_use]
    pub fn samples(&self, metric: Metric) -> Vec<Sample> {
        let mut sum = 0;
        let changes = self.changes.iter().filter(|(_, change)| **change != 0);
        let samples = changes.map(|(&time, &change)| {
            sum += change;
            let value = u64::try_from(sum).unwrap_or(u64::MAX);
            Sample {
                time,
                metric,
                value,
            }
        });
        samples.collect()
    }
}

/// Bytes per second, rounded down; none where no time passed.
#[must_use]
pub fn rate(bytes: u64, span: (u64, u64)) -> Option<u64> {
    let nanoseconds = span.1.checked_sub(span.0).filter(|&length| length > 0)?;
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanoseconds);
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(load: &Load) -> Vec<(u64, u64)> {
        let samples = load.samples(Metric::Bandwidth);
        samples.iter().map(|s| (s.time, s.value)).collect()
    }

    #[test]
    fn what_overlaps_adds_up_and_ends_at_zero() {
        let mut load = Load::default();
        load.add((10, 50), 100);
        load.add((20, 30), 7);
        // Hands over without a gap or a change: no sample.
        load.add((50, 60), 100);
        // Takes no time, or moves nothing.
        load.add((70, 70), 9);
        load.add((71, 80), 0);
        assert_eq!(values(&load), [(10, 100), (20, 107), (30, 100), (60, 0)]);
    }

    #[test]
    fn rates_are_per_second() {
        assert_eq!(rate(1000, (5, 15)), Some(100_000_000_000));
        assert_eq!(rate(1, (0, 3)), Some(333_333_333));
        assert_eq!(rate(1, (3, 3)), None);
        assert_eq!(rate(u64::MAX, (0, 1)), Some(u64::MAX));
    }

    #[test]
    fn sets_are_written_as_they_are_read() {
        let set = |text: &str| text.parse::<MetricSet>().expect("known");
        assert_eq!(set("all"), MetricSet::all());
        assert_eq!(set("none").to_string(), "none");
        assert_eq!(
            set("Network_Bandwidth, bytes-in-flight").to_string(),
            "bytes-in-flight,network-bandwidth"
        );
        let some = set("network-bandwidth");
        assert_eq!(some.reference(Metric::NetworkBandwidth).get(), 0);
        assert_eq!(some.reference(Metric::Bandwidth), MetricRef::UNDEFINED);
        let error = "bandwith".parse::<MetricSet>().expect_err("none such");
        assert!(error.contains("bandwidth"), "{error}");
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
            let samples = values(&load);
            let integral: u64 = samples.windows(2).map(|two| two[0].1 * (two[1].0 - two[0].0)).sum();
            prop_assert_eq!(integral, expected);
            prop_assert_eq!(samples.last().map_or(0, |last| last.1), 0);
            prop_assert!(samples.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 != two[1].1));
        }
    }
}
