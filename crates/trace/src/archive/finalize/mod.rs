//! Finishes a job's directory: writes the parts that have a journal and are not done, then unifies. Leaves a finished
//! archive unchanged and completes a partial one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::archive::unify::{
    ANCHOR, ArchiveSummary, Missing, check_parts_remain, is_in_place, part_directories, unify_alike,
};
use crate::error::Error;
use crate::part::files::Progress as PartProgress;
use crate::part::manifest::Manifest;
use crate::part::remote_transfers::has_unwritten_neighbours;
use crate::part::{journal_cleanup, write};
use crate::workers::Workers;
use journal::part::LateCallbacks;
use journal::part::is_done;
use journal::part::{JOURNAL, part_name};
use nccl_events::Progress;

mod lost_mark;
mod options;
mod part;
mod remote_transfers;

pub use options::FinalizeOptions;
pub use part::PartState;

use nccl_events::sort::Gather;
use options::{Known, options_of_all};
use part::{Outcome, PartFinalizer};

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
    let known = job.known();
    let archive = options_of_all(&job.parts, &known, &options.wishes)?;
    if !options.wishes.is_empty() {
        check_parts_remain(out, archive)?;
    }
    // A shard cleans up its own parts only: other shards are working on theirs.
    let waits = |part: &PathBuf| options.shard.is_none() && PartProgress::of(part) == PartProgress::JournalNeeded;
    let waited: Vec<bool> = job.parts.iter().map(waits).collect();
    let finalizer = PartFinalizer { options, archive, progress };
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
    if is_changed || !is_in_place(out, (&done, problems), &missing, archive) {
        summary.archive = Some(unify_alike(out, Some(archive), &missing, progress)?);
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
            lost_mark::restore(part, self.progress);
        }
    }

    /// What the written parts state about themselves; for a shard, its own parts and the first.
    fn known(&self) -> Vec<Option<Known>> {
        let first = self.parts.iter().position(|part| is_done(part));
        self.workers.map(&vec![0; self.parts.len()], |number| {
            let part = self.parts.get(number)?;
            let is_wanted = self.is_ours(number) || first == Some(number);
            (is_wanted && is_done(part)).then(|| Known::of(part))
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
        let ours = self.parts.iter().zip(&*outcomes).filter(|(_, it)| !matches!(it.state, PartState::Elsewhere));
        let ours: Vec<PathBuf> = ours.map(|(part, _)| part.clone()).collect();
        let parts = remote_transfers::incomplete(&self.parts, &ours);
        if parts.is_empty() {
            return;
        }
        let again = self.map("parts for which others did transfers", &parts, |_, part| {
            remote_transfers::write_again(part, self.progress)
        });
        for (part, state) in parts.iter().zip(again) {
            let outcome = self.parts.iter().position(|other| other == part).and_then(|number| outcomes.get_mut(number));
            if let (Some(outcome), Some(state)) = (outcome, state) {
                *outcome = Outcome { is_first: outcome.is_first, ..Outcome::new(state) };
            }
        }
    }

    /// The parts that cannot be written, and why. What other parts lack, the archive states itself.
    fn missing(&self, finalized: &[FinalizedPart]) -> Vec<Missing> {
        let parts = self.parts.iter().zip(finalized).filter(|(part, _)| !is_done(part));
        let missing = parts.filter_map(|(_, part)| match &part.state {
            PartState::Failed(reason) => Some(Missing { part: part.name.clone(), reason: reason.clone() }),
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
        if !crate::part::files::is_final(part) || !is_whole() {
            return;
        }
        if waits {
            // If the mark cannot be written, the journal just stays.
            let mark = part.join(crate::part::files::DONE);
            let _stays = PartProgress::JournalNeeded.write(&mark);
        } else {
            journal_cleanup::remove(part, self.progress);
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
