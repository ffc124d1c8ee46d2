//! Watches whether records come at all: another user of CUPTI in the process can switch off what we switched on, or get
//! our buffers in our place, and CUPTI tells nobody.

use std::time::Duration;

/// Fewer launches than this say nothing.
const LAUNCHES: u64 = 64;
/// Records come late: a buffer with a kernel that still runs is not given back.
const PATIENCE: Duration = Duration::from_secs(4);

/// Launches without records.
#[derive(Debug, Default)]
pub(super) struct Watch {
    launches: u64,
    since: Option<Duration>,
    was_said: bool,
}

impl Watch {
    /// After a flush, at `now`: so many more launches were made, and so many more records came. True once, when it has
    /// become clear that none come.
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
        let is_silent = now.saturating_sub(since) >= PATIENCE && !self.was_said;
        self.was_said |= is_silent;
        is_silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_said_once_and_only_after_many_launches() {
        let mut watch = Watch::default();
        let mut said = Vec::new();
        for second in 0..20 {
            let launches = if second < 10 { 6 } else { 10 };
            if watch.is_silent(Duration::from_secs(second), launches, 0) {
                said.push(second);
            }
        }
        // 60 launches until second 9; 64 are passed in second 10, and the patience ends in second 14.
        assert_eq!(said, [14]);
    }

    #[test]
    fn a_record_ends_the_silence() {
        let mut watch = Watch::default();
        for second in 0..20 {
            let records = u64::from(second % 4 == 3);
            assert!(!watch.is_silent(Duration::from_secs(second), 100, records));
        }
    }
}
