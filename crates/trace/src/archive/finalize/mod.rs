//! Everything that is still to do in a job's directory: write the parts that have a journal and are not done, then
//! unify. On a finished archive nothing changes; a partial one is completed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::archive::unify::{ANCHOR, ArchiveSummary, Missing, is_in_place, part_directories, unify_alike};
use crate::error::Error;
use crate::part::files::{Progress as PartProgress, is_done};
use crate::part::manifest::Manifest;
use crate::part::remote_transfers::has_unwritten_neighbours;
use crate::part::{journal_cleanup, write};
use crate::workers::Workers;
use journal::part::late::LateCallbacks;
use journal::part::{JOURNAL, part_name};
use nccl_events::Progress;

mod lost_mark;
mod options;
mod part;
mod remote_transfers;

pub use options::FinalizeOptions;
pub use part::PartState;

use options::{Known, options_of_all};
use part::{Outcome, PartFinalizer};
use small_sort::Gather;

#[derive(Clone, Debug, PartialEq)]
pub struct FinalizedPart {
    pub name: String,
    pub state: PartState,
    /// What of its journal is not in it.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FinalizeSummary {
    pub parts: Vec<FinalizedPart>,
    /// The archive, if it was made now.
    pub archive: Option<ArchiveSummary>,
    /// Whether an archive with all parts is in place, and nothing recorded is missing from them.
    pub complete: bool,
}

pub fn finalize(out: &Path, options: &FinalizeOptions, progress: &dyn Progress) -> Result<FinalizeSummary, Error> {
    let job = Job { parts: part_directories(out)?, options, workers: Workers::new(options.jobs), progress };
    job.restore_marks();
    let known = job.known();
    let archive = options_of_all(&job.parts, &known, &options.wishes)?;
    // Of a shard's own parts only: the other shards are at theirs.
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
    // What stands in the way is in the summary: that says more than "no part is written".
    if done.is_empty() && summary.parts.iter().any(is_missing) {
        return Ok(summary);
    }
    // Part by part is not enough: a part may have been written again under its name.
    let is_written = |part: &FinalizedPart| matches!(part.state, PartState::Written(_));
    let is_changed = summary.parts.iter().any(is_written) || job.parts.iter().any(|part| came_late(out, part));
    let missing = job.missing(&summary.parts);
    if is_changed || !is_in_place(out, &done, &missing, archive) {
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

    /// What the parts that are written say about themselves; of a shard its own and the first.
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

    /// Writes those parts again for which others did transfers (PXN) that were written after them.
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

    /// The parts that are not written, and why they cannot be: an archive says about the others itself what is missing.
    fn missing(&self, finalized: &[FinalizedPart]) -> Vec<Missing> {
        let parts = self.parts.iter().zip(finalized).filter(|(part, _)| !is_done(part));
        let missing = parts.filter_map(|(_, part)| match &part.state {
            PartState::Failed(reason) => Some(Missing { part: part.name.clone(), reason: reason.clone() }),
            _ => None,
        });
        missing.collect()
    }

    /// Removes the journals of parts that were written for the first time, and of those that `waited` for others.
    fn clean_up(&self, outcomes: &[Outcome], waited: &[bool]) {
        for ((part, outcome), waited) in self.parts.iter().zip(outcomes).zip(waited) {
            if !outcome.is_first && !waited {
                continue;
            }
            let waits = self.options.shard.is_some() && has_unwritten_neighbours(part, &self.parts);
            self.clean_up_journal(part, waits);
        }
    }

    /// Removes the journal of a part, if all of it is in the part; or leaves that to whoever finalizes all parts.
    fn clean_up_journal(&self, part: &Path, waits: bool) {
        // Another process may be writing it again.
        let Ok(_lock) = write::lock(part, None, self.progress) else {
            return;
        };
        let is_whole = || Manifest::read(part).is_ok_and(|manifest| manifest.problems.is_empty());
        if !crate::part::files::is_final(part) || !is_whole() {
            return;
        }
        if waits {
            // Where that cannot be said, the journal stays as one that is kept.
            let mark = part.join(crate::part::files::DONE);
            let _stays = PartProgress::JournalNeeded.write(&mark);
        } else {
            journal_cleanup::remove(part, self.progress);
        }
    }
}

/// Memory that writing takes for each byte of the journal.
const MEMORY_PER_BYTE: u64 = 3;

/// About how much memory it takes to write a part.
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
