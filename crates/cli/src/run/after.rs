//! Completes the archive after the command has ended. All messages go to stderr: stdout belongs to the command.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context as _, Result};
use journal::part::environment::JobEnvironment;
use journal::part::{JOURNAL, read_process};

use archive::{
    FinalizeOptions, PartState, WriteOptions, finalize, is_last_process, part_directories, unify, write_part,
};
use journal::part::is_done;
use nccl_events::Progress;
use nccl_events::visible;
use settings::shell_word;

use super::directory::{Cleared, Directory, is_one_of_many};
use super::processes::Strayed;
use super::request::Request;
use crate::place::PARTS;
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::summary::Summary;
use crate::verdict::{Ending, judged};
use archive::ANCHOR;
use journal::host;

/// Completes the archive and prints how to open it, or why there is none.
pub(super) fn complete(
    directory: &Directory,
    request: &Request,
    job: &JobEnvironment,
    plugin: &Path,
    strayed: Option<&Strayed>,
    ended: ExitStatus,
) -> Result<()> {
    let out = directory.path();
    let mut hang = None;
    let parts = if out.join(PARTS).is_dir() { part_directories(out)? } else { Vec::new() };
    let cleared = directory.was_cleared(parts.is_empty());
    if cleared == Cleared::Removed && !parts.is_empty() {
        print::note(format_args!(
            "{} was removed or moved while the command ran: what was recorded before is lost, and not in what follows",
            out.join(PARTS).display()
        ));
    }
    if parts.is_empty() {
        match cleared {
            Cleared::Removed => {
                print::note(format_args!(
                    "nothing is left of what was recorded into {}: it was removed or moved while the command ran \
                     (`nccl-otf2 finalize DIR` makes an archive in its new place)",
                    out.display()
                ));
                return Ok(());
            }
            Cleared::Emptied => {
                print::note(format_args!(
                    "there is no recording in {}: either no process could write one (then its plugin said why on \
                     stderr), or it was removed while the command ran",
                    out.display()
                ));
                directory.release_if_unused();
                return Ok(());
            }
            Cleared::No => directory.release_if_unused(),
        }
        // Every rank of a large job would print this; one is enough.
        if request.settings.is_off() {
            print::note(format_args!("nothing was recorded into {}: NCCL_OTF2_MODE=off is set", out.display()));
        } else if job.rank.unwrap_or(0) == 0 {
            if let Some(strayed) = strayed {
                print::notes(&why_strayed(strayed, out));
            }
            if strayed.is_none_or(|strayed| !strayed.used_nccl()) {
                print::notes(&why_nothing(plugin, out, ended));
            }
        }
        return Ok(());
    }
    if request.append && directory.is_unchanged() {
        print::notes(&why_nothing(plugin, out, ended));
        return Ok(());
    }
    if !request.no_finalize {
        let keep_journal = request.settings.keep_journal();
        let bar = Bar::new();
        if is_one_of_many(job) {
            // If each process has its own tool, the last one makes the archive and judges it.
            if complete_own(out, &parts, job, keep_journal, &bar)? {
                ((), hang) = judged(out, out, false, || Ok(()))?;
            }
        } else {
            ((), hang) = judged(out, out, true, || complete_all(out, keep_journal, &bar))?;
        }
    }
    let is_named = hang.as_ref().is_some_and(|ending| ending.names_mismatch);
    if let Some(Ending { text, .. }) = hang {
        let mut lines = Text::default();
        lines.line(text);
        lines.line(format_args!("  who waits for whom:        nccl-otf2 hang {}", shell_word(out)));
        print::notes(&lines);
    }
    print_result(out, job, is_named);
    Ok(())
}

/// The command was the whole job: nobody else writes the remaining parts.
fn complete_all(out: &Path, keep_journal: bool, progress: &dyn Progress) -> Result<()> {
    let options = FinalizeOptions { keep_journal, ..FinalizeOptions::default() };
    let summary =
        finalize(out, &options, progress).with_context(|| format!("cannot make an archive in {}", out.display()))?;
    for part in &summary.parts {
        let name = &part.name;
        match &part.state {
            PartState::Live => {
                print::note(format_args!("{name} still runs: `nccl-otf2 finalize {}` adds it later", shell_word(out)));
            }
            PartState::Failed(reason) => print::note(format_args!("{name} is missing: {reason}")),
            _ => {}
        }
    }
    Ok(())
}

/// The command was one process of a job that may still run, on hosts that cannot be seen from here: only what this
/// process left is written. Whoever completes the job's parts makes the archive; returns whether this process did.
fn complete_own(
    out: &Path,
    parts: &[PathBuf],
    job: &JobEnvironment,
    keep_journal: bool,
    progress: &dyn Progress,
) -> Result<bool> {
    let options = WriteOptions { deadline: None, keep_journal, ..WriteOptions::default() };
    let mut written = false;
    for directory in parts.iter().filter(|directory| is_left_by(directory, job)) {
        write_part(directory, &options, progress).with_context(|| format!("cannot write {}", directory.display()))?;
        written = true;
    }
    // Processes that ended normally have done this themselves.
    let is_last = written && is_last_process(out)?;
    if is_last {
        unify(out, progress)?;
    }
    Ok(is_last)
}

