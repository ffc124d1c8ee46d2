//! `nccl-otf2 finalize`: adds to the archive what processes recorded but could not write.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use archive::{FinalizeOptions, FinalizeSummary, FinalizedPart, PartState};
use clap::Args;
use journal::part::JOURNAL;
use journal::part::environment::MetricSet;
use journal::part::environment::{ArchiveWishes, CollectiveRecords, CommLocations, Level};
use schemars::JsonSchema;
use serde::Serialize;
use settings::shell_word;

use crate::exit::Exit;
use crate::place::{self, PARTS};
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::summary::Summary;
use crate::units::{count, plural};
use crate::verdict::{Ending, judged};

const EXAMPLES: &str = "\
A process that ended normally has written its part of the archive, and the last one has put the archive \
together. After a crash, a kill or a hang what was recorded up to then lies in DIR/parts, and

  nccl-otf2 finalize trace

writes the missing parts and makes the archive. It can be repeated: what is complete stays as it is. Run it \
on the host of the job when processes may still be running; elsewhere they are taken for dead.

What is in the archive can be chosen anew, without another run: --level, --metrics, --collectives and --comm-locations; \
what is not named stays as it is. All but --comm-locations need what was recorded, which is removed when it is \
written unless it is damaged, or NCCL_OTF2_KEEP_JOURNAL=1 or --keep-journal says otherwise; without it nothing is changed.

  nccl-otf2 finalize --level light --metrics all trace

On a large job many hosts can write the parts, and then one makes the archive:

  srun sh -c 'nccl-otf2 finalize --shard $SLURM_PROCID/$SLURM_STEP_NUM_TASKS trace'
  nccl-otf2 finalize trace

Journals that were put elsewhere (NCCL_OTF2_JOURNAL_DIR) are written where they are, on each host:

  srun --ntasks-per-node=1 nccl-otf2 finalize --shard 0/1 trace
  nccl-otf2 finalize trace

Exit codes: 0 everything recorded is in the archive, 1 something is missing from it (a part, or what could not be read of a \
damaged one), 2 no archive could be made. With --shard: 0 its parts are written, 1 some are not. docs/REFERENCE.md has the fields of --json.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR", value_parser = place::job_argument)]
    directory: PathBuf,

    /// Keep the recordings when they are written, so that another version can write them again
    #[arg(long)]
    keep_journal: bool,

    /// Write what running processes have recorded so far, too; they go on
    #[arg(long)]
    include_live: bool,

    /// Write only every n-th part, beginning with the i-th (from 0), and make no archive
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,

    /// How many parts to write at once (default: one a core; fewer where memory is short)
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// What of the recorded goes into the archive: light, standard or full
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,

    /// Which metrics: bytes-in-flight, bandwidth, network-bandwidth (a list), all or none
    #[arg(long, value_name = "LIST")]
    metrics: Option<MetricSet>,

    /// What the rows of communicators are: stream (of the GPU) or cpu (a thread)
    #[arg(long, value_name = "WHAT")]
    comm_locations: Option<CommLocations>,

    /// Which communication records collectives have: blocking, nonblocking or none
    #[arg(long, value_name = "WHICH")]
    collectives: Option<CollectiveRecords>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    parsed.filter(|(number, of)| number < of).ok_or_else(|| "is I/N with I from 0 to N-1, such as 0/4".to_owned())
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Part {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    format: u32,
    complete: bool,
    changed: bool,
    parts: Vec<Part>,
    archive: Option<Summary>,
    hang: Option<Ending>,
}

