//! `nccl-otf2 print`: what was recorded, event by event, for people and for programs that look closely.

mod fields;
mod lines;
mod output;
mod states;
mod story;
mod stream;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use nccl_profiler_otf2::write::part::JOURNAL;

use crate::exit::Exit;
use crate::place::{self, PARTS};
use output::Output;
use story::Story;

/// What to print.
#[derive(Debug, Args)]
pub(crate) struct Request {
    /// A part's directory (DIR/parts/NAME), or its journal
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Print JSON Lines, as `docs/STREAMS.md` describes
    #[arg(long)]
    json: bool,
}

/// Prints a journal.
///
/// # Errors
///
/// When there is none, it cannot be read, or stdout cannot be written.
pub(crate) fn print(request: &Request) -> Result<Exit> {
    let story = Story::read(&journal(&request.path)?)?;
    let mut output = Output::new();
    stream::print(&story, &mut output)?;
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
