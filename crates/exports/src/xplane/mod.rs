//! An XSpace for TensorBoard and xprof: a plane for each rank, a line for each location, an event for each region
//! instance with its attributes as stats.
//!
//! ```text
//!  host    when a profile that others made began and ended
//!  planes  which location is in which rank's plane
//!  lines   the events of a location, in a file that is gone at the end
//! ```
//!
//! A plane begins with its length, so the events are written to a file of their own first.

mod host;
mod lines;
mod planes;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use analysis::{Filter, Trace};
use otf2::Archive;
use proto_messages::xspace::begin_line;

use crate::error::{Error, Result};
use crate::outcome::Outcome;
use crate::selection::Selection;
use crate::source::Source;

use host::{HostProfile, length_ns};
use lines::{Line, Spool, Window};
use planes::Plane;

/// Writes the file `out`. With `into` it begins with that file, whose profile the planes are aligned with.
///
/// # Errors
///
/// When the archive cannot be read, the file cannot be written, or the planes cannot be aligned.
pub fn write(source: &Source<'_>, into: Option<&Path>, out: &Path) -> Result<Outcome> {
    let begin_ns = source.begin_ns();
    let Some(into) = into else {
        let mut file = File::create_new(out).map_err(Error::io("make", out))?;
        let environment = HostProfile { begin_ns, end_ns: begin_ns.saturating_add(length_ns(source)) };
        file.write_all(&environment.space()).map_err(Error::io("write", out))?;
        let window = Window { origin_ns: begin_ns, from_ns: begin_ns, to_ns: u64::MAX };
        return append(source, window, &file, out);
    };
    let profile = HostProfile::read(into)?;
    profile.refuse_unrelated(source, into)?;
    fs::copy(into, out).map_err(Error::io("copy", into))?;
    let file = File::options().append(true).open(out).map_err(Error::io("write", out))?;
    let window = Window { origin_ns: profile.begin_ns, from_ns: profile.begin_ns, to_ns: profile.end_ns };
    append(source, window, &file, out)
}

/// What of an archive began between two times (ns since 1970) as planes alone, with times since 1970, as a profiler
/// hands them to TensorFlow. Puts a file beside the anchor.
///
/// # Errors
///
/// When the archive cannot be read or the file cannot be written.
pub fn planes(anchor: &Path, from_ns: u64, to_ns: u64) -> Result<Vec<u8>> {
    let trace = Trace::read(anchor.to_owned(), Archive::open(anchor)?)?;
    let source = Source { trace: &trace, filter: &Filter::default(), progress: &() };
    let out = anchor.with_extension("xplane.pb");
    let file = File::create_new(&out).map_err(Error::io("make", &out))?;
    append(&source, Window { origin_ns: 0, from_ns, to_ns }, &file, &out)?;
    fs::read(&out).map_err(Error::io("read", &out))
}

/// What protobuf's readers take.
const MOST_BYTES: u64 = i32::MAX as u64;

fn refuse_too_large(file: &File, lines: &[Line], out: &Path) -> Result<()> {
    let bytes = file.metadata().map_err(Error::io("look at", out))?.len();
    let bytes = bytes + lines.iter().map(Line::bytes).sum::<u64>();
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let why = format!("{} MiB, and TensorBoard reads 2047: choose with --from, --to, --rank or --comm", bytes >> 20);
    Err(Error::Refused(why))
}

fn append(source: &Source<'_>, window: Window, mut file: &File, out: &Path) -> Result<Outcome> {
    let selection = Selection::of(*source)?;
    let spool = Spool::beside(out)?;
    let lines = source
        .each_location(selection.locations(), |location| Line::write(source, &selection, location, window, &spool))?;
    refuse_too_large(file, &lines, out)?;
    let mut outcome = Outcome { files: vec![PathBuf::new()], ..Outcome::default() };
    outcome.events = lines.iter().map(|line| line.events).sum();
    let outside = lines.iter().map(|line| line.outside).sum();
    outcome.leave_out(outside, "events that began before or after the host's profile");
    for plane in Plane::all(source.trace, lines) {
        let mut head = Vec::new();
        plane.begin(source.trace, &mut head);
        file.write_all(&head).map_err(Error::io("write", out))?;
        for line in &plane.lines {
            let mut head = Vec::new();
            begin_line(&line.head, line.bytes(), &mut head);
            file.write_all(&head).map_err(Error::io("write", out))?;
            spool.copy(&line.extents, file).map_err(Error::io("write", out))?;
        }
    }
    Ok(outcome)
}
