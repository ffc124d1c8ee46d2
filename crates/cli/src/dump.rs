//! `nccl-otf2 dump`: makes an archive of a running job. Also what `metrics` and `top` share to follow a running job:
//! [`read`], the JSON [`Line`] of a snapshot, and remarks on it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::command_line::Exit;
use crate::finalize::{Summary, judged};
use crate::output::{Bar, Text, VerdictLine};
use crate::{archives, output};
use analysis::units::{plural, time};
use anyhow::{Context as _, Result, bail};
use archive::FinalizeOptions;
use clap::Args;
use journal::snapshots::{Request as SnapshotRequest, SnapshotProgress};
use live::{Live, ProcessState, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;
use settings::shell_word;

const EXAMPLES: &str = "\
Asks the processes that record into DIR for what they have recorded so far, waits for them, and makes an archive of \
it in DIR/snapshots. The job and its recording continue. A flight recording (NCCL_OTF2_MODE=flight) has only the most \
recent events.

  nccl-otf2 dump trace

To do the same without this tool, `touch DIR/dump` or send SIGUSR2 to one of the processes (NCCL_OTF2_DUMP_SIGNAL); then

  nccl-otf2 finalize trace/snapshots/WHEN

Exit codes: 0 all processes are in the archive, 1 some are missing, 2 no archive.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory
    #[arg(value_name = "DIR", value_parser = archives::job_argument)]
    directory: PathBuf,

    /// How long to wait for the processes
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

pub(crate) fn dump(request: &Request) -> Result<Exit> {
    let out = &request.directory;
    archives::job(out)?;
    let asked = SnapshotRequest::make(out)
        .with_context(|| format!("cannot make {}", out.join(journal::snapshots::REQUEST).display()))?;
    let standing = wait(out, &asked, Duration::from_secs(request.wait));
    // Withdraw the request, so that a process that starts late does not begin a snapshot that no command waits for.
    let gone = withdraw(out, &asked);
    let standing = standing?;
    gone?;
    if standing.there.is_empty() {
        if standing.awaited.is_empty() {
            if let Ok(anchor) = archives::anchor(out) {
                bail!("{}: no process is recording here any more; the archive is {}", out.display(), anchor.display());
            }
            bail!(
                "{}: no process is recording here any more; `nccl-otf2 finalize {}` makes the archive",
                out.display(),
                shell_word(out)
            );
        }
        bail!("{}: {}", out.display(), silent(&standing, request.wait));
    }
    let directory = asked.directory(out);
    let bar = Bar::new();
    let options = FinalizeOptions::default();
    let (summary, hang) = judged(out, &directory, true, || {
        archive::finalize(&directory, &options, &bar)
            .with_context(|| format!("cannot finalize {}", directory.display()))
    })?;
    drop(bar);
    let mut text = Text::default();
    Summary::read(&archives::anchor(&directory)?)?.print(&mut text);
    let next = if hang.is_some() { "hang" } else { "stats" };
    if let Some(ending) = hang {
        text.line(ending.text);
    }
    text.next(format_args!("nccl-otf2 {next} {}", shell_word(&directory)));
    if !standing.awaited.is_empty() {
        text.line(silent(&standing, request.wait));
    }
    if !standing.over.is_empty() {
        let number = plural(standing.over.len() as u64, "process has", "processes have");
        text.line(format_args!(
            "{number} ended before: `nccl-otf2 finalize {}` makes an archive that includes them",
            shell_word(out)
        ));
    }
    output::text(&text)?;
    Ok(if summary.complete && standing.awaited.is_empty() { Exit::Well } else { Exit::Problems })
}

fn wait(out: &Path, asked: &SnapshotRequest, limit: Duration) -> Result<SnapshotProgress> {
    let give_up = Instant::now() + limit;
    loop {
        let standing =
            journal::snapshots::standing(out, asked).with_context(|| format!("cannot read {}", out.display()))?;
        if standing.awaited.is_empty() || Instant::now() >= give_up {
            return Ok(standing);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Withdraws the request unless a process has accepted it.
fn withdraw(out: &Path, asked: &SnapshotRequest) -> Result<()> {
    let path = out.join(journal::snapshots::REQUEST);
    if SnapshotRequest::find(out).ok().flatten().as_ref() != Some(asked) {
        return Ok(());
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn silent(standing: &SnapshotProgress, seconds: u64) -> String {
    let names: Vec<&str> = standing.awaited.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "no answer within {} from {}: stopped, on a host that does not see this directory, or dead on another host \
        (--wait sets a longer time)",
        plural(seconds, "second", "seconds"),
        names.join(", ")
    )
}

/// Pause between polls once all journals are read.
const PAUSE: Duration = Duration::from_millis(200);

/// Reads journals until `until`; with `settled`, stops earlier if nothing new has arrived for that long.
pub(crate) fn read(live: &mut Live, until: Option<Instant>, settled: Option<Duration>, stop: &AtomicBool) {
    let mut read_since = None;
    while !stop.load(Ordering::Relaxed) {
        let progress = live.poll();
        let now = Instant::now();
        read_since = if progress.is_behind { None } else { read_since.or(Some(now)) };
        let is_quiet = |settled| progress.processes == 0 || read_since.is_some_and(|since| now - since >= settled);
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
        if left.is_zero() || settled.is_some_and(is_quiet) {
            return;
        }
        if !progress.is_behind {
            thread::sleep(left.min(if settled.is_some() { PAUSE / 10 } else { PAUSE }));
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Line<'s> {
    format: u32,
    /// The first line of the text; only of `top`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<VerdictLine>,
    #[serde(flatten)]
    snapshot: &'s Snapshot,
}

impl<'s> Line<'s> {
    pub(crate) const fn new(snapshot: &'s Snapshot, verdict: Option<VerdictLine>) -> Self {
        Self { format: 1, verdict, snapshot }
    }
}

/// The reasons why parts cannot be read, and the first problem of each process.
pub(crate) fn problems(now: &Snapshot) -> impl Iterator<Item = String> {
    let of_processes =
        now.processes.iter().filter(|process| process.records > 0).filter_map(|process| process.problem.clone());
    now.unreadable.iter().cloned().chain(of_processes)
}

fn has_read(now: &Snapshot) -> bool {
    now.processes.iter().any(|process| process.records > 0)
}

/// Why there is nothing to show of a job; `None` if there is something, or [`problems`] say why not.
pub(crate) fn nothing(directory: &Path, now: &Snapshot) -> Option<String> {
    if has_read(now) || !now.unreadable.is_empty() {
        return None;
    }
    let (shown, word) = (directory.display(), shell_word(directory));
    Some(if archives::is_archive(directory) {
        format!("{shown}: no journal to follow here, only a finished archive: `nccl-otf2 stats {word}` shows it")
    } else if now.processes_elsewhere > 0 {
        let elsewhere = plural(now.processes_elsewhere, "process is", "processes are");
        format!(
            "{shown}: no process of this host to follow: {elsewhere} on other hosts or of other boots, and can be \
            followed only there"
        )
    } else if now.processes_missed > 0 {
        format!("{shown}: no journal to follow here: they were removed; `nccl-otf2 finalize {word}` makes the archive")
    } else {
        format!("{shown}: no process has recorded anything yet")
    })
}

/// The exit code of a single look: there must be something that can be read.
pub(crate) fn exit(now: &Snapshot) -> Exit {
    if has_read(now) { Exit::Well } else { Exit::CannotDo }
}

/// A note for a job without running processes.
pub(crate) fn over(now: &Snapshot) -> Option<String> {
    let is_over = |process: &live::Process| matches!(process.state, ProcessState::Finished | ProcessState::Gone);
    let has_some = !now.processes.is_empty() || now.processes_missed > 0;
    if !has_some || !now.unreadable.is_empty() || !now.processes.iter().all(is_over) {
        return None;
    }
    let last_ns = now.processes.iter().filter_map(|process| process.last_record_ns).max();
    let since = last_ns.map_or_else(
        || "its recordings are removed".to_owned(),
        |last_ns| format!("its last record was made {} ago", time(now.at_ns.saturating_sub(last_ns))),
    );
    Some(format!(
        "the job is over, {since}: `nccl-otf2 hang`, `stats` and `report` say more; `finalize` makes a missing archive"
    ))
}