pub(crate) fn finalize(request: &Request) -> Result<Exit> {
    let directory = &request.directory;
    place::job(directory)?;
    let options = FinalizeOptions {
        include_live: request.include_live,
        keep_journal: request.keep_journal,
        shard: request.shard,
        jobs: request.jobs,
        wishes: ArchiveWishes {
            level: request.level,
            metrics: request.metrics,
            comm_locations: request.comm_locations,
            collectives: request.collectives,
        },
    };
    let bar = Bar::new();
    // A shard covers only part of the job, and judging a job takes as long as writing it.
    let (summary, hang) = judged(directory, directory, request.shard.is_none(), || {
        archive::finalize(directory, &options, &bar).with_context(|| format!("cannot finalize {}", directory.display()))
    })?;
    drop(bar);
    let report = Report::of(&summary, directory, hang)?;
    if request.json {
        print::json(&report)?;
    } else {
        print::text(&report.text(directory, request.shard.is_some()))?;
    }
    // A shard is complete when its own parts are.
    let is_well = match request.shard {
        Some(_) => report.parts.iter().all(|part| part.state != "failed" && part.problems.is_empty()),
        None => report.complete,
    };
    let is_without_archive = request.shard.is_none() && report.archive.is_none();
    Ok(match is_well {
        _ if is_without_archive => Exit::CannotDo,
        true => Exit::Well,
        false => Exit::Problems,
    })
}

impl Report {
    fn of(summary: &FinalizeSummary, directory: &Path, hang: Option<Ending>) -> Result<Self> {
        let parts: Vec<Part> = summary.parts.iter().map(Part::of).collect();
        let left_out = summary.archive.as_ref().is_some_and(|archive| !archive.left_out.is_empty());
        let has_archive = place::anchor(directory).is_ok();
        Ok(Self {
            format: 1,
            complete: summary.complete && !left_out && has_archive,
            changed: summary.archive.is_some() || parts.iter().any(|part| part.state == "written"),
            parts,
            archive: has_archive.then(|| Summary::read(directory)).transpose()?,
            hang,
        })
    }

    fn text(&self, directory: &Path, is_shard: bool) -> Text {
        let mut text = Text::default();
        for part in &self.parts {
            let name = &part.name;
            match part.state {
                "written" => {
                    let events = part.events.unwrap_or(0);
                    text.line(format_args!("{name}: written, {}", plural(events, "event", "events")));
                }
                "live" => text
                    .line(format_args!("{name}: still running, left alone (--include-live writes what it has so far)")),
                "empty" => text.line(format_args!("{name}: recorded nothing")),
                "failed" => {
                    let reason = part.reason.as_deref().unwrap_or_default();
                    text.line(format_args!("{name}: cannot go into the archive: {reason}"));
                }
                _ => {}
            }
            for problem in &part.problems {
                text.line(format_args!("{name}: {problem}"));
            }
            let journal = directory.join(PARTS).join(name).join(JOURNAL);
            if !part.problems.is_empty() && journal.is_dir() {
                text.line(format_args!("{name}: the journal is kept, so that a newer version can read more of it"));
            }
        }
        if self.parts.is_empty() {
            text.line(format_args!("{}: no process recorded anything", directory.display()));
        }
        match &self.archive {
            _ if is_shard => {
                let number = |state: &str| self.parts.iter().filter(|part| part.state == state).count() as u64;
                text.line(format_args!(
                    "{} of this shard written, {} before; no archive yet: `nccl-otf2 finalize {}` makes it when all shards are done",
                    plural(number("written"), "part", "parts"),
                    count(number("done")),
                    shell_word(directory)
                ));
            }
            Some(summary) if !self.changed => {
                summary.print(&mut text);
                text.line("nothing to do");
            }
            Some(summary) => summary.print(&mut text),
            None => text.line("no archive: no part is written"),
        }
        if let Some(hang) = &self.hang {
            text.line(&hang.text);
        }
        text
    }
}

impl Part {
    fn of(part: &FinalizedPart) -> Self {
        let (mut reason, mut written) = (None, None);
        let state = match &part.state {
            PartState::Written(summary) => {
                written = Some(summary);
                "written"
            }
            PartState::Done => "done",
            PartState::Live => "live",
            PartState::Empty => "empty",
            PartState::Elsewhere => "elsewhere",
            PartState::Failed(why) => {
                reason = Some(why.clone());
                "failed"
            }
        };
        Self {
            name: part.name.clone(),
            state,
            reason,
            events: written.map(|summary| summary.events),
            records: written.map(|summary| summary.records),
            problems: part.problems.clone(),
        }
    }
}
