//! Writes a part: the journal of one process becomes event files and a manifest.
//!
//! ```text
//! journal ─ tables ─ links ─ clocks ─ timeline ─ one location after the other ─ traces/<n>.evt ─ manifest, done
//! ```
//!
//! Needs nothing from the process that recorded: it may be alive, finished, or killed. All files are made in a
//! directory inside the part and renamed into place, `done` last, so that writing can be interrupted at any point and
//! repeated by any process.

use std::path::Path;
use std::time::{Duration, Instant};

use super::calls::CALLS;
use super::calls::of_ranks::calls_of_ranks;
use super::event_files::{Deadline, EventFiles};
use super::files::{self, DONE, MANIFEST, TRACES};
use super::journal_cleanup;
use super::lock_file::{LockFile, still_ours};
use super::manifest::Manifest;
use super::manifest_builder::Builder;
use super::recording::Recording;
use super::remote_transfers::{REMOTE_TRANSFERS, TransfersFile};
use super::staging::{Staging, put_in_place, remove_if_there};
use crate::error::{Error, io_error};
use journal::part::environment::ArchiveOptions;
use nccl_events::Progress;
use nccl_events::schema::Counts;
use process_model::emit::definitions::Definitions;
use process_model::links::pxn;
use process_model::timeline::builder::Timeline;
use process_model::timeline::model::ProcessModel;

#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub deadline: Option<Instant>,
    /// Whether the journal stays after the part is written. A journal that could not be read to its end always stays.
    pub keep_journal: bool,
    /// Whether a journal that is not read to its end is an error: other threads of a job may close the descriptors that
    /// read it, which looks like damage; a later `finalize` judges that.
    pub whole: bool,
    /// Whether the process is still recording: the part has the records so far, and a later `finalize` writes it again.
    pub provisional: bool,
    /// Events that began before this are left out; of that time, only the clock, communicators and threads are kept.
    pub since_ticks: u64,
    /// Which records are written, and how; `None` for the options of the process.
    pub archive: Option<ArchiveOptions>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartSummary {
    pub part: String,
    pub locations: u64,
    pub events: u64,
    pub records: u64,
    pub counts: Counts,
    pub problems: Vec<String>,
}

/// Prefix of the directories in which a part is made.
pub(crate) const STAGING: &str = ".write";
const LOCK: &str = ".write.lock";
/// How long to wait for another process that is writing the part.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn write_part(part: &Path, options: &WriteOptions, progress: &dyn Progress) -> Result<PartSummary, Error> {
    let _lock = lock(part, options.deadline, progress)?;
    write_locked(part, options, progress)
}

/// Locks a part: two writers at once would remove each other's files. Names the holder on `progress` while waiting.
pub(crate) fn lock(part: &Path, deadline: Option<Instant>, progress: &dyn Progress) -> Result<LockFile, Error> {
    let patience = Instant::now() + PATIENCE;
    let give_up = deadline.map_or(patience, |deadline| deadline.min(patience));
    let staging = Staging::create(part, STAGING)?;
    LockFile::take(part.join(LOCK), &staging, give_up, progress)
}

/// [`write_part`] for a caller that holds the lock.
pub(crate) fn write_locked(part: &Path, options: &WriteOptions, progress: &dyn Progress) -> Result<PartSummary, Error> {
    let deadline = Deadline { at: options.deadline, part };
    let recording = Recording::read(part, options.since_ticks)?;
    deadline.check()?;
    if let Some(problem) = recording.outcome.problems.first().filter(|_| options.whole) {
        return Err(Error::Unread { problem: problem.to_string() });
    }
    let (tables, symbols) = (&recording.tables, &recording.outcome.symbols);
    let archive = options.archive.unwrap_or(recording.process.archive);
    let model = ProcessModel::of(tables, symbols, &recording.remote, archive);
    let (timeline, mut counts) = process_model::timeline::build(&model);
    counts.add(&tables.counts);
    let definitions = Definitions::of(tables, &model.links, &timeline.regions, symbols);
    deadline.check()?;

    let staging = Staging::create(part, STAGING)?;
    let Timeline { locations, threads, .. } = timeline;
    let files = EventFiles { deadline: &deadline, model: &model, definitions: &definitions, threads: &threads };
    let locations = files.write(locations, staging.path(), &mut counts, progress)?;
    let (calls, collectives) = calls_of_ranks(tables, &model.links, &model.comms, symbols);
    calls.write(&staging.path().join(CALLS))?;
    let transfers = pxn::transfers(tables, &model.links.transfers);
    if let Some(transfers) = TransfersFile::new(&recording.process, transfers) {
        transfers.write(&staging.path().join(REMOTE_TRANSFERS))?;
    }
    let builder = Builder {
        part,
        recording: &recording,
        model: &model,
        definitions: &definitions,
        is_provisional: options.provisional,
    };
    let manifest = builder.manifest(locations, collectives, counts);
    commit(part, &staging, &manifest, options.provisional)?;
    // The journal is the only copy of records that could not be read.
    if !options.keep_journal && !options.provisional && manifest.problems.is_empty() {
        journal_cleanup::remove(part, progress);
    }
    Ok(summary(manifest))
}

fn commit(part: &Path, staging: &Staging, manifest: &Manifest, provisional: bool) -> Result<(), Error> {
    manifest.write(&staging.path().join(MANIFEST))?;
    still_ours(&part.join(LOCK))?;
    // Removes `done` first: without it, the files may be a mix of two attempts.
    remove_if_there(&part.join(DONE))?;
    put_in_place(staging, TRACES, part)?;
    put_in_place(staging, CALLS, part)?;
    if staging.path().join(REMOTE_TRANSFERS).exists() {
        put_in_place(staging, REMOTE_TRANSFERS, part)?;
    }
    put_in_place(staging, MANIFEST, part)?;
    let state = match provisional {
        true => files::Progress::Provisional,
        false => files::Progress::Written,
    };
    mark(part, staging, state)
}

pub(crate) fn mark(part: &Path, staging: &Staging, state: files::Progress) -> Result<(), Error> {
    let mark = staging.path().join(DONE);
    state.write(&mark).map_err(io_error("write", &mark))?;
    put_in_place(staging, DONE, part)
}

fn summary(manifest: Manifest) -> PartSummary {
    PartSummary {
        locations: manifest.locations.len() as u64,
        events: manifest.events(),
        problems: manifest.all_problems(),
        part: manifest.part,
        records: manifest.records,
        counts: manifest.counts,
    }
}
