//! Detects when no records come. Another tool in the process can disable the activity kinds or get the plugin's
//! buffers, and CUPTI reports neither.

use std::time::Duration;

/// Fewer launches without records are no proof.
const LAUNCHES: u64 = 64;
/// Records can be late: CUPTI keeps a buffer while one of its kernels runs.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
pub(super) struct Silence {
    launches: u64,
    since: Option<Duration>,
    is_reported: bool,
}

impl Silence {
    /// Takes the number of new launches and records after a flush. True once, when it is certain that no records come.
    pub(super) fn is_silent(&mut self, now: Duration, launches: u64, records: u64) -> bool {
        if records > 0 {
            (self.launches, self.since) = (0, None);
            return false;
        }
        self.launches += launches;
        if self.launches < LAUNCHES {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let is_silent = now.saturating_sub(since) >= PATIENCE && !self.is_reported;
        self.is_reported |= is_silent;
        is_silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_the_silence() {
        let mut silence = Silence::default();
        for second in 0..20 {
            let records = u64::from(second % 4 == 3);
            assert!(!silence.is_silent(Duration::from_secs(second), 100, records));
        }
    }
}
