//! Simultaneous readings of all clocks of a process.

use serde::{Deserialize, Serialize};

/// The values of the clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Value of the process's tick source.
    pub ticks: u64,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: u64,
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub monotonic_raw_ns: u64,
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

impl Anchor {
    /// Anchors as text, separated by commas: for each its ticks and the nanoseconds of CLOCK_MONOTONIC,
    /// CLOCK_MONOTONIC_RAW and CLOCK_REALTIME.
    pub fn text(anchors: &[Self]) -> String {
        let texts = anchors.iter().map(|anchor| {
            format!("{} {} {} {}", anchor.ticks, anchor.monotonic_ns, anchor.monotonic_raw_ns, anchor.realtime_ns)
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Parses the result of [`Self::text`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<Vec<Self>> {
        let anchor = |text: &str| {
            let numbers: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            let [ticks, monotonic_ns, monotonic_raw_ns, realtime_ns] = numbers.try_into().ok()?;
            Some(Self { ticks, monotonic_ns, monotonic_raw_ns, realtime_ns })
        };
        text.split(", ").map(anchor).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let anchors = [1, 7].map(|ticks| Anchor { ticks, monotonic_ns: 2, monotonic_raw_ns: 3, realtime_ns: 4 });
        assert_eq!(Anchor::text(&anchors), "1 2 3 4, 7 2 3 4");
        assert_eq!(Anchor::parse("1 2 3 4, 7 2 3 4"), Some(anchors.to_vec()));
        for wrong in ["1 2 3", "1 2 3 x", "1 2 3 4 5", ""] {
            assert_eq!(Anchor::parse(wrong), None, "{wrong}");
        }
    }
}
