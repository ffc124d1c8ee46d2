//! Finishes a job's directory: writes the parts that have a journal and are not done, then unifies. Leaves a finished
//! archive unchanged and completes a partial one. Writes a part again if its neighbours reported transfers for it (PXN)
//! only afterwards, and restores the mark of a written part that lost it.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use self::write_again as write_part_again;
use crate::error::Error;
use crate::job::{
    ANCHOR, ArchiveSummary, MissingPart, check_parts_remain, is_in_place, most_common, other_level_reason,
    part_directories, unify_alike,
};
use crate::part::calls::CALLS;
use crate::part::files::{MANIFEST, PartProgress, Staging, TRACES, is_final, why_unusable};
use crate::part::manifest::Manifest;
use crate::part::write::{
    PartSummary, REMOTE_TRANSFERS, WriteOptions, from_neighbours, has_unwritten_neighbours, write_locked,
};
use crate::part::{files, write};
use crate::workers::Workers;
use journal::host;
use journal::part::environment::Level;
use journal::part::{JOURNAL, LateCallbacks, has_begun, has_journal, is_done, part_name, read_process};
use model::job::is_blank;
use nccl_events::Progress;
use nccl_events::ids::ContextId;
use nccl_events::sort::Gather;
use regular_files::refusing_directory;

#[derive(Clone, Debug, PartialEq)]
pub struct FinalizedPart {
    pub name: String,
    pub state: PartState,
    /// What the part lacks of its journal.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FinalizeSummary {
    pub parts: Vec<FinalizedPart>,
    /// The archive, if this call made it.
    pub archive: Option<ArchiveSummary>,
    /// Whether an archive with all parts is in place, and no recorded data is missing from them.
    pub complete: bool,
}

pub fn finalize(out: &Path, options: &FinalizeOptions, progress: &dyn Progress) -> Result<FinalizeSummary, Error> {
    let job = Job { parts: part_directories(out)?, options, workers: Workers::new(options.jobs), progress };
    job.restore_marks();
    let known = job.options_sources();
    let level = level_of_all(&job.parts, &known, options.level)?;
    if options.level.is_some() {
        check_parts_remain(out, level)?;
    }
    // A shard cleans up its own parts only: other shards are working on theirs.
    let waits = |part: &PathBuf| {
        options.shard.is_none() && PartProgress::read_or_provisional(part) == PartProgress::JournalNeeded
    };
    let waited: Vec<bool> = job.parts.iter().map(waits).collect();
    let finalizer = PartFinalizer { options, level, progress };
    let mut outcomes = job.map("parts", &job.parts, |number, part| match job.is_ours(number) {
        true => finalizer.finalize(part, known.get(number).and_then(Option::as_ref)),
        false => Outcome::new(PartState::Elsewhere),
    });
    job.count_remote_transfers(&mut outcomes);
    if !options.keep_journal {
        job.clean_up(&outcomes, &waited);
    }
    let mut summary = FinalizeSummary {
        complete: false,
        archive: None,
        parts: outcomes
            .into_iter()
            .zip(&job.parts)
            .map(|(outcome, part)| FinalizedPart {
                name: part_name(part),
                state: outcome.state,
                problems: outcome.problems,
            })
            .collect(),
    };
    if options.shard.is_some() {
        return Ok(summary);
    }
    let is_missing = |part: &FinalizedPart| matches!(part.state, PartState::Live | PartState::Failed(_));
    let is_in_archive = |part: &&FinalizedPart| matches!(part.state, PartState::Written(_) | PartState::Done);
    let done: BTreeSet<String> = summary.parts.iter().filter(is_in_archive).map(|part| part.name.clone()).gather();
    // The summary has the reasons, which are more specific than "no part is written".
    if done.is_empty() && summary.parts.iter().any(is_missing) {
        return Ok(summary);
    }
    // Comparing names is not enough: a part may have been rewritten under its name.
    let is_written = |part: &FinalizedPart| matches!(part.state, PartState::Written(_));
    let is_changed = summary.parts.iter().any(is_written) || job.parts.iter().any(|part| came_late(out, part));
    let missing = job.missing(&summary.parts);
    let problems = summary.parts.iter().map(|part| part.problems.len()).sum();
    if is_changed || !is_in_place(out, (&done, problems), &missing, level) {
        summary.archive = Some(unify_alike(out, Some(level), &missing, progress)?);
    }
    summary.complete = !summary.parts.iter().any(|part| is_missing(part) || !part.problems.is_empty());
    Ok(summary)
}

