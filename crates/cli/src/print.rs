//! Output for people and programs: results on stdout, everything else on stderr.
//!
//! Names in archives and journals come from other programs: escaped here, line by line, for people, exact for programs.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use anyhow::{Context as _, Result};

use journal::host;
use nccl_events::visible;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

/// Text for people. Names are escaped, so they cannot break its lines.
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn line(&mut self, text: impl Display) {
        self.0.push_str(&visible(&text.to_string()));
        self.0.push('\n');
    }

    pub(crate) fn paragraph(&mut self, text: impl Display) {
        self.0.push('\n');
        self.line(text);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) fn text(text: &Text) -> Result<()> {
    exact(text.as_str())
}

/// Prints a result in a format with its own escaping. A closed stdout (`nccl-otf2 info trace | head`) is no failure.
pub(crate) fn exact(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// Prints a document whose schema `--json-schema` prints: see `json_schema`.
pub(crate) fn json(value: &(impl Serialize + JsonSchema)) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    exact(&text)
}

pub(crate) fn schema(schema: &Schema) -> Result<()> {
    let mut text = serde_json::to_string_pretty(schema).context("cannot write JSON")?;
    text.push('\n');
    exact(&text)
}

/// Prints a note on stderr, in one line. If stderr is closed, nothing can be done.
pub(crate) fn note(text: impl Display) {
    let mut line = Text::default();
    line.line(text);
    notes(&line);
}

pub(crate) fn notes(Text(text): &Text) {
    let _stderr_is_closed = write!(io::stderr().lock(), "nccl-otf2: {text}");
}

pub(crate) fn error(error: &anyhow::Error) {
    note(format_args!("error: {}", host::explain(reasons(error))));
}

/// An error and its causes without repetition: some libraries' errors end with the text of their cause.
pub(crate) fn reasons(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for reason in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = reason;
        } else if !text.ends_with(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let reading_error = |source: io::Error| otf2::Error::Io { operation: "read", path: "x.evt".into(), source };
        let error = anyhow::Error::new(reading_error(ErrorKind::NotFound.into())).context("no archive");
        assert_eq!(reasons(&error), "no archive: read x.evt: entity not found");
        let error = anyhow::anyhow!("cause").context("what");
        assert_eq!(reasons(&error), "what: cause");
    }
}
