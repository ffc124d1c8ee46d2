//! Errors that end a command.
//!
//! Exit status 2: wrong usage, or this machine lacks something; 1: something ran and failed.

use std::fmt;

/// Wrong usage, or this machine lacks something; the message says what, and how to get it.
#[derive(Debug)]
struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

pub(crate) fn missing(message: impl Into<String>) -> anyhow::Error {
    Missing(message.into()).into()
}

/// The exit status of an error: system errors (no such file, disk full) are the machine's.
pub(crate) fn status(error: &anyhow::Error) -> u8 {
    let is_ours = |cause: &(dyn std::error::Error + 'static)| cause.is::<Missing>() || cause.is::<std::io::Error>();
    if error.chain().any(is_ours) { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn what_was_being_done_does_not_change_the_status() {
        assert_eq!(status(&anyhow!("wrong").context("while")), 1);
        assert_eq!(status(&missing("no GPU").context("while")), 2);
        let error = std::fs::read("/no/such/file").context("read it").unwrap_err();
        assert_eq!(status(&error), 2);
    }
}
