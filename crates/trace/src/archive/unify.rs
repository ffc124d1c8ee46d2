//! Makes one archive from all finished parts.
//!
//! ```text
//! parts/*/{done, manifest, traces/*.evt} ─► .unify-…/traces.{otf2,def}, traces/ ─ rename ─► out/
//! ```
//!
//! Cost grows with definitions, not events: event files are linked. Unifying can be repeated when more parts exist; the
//! same parts always give the same archive. The old archive is moved away first and the anchor comes last: an archive
//! with an anchor is complete.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::archive::constraints::align_clocks;
use crate::archive::processes::{Parts, processes};
use crate::archive::properties::{self, PartsThere, total};
use crate::archive::write::{self, ArchiveSize};
use crate::dumps::Dumps;
use crate::error::{Error, io_error};
use crate::part::files::TRACES;
use crate::part::lock_file::{LockFile, still_ours};
use crate::part::staging::{Staging, foreign_file, move_aside, put_in_place, put_sealed_in_place};
use crate::workers::Workers;
use journal::part::PARTS;
use journal::part::environment::ArchiveOptions;
use journal::part::is_done;
use nccl_events::Progress;
use nccl_events::schema::{Counts, Statements};
use nccl_events::sort::Gather;

/// Name of the anchor: the file to open in a viewer.
pub const ANCHOR: &str = "traces.otf2";
const GLOBAL_DEFINITIONS: &str = "traces.def";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchiveSummary {
    pub anchor: PathBuf,
    pub parts: Vec<String>,
    /// Parts that are not in the archive, and why.
    pub left_out: Vec<String>,
    pub size: ArchiveSize,
    pub counts: Counts,
}

/// The parts in a job's directory, in the order of their names.
pub fn part_directories(out: &Path) -> Result<Vec<PathBuf>, Error> {
    journal::part::part_directories(out).map_err(io_error("read", &out.join(PARTS)))
}

/// A part that is not written and cannot be.
pub(super) struct Missing {
    pub(super) part: String,
    pub(super) reason: String,
}

/// Whether the archive in place is complete, has these parts and options, lists the missing parts, and states no more
/// than these problems: an event file may be back.
pub(super) fn is_in_place(
    out: &Path,
    (parts, problems): (&BTreeSet<String>, usize),
    missing: &[Missing],
    options: ArchiveOptions,
) -> bool {
    let Ok(archive) = otf2::Archive::open(&out.join(ANCHOR)) else {
        return false;
    };
    let statements = Statements::read(archive.properties());
    let has_options = has_options(&statements, options);
    let left_out = &statements.parts_left_out.all;
    let is_listed = |it: &Missing| left_out.iter().any(|line| line.starts_with(&format!("{}: ", it.part)));
    let lists_missing = missing.iter().all(is_listed);
    let stated = statements.problems.number.get();
    let existing = PartsThere::of(statements).unwrap_or_default();
    let is_outdated = !existing.has_more_than(parts) && stated > problems as u64;
    has_options
        && !is_outdated
        && existing.has_all(parts)
        && (existing.has_more_than(parts) || lists_missing)
        && is_whole(&archive)
}

/// Refuses to write with other options than those of an archive with a part that is gone: it would lose the part.
pub(super) fn check_parts_remain(out: &Path, options: ArchiveOptions) -> Result<(), Error> {
    let Ok(archive) = otf2::Archive::open(&out.join(ANCHOR)) else {
        return Ok(());
    };
    let statements = Statements::read(archive.properties());
    let is_alike = has_options(&statements, options);
    let existing = PartsThere::of(statements);
    match existing.as_ref().and_then(|existing| existing.gone(&BTreeSet::new(), &out.join(PARTS))) {
        Some(part) if !is_alike => Err(Error::PartsGone { path: out.join(ANCHOR), part: part.clone() }),
        _ => Ok(()),
    }
}

fn has_options(statements: &Statements, options: ArchiveOptions) -> bool {
    let wanted = properties::options(options);
    statements.level == wanted.level
        && statements.metrics == wanted.metrics
        && statements.comm_locations == wanted.comm_locations
        && statements.collectives == wanted.collectives
}

/// Whether the files that the anchor refers to are complete: some may have been deleted, or copied in part.
fn is_whole(archive: &otf2::Archive) -> bool {
    let Ok(definitions) = archive.definitions() else {
        return false;
    };
    if archive.check_definitions(&definitions).is_err() {
        return false;
    }
    let locations: Vec<(otf2::LocationRef, u64)> =
        definitions.locations.iter().map(|(location, it)| (*location, it.number_of_events)).collect();
    let is_whole = |at: usize| {
        let &(location, promised) = locations.get(at)?;
        let events = otf2::check_event_file(&archive.event_file(location), archive.event_chunk_bytes()).ok()?;
        let has_definitions = archive.has_local_definitions(location).ok()?;
        (events == promised && has_definitions).then_some(())
    };
    let whole = Workers::new(None).map(&vec![0; locations.len()], is_whole);
    locations.len() as u64 == archive.number_of_locations() && whole.iter().all(Option::is_some)
}

pub fn unify(out: &Path, progress: &dyn Progress) -> Result<ArchiveSummary, Error> {
    unify_alike(out, None, &[], progress)
}

