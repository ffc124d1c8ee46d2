//! What all clocks of a process showed at the same moments.

use serde::{Deserialize, Serialize};

/// What the clocks showed at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The process's tick source.
    pub ticks: u64,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_MONOTONIC_RAW.
    pub monotonic_raw_ns: u64,
    /// CLOCK_REALTIME.
    pub realtime_ns: u64,
}

impl Anchor {
    /// Anchors as text, with commas between them: each has ticks and the nanoseconds of CLOCK_MONOTONIC,
    /// CLOCK_MONOTONIC_RAW and CLOCK_REALTIME.
    pub fn text(anchors: &[Self]) -> String {
        let texts = anchors.iter().map(|anchor| {
            format!("{} {} {} {}", anchor.ticks, anchor.monotonic_ns, anchor.monotonic_raw_ns, anchor.realtime_ns)
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// What [`Self::text`] made; `None` if it is something else.
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
