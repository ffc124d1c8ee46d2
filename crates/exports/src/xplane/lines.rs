//! The events of a location, and the file that holds them until the planes are known.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use analysis::{Slice, Trace};
use otf2::{AttributeRef, AttributeValue, LocationRef, RegionRef, StringRef};
use parking_lot::Mutex;
use proto_messages::xspace::{XEvent, XLine, XStat};

use crate::error::{Error, Result};
use crate::line::Line as Clock;
use crate::output::CHUNK_BYTES;
use crate::selection::Selection;
use crate::source::Source;
use crate::value::{Value, signed};

/// The origin of times, and the range in which wanted events begin; all in ns since 1970, on one host's clock.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Converts from ns from the start of the archive to that clock.
    pub(super) clock: Clock,
    pub(super) origin_ns: u64,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// A range of bytes in the file: offset and length.
type Extent = (u64, u64);

pub(super) struct Spool {
    file: Mutex<(File, u64)>,
    path: PathBuf,
}

impl Spool {
    /// Creates the file beside `out`, and unlinks it at once, so that it disappears with the process.
    pub(super) fn beside(out: &Path) -> Result<Self> {
        let mut name = out.as_os_str().to_owned();
        name.push(".events");
        let path = PathBuf::from(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(Error::io("make", &path))?;
        fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        Ok(Self { file: Mutex::new((file, 0)), path })
    }

    fn append(&self, bytes: &[u8]) -> Result<Extent> {
        let mut file = self.file.lock();
        let (file, end) = &mut *file;
        let extent = (*end, bytes.len() as u64);
        file.write_all(bytes).map_err(Error::io("write", &self.path))?;
        *end += extent.1;
        Ok(extent)
    }

    pub(super) fn copy(&self, extents: &[Extent], mut to: &File) -> io::Result<()> {
        let file = self.file.lock();
        let mut buffer = Vec::new();
        for (offset, length) in extents {
            buffer.resize(usize::try_from(*length).map_err(io::Error::other)?, 0);
            file.0.read_exact_at(&mut buffer, *offset)?;
            to.write_all(&buffer)?;
        }
        Ok(())
    }
}

pub(super) struct Line {
    pub(super) location: LocationRef,
    pub(super) head: XLine,
    pub(super) extents: Vec<Extent>,
    pub(super) events: u64,
    pub(super) outside: u64,
    pub(super) regions: BTreeSet<RegionRef>,
    pub(super) attributes: BTreeSet<AttributeRef>,
    pub(super) texts: BTreeSet<StringRef>,
}

impl Line {
    pub(super) fn write(
        source: &Source<'_>,
        selection: &Selection<'_>,
        location: LocationRef,
        window: Window,
        spool: &Spool,
    ) -> Result<Self> {
        let since_1970 = |after_ns: u64| u64::try_from(window.clock.at(after_ns.into())).unwrap_or(0);
        let base_ns = since_1970(0).max(window.from_ns);
        let mut line = Self {
            location,
            head: XLine {
                name: source.trace.location_name(location),
                timestamp_ns: signed(base_ns - window.origin_ns),
                ..XLine::default()
            },
            extents: Vec::new(),
            events: 0,
            outside: 0,
            regions: BTreeSet::new(),
            attributes: BTreeSet::new(),
            texts: BTreeSet::new(),
        };
        let mut failed = Ok(());
        let mut bytes = Vec::new();
        let mut event = XEvent::default();
        selection.slices(location, |slice| {
            let [start_ns, stop_ns] = [slice.start_ns, slice.stop_ns].map(since_1970);
            if start_ns < base_ns || start_ns > window.to_ns {
                line.outside += 1;
                return;
            }
            line.describe(source.trace, slice, &mut event);
            event.offset_ps = Some(picoseconds(start_ns - base_ns));
            event.duration_ps = picoseconds(stop_ns - start_ns);
            line.head.duration_ps = line.head.duration_ps.max(picoseconds(stop_ns - base_ns));
            event.append_to(&mut bytes);
            line.events += 1;
            if failed.is_ok() && bytes.len() >= CHUNK_BYTES {
                failed = spool.append(&bytes).map(|extent| line.extents.push(extent));
                bytes.clear();
            }
        })?;
        failed?;
        if !bytes.is_empty() {
            line.extents.push(spool.append(&bytes)?);
        }
        Ok(line)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.extents.iter().map(|(_, length)| length).sum()
    }

    fn describe(&mut self, trace: &Trace, slice: &Slice, event: &mut XEvent) {
        self.regions.insert(slice.region);
        event.metadata_id = region_id(slice.region);
        event.stats.clear();
        for (attribute, value) in &slice.attributes {
            self.attributes.insert(*attribute);
            if let AttributeValue::String(text) = value {
                self.texts.insert(*text);
            }
            event.stats.push(stat(trace, *attribute, *value));
        }
    }
}

/// The metadata id of a region; 0 means none.
pub(super) fn region_id(region: RegionRef) -> i64 {
    i64::from(region.get()) + 1
}

pub(super) fn attribute_id(attribute: AttributeRef) -> i64 {
    i64::from(attribute.get()) + 1
}

/// The metadata id of a text; attributes have smaller ones.
pub(super) fn text_id(text: StringRef) -> u64 {
    1 << 32 | u64::from(text.get())
}

fn stat(trace: &Trace, attribute: AttributeRef, value: AttributeValue) -> XStat {
    let mut stat = XStat { metadata_id: attribute_id(attribute), ..XStat::default() };
    match (value, Value::of(trace, value)) {
        (AttributeValue::String(text), _) => stat.ref_value = Some(text_id(text)),
        (_, Value::Unsigned(number)) => stat.uint64_value = Some(number),
        (_, Value::Signed(number)) => stat.int64_value = Some(number),
        (_, Value::Real(number)) => stat.double_value = Some(number),
        (_, Value::Text(text)) => stat.str_value = Some(text.into_owned()),
    }
    stat
}

fn picoseconds(ns: u64) -> i64 {
    signed(ns.saturating_mul(1000))
}
