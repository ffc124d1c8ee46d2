//! `nccl-otf2 print`: what was recorded, event by event, for people and for programs that look closely.

mod archive;
pub(crate) mod beginning;
mod fields;
mod filter;
mod gpu;
mod moment;
mod output;
pub(crate) mod process;
mod states;
pub(crate) mod stream;
mod text;
mod value;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, bail};
use clap::Args;
use journal::part::{JOURNAL, PROCESS};
use nccl_events::Kind;

use crate::exit::Exit;
use crate::place::{self, PARTS};
pub(crate) use filter::{Filter, Time, rank};
use output::Output;
use process::Process;
use stream::Schema;

const EXAMPLES: &str = "\
An archive (a finished job's directory, or traces.otf2) is printed as its records, of all processes, in the order of \
time: `enter` and `leave` of regions, indented as they nest on their location, the time in between with `leave`; \
other records have a dot before their names.
A journal is what NCCL reported to a process. It is there while the process runs, when it was killed, or when it was \
asked to keep it (NCCL_OTF2_KEEP_JOURNAL=1): one line an event in the order of their starts, indented below its parent; states have a \
dot before their names. Several journals are put together in the order of time.

  nccl-otf2 print trace                            the archive
  nccl-otf2 print trace --kind Coll,P2p --rank 3   operations of rank 3
  nccl-otf2 print trace --kind MpiIsend,MpiIrecv   messages, by OTF2's names of records
  nccl-otf2 print trace --from 1.5s --to 1.6s      what went on then
  nccl-otf2 print --json trace | jq 'select(.region == \"ncclAllReduce\")'
  nccl-otf2 print trace/parts                      the journals of all processes
  nccl-otf2 print trace/parts/node1-4711-… --comm 0x54ea9d0c --limit 20
                                                   the beginning of a communicator
  nccl-otf2 print trace/parts/node1-4711-… --json > job.jsonl
                                                   a stream of callbacks, to be replayed

--kind takes NCCL's kinds of events, and Gpu for what a journal says of GPUs. In archives they stand for the regions \
that show such events and for all records in them, and OTF2's names (Enter, MpiCollectiveEnd, RmaPut, Metric, …) for \
records. --comm and --rank leave the locations of threads out of archives, whose calls may be for any communicator; a \
communicator that the user named is asked for by its name there. Of a journal, communicators' beginnings and ends \
stay whatever the kind and time, and a state is printed when its event's kind is. --from shows regions that go on \
then with their `enter` before; @TIME is in ns since 1970 in archives, CLOCK_MONOTONIC in journals.

Memory is about 1 MiB for each location of an archive that is printed: --comm and --rank help where there are very \
many. The formats of --json are described in docs/REFERENCE.md.

Exit codes: 0 all was printed, 1 it has damage or losses, or the journal of a process cannot be read: stderr names it, \
2 there is nothing to print.";

/// What to print.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory, an archive's anchor file, DIR/parts, parts (DIR/parts/NAME), or journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Print JSON Lines, as `docs/REFERENCE.md` §10 describes
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filter: Filter,
}

/// Prints an archive, or journals.
pub(crate) fn print(request: &Request) -> Result<Exit> {
    match request.paths.as_slice() {
        [path] if is_archive(path) => archive::print(path, &request.filter, request.json),
        paths => {
            if let Some(path) = paths.iter().find(|path| is_archive(path)) {
                bail!(
                    "{}: an archive has all processes already: print it alone, or journals ({PARTS}/…) only",
                    path.display()
                );
            }
            journals(paths, request)
        }
    }
}