struct Job<'a> {
    parts: Vec<PathBuf>,
    options: &'a FinalizeOptions,
    workers: Workers,
    progress: &'a dyn Progress,
}

impl Job<'_> {
    fn is_ours(&self, number: usize) -> bool {
        self.options.shard.is_none_or(|(shard, shards)| number % shards.max(1) == shard)
    }

    fn restore_marks(&self) {
        for (_, part) in self.parts.iter().enumerate().filter(|(number, _)| self.is_ours(*number)) {
            restore(part, self.progress);
        }
    }

    /// What the written parts state about themselves; for a shard, its own parts and the first.
    fn options_sources(&self) -> Vec<Option<OptionsSource>> {
        let first = self.parts.iter().position(|part| is_done(part));
        self.workers.map(&vec![0; self.parts.len()], |number| {
            let part = self.parts.get(number)?;
            let is_wanted = self.is_ours(number) || first == Some(number);
            (is_wanted && is_done(part)).then(|| OptionsSource::read(part))
        })
    }

    fn map<T: Send + Sync>(&self, what: &str, parts: &[PathBuf], work: impl Fn(usize, &Path) -> T + Sync) -> Vec<T> {
        let weights: Vec<u64> = parts.iter().map(|part| memory_bytes(part)).collect();
        self.progress.begin(what, parts.len() as u64);
        let made = self.workers.map(&weights, |number| {
            let made = parts.get(number).map(|part| work(number, part));
            self.progress.step();
            made
        });
        self.progress.end();
        made.into_iter().flatten().collect()
    }

    /// Rewrites parts whose transfers by other processes (PXN) were written after them.
    fn count_remote_transfers(&self, outcomes: &mut [Outcome]) {
        let ours =
            self.parts.iter().zip(&*outcomes).filter(|(_, outcome)| !matches!(outcome.state, PartState::Elsewhere));
        let ours: Vec<PathBuf> = ours.map(|(part, _)| part.clone()).collect();
        let parts = incomplete(&self.parts, &ours);
        if parts.is_empty() {
            return;
        }
        let again = self
            .map("parts for which others did transfers", &parts, |_, part| write_with_transfers(part, self.progress));
        for (part, state) in parts.iter().zip(again) {
            let outcome = self.parts.iter().position(|other| other == part).and_then(|number| outcomes.get_mut(number));
            if let (Some(outcome), Some(state)) = (outcome, state) {
                *outcome = Outcome { is_first: outcome.is_first, ..Outcome::new(state) };
            }
        }
    }

    /// The parts that cannot be written, and why. What other parts lack, the archive states itself.
    fn missing(&self, finalized: &[FinalizedPart]) -> Vec<MissingPart> {
        let parts = self.parts.iter().zip(finalized).filter(|(part, _)| !is_done(part));
        let missing = parts.filter_map(|(_, part)| match &part.state {
            PartState::Failed(reason) => Some(MissingPart { part: part.name.clone(), reason: reason.clone() }),
            _ => None,
        });
        missing.collect()
    }

    /// Removes the journals of parts written for the first time, and of parts that `waited` for others.
    fn clean_up(&self, outcomes: &[Outcome], waited: &[bool]) {
        for ((part, outcome), waited) in self.parts.iter().zip(outcomes).zip(waited) {
            if !outcome.is_first && !waited {
                continue;
            }
            let waits = self.options.shard.is_some() && has_unwritten_neighbours(part, &self.parts);
            self.clean_up_journal(part, waits);
        }
    }

    /// Removes the journal of a part that has all its records, or leaves that to the final `finalize`.
    fn clean_up_journal(&self, part: &Path, waits: bool) {
        // Another process may be rewriting the part.
        let Ok(_lock) = write::lock(part, None, self.progress) else {
            return;
        };
        let is_whole = || Manifest::read(part).is_ok_and(|manifest| manifest.problems.is_empty());
        if !is_final(part) || !is_whole() {
            return;
        }
        if waits {
            // If the mark cannot be written, the journal just stays.
            let mark = part.join(journal::part::DONE);
            let _stays = PartProgress::JournalNeeded.write(&mark);
        } else {
            files::remove(part, self.progress);
        }
    }
}

/// Memory that writing a part takes for each byte of the journal.
const MEMORY_PER_BYTE: u64 = 3;

