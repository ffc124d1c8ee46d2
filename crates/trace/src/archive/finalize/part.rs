//! Finalizes one part.

use std::fs;
use std::path::Path;

use super::lost_mark;
use super::options::{FinalizeOptions, Known, can_be_written};
use crate::archive::unify::other_options;
use crate::error::Error;
use crate::part::files::{MANIFEST, Progress, is_final, why_unusable};
use crate::part::manifest::Manifest;
use crate::part::staging::{Staging, put_in_place};
use crate::part::write::{self, PartSummary, WriteOptions, write_locked};
use job::life::is_blank;

use journal::host;
use journal::part::environment::ArchiveOptions;
use journal::part::is_done;
use journal::part::{JOURNAL, part_name, read_process};

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
pub(super) struct Outcome {
    pub(super) state: PartState,
    /// What the part lacks of its journal.
    pub(super) problems: Vec<String>,
    /// Whether the part was now written for the first time and completely.
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
        Self::new(PartState::Failed(host::explain(error)))
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
        // Another process may have written the part in the meantime.
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

    /// The state of a part that is not written and has no records to write.
    fn without_records(&self, part: &Path) -> Option<PartState> {
        let journal = part.join(JOURNAL);
        if journal.exists() {
            return is_blank(part).then_some(PartState::Empty);
        }
        // Another process wrote the part: the mark comes before the journal is removed.
        if is_done(part) {
            return None;
        }
        Some(match fs::read_link(&journal) {
            Ok(target) => PartState::Failed(elsewhere(part, &target)),
            Err(_) => lost_mark::why_missing(part, self.progress).map_or(PartState::Empty, PartState::Failed),
        })
    }

    /// Brings a written part in line with the options of the others.
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
        // The event files stay valid; only the definitions change.
        let changed = Manifest { options: self.archive, ..Manifest::as_written(part)? };
        let staging = Staging::create(part, write::STAGING)?;
        changed.write(&staging.path().join(MANIFEST))?;
        put_in_place(&staging, MANIFEST, part)?;
        Ok(done(part, &manifest.all_problems()))
    }
}

/// Writes a part whose lock is held. Keeps the journal: others may report transfers for this part, or the user kept it.
pub(super) fn write_again(part: &Path, archive: ArchiveOptions, provisional: bool) -> PartState {
    let options = WriteOptions { keep_journal: true, provisional, archive: Some(archive), ..WriteOptions::default() };
    match write_locked(part, &options, &()) {
        Ok(summary) => PartState::Written(Box::new(summary)),
        Err(error) => PartState::Failed(host::explain(error)),
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
    if journal.exists() || Progress::of(part) != Progress::Provisional {
        return None;
    }
    let why = match fs::read_link(&journal) {
        Ok(target) => elsewhere(part, &target),
        Err(_) => "its journal is gone".to_owned(),
    };
    Some(format!("was written while its process ran, and not again since: {why}"))
}

/// Why a journal outside the part cannot be read (`NCCL_OTF2_JOURNAL_DIR`).
fn elsewhere(part: &Path, target: &Path) -> String {
    let (target, process) = (target.display(), read_process(part).0);
    if process.boot_id.is_empty() || process.boot_id == host::boot_id() {
        return format!("its journal was put into {target}, which is not there any more");
    }
    format!("its journal is in {target} on {}: run `nccl-otf2 finalize` there", process.host)
}
