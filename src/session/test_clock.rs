//! For tests only: makes a process appear to be on another host, with other clocks.
//!
//! `NCCL_OTF2_TEST_CLOCK=offset_ns,drift_ppb,boot-id`, read once when a session begins, shifts the recorded readings of
//! the system's clocks: CLOCK_REALTIME is ahead by `offset_ns`, all clocks gain `drift_ppb` since the boot of the
//! machine, and the host has another uptime. The boot id is also the host's name. The ticks of events do not change.

use journal::clock::ClockPair;

pub(crate) const VARIABLE: &str = "NCCL_OTF2_TEST_CLOCK";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestClock {
    offset_ns: i64,
    drift_ppb: i64,
    pub(crate) boot_id: String,
}

impl TestClock {
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::parse(&text).map(Some).ok_or_else(|| {
                format!("{VARIABLE}={text}: not offset_ns,drift_ppb,boot-id (it is for tests: unset it)")
            }),
            Err(_) => Ok(None),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ',');
        Some(Self {
            offset_ns: words.next()?.trim().parse().ok()?,
            drift_ppb: words.next()?.trim().parse().ok()?,
            boot_id: Some(words.next()?.trim()).filter(|boot_id| !boot_id.is_empty())?.to_owned(),
        })
    }

    /// The simulated host's clock reading when this machine's clocks show `pair`.
    pub(crate) fn shift(&self, pair: ClockPair) -> ClockPair {
        let gained = i128::from(pair.monotonic_ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        // Fits unless the drift is absurd, which tests do not use.
        let gained = i64::try_from(gained).unwrap_or(0);
        let up = |ns: u64| ns.saturating_add_signed(gained).saturating_add(self.up_ns());
        let realtime_ns = pair.realtime_ns.saturating_add_signed(gained);
        ClockPair {
            monotonic_ns: up(pair.monotonic_ns),
            realtime_ns: realtime_ns.saturating_add_signed(self.offset_ns),
            monotonic_raw_ns: up(pair.monotonic_raw_ns),
            ..pair
        }
    }

    /// How much longer the simulated host has been up than this machine: less than a day, derived from its name.
    fn up_ns(&self) -> u64 {
        let bytes = self.boot_id.bytes();
        let mixed = bytes.fold(7_u64, |mixed, byte| mixed.wrapping_mul(31).wrapping_add(byte.into()));
        mixed % 86_400 * 1_000_000_000
    }
}