/// Estimated memory for writing a part, in bytes.
fn memory_bytes(part: &Path) -> u64 {
    let Ok(segments) = fs::read_dir(part.join(JOURNAL)) else {
        return 0;
    };
    let journal: u64 = segments.flatten().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
    journal.saturating_mul(MEMORY_PER_BYTE)
}

/// Whether a part counts callbacks that came after the archive was made.
fn came_late(out: &Path, part: &Path) -> bool {
    let written = |path: &Path| path.metadata().and_then(|data| data.modified());
    match (written(&LateCallbacks::path(part)), written(&out.join(ANCHOR))) {
        (Ok(late), Ok(archive)) => late > archive,
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum PartState {
    Written(Box<PartSummary>),
    /// The part was written before.
    Done,
    /// The process is running and will write the part itself.
    Live,
    /// The process never recorded.
    Empty,
    Elsewhere,
    /// The part cannot be written, or was written and cannot be read, and why.
    Failed(String),
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) state: PartState,
    /// What the part lacks of its journal.
    pub(crate) problems: Vec<String>,
    /// Whether the part was now written for the first time and completely.
    pub(crate) is_first: bool,
}

impl Outcome {
    pub(crate) fn new(state: PartState) -> Self {
        let problems = match &state {
            PartState::Written(summary) => summary.problems.clone(),
            _ => Vec::new(),
        };
        Self { state, problems, is_first: false }
    }

    fn failed(error: &Error) -> Self {
        Self::new(PartState::Failed(host::explain_write_error(error)))
    }
}

/// Finalizes one part.
pub(crate) struct PartFinalizer<'a> {
    pub(crate) options: &'a FinalizeOptions,
    pub(crate) level: Level,
    pub(crate) progress: &'a dyn Progress,
}

impl PartFinalizer<'_> {
    pub(crate) fn finalize(&self, part: &Path, known: Option<&OptionsSource>) -> Outcome {
        if let Some(reason) = why_unusable(part) {
            return Outcome::new(PartState::Failed(reason));
        }
        Staging::sweep(part, write::STAGING);
        match known {
            Some(OptionsSource::Unreadable { reason, can_be_written: false }) if is_final(part) => {
                return Outcome::new(PartState::Failed(reason.clone()));
            }
            Some(OptionsSource::Part { level, problems, has_journal, has_lost_events })
                if is_final(part) && *level == self.level && !(*has_lost_events && *has_journal) =>
            {
                return done(part, problems);
            }
            Some(OptionsSource::Part { level, has_journal: false, .. }) if *level != self.level => {
                return Outcome::new(PartState::Failed(other_level_reason(&part_name(part), *level)));
            }
            None => {
                if let Some(state) = self.without_records(part) {
                    return Outcome::new(state);
                }
            }
            _ => {}
        }
        let _lock = match write::lock(part, None, self.progress) {
            Ok(lock) => lock,
            Err(error) => return Outcome::failed(&error),
        };
        // Another process may have written the part in the meantime.
        if is_final(part) {
            return self.like_others(part).unwrap_or_else(|e| Outcome::failed(&e));
        }
        let is_live = read_process(part).0.is_recording();
        if is_live && !self.options.include_live {
            return Outcome::new(PartState::Live);
        }
        let state = write_again(part, self.level, is_live);
        Outcome { is_first: !is_live && matches!(state, PartState::Written(_)), ..Outcome::new(state) }
    }

    /// The state of a part that is not written and has no records to write.
    fn without_records(&self, part: &Path) -> Option<PartState> {
        let journal = part.join(JOURNAL);
        match journal.try_exists() {
            Ok(true) => return is_blank(part).then_some(PartState::Empty),
            Ok(false) => {}
            // It may be there all the same.
            Err(error) => {
                let refusing = refusing_directory(&journal, &error);
                return Some(PartState::Failed(format!("{}: {error}", refusing.display())));
            }
        }
        // Another process wrote the part: the mark comes before the journal is removed.
        if is_done(part) {
            return None;
        }
        Some(match fs::read_link(&journal) {
            Ok(target) => PartState::Failed(elsewhere(part, &target)),
            Err(_) => why_missing(part, self.progress).map_or(PartState::Empty, PartState::Failed),
        })
    }

    /// Writes a written part again if it has another level than the others.
    fn like_others(&self, part: &Path) -> Result<Outcome, Error> {
        let manifest = match Manifest::read_with_events(part) {
            Ok(manifest) => manifest,
            Err(error) if can_be_written(part, &error) => {
                return Ok(Outcome::new(write_again(part, self.level, false)));
            }
            Err(error) => return Err(error),
        };
        if manifest.has_lost_events && has_journal(part) {
            return Ok(Outcome::new(write_again(part, self.level, false)));
        }
        if manifest.level != self.level {
            return Ok(Outcome::new(write_again(part, self.level, false)));
        }
        Ok(done(part, &manifest.all_problems()))
    }
}

