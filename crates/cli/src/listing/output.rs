//! Writes lines to stdout as they are produced. A closed stdout is no failure; it ends the printing.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write as _};

use anyhow::{Context as _, Result};

pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_closed: bool,
    left: u64,
    pub(crate) lines: u64,
}

impl Output {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            stdout: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            is_closed: false,
            left: limit.unwrap_or(u64::MAX),
            lines: 0,
        }
    }

    /// Writes a line. Returns `false` if stdout is closed or the limit is reached.
    pub(crate) fn line(&mut self, text: impl AsRef<[u8]>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.lines += 1;
        let written = self.stdout.write_all(text.as_ref()).and_then(|()| self.stdout.write_all(b"\n"));
        self.check(written)
    }

    /// Writes a line that the limit does not count, such as column headings.
    pub(crate) fn head(&mut self, text: &str) -> Result<()> {
        let written = writeln!(self.stdout, "{text}");
        self.check(written).map(drop)
    }

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
