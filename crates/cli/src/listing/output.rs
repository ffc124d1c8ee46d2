//! Lines to stdout, as they come: nobody reading on is no failure, and ends the printing.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write as _};

use anyhow::{Context as _, Result};

/// Where lines go.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_closed: bool,
}

impl Output {
    /// To stdout.
    pub(crate) fn new() -> Self {
        Self {
            stdout: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            is_closed: false,
        }
    }

    /// Writes a line. False when nobody reads on.
    ///
    /// # Errors
    ///
    /// When stdout cannot be written.
    pub(crate) fn line(&mut self, text: &str) -> Result<bool> {
        let written = self.stdout.write_all(text.as_bytes());
        let written = written.and_then(|()| self.stdout.write_all(b"\n"));
        self.check(written)
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    ///
    /// When stdout cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let flushed = self.stdout.flush();
        self.check(flushed).map(drop)
    }

    fn check(&mut self, written: io::Result<()>) -> Result<bool> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(false)
            }
            other => other.context("cannot write to stdout").map(|()| true),
        }
    }
}
