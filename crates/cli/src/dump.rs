//! `nccl-otf2 dump`: an archive of a running job.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use archive::FinalizeOptions;
use clap::Args;
use journal::snapshots::{Request as Snapshot, Standing};
use settings::shell_word;

use crate::exit::Exit;
use crate::place;
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::summary::Summary;
use crate::units::plural;
use crate::verdict::judged;

const EXAMPLES: &str = "\
Asks the processes that record into DIR for what they have, waits for them, and makes an archive of it in \
DIR/snapshots. The job runs on, and so does its recording. In a flight recording (NCCL_OTF2_MODE=flight) \
that is what happened last.

  nccl-otf2 dump trace

The same without this tool: `touch DIR/dump`, or SIGUSR2 to one of the processes (NCCL_OTF2_DUMP_SIGNAL); then

  nccl-otf2 finalize trace/snapshots/WHEN

Exit codes: 0 all processes are in the archive, 1 some are missing from it, 2 there is no archive.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR", value_parser = place::job_argument)]
    directory: PathBuf,

    /// How long to wait for the processes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

pub(crate) fn dump(request: &Request) -> Result<Exit> {
    let out = &request.directory;
    place::job(out)?;
    let asked = Snapshot::make(out)
        .with_context(|| format!("cannot make {}", out.join(journal::snapshots::REQUEST).display()))?;
    let standing = wait(out, &asked, Duration::from_secs(request.wait));
    // A process that starts late must not begin a snapshot that nobody waits for.
    let gone = withdraw(out, &asked);
    let standing = standing?;
    gone?;
    if standing.there.is_empty() {
        if standing.awaited.is_empty() {
            if let Ok(anchor) = place::anchor(out) {
                bail!("{}: no process records here any more; the archive is {}", out.display(), anchor.display());
            }
            bail!(
                "{}: no process records here any more; `nccl-otf2 finalize {}` makes the archive",
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
    Summary::read(&place::anchor(&directory)?)?.print(&mut text);
    if let Some(ending) = hang {
        text.line(ending.text);
    }
    if !standing.awaited.is_empty() {
        text.line(silent(&standing, request.wait));
    }
    if !standing.over.is_empty() {
        let number = plural(standing.over.len() as u64, "process has", "processes have");
        text.line(format_args!(
            "{number} ended before: `nccl-otf2 finalize {}` has what they recorded",
            shell_word(out)
        ));
    }
    print::text(&text)?;
    Ok(if summary.complete && standing.awaited.is_empty() { Exit::Well } else { Exit::Problems })
}

fn wait(out: &Path, asked: &Snapshot, limit: Duration) -> Result<Standing> {
    let give_up = Instant::now() + limit;
    loop {
        let standing =
            journal::snapshots::standing(out, asked).with_context(|| format!("cannot read {}", out.display()))?;
        if standing.awaited.is_empty() || Instant::now() >= give_up {
            return Ok(standing);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Withdraws the request unless a process has accepted it.
fn withdraw(out: &Path, asked: &Snapshot) -> Result<()> {
    let path = out.join(journal::snapshots::REQUEST);
    if Snapshot::find(out).ok().flatten().as_ref() != Some(asked) {
        return Ok(());
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn silent(standing: &Standing, seconds: u64) -> String {
    let names: Vec<&str> = standing.awaited.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "no answer within {} from {}: stopped, on a host that does not see this directory, or dead there (--wait gives them longer)",
        plural(seconds, "second", "seconds"),
        names.join(", ")
    )
}