/// Writes a part whose lock is held. Keeps the journal: others may report transfers for this part, or the user kept it.
pub(crate) fn write_again(part: &Path, level: Level, provisional: bool) -> PartState {
    let options = WriteOptions { keep_journal: true, provisional, level: Some(level), ..WriteOptions::default() };
    match write_locked(part, &options, &()) {
        Ok(summary) => PartState::Written(Box::new(summary)),
        Err(error) => PartState::Failed(host::explain_write_error(error)),
    }
}

fn done(part: &Path, problems: &[String]) -> Outcome {
    let mut problems = problems.to_vec();
    problems.extend(lacks_its_end(part));
    Outcome { problems, ..Outcome::new(PartState::Done) }
}

/// Why the later records of a part written while its process ran cannot be read.
fn lacks_its_end(part: &Path) -> Option<String> {
    let journal = part.join(JOURNAL);
    if has_journal(part) {
        return None;
    }
    match PartProgress::read(part) {
        Ok(PartProgress::Provisional) => {}
        Ok(_) => return None,
        Err(error) => return Some(error.to_string()),
    }
    let why = match fs::read_link(&journal) {
        Ok(target) => elsewhere(part, &target),
        Err(_) => "its journal is gone".to_owned(),
    };
    Some(format!("was written while its process was running, and not again since: {why}"))
}

