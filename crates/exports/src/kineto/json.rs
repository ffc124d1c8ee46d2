//! Events of Chrome's JSON as text.

use std::fmt::{Display, Write as _};

use analysis::Trace;
use nccl_events::ids::index;
use otf2::{AttributeRef, AttributeValue};

use crate::error::Result;
use crate::line::Line;
use crate::output::{CHUNK_BYTES, Output};
use crate::value::Value;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track {
    pub(super) pid: u64,
    pub(super) tid: u64,
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[derive(Debug, Default)]
pub(super) struct Args(String);

impl Args {
    pub(super) fn number(&mut self, name: &str, value: impl Display) {
        self.add(&quoted(name), value);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.add(&quoted(name), quoted(value));
    }

    pub(super) fn attributes(&mut self, trace: &Trace, names: &AttributeNames, all: &[(AttributeRef, AttributeValue)]) {
        for (attribute, value) in all {
            let Some(name) = names.0.get(index(attribute.get())) else {
                continue;
            };
            match Value::of(trace, *value) {
                Value::Unsigned(number) => self.add(name, number),
                Value::Signed(number) => self.add(name, number),
                Value::Real(number) if number.is_finite() => self.add(name, number),
                Value::Real(number) => self.add(name, quoted(&number.to_string())),
                Value::Text(text) => self.add(name, quoted(&text)),
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn add(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing to a `String` cannot fail.
        write!(self.0, "{comma}{name}: {value}").unwrap_or_default();
    }
}

#[derive(Debug)]
pub(super) struct AttributeNames(Vec<String>);

impl AttributeNames {
    pub(super) fn of(trace: &Trace) -> Self {
        let attributes = trace.definitions.attributes.values();
        Self(attributes.map(|it| quoted(trace.definitions.string(it.name).unwrap_or_default())).collect())
    }
}

/// Writes events to a file, each followed by a comma.
pub(super) struct Events<'a> {
    output: &'a Output,
    /// From the archive's time to the file's, if they differ.
    times: Option<&'a Line>,
    text: String,
    count: u64,
    failed: Result<()>,
}

impl<'a> Events<'a> {
    pub(super) fn new(output: &'a Output, times: Option<&'a Line>) -> Self {
        Self { output, times, text: String::new(), count: 0, failed: Ok(()) }
    }

    pub(super) fn complete(&mut self, category: &str, name: &str, track: Track, times_ns: (u64, u64), args: &Args) {
        let (start_ns, stop_ns) = (self.time_ns(times_ns.0), self.time_ns(times_ns.1));
        self.line(format_args!(
            "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \
             \"args\": {{{}}}}}",
            quoted(name),
            track.pid,
            track.tid,
            Microseconds(start_ns),
            Microseconds(stop_ns.saturating_sub(start_ns)),
            args.as_str()
        ));
        self.count += 1;
    }

    /// One end of an arrow from a launch to its kernel.
    pub(super) fn arrow(&mut self, is_begin: bool, id: u64, track: Track, at_ns: u64) {
        let (phase, binding) = if is_begin { ("s", "") } else { ("f", ", \"bp\": \"e\"") };
        let at_ns = self.time_ns(at_ns);
        self.line(format_args!(
            "{{\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"cat\": \"ac2g\", \
             \"name\": \"ac2g\"{binding}}}",
            track.pid,
            track.tid,
            Microseconds(at_ns)
        ));
    }

    pub(super) fn name(&mut self, what: &str, track: Track, name: &str, order: u64) {
        let Track { pid, tid } = track;
        let name = quoted(name);
        self.line(format_args!(
            "{{\"name\": \"{what}_name\", \"ph\": \"M\", \"ts\": 0.000, \"pid\": {pid}, \"tid\": {tid}, \"args\": \
             {{\"name\": {name}}}}},\n{{\"name\": \"{what}_sort_index\", \"ph\": \"M\", \"ts\": 0.000, \"pid\": {pid}, \
             \"tid\": {tid}, \"args\": {{\"sort_index\": {order}}}}}"
        ));
    }

    pub(super) fn finish(mut self) -> Result<u64> {
        self.write();
        self.failed.map(|()| self.count)
    }

    fn time_ns(&self, after_ns: u64) -> u64 {
        match self.times {
            None => after_ns,
            Some(line) => u64::try_from(line.at(after_ns.into())).unwrap_or(0),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        writeln!(self.text, "{line},").unwrap_or_default();
        if self.text.len() >= CHUNK_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_ok() && !self.text.is_empty() {
            self.failed = self.output.append(&self.text);
        }
        self.text.clear();
    }
}

pub(super) struct Microseconds(pub(super) u64);

impl Display for Microseconds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
