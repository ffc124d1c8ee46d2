//! Exit codes, for scripts.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Well,
    Problems,
    /// Wrong usage, or a file that cannot be read or written. clap exits with the same code.
    CannotDo,
    /// `diff --fail-if-slower`: the second run is slower.
    Slower,
    /// `diff --fail-if-slower`: the runs do not show whether the second one is slower.
    NotShown,
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Well => Self::SUCCESS,
            Exit::Problems => Self::from(1),
            Exit::CannotDo => Self::from(2),
            Exit::Slower => Self::from(3),
            Exit::NotShown => Self::from(4),
            Exit::Command(code) => Self::from(code),
        }
    }
}