/// [`unify`] for parts with these options, or with those of most (`None`). The archive lists the others as missing.
pub(super) fn unify_alike(
    out: &Path,
    options: Option<ArchiveOptions>,
    missing: &[Missing],
    progress: &dyn Progress,
) -> Result<ArchiveSummary, Error> {
    Staging::sweep(out, STAGING);
    let mut parts = Vec::new();
    let mut left_out: Vec<String> = missing.iter().map(|it| format!("{}: {}", it.part, it.reason)).collect();
    let mut directories = part_directories(out)?;
    directories.retain(|directory| is_done(directory));
    let read = Workers::new(None).read_manifests(&directories);
    for (directory, read) in directories.into_iter().zip(read) {
        match read {
            Ok(manifest) => parts.push((directory, manifest)),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    let all = parts.iter().map(|(_, manifest)| manifest.options);
    let options = options.or_else(|| most_common(all)).unwrap_or_default();
    parts.retain(|(_, manifest)| {
        let is_alike = manifest.options == options;
        if !is_alike {
            left_out.push(other_options(&manifest.part, manifest.options));
        }
        is_alike
    });
    if parts.is_empty() {
        return Err(Error::NoParts { path: out.join(PARTS) });
    }
    let mut processes = processes(parts);
    let alignment = align_clocks(&mut processes);
    let dumps = Dumps::read(out, processes.iter().map(|it| &it.manifest.process));
    let staging = Staging::create(out, STAGING)?;
    let parts = Parts { processes: &processes, alignment: &alignment, dumps: &dumps, options, left_out: &left_out };
    let size = write::write(staging.path(), &parts, progress)?;
    let parts: BTreeSet<String> = processes.iter().map(|process| &process.manifest.part).cloned().gather();
    commit(out, &staging, &parts, progress)?;
    Ok(ArchiveSummary {
        anchor: out.join(ANCHOR),
        parts: parts.into_iter().collect(),
        left_out,
        size,
        counts: total(&processes),
    })
}

const STAGING: &str = ".unify";

/// The most frequent options; of equally frequent ones the first.
pub(super) fn most_common(all: impl Iterator<Item = ArchiveOptions>) -> Option<ArchiveOptions> {
    let mut counts: Vec<(ArchiveOptions, usize)> = Vec::new();
    for options in all {
        match counts.iter_mut().find(|(known, _)| *known == options) {
            Some((_, count)) => *count += 1,
            None => counts.push((options, 1)),
        }
    }
    counts.iter().rev().max_by_key(|(_, count)| *count).map(|(options, _)| *options)
}

/// Why a part written with other options than most is not in the archive.
pub(super) fn other_options(part: &str, options: ArchiveOptions) -> String {
    let options: Vec<String> = options.named().iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!(
        "{part} is written with other options than most parts ({}): `nccl-otf2 finalize` writes it like them while \
         its journal is there",
        options.join(", ")
    )
}

/// The lock file for putting an archive in place, and the time to wait for it: a few renames are quick.
const LOCK: &str = ".unify.lock";
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the new archive equals the one in place: the same definitions, and the same event files of the parts.
fn is_same_archive(made: &Path, existing: &Path) -> bool {
    let open = |directory: &Path| otf2::Archive::open(&directory.join(ANCHOR)).ok();
    let (Some(one), Some(other)) = (open(made), open(existing)) else {
        return false;
    };
    let is_same_file = |name: &Path| {
        let (one, other) = (made.join(name), existing.join(name));
        match (fs::metadata(&one), fs::metadata(&other)) {
            (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()) => true,
            // Event files that could not be linked are too long to compare, unless they are stubs.
            (Ok(a), Ok(b)) if a.len() == b.len() && (name.extension() != Some("evt".as_ref()) || a.len() < 4096) => {
                let (one, other) = (regular_files::read(&one, a.len()).ok(), regular_files::read(&other, b.len()).ok());
                one.is_some() && one == other
            }
            _ => false,
        }
    };
    let Ok(mut files) = fs::read_dir(made.join(TRACES)) else {
        return false;
    };
    one.properties() == other.properties()
        && is_same_file(Path::new(GLOBAL_DEFINITIONS))
        && files.all(|file| file.is_ok_and(|file| is_same_file(&Path::new(TRACES).join(file.file_name()))))
}

fn commit(out: &Path, staging: &Staging, parts: &BTreeSet<String>, progress: &dyn Progress) -> Result<(), Error> {
    let _lock = LockFile::take(out.join(LOCK), staging, Instant::now() + PATIENCE, progress)?;
    // Another process saw more parts and was faster: its archive stays.
    let existing = otf2::Archive::open(&out.join(ANCHOR)).ok();
    let existing = existing.and_then(|archive| PartsThere::of(Statements::read(archive.properties())));
    if existing.as_ref().is_some_and(|existing| existing.has_more_than(parts)) {
        return Ok(());
    }
    // Another process made the same archive: its readers are not disturbed.
    if is_same_archive(staging.path(), out) {
        return Ok(());
    }
    if let Some(path) = foreign_file(out) {
        return Err(Error::Foreign { path });
    }
    if let Some(part) = existing.as_ref().and_then(|existing| existing.gone(parts, &out.join(PARTS))) {
        return Err(Error::PartsGone { path: out.join(ANCHOR), part: part.clone() });
    }
    still_ours(&out.join(LOCK))?;
    move_aside(staging, ANCHOR, out)?;
    put_sealed_in_place(staging, TRACES, out)?;
    put_in_place(staging, GLOBAL_DEFINITIONS, out)?;
    put_in_place(staging, ANCHOR, out)
}