/// Whether the command that just ended left this part unwritten: no other rank's tool writes the same part now.
fn is_left_by(directory: &Path, job: &JobEnvironment) -> bool {
    let (process, _) = read_process(directory);
    !is_done(directory)
        && directory.join(JOURNAL).exists()
        && process.boot_id == host::boot_id()
        && process.environment.launcher == job.launcher
        && process.environment.rank == job.rank
        && !process.is_recording()
}

/// `is_named`: whether a mismatch has been reported.
fn print_result(out: &Path, job: &JobEnvironment, is_named: bool) {
    let (directory, word) = (out.display(), shell_word(out));
    match Summary::read(out) {
        Ok(_) if is_one_of_many(job) && !claim_summary(out) => {}
        Ok(summary) => {
            let first_mismatch = summary.first_mismatch.clone().filter(|_| !is_named);
            print::notes(&closing_lines(&Summary { first_mismatch, ..summary }, out));
        }
        // The last process of the job prints the summary.
        Err(_) if is_one_of_many(job) && !out.join(ANCHOR).exists() => {
            if job.rank == Some(0) {
                print::note(format_args!(
                    "the last process of the job makes the archive in {directory}; \
                     if one was killed, `nccl-otf2 finalize {word}` does"
                ));
            }
        }
        Err(error) => print::note(print::reasons(&error)),
    }
}

fn closing_lines(summary: &Summary, out: &Path) -> Text {
    let (anchor, directory) = (shell_word(Path::new(&summary.anchor)), shell_word(out));
    let mut text = Text::default();
    summary.print(&mut text);
    text.line(format_args!("  what is slow, who is late: nccl-otf2 stats {directory}"));
    text.line(format_args!("  the same as a page:        nccl-otf2 report {directory}"));
    text.line(format_args!("  all events in time:        vampir {anchor}"));
    text.line(format_args!("  what was recorded:         nccl-otf2 info {directory}"));
    text
}

/// Whether this is the first rank's tool to report on the current archive, claimed by creating a file named after it.
fn claim_summary(out: &Path) -> bool {
    let written = out.join(ANCHOR).metadata().and_then(|data| data.modified());
    // If the time is unknown or the file cannot be created, report twice rather than never.
    let Some(written) = written.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()) else {
        return true;
    };
    let name = format!(".summary-printed-{}", written.as_nanos());
    !matches!(host::new_file(&out.join(name)), Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

/// A process was not as it was set up.
fn why_strayed(strayed: &Strayed, directory: &Path) -> Text {
    let mut text = Text::default();
    text.line(format_args!("nothing was recorded into {}: {strayed}.", directory.display()));
    text.line(
        "  An entrypoint, a launcher or the program changed what `nccl-otf2 run` had set. Take that out, or let it",
    );
    text.line("  start `nccl-otf2 run -- COMMAND` itself, which calls the other plugin behind this project's.");
    text
}

/// Why a run may have recorded nothing, the likely reasons first.
fn why_nothing(plugin: &Path, directory: &Path, ended: ExitStatus) -> Text {
    let failed = if ended.success() { String::new() } else { format!("\n  - The command failed: {ended}.") };
    let reasons = format!(
        "nothing was recorded into {directory}. `nccl-otf2 doctor`, run in the place of the command, finds most of the usual
reasons:{failed}
  - The command did not use NCCL, or made no communicator.
  - NCCL did not load the plugin. Run it again with NCCL_DEBUG=INFO and look for lines with `PROFILER`:
    they must name {plugin}, and after them (but in 2.23) comes `Loaded OTF2`.
    NCCL before 2.23 has no profiler plugins, also when it is linked into the program or the framework
    statically (then the installed NCCL's version says nothing). NCCL 2.27.3 finds none by its path:
    use --by-name.
  - The program replaced its environment: ssh, sudo and some launchers do not pass variables on.
    NCCL_PROFILER_PLUGIN and NCCL_OTF2_DIR must reach the processes that call NCCL.
  - The command starts a container that lacks {plugin} or the directory:
    mount both in it under the same names, or let the container start `nccl-otf2 run -- COMMAND`.
  - The plugin could not write: then it said so on stderr.
  - All communicators had one rank only: NCCL reports next to nothing about those.",
        directory = visible(&directory.to_string_lossy()),
        plugin = visible(&plugin.to_string_lossy()),
    );
    let mut text = Text::default();
    reasons.lines().for_each(|line| text.line(line));
    text
}