/// Prints journals, in the order of time over all of them.
fn journals(paths: &[PathBuf], request: &Request) -> Result<Exit> {
    let filter = &request.filter;
    let unknown = filter.unknown_kinds(|single| {
        single.wants_kind(gpu::KIND) || Kind::ALL.iter().any(|kind| single.wants_kind(kind.name()))
    });
    if let Some(kind) = unknown.first() {
        let names = Kind::ALL.iter().map(|kind| kind.name());
        let names: Vec<&str> = names.chain([gpu::KIND]).collect();
        bail!("--kind {kind}: there is no such kind; there are {}", names.join(", "));
    }
    let mut processes = Vec::new();
    let mut unread = Vec::new();
    for path in paths {
        let journals = journals_of(path)?;
        unread.extend(journals.unread);
        for journal in journals.found {
            match Process::read(&journal) {
                Ok(process) => processes.push(process),
                Err(error) => unread.push(error.context(journal.display().to_string())),
            }
        }
    }
    if processes.is_empty()
        && let Some(error) = unread.pop()
    {
        return Err(error);
    }
    beginning::share(&mut processes);
    let present = process::present(&processes, filter)?;
    for process in &mut processes {
        process.keep(filter);
    }
    let mut output = Output::new(filter.limit);
    let orphan_stops = if request.json {
        stream::lines(&processes, filter, Schema::Callbacks, |line| output.line(line))?.orphan_stops
    } else {
        text::print(&processes, filter, &mut output)?
    };
    filter.refuse_nothing(&present, output.lines)?;
    output.finish()?;
    for error in &unread {
        crate::print::error(error);
    }
    processes.iter().zip(orphan_stops).for_each(|(process, orphan_stops)| process.remark(orphan_stops));
    Ok(if unread.is_empty() && processes.iter().all(Process::is_whole) { Exit::Well } else { Exit::Problems })
}

/// Whether the user means an archive: its anchor file, or a directory that has one.
fn is_archive(path: &Path) -> bool {
    path.join(place::ANCHOR).symlink_metadata().is_ok()
        || (path.is_file() && path.extension().is_some_and(|end| end == "otf2"))
}

/// The journals that the user means.
pub(crate) struct Journals {
    pub(crate) found: Vec<PathBuf>,
    /// Why those of other processes cannot be read.
    pub(crate) unread: Vec<Error>,
}

/// The journals that the user means: a part's, those of all parts of a job, or the directory of one itself.
pub(crate) fn journals_of(path: &Path) -> Result<Journals> {
    let has_parts = place::has_parts(path)?;
    let one = |path: PathBuf| Ok(Journals { found: vec![path], unread: Vec::new() });
    if path.join("0.0").is_file() {
        return one(path.to_owned());
    }
    if path.join(JOURNAL).is_dir() {
        return one(path.join(JOURNAL));
    }
    let parts = if has_parts { path.join(PARTS) } else { path.to_owned() };
    let mut found = Vec::new();
    let mut unread = Vec::new();
    // A file has no parts in it.
    let entries = if parts.is_dir() { Some(fs::read_dir(&parts).with_context(|| reading(&parts))?) } else { None };
    for entry in entries.into_iter().flatten() {
        let part = entry.with_context(|| reading(&parts))?.path();
        match journal_of(&part) {
            Ok(journal) => found.extend(journal),
            Err(error) => unread.push(error),
        }
    }
    found.sort();
    if !found.is_empty() {
        return Ok(Journals { found, unread });
    }
    if path.join(PROCESS).is_file() || is_archive(path) || !unread.is_empty() {
        bail!(
            "{}: no journal: they are removed when they are written into an archive, unless the job has \
             NCCL_OTF2_KEEP_JOURNAL=1 or is started with `nccl-otf2 run --keep-journal`",
            path.display()
        );
    }
    bail!("{}: no archive, no directory of a process's part, and no journal", path.display())
}

fn reading(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The journal of a part; none where there is no part.
fn journal_of(part: &Path) -> Result<Option<PathBuf>> {
    let journal = part.join(JOURNAL);
    match journal.metadata() {
        Ok(data) if data.is_dir() => Ok(Some(journal)),
        Ok(_) => bail!("{} is no directory: its process is left out", journal.display()),
        Err(error) if error.kind() != ErrorKind::NotFound && part.is_dir() => {
            Err(error).with_context(|| format!("{}: its process is left out", journal.display()))
        }
        Err(_) => match journal.read_link() {
            Ok(target) => bail!(
                "{}: the journal was put into {}, which is not here: its process is left out",
                part.display(),
                target.display()
            ),
            Err(_) if part.join(PROCESS).is_file() => {
                bail!("{}: there is no journal (any more): its process is left out", part.display())
            }
            Err(_) => Ok(None),
        },
    }
}
