//! An XSpace for TensorBoard and xprof: a plane per rank, a line per location, an event per region instance with its
//! attributes as stats.
//!
//! ```text
//!  host    when and on which host a foreign profile was taken
//!  planes  assigns locations to ranks' planes
//!  lines   the events of a location, in a temporary file
//! ```
//!
//! A plane is preceded by its length, so its events are first written to a separate file.

mod host;
mod lines;
mod planes;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use analysis::{Filter, Trace};
use otf2::{Archive, LocationRef, SystemTreeNodeRef};
use proto_messages::xspace::begin_line;

use crate::error::{Error, Result};
use crate::foreign;
use crate::line::Line as Clock;
use crate::outcome::Outcome;
use crate::selection::Selection;
use crate::source::Source;

use host::HostProfile;
use lines::{Line, Spool, Window};
use planes::Plane;

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let begin_ns = source.begin_ns();
    let mut file = File::create_new(out).map_err(Error::io("make", out))?;
    let profile = HostProfile::of(begin_ns, begin_ns.saturating_add(source.length_ns()));
    file.write_all(&profile.space()).map_err(Error::io("write", out))?;
    let selection = Selection::of(*source)?;
    let window = Window { clock: Clock::later(begin_ns.into()), origin_ns: begin_ns, from_ns: 0, to_ns: u64::MAX };
    let mut outcome = append(source, &selection, selection.locations(), |_| Ok(window), &file, out)?;
    selection.beside()?.left_out(true, &mut outcome);
    Ok(outcome)
}

/// Puts planes into copies of host profiles: each copy gets the planes of its host's processes, on its clock. For one
/// profile `out` is the copy, for several a folder of copies.
pub fn into(source: &Source<'_>, profiles: &[PathBuf], out: &Path) -> Result<Outcome> {
    let names = foreign::names(profiles)?;
    let selection = Selection::of(*source)?;
    let trace = source.trace;
    let mut hosts = foreign::hosts(trace, selection.locations().iter().copied());
    if hosts.is_empty() {
        return Err(Error::Refused("the archive has no events that are wanted".to_owned()));
    }
    let all = hosts.clone();
    let is_folder = profiles.len() > 1;
    if is_folder {
        fs::create_dir(out).map_err(Error::io("make", out))?;
    }
    let mut outcome = Outcome { files: if is_folder { names } else { vec![PathBuf::new()] }, ..Outcome::default() };
    let mut outside = 0;
    for path in profiles {
        let profile = HostProfile::read(path, MOST_BYTES)?;
        let host = profile.host(trace, &all, path)?;
        hosts.remove(&host);
        let out = if is_folder { out.join(path.file_name().unwrap_or_default()) } else { out.to_owned() };
        let written = into_one(source, &selection, (path, &profile, host), &out)?;
        outcome.events += written.events;
        outside += written.left_out.iter().map(|it| it.events).sum::<u64>();
    }
    outcome.leave_out(outside, OUTSIDE);
    let elsewhere =
        selection.locations().iter().filter(|it| trace.host(trace.group(**it)).is_some_and(|it| hosts.contains(&it)));
    let records = elsewhere.map(|it| trace.events_of(*it)).sum();
    outcome.leave_out(records, "records of processes on hosts of which no profile was given");
    Ok(outcome)
}

/// Reason for leaving out events that begin outside a profile.
const OUTSIDE: &str = "events that began before or after the host's profile";

fn into_one(
    source: &Source<'_>,
    selection: &Selection<'_>,
    (path, profile, host): (&Path, &HostProfile, SystemTreeNodeRef),
    out: &Path,
) -> Result<Outcome> {
    let trace = source.trace;
    let is_there = |it: &LocationRef| trace.host(trace.group(*it)) == Some(host);
    let locations: Vec<LocationRef> = selection.locations().iter().copied().filter(is_there).collect();
    let span_ns = profile.span_ns(source.begin_ns().saturating_add(source.length_ns()));
    let clock = |location| foreign::clock(source, location, path, span_ns);
    if let Some(first) = locations.first() {
        foreign::refuse_apart(source, &clock(*first)?, path, span_ns)?;
    }
    let mut file = File::create_new(out).map_err(Error::io("make", out))?;
    let mut profile_file = regular_files::open_named(path, MOST_BYTES).map_err(Error::io("read", path))?;
    std::io::copy(&mut profile_file, &mut file).map_err(Error::io("copy", path))?;
    let window = |location| {
        let (origin_ns, to_ns) = (profile.begin_ns, profile.end_ns);
        Ok(Window { clock: clock(location)?.inverse(), origin_ns, from_ns: origin_ns, to_ns })
    };
    append(source, selection, &locations, window, &file, out)
}

/// The events of an archive that began between two times (ns since 1970) as planes only, with times since 1970, as a
/// profiler passes them to TensorFlow. Puts a file beside the anchor.
pub fn planes(anchor: &Path, from_ns: u64, to_ns: u64) -> Result<Vec<u8>> {
    let trace = Trace::read(anchor.to_owned(), Archive::open(anchor)?)?;
    let source = Source { trace: &trace, filter: &Filter::default(), progress: &() };
    let out = anchor.with_extension("xplane.pb");
    let file = File::create_new(&out).map_err(Error::io("make", &out))?;
    let selection = Selection::of(source)?;
    let window = Window { clock: Clock::later(source.begin_ns().into()), origin_ns: 0, from_ns, to_ns };
    append(&source, &selection, selection.locations(), |_| Ok(window), &file, &out)?;
    fs::read(&out).map_err(Error::io("read", &out))
}

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

fn append(
    source: &Source<'_>,
    selection: &Selection<'_>,
    locations: &[LocationRef],
    window: impl Fn(LocationRef) -> Result<Window> + Sync,
    mut file: &File,
    out: &Path,
) -> Result<Outcome> {
    let spool = Spool::beside(out)?;
    let lines = source
        .each_location(locations, |location| Line::write(source, selection, location, window(location)?, &spool))?;
    refuse_too_large(file, &lines, out)?;
    let mut outcome = Outcome { files: vec![PathBuf::new()], ..Outcome::default() };
    outcome.events = lines.iter().map(|line| line.events).sum();
    outcome.leave_out(lines.iter().map(|line| line.outside).sum(), OUTSIDE);
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
