//! Events of Chrome's JSON as text, and the file that they go to.

use std::fmt::{Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use analysis::Trace;
use flate2::Compression;
use flate2::write::GzEncoder;
use otf2::{AttributeRef, AttributeValue};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::line::Line;

/// Where an event is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) pid: u64,
    pub(super) tid: u64,
}

/// A text as JSON has it.
pub(super) fn quoted(text: &str) -> String {
    // Texts can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

/// The arguments of an event.
#[derive(Debug, Default)]
pub(super) struct Args(String);

impl Args {
    pub(super) fn number(&mut self, name: &str, value: impl Display) {
        self.add(&quoted(name), value);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.add(&quoted(name), quoted(value));
    }

    /// All attributes that an event has, by their names in the archive.
    pub(super) fn attributes(&mut self, trace: &Trace, names: &AttributeNames, all: &[(AttributeRef, AttributeValue)]) {
        for (attribute, value) in all {
            let Some(name) = usize::try_from(attribute.get()).ok().and_then(|at| names.0.get(at)) else {
                continue;
            };
            match value {
                AttributeValue::U8(number) => self.add(name, number),
                AttributeValue::U16(number) => self.add(name, number),
                AttributeValue::U32(number) => self.add(name, number),
                AttributeValue::U64(number) => self.add(name, number),
                AttributeValue::I8(number) => self.add(name, number),
                AttributeValue::I16(number) => self.add(name, number),
                AttributeValue::I32(number) => self.add(name, number),
                AttributeValue::I64(number) => self.add(name, number),
                AttributeValue::F64(number) if number.is_finite() => self.add(name, number),
                AttributeValue::F32(number) if number.is_finite() => self.add(name, number),
                other => match trace.text(*other) {
                    Some(text) => self.add(name, quoted(text)),
                    None => self.add(name, quoted(&format!("{other:?}"))),
                },
            }
        }
    }

    /// What is between the braces.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that is quoted, and a value as JSON.
    fn add(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { "" } else { ", " };
        // A String takes everything.
        write!(self.0, "{comma}{name}: {value}").unwrap_or_default();
    }
}

/// The names of an archive's attributes, quoted, by number.
#[derive(Debug)]
pub(super) struct AttributeNames(Vec<String>);

impl AttributeNames {
    pub(super) fn of(trace: &Trace) -> Self {
        let attributes = trace.definitions.attributes.values();
        Self(attributes.map(|it| quoted(trace.definitions.string(it.name).unwrap_or_default())).collect())
    }
}

/// A file, for all threads.
pub(super) struct Output {
    writer: Mutex<Writer>,
    path: PathBuf,
}

enum Writer {
    /// Opened for each piece: a job has more ranks than a process may have open files.
    Pieces,
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl Output {
    /// Makes a file, compressed where its name says so.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).map_err(Error::io("make", path))?;
        let file = BufWriter::with_capacity(CHUNK_BYTES, file);
        let writer = match is_compressed(path) {
            true => Writer::Compressed(GzEncoder::new(file, Compression::fast())),
            false => Writer::Plain(file),
        };
        Ok(Self { writer: Mutex::new(writer), path: path.to_owned() })
    }

    /// Makes a file that gets large pieces.
    pub(super) fn in_pieces(path: &Path) -> Result<Self> {
        drop(File::create_new(path).map_err(Error::io("make", path))?);
        Ok(Self { writer: Mutex::new(Writer::Pieces), path: path.to_owned() })
    }

    pub(super) fn append(&self, text: &str) -> Result<()> {
        let written = match &mut *self.writer.lock() {
            Writer::Pieces => {
                let file = OpenOptions::new().append(true).open(&self.path);
                file.and_then(|mut file| file.write_all(text.as_bytes()))
            }
            Writer::Plain(file) => file.write_all(text.as_bytes()),
            Writer::Compressed(file) => file.write_all(text.as_bytes()),
        };
        written.map_err(Error::io("write", &self.path))
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> Result<()> {
        let finished = match self.writer.into_inner() {
            Writer::Pieces => return Ok(()),
            Writer::Plain(file) => Ok(file),
            Writer::Compressed(file) => file.finish(),
        };
        let written = finished.and_then(|file| file.into_inner().map_err(io::Error::from));
        written.map(drop).map_err(Error::io("write", &self.path))
    }
}

/// Whether the name of a file says that it is compressed.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// How much is written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Events on their way to a file, each with a comma behind.
pub(super) struct Events<'a> {
    output: &'a Output,
    /// From the archive's time to the file's, where these differ.
    times: Option<&'a Line>,
    text: String,
    count: u64,
    failed: Result<()>,
}

impl<'a> Events<'a> {
    pub(super) fn new(output: &'a Output, times: Option<&'a Line>) -> Self {
        Self { output, times, text: String::new(), count: 0, failed: Ok(()) }
    }

    /// Something with a beginning and an end.
    pub(super) fn complete(&mut self, category: &str, name: &str, place: Place, times_ns: (u64, u64), args: &Args) {
        let (start_ns, stop_ns) = (self.time_ns(times_ns.0), self.time_ns(times_ns.1));
        self.line(format_args!(
            "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \
             \"args\": {{{}}}}}",
            quoted(name),
            place.pid,
            place.tid,
            Microseconds(start_ns),
            Microseconds(stop_ns.saturating_sub(start_ns)),
            args.as_str()
        ));
        self.count += 1;
    }

    /// One end of an arrow from a launch to its kernel.
    pub(super) fn arrow(&mut self, is_begin: bool, id: u64, place: Place, at_ns: u64) {
        let (phase, binding) = if is_begin { ("s", "") } else { ("f", ", \"bp\": \"e\"") };
        let at_ns = self.time_ns(at_ns);
        self.line(format_args!(
            "{{\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"cat\": \"ac2g\", \
             \"name\": \"ac2g\"{binding}}}",
            place.pid,
            place.tid,
            Microseconds(at_ns)
        ));
    }

    /// The name of a process or thread, and its place among others.
    pub(super) fn name(&mut self, what: &str, place: Place, name: &str, order: u64) {
        let Place { pid, tid } = place;
        let name = quoted(name);
        self.line(format_args!(
            "{{\"name\": \"{what}_name\", \"ph\": \"M\", \"ts\": 0.000, \"pid\": {pid}, \"tid\": {tid}, \"args\": \
             {{\"name\": {name}}}}},\n{{\"name\": \"{what}_sort_index\", \"ph\": \"M\", \"ts\": 0.000, \"pid\": {pid}, \
             \"tid\": {tid}, \"args\": {{\"sort_index\": {order}}}}}"
        ));
    }

    /// Writes the rest; gives how many events there were.
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
        // A String takes everything.
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

/// A time in ns as µs with their fraction.
pub(super) struct Microseconds(pub(super) u64);

impl Display for Microseconds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
