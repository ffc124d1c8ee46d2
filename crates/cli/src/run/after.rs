//! What is said and done when the command is over. All on stderr: stdout is the command's.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use journal::part::environment::JobEnvironment;
use journal::part::{JOURNAL, read_process};
use trace::Progress;
use trace::{
    FinalizeOptions, PartState, WriteOptions, finalize, is_done, is_last_process, part_directories, unify, write_part,
};

use super::directory::{Directory, is_one_of_many};
use super::nothing;
use super::request::Request;
use crate::place::{ANCHOR, PARTS};
use crate::print;
use crate::progress::Bar;
use crate::summary::Summary;

/// Completes the archive and says how to open it, or why there is none.
///
/// # Errors
///
/// When files cannot be read or written.
pub(super) fn complete(directory: &Directory, request: &Request, job: &JobEnvironment, plugin: &Path) -> Result<()> {
    let out = directory.path();
    let parts = if out.join(PARTS).is_dir() { part_directories(out)? } else { Vec::new() };
    if parts.is_empty() {
        directory.forget_if_unused();
        // Every rank of a large job would say it; one is enough.
        if job.rank.unwrap_or(0) == 0 {
            print::note(nothing::reasons(plugin, out));
        }
        return Ok(());
    }
    if !request.no_finalize {
        let keep_journal = request.settings.keep_journal();
        let bar = Bar::new();
        if is_one_of_many(job) {
            complete_own(out, &parts, job, keep_journal, &bar)?;
        } else {
            complete_all(out, keep_journal, &bar)?;
        }
    }
    say_what_there_is(out, job);
    Ok(())
}

/// The command was the whole job: what is not written now will not be.
fn complete_all(out: &Path, keep_journal: bool, progress: &dyn Progress) -> Result<()> {
    let options = FinalizeOptions { keep_journal, ..FinalizeOptions::default() };
    let summary =
        finalize(out, &options, progress).with_context(|| format!("cannot make an archive in {}", out.display()))?;
    for part in &summary.parts {
        let name = &part.name;
        match &part.state {
            PartState::Live => {
                print::note(format_args!("{name} still runs: `nccl-otf2 finalize {}` adds it later", out.display()));
            }
            PartState::Failed(reason) => print::note(format_args!("{name} is missing: {reason}")),
            _ => {}
        }
    }
    Ok(())
}

/// The command was one process of a job that may still run, on hosts that cannot be seen from here: only
/// what this process left is written, and the archive is made by whoever completes the job's parts.
fn complete_own(
    out: &Path,
    parts: &[PathBuf],
    job: &JobEnvironment,
    keep_journal: bool,
    progress: &dyn Progress,
) -> Result<()> {
    let options = WriteOptions { deadline: None, keep_journal, ..WriteOptions::default() };
    let mut written = false;
    for directory in parts.iter().filter(|directory| is_left_by(directory, job)) {
        write_part(directory, &options, progress).with_context(|| format!("cannot write {}", directory.display()))?;
        written = true;
    }
    // Processes that ended normally have seen to it themselves.
    if written && is_last_process(out)? {
        unify(out, progress)?;
    }
    Ok(())
}

/// Whether a part is that of the command just ended, and not written. The rank tells: no other process of
/// the job has it, so no other rank's tool writes the same part now.
fn is_left_by(directory: &Path, job: &JobEnvironment) -> bool {
    let (process, _) = read_process(directory);
    !is_done(directory)
        && directory.join(JOURNAL).exists()
        && process.boot_id == journal::host::boot_id()
        && process.environment.launcher == job.launcher
        && process.environment.rank == job.rank
        && !process.is_recording()
}

fn say_what_there_is(out: &Path, job: &JobEnvironment) {
    let directory = out.display();
    match Summary::read(out) {
        Ok(summary) => {
            let anchor = &summary.anchor;
            print::note(format_args!(
                "{summary}\n  open it:    vampir {anchor}\n  first look: nccl-otf2 info {directory}\n              otf2-print {anchor} | less"
            ));
        }
        // The last process of the job says it.
        Err(_) if is_one_of_many(job) && !out.join(ANCHOR).exists() => {
            if job.rank == Some(0) {
                print::note(format_args!(
                    "the last process of the job makes the archive in {directory}; \
                     if one was killed, `nccl-otf2 finalize {directory}` does"
                ));
            }
        }
        Err(error) => print::note(print::reasons(&error)),
    }
}
