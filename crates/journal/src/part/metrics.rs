//! The metrics that an archive can contain, and sets of metrics. `docs/MAPPING.md` defines each metric.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A metric of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Bytes of the operations under way, on a communicator location.
    BytesInFlight,
    /// Algorithm bandwidth of the operations under way, on a communicator location.
    Bandwidth,
    /// Bandwidth of the transfers under way, on a net location.
    NetworkBandwidth,
}

impl Metric {
    /// All metrics, in order.
    pub const ALL: [Self; 3] = [Self::BytesInFlight, Self::Bandwidth, Self::NetworkBandwidth];

    /// The name in options.
    pub const fn option(self) -> &'static str {
        match self {
            Self::BytesInFlight => "bytes-in-flight",
            Self::Bandwidth => "bandwidth",
            Self::NetworkBandwidth => "network-bandwidth",
        }
    }

    /// The name in the archive.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BytesInFlight => "nccl.bytes_in_flight",
            Self::Bandwidth => "nccl.bandwidth",
            Self::NetworkBandwidth => "nccl.network_bandwidth",
        }
    }

    /// The description in the archive, for users.
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

    /// The unit of the values.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::BytesInFlight => "bytes",
            Self::Bandwidth | Self::NetworkBandwidth => "bytes/s",
        }
    }

    /// Whether the metric belongs to communicator locations; otherwise it belongs to net locations.
    pub const fn is_on_communicator(self) -> bool {
        !matches!(self, Self::NetworkBandwidth)
    }
}

/// A set of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Metric>", into = "Vec<Metric>")]
pub struct MetricSet(u8);

impl MetricSet {
    /// The set of all metrics.
    pub fn all() -> Self {
        Metric::ALL.into_iter().collect()
    }

    /// Whether the set contains a metric.
    pub const fn has(self, metric: Metric) -> bool {
        self.0 >> metric as u8 & 1 == 1
    }

    /// The metrics of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Metric> {
        Metric::ALL.into_iter().filter(move |metric| self.has(*metric))
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

    /// Parses a list of names, `all` or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        for word in text.split([',', ' ', '+']).filter(|word| !word.trim().is_empty()) {
            let plain = word.to_ascii_lowercase().replace('_', "-");
            let found = match plain.as_str() {
                "all" => Self::all(),
                "none" => Self::default(),
                name => {
                    let metric = Metric::ALL.into_iter().find(|metric| metric.option() == name);
                    let metric = metric.ok_or_else(|| {
                        let names = Metric::ALL.map(Metric::option).join(", ");
                        format!("{word} is unknown: all, none, or some of {names}")
                    })?;
                    std::iter::once(metric).collect()
                }
            };
            set.0 |= found.0;
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_they_are_read() {
        let set = |text: &str| text.parse::<MetricSet>().expect("known");
        assert_eq!(set("all"), MetricSet::all());
        assert_eq!(set("none").to_string(), "none");
        assert_eq!(set("Network_Bandwidth, bytes-in-flight").to_string(), "bytes-in-flight,network-bandwidth");
        let error = "bandwith".parse::<MetricSet>().expect_err("none such");
        assert!(error.contains("bandwidth"), "{error}");
    }
}
