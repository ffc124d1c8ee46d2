//! `nccl-otf2 print`: prints what was recorded event by event, for people and programs. Chooses between an archive
//! (`listing_archive`) and journals (`print::stream`, `listing_output`).

use std::path::PathBuf;

use crate::archives::is_archive;
use crate::command_line::Exit;
use crate::listing_output::Output;
use crate::print::process::{Filter, Process, journals_of, share_beginning};
use crate::print::{process, stream, values};
use crate::{listing_archive, listing_output};
use anyhow::{Result, bail};
use clap::Args;
use journal::part::PARTS;
use nccl_events::Kind;

const EXAMPLES: &str = "\
An archive (a finished job's directory, or traces.otf2) is printed as the records of all processes in time order: \
`enter` and `leave` of regions, indented by their nesting on the location, with the time in between on the `leave` \
line; other records have a dot before their names.
A journal is what NCCL reported to a process. It exists while the process runs, after the process was killed, or if \
it is kept (NCCL_OTF2_KEEP_JOURNAL=1). It is printed as one line per event in the order of their starts, indented \
below the parent; states have a dot before their names. Several journals are merged in time order.

  nccl-otf2 print trace                            the archive
  nccl-otf2 print trace --kind Coll,P2p --rank 3   operations of rank 3
  nccl-otf2 print trace --kind MpiIsend,MpiIrecv   messages, by OTF2's names of records
  nccl-otf2 print trace --from 1.5s --to 1.6s      only that time
  nccl-otf2 print --json trace | jq 'select(.region == \"ncclAllReduce\")'
  nccl-otf2 print trace/parts                      the journals of all processes
  nccl-otf2 print trace/parts/node1-4711-… --comm 0x54ea9d0c --limit 20
                                                   the beginning of a communicator
  nccl-otf2 print trace/parts/node1-4711-… --json > job.jsonl
                                                   a stream of callbacks, to be replayed

--kind takes NCCL's kinds of events, Range for NVTX ranges and marks, Gpu for kernels, copies and other GPU records \
of a journal, and Unknown for events in journals whose kind this version does not know. In archives a kind selects \
the regions that show such events and all records in them, and OTF2's names (Enter, MpiCollectiveEnd, RmaPut, Metric, \
…) select records. For archives, --comm and --rank leave out calls and puts of threads, which may be for any \
communicator, and transfers for another process (PXN), which have no rank in the process that does them; a \
communicator that the user named is selected by that name. For journals, the beginning and end of communicators are \
printed whatever the kind and time, and a state is printed if its event's kind is. With --from, regions that are \
still open then are printed from their earlier `enter`; @TIME is in ns since 1970 for archives, CLOCK_MONOTONIC for \
journals.

Printing an archive takes about 1 MiB of memory for each location: with very many, use --comm and --rank. The formats \
of --json are described in docs/REFERENCE.md. jq before 1.7 rounds integers above 2^53, such as times and nccl.event.

Exit codes: 0 everything was printed, 1 damage, losses, or a journal that cannot be read (named on stderr), 2 nothing \
to print.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory, anchor file of an archive, DIR/parts, parts (DIR/parts/NAME), or journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Print JSON Lines (docs/REFERENCE.md §10)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filter: Filter,
}

pub(crate) fn print(request: &Request) -> Result<Exit> {
    match request.paths.as_slice() {
        [path] if is_archive(path) => listing_archive::print(path, &request.filter, request.json),
        paths => {
            if let Some(path) = paths.iter().find(|path| is_archive(path)) {
                bail!(
                    "{}: an archive already has all processes: print the archive alone, or only journals ({PARTS}/…)",
                    path.display()
                );
            }
            journals(paths, request)
        }
    }
}

fn journals(paths: &[PathBuf], request: &Request) -> Result<Exit> {
    let filter = &request.filter;
    let unknown = filter.unknown_kinds(|single| {
        [values::GPU_KIND, values::RANGE_KIND].iter().any(|kind| single.wants_kind(kind))
            || Kind::ALL.iter().any(|kind| single.wants_kind(kind.name()))
    });
    if let Some(kind) = unknown.first() {
        let names: Vec<&str> =
            Kind::ALL.iter().map(|kind| kind.name()).chain([values::GPU_KIND, values::RANGE_KIND]).collect();
        bail!("--kind {kind}: no such kind; the kinds are {}", names.join(", "));
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
        unread.iter().for_each(crate::output::error);
        return Err(error);
    }
    share_beginning(&mut processes);
    let present = process::present(&processes, filter)?;
    for process in &mut processes {
        process.keep(filter);
    }
    let mut output = Output::new(filter.limit);
    let orphan_stops = if request.json {
        stream::lines(&processes, filter, |line| output.line(line))?.orphan_stops
    } else {
        listing_output::print(&processes, filter, &mut output)?
    };
    filter.refuse_nothing(&present, output.lines)?;
    output.finish()?;
    for error in &unread {
        crate::output::error(error);
    }
    processes.iter().zip(orphan_stops).for_each(|(process, orphan_stops)| process.remark(orphan_stops));
    Ok(if unread.is_empty() && processes.iter().all(Process::is_whole) { Exit::Well } else { Exit::Problems })
}
