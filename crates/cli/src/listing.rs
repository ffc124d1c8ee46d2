//! `nccl-otf2 print`: what was recorded, event by event, for people and for programs that look closely.

mod fields;
mod filter;
mod lines;
mod output;
mod states;
mod story;
mod stream;
mod text;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use nccl_profiler_otf2::event::Kind;
use nccl_profiler_otf2::write::part::JOURNAL;

use crate::exit::Exit;
use crate::place::{self, PARTS};
use filter::Filter;
use output::Output;
use story::Story;

const EXAMPLES: &str = "\
Prints the journal of one process: of one that runs, was killed, or was told to keep it (NCCL_OTF2_KEEP_JOURNAL=1). \
One line an event in the order of their starts, indented below its parent; states have a dot before their names.

  nccl-otf2 print trace/parts/node1-4711-…                        all of it
  nccl-otf2 print PART --kind Coll,P2p --rank 3                   operations of rank 3
  nccl-otf2 print PART --from 1.5s --to 1.6s                      what went on then
  nccl-otf2 print PART --comm 0x54ea9d0c --limit 20               the beginning of a communicator
  nccl-otf2 print PART --json > job.jsonl                         a stream of callbacks

Communicators' beginnings and ends stay whatever the kind and time. A state is printed when its event's kind is. \
The format of --json is described in docs/STREAMS.md.

Exit codes: 0 all was printed, 1 the journal has damage or losses, which stderr names, 2 there is nothing to print.";

/// What to print.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A part's directory (DIR/parts/NAME), or its journal
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Print JSON Lines, as `docs/STREAMS.md` describes
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filter: Filter,
}

/// Prints a journal.
///
/// # Errors
///
/// When there is none, it cannot be read, or stdout cannot be written.
pub(crate) fn print(request: &Request) -> Result<Exit> {
    let filter = &request.filter;
    let unknown =
        filter.unknown_kinds(|single| Kind::ALL.iter().any(|kind| single.wants_kind(kind.name())));
    if let Some(kind) = unknown.first() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        bail!(
            "--kind {kind}: there is no such kind; there are {}",
            names.join(", ")
        );
    }
    let mut story = Story::read(&journal(&request.path)?)?;
    story.keep(filter);
    let mut output = Output::new(filter.limit);
    if request.json {
        stream::print(&story, &mut output)?;
    } else {
        text::print(&story, &mut output)?;
    }
    output.finish()?;
    story.remark();
    Ok(if story.is_whole() {
        Exit::Well
    } else {
        Exit::Problems
    })
}

/// The journal that the user means: its own directory, a part's, or that of a job with one journal.
fn journal(path: &Path) -> Result<PathBuf> {
    if !path.exists() {
        return Err(place::NoArchive::Missing(path.to_owned()).into());
    }
    let own = path.join(JOURNAL);
    if own.is_dir() {
        return Ok(own);
    }
    if path.join(PARTS).is_dir() {
        let journals = journals(&path.join(PARTS));
        return match journals.as_slice() {
            [one] => Ok(one.clone()),
            [] => bail!(
                "{}: no journal in its {PARTS}: they go when they are written, unless NCCL_OTF2_KEEP_JOURNAL=1",
                path.display()
            ),
            [first, ..] => bail!(
                "{}: journals of {} processes; print one, such as {}",
                path.display(),
                journals.len(),
                first.parent().unwrap_or(first).display()
            ),
        };
    }
    if path.join("0.0").is_file() {
        return Ok(path.to_owned());
    }
    bail!(
        "{}: neither the directory of a process's part nor a journal",
        path.display()
    )
}

/// The journals of a job, in the order of the parts' names.
fn journals(parts: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parts).into_iter().flatten().flatten();
    let journals = entries.map(|entry| entry.path().join(JOURNAL));
    let mut journals: Vec<PathBuf> = journals.filter(|path| path.is_dir()).collect();
    journals.sort();
    journals
}