/// Why a journal outside the part cannot be read (`NCCL_OTF2_JOURNAL_DIR`).
fn elsewhere(part: &Path, target: &Path) -> String {
    let (target, process) = (target.display(), read_process(part).0);
    if process.boot_id.is_empty() || process.boot_id == host::boot_id() {
        return format!("its journal was in {target}, which no longer exists");
    }
    format!("its journal is in {target} on {}: run `nccl-otf2 finalize` there", process.host)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct FinalizeOptions {
    /// Whether to write what running processes have recorded so far. They continue to record, and the journal stays.
    pub include_live: bool,
    /// Whether journals stay after their part is written. Damaged journals always stay.
    pub keep_journal: bool,
    /// Write only every n-th part, starting with the i-th: `(i, n)`. Does not unify.
    pub shard: Option<(usize, usize)>,
    /// How many parts are written at once; `None` for one per core. Fewer if memory is short: writing takes about three
    /// times the size of the journal, and at most half of the free memory is used.
    pub jobs: Option<NonZeroUsize>,
    /// The requested level; `None` to leave it as it is.
    pub level: Option<Level>,
}

/// What decides the level that all parts of an archive are written with.
#[derive(Debug)]
pub(crate) enum OptionsSource {
    /// How the part was written, and the problems of its journal.
    Part {
        level: Level,
        problems: Vec<String>,
        /// Whether the part can be written again.
        has_journal: bool,
        has_lost_events: bool,
    },
    Unreadable {
        reason: String,
        /// Whether the part can be written again: its journal exists, and no later version wrote the part.
        can_be_written: bool,
    },
}

impl OptionsSource {
    pub(crate) fn read(part: &Path) -> Self {
        match Manifest::read_with_events(part) {
            Ok(manifest) => Self::Part {
                level: manifest.level,
                has_lost_events: manifest.has_lost_events,
                problems: manifest.all_problems(),
                has_journal: has_journal(part),
            },
            Err(error) => Self::Unreadable { reason: error.to_string(), can_be_written: can_be_written(part, &error) },
        }
    }
}

/// Whether a part with an unreadable manifest can be written again. One that a later version wrote is left to it.
pub(crate) fn can_be_written(part: &Path, error: &Error) -> bool {
    let is_of_later = matches!(error, Error::ManifestFormat { found, known, .. } if found > known);
    !is_of_later && has_journal(part)
}

/// The level for all parts: as requested, else that of most parts that cannot be written again, else of the first
/// written part, else of the first process.
pub(crate) fn level_of_all(
    parts: &[PathBuf],
    known: &[Option<OptionsSource>],
    requested: Option<Level>,
) -> Result<Level, Error> {
    let written = || {
        parts.iter().zip(known).filter_map(|(part, known)| match known {
            Some(OptionsSource::Part { level, has_journal, .. }) => Some((part, *level, *has_journal)),
            _ => None,
        })
    };
    let fixed = || written().filter(|(_, _, has_journal)| !has_journal);
    let Some(requested) = requested else {
        let common_level = most_common(fixed().map(|(_, level, _)| level));
        let first_level = || parts.first().map(|part| read_process(part).0.level);
        return Ok(common_level
            .or_else(|| written().map(|(_, level, _)| level).next())
            .or_else(first_level)
            .unwrap_or_default());
    };
    let mut stuck = fixed().filter(|(_, written, _)| *written != requested);
    match stuck.next() {
        Some((first, ..)) => Err(Error::Removed { count: 1 + stuck.count(), first: first.join(JOURNAL) }),
        None => Ok(requested),
    }
}

/// Marks a part as written if only the mark is missing: no journal, manifest and event files whole.
pub(crate) fn restore(part: &Path, progress: &dyn Progress) {
    // Checks the journal first: the writer of a part removes the journal after it has put the mark.
    let has_journal = part.join(JOURNAL).symlink_metadata().is_ok();
    if !has_journal && !is_done(part) && has_written_files(part) && why_unusable(part).is_none() {
        // `why_missing` reports the failure.
        let _stays_unmarked = put_mark(part, progress);
    }
}

fn put_mark(part: &Path, progress: &dyn Progress) -> Result<(), String> {
    let state = written(part)?;
    let put = || {
        let _lock = write::lock(part, None, progress)?;
        write::mark(part, &Staging::create(part, write::STAGING)?, state)
    };
    put().map_err(|error| error.to_string())
}

/// The content of the lost mark.
fn written(part: &Path) -> Result<PartProgress, String> {
    let manifest = Manifest::read_with_events(part).map_err(|error| error.to_string())?;
    if let (true, Some(lost)) = (manifest.has_lost_events, manifest.problems.last()) {
        return Err(lost.clone());
    }
    // The number of events that began is unknown only if the process was still recording.
    Ok(if manifest.started.is_none() { PartProgress::Provisional } else { PartProgress::Written })
}

/// Why a part without mark and journal cannot go into an archive; `None` if its process never recorded.
pub(crate) fn why_missing(part: &Path, progress: &dyn Progress) -> Option<String> {
    if has_written_files(part) {
        let reason = put_mark(part, progress).err()?;
        return Some(format!("its mark `done` and its journal are lost, and it cannot be used without them: {reason}"));
    }
    has_begun(part).then(|| format!("its process recorded, and its journal is lost: {}", part.join(JOURNAL).display()))
}

/// Whether the part has a file that only writing it makes.
fn has_written_files(part: &Path) -> bool {
    [MANIFEST, TRACES, CALLS].iter().any(|name| part.join(name).symlink_metadata().is_ok())
}

/// The parts to write again so that all transfers by neighbours (PXN) count for them.
pub(crate) fn incomplete(all: &[PathBuf], parts: &[PathBuf]) -> Vec<PathBuf> {
    // Fast path: processes rarely work for others.
    if !all.iter().any(|part| part.join(REMOTE_TRANSFERS).exists()) {
        return Vec::new();
    }
    parts.iter().filter(|part| lacking(part).is_some()).cloned().collect()
}

/// The manifest of a part that lacks some of its neighbours' transfers and can be written again.
fn lacking(part: &Path) -> Option<Manifest> {
    if !is_final(part) || !has_journal(part) {
        return None;
    }
    let manifest = Manifest::read(part).ok()?;
    let process_tag = ContextId::from_raw(manifest.exported_ranks.first()?.context).tag();
    let (workers, _) = from_neighbours(part, &manifest.process, process_tag).ok()?;
    (workers != manifest.remote_workers).then_some(manifest)
}

/// Writes such a part again; `None` if another process has done so in the meantime.
pub(crate) fn write_with_transfers(part: &Path, progress: &dyn Progress) -> Option<PartState> {
    let _lock = write::lock(part, None, progress).ok()?;
    Some(write_part_again(part, lacking(part)?.level, false))
}
