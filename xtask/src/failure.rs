//! What a command ends with when it does not succeed.

use std::process::ExitCode;

/// The result of every step.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A message for the person at the terminal, and the exit status that belongs to it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Something ran and turned out wrong: a build, a test, a count.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: 1,
        }
    }

    /// The command line does not make sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: 2,
        }
    }

    /// This machine lacks something; the message says what, and how to get it.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: 2,
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

/// Adds what was being done to an I/O error.
pub(crate) trait Context<T> {
    /// `what` reads after "cannot": "create the folder X".
    fn or_fail(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn or_fail(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::missing(format!("cannot {}: {error}", what())))
    }
}
