//! Outputs for reports: stdout, a file, a command.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::{Timestamp, Unit};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::commands::Commands;
use super::request::Request;
use crate::print::{self, Text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Found,
    Cleared,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Hang,
    Slow,
}

pub(super) struct Outputs<'a> {
    request: &'a Request,
    pub(super) commands: Commands,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        Self { request, commands: Commands::new(Duration::from_secs_f64(request.command_limit)) }
    }

    /// Passes a report on. A failure is printed but does not end the watch: the next report may succeed.
    pub(super) fn report(&mut self, change: Change, event: Event, report: &impl Serialize, text: &str) {
        let pretty = match serde_json::to_string_pretty(report).context("cannot write JSON") {
            Ok(json) => json + "\n",
            Err(error) => return print::error(&error),
        };
        let (name, command) = match (change, event) {
            (Change::Cleared, _) => ("clear", &self.request.on_clear),
            (_, Event::Hang) => ("hang", &self.request.on_hang),
            (_, Event::Slow) => ("slow", &self.request.on_slow),
        };
        let now = Timestamp::now();
        let printed = say(self.request.json, now, report, text);
        let written = self.request.write.as_ref().map_or(Ok(()), |path| {
            write(path, name, now, &pretty).with_context(|| format!("cannot write to {}", path.display()))
        });
        let started = command.as_ref().map_or(Ok(()), |command| self.commands.start(name, command, &pretty));
        for error in [printed, written, started].into_iter().filter_map(Result::err) {
            print::error(&error);
        }
    }
}

fn say(is_json: bool, now: Timestamp, report: &impl Serialize, text: &str) -> Result<()> {
    if is_json {
        return print::exact(&(serde_json::to_string(report).context("cannot write JSON")? + "\n"));
    }
    let mut line = Text::default();
    line.line(format_args!("{} {text}", now.round(Unit::Second).unwrap_or(now)));
    print::text(&line)
}

/// Writes a file atomically, so that it is always complete.
fn write(path: &Path, name: &str, now: Timestamp, text: &str) -> Result<()> {
    let (directory, file) = match path.parent() {
        _ if path.is_dir() => (path, path.join(format!("{name}-{}.json", now.as_nanosecond()))),
        Some(parent) if parent != Path::new("") => (parent, path.to_owned()),
        _ => (Path::new("."), path.to_owned()),
    };
    let mut temporary = NamedTempFile::new_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    temporary.persist(file)?;
    Ok(())
}
