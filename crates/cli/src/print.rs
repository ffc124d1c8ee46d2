//! What people and programs read: results on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Prints a result. Nobody reading on (`nccl-otf2 info trace | head`) is no failure.
pub(crate) fn result(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// Prints a result for programs.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    result(&text)
}

/// Says something that is no result. Nothing can be done when stderr is closed.
pub(crate) fn note(text: impl Display) {
    let _stderr_is_closed = writeln!(io::stderr().lock(), "nccl-otf2: {text}");
}

/// Says why the tool ends.
pub(crate) fn error(error: &anyhow::Error) {
    note(format_args!("error: {error:#}"));
}
