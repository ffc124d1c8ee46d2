//! How a process ends.

use std::time::Duration;

use whole_plugin::synthetic::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// Asked for an orderly end or an exit, and killed so much later: while it writes.
    KilledWhile(Request, Duration),
    Request(Request),
}

/// What `plugin-host endure` can be asked for; the number is the one in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
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
            5 => Self::KilledWhile(Request::Orderly, while_it_writes(random)),
            6 => Self::KilledWhile(Request::Exit, while_it_writes(random)),
            7 => Self::Request(Request::Orderly),
            8 => Self::Request(Request::Exit),
            _ => Self::Request(if random.once_in(2) { Request::ExitNow } else { Request::Abort }),
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
