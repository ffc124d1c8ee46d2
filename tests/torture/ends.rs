//! How a process ends.

use std::time::Duration;

use super::random::Random;

/// What becomes of one process, after it has worked for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// Asked for an orderly end or an exit, and killed so much later: while it writes.
    KilledWhile(Asked, Duration),
    Asked(Asked),
}

/// What `plugin-host endure` can be asked for; the number is the one in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Orderly = 1,
    /// `exit` in the middle of operations, without finalize.
    Exit = 2,
    /// `_exit` while threads work.
    ExitNow = 3,
    Abort = 4,
}

impl End {
    pub(crate) fn any(random: &mut Random) -> Self {
        match random.between(0, 9) {
            0..=4 => Self::Killed,
            5 => Self::KilledWhile(Asked::Orderly, while_it_writes(random)),
            6 => Self::KilledWhile(Asked::Exit, while_it_writes(random)),
            7 => Self::Asked(Asked::Orderly),
            8 => Self::Asked(Asked::Exit),
            _ => Self::Asked(if random.once_in(2) { Asked::ExitNow } else { Asked::Abort }),
        }
    }

    /// Whether it dies of a signal at an instant that nobody chose.
    pub(crate) const fn is_kill(self) -> bool {
        matches!(self, Self::Killed | Self::KilledWhile(..))
    }
}

fn while_it_writes(random: &mut Random) -> Duration {
    Duration::from_micros(random.between(100, 60_000))
}
