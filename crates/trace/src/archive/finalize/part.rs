//! What becomes of one part.

use std::fs;
use std::path::Path;

use super::lost_mark;
use super::options::{FinalizeOptions, Known, can_be_written};
use crate::archive::unify::other_options;
use crate::error::Error;
use crate::part::files::{MANIFEST, Progress, has_begun, is_blank, is_done, is_final, why_unusable};
use crate::part::manifest::Manifest;
use crate::part::staging::{Staging, put_in_place};
use crate::part::write::{self, PartSummary, WriteOptions, write_locked};
use journal::file_size;
use journal::part::options::ArchiveOptions;
use journal::part::{JOURNAL, part_name, read_process};

#[derive(Clone, Debug, PartialEq)]
pub enum PartState {
    Written(Box<PartSummary>),
    /// Was written before.
    Done,
    /// Its process runs: it writes its part itself.
    Live,
    /// The process never got to record.
    Empty,
    Elsewhere,
    /// Cannot be written, or was written and cannot be read, and why.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) state: PartState,
    /// What of its journal is not in it.
    pub(super) problems: Vec<String>,
    /// Whether it was written for the first time and for good.
    pub(super) is_first: bool,
}

impl Outcome {
    pub(super) fn new(state: PartState) -> Self {
        let problems = match &state {
            PartState::Written(summary) => summary.problems.clone(),
            _ => Vec::new(),
        };
        Self { state, problems, is_first: false }
    }

    fn failed(error: &Error) -> Self {
        Self::new(PartState::Failed(file_size::explain(error)))
    }
}

pub(super) struct PartFinalizer<'a> {
    pub(super) options: &'a FinalizeOptions,
    pub(super) archive: ArchiveOptions,
    pub(super) progress: &'a dyn nccl_events::Progress,
}

impl PartFinalizer<'_> {
    pub(super) fn finalize(&self, part: &Path, known: Option<&Known>) -> Outcome {
        if let Some(reason) = why_unusable(part) {
            return Outcome::new(PartState::Failed(reason));
        }
        Staging::sweep(part, write::STAGING);
        match known {
            Some(Known::Unreadable { reason, can_be_written: false }) if is_final(part) => {
                return Outcome::new(PartState::Failed(reason.clone()));
            }
            Some(Known::Part { options, problems, has_journal, has_lost_events })
                if is_final(part) && *options == self.archive && !(*has_lost_events && *has_journal) =>
            {
                return done(part, problems);
            }
            Some(Known::Part { options, has_journal: false, .. }) if !options.same_events(&self.archive) => {
                return Outcome::new(PartState::Failed(other_options(&part_name(part), *options)));
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
        // Another process may have written it meanwhile.
        if is_final(part) {
            return self.harmonize(part).unwrap_or_else(|e| Outcome::failed(&e));
        }
        let is_live = read_process(part).0.is_recording();
        if is_live && !self.options.include_live {
            return Outcome::new(PartState::Live);
        }
        let state = write_again(part, self.archive, is_live);
        Outcome { is_first: !is_live && matches!(state, PartState::Written(_)), ..Outcome::new(state) }
    }

    /// What becomes of a part that is not written, and that there is nothing to write from.
    fn without_records(&self, part: &Path) -> Option<PartState> {
        let journal = part.join(JOURNAL);
        if journal.exists() {
            return (!has_begun(part) && is_blank(&journal)).then_some(PartState::Empty);
        }
        // Written meanwhile: the mark comes before the journal goes.
        if is_done(part) {
            return None;
        }
        Some(match fs::read_link(&journal) {
            Ok(target) => PartState::Failed(elsewhere(part, &target)),
            Err(_) => lost_mark::why_missing(part, self.progress).map_or(PartState::Empty, PartState::Failed),
        })
    }

    /// Makes a part that is written like the others.
    fn harmonize(&self, part: &Path) -> Result<Outcome, Error> {
        let manifest = match Manifest::read_with_events(part) {
            Ok(manifest) => manifest,
            Err(error) if can_be_written(part, &error) => {
                return Ok(Outcome::new(write_again(part, self.archive, false)));
            }
            Err(error) => return Err(error),
        };
        if manifest.has_lost_events && part.join(JOURNAL).exists() {
            return Ok(Outcome::new(write_again(part, self.archive, false)));
        }
        if manifest.options == self.archive {
            return Ok(done(part, &manifest.all_problems()));
        }
        if !manifest.options.same_events(&self.archive) {
            return Ok(Outcome::new(write_again(part, self.archive, false)));
        }
        // Its event files are good, only the definitions are made otherwise.
        let changed = Manifest { options: self.archive, ..Manifest::as_written(part)? };
        let staging = Staging::create(part, write::STAGING)?;
        changed.write(&staging.path().join(MANIFEST))?;
        put_in_place(&staging, MANIFEST, part)?;
        Ok(done(part, &manifest.all_problems()))
    }
}

/// Writes a part whose lock is held. The journal stays: others may report transfers for this part, or somebody kept it.
pub(super) fn write_again(part: &Path, archive: ArchiveOptions, provisional: bool) -> PartState {
    let options = WriteOptions { keep_journal: true, provisional, archive: Some(archive), ..WriteOptions::default() };
    match write_locked(part, &options, &()) {
        Ok(summary) => PartState::Written(Box::new(summary)),
        Err(error) => PartState::Failed(file_size::explain(error)),
    }
}

fn done(part: &Path, problems: &[String]) -> Outcome {
    let mut problems = problems.to_vec();
    problems.extend(lacks_its_end(part));
    Outcome { problems, ..Outcome::new(PartState::Done) }
}

/// Of a part that was written while its process ran: that what it recorded later cannot be read.
fn lacks_its_end(part: &Path) -> Option<String> {
    let journal = part.join(JOURNAL);
    if journal.exists() || Progress::of(part) != Progress::Provisional {
        return None;
    }
    let why = match fs::read_link(&journal) {
        Ok(target) => elsewhere(part, &target),
        Err(_) => "its journal is gone".to_owned(),
    };
    Some(format!("was written while its process ran, and not again since: {why}"))
}

/// Why a journal outside of the part cannot be read (`NCCL_OTF2_JOURNAL_DIR`).
fn elsewhere(part: &Path, target: &Path) -> String {
    let (target, process) = (target.display(), read_process(part).0);
    if process.boot_id.is_empty() || process.boot_id == journal::host::boot_id() {
        return format!("its journal was put into {target}, which is not there any more");
    }
    format!("its journal is in {target} on {}: run `nccl-otf2 finalize` there", process.host)
}
