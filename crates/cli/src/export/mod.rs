//! `nccl-otf2 export`: archives for tools that need them in another shape.
//!
//! ```text
//!  complete    what all ranks of a communicator have
//!  scalasca    an archive of it in the words of MPI
//! ```

pub(crate) mod complete;
pub(crate) mod scalasca;

use std::path::PathBuf;

use analysis::Trace;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use otf2::{CommRef, LocationRef};
use serde::Serialize;
use trace::Progress as _;

use crate::archive::{self, is_merged, is_nccl};
use crate::exit::Exit;
use crate::place::ANCHOR;
use crate::print;
use crate::progress::Bar;
use crate::staging::{Staging, refuse_existing};
use crate::table::{Side, Table};
use crate::units::plural;

use complete::LeftOut;
use scalasca::Communicator;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 export --format scalasca trace -o scalasca
  mpirun -np 8 scout.mpi scalasca/0-world/traces.otf2

Scalasca's analyser (scout) knows MPI: so one archive is made of each communicator, in the words of MPI. A rank \
is a process with one thread; an operation of NCCL's is a call of MPI's, from when it began to run on the rank to \
when it ended, so that waiting for a rank that is late is found and blamed. Run it on as many processes as the \
communicator has ranks.

It waits for ever where something is missing on one rank. Therefore only what all ranks have is exported: \
collectives up to the first that differs, messages with both ends. A communicator of which something was lost or \
a rank not recorded is left out.

Exit codes: 0 all communicators were exported, 1 some were left out, 2 none, or wrong usage.

--json prints an object:
  format         version of this description: 1
  communicators  for each: name, ranks, archive (null where it was left out),
                 reason (why), collectives and messages (that are in it),
                 collectives_left_out, messages_left_out (of all ranks; each end
                 of a message counts), left_out (for each reason: collectives,
                 messages, reason), processes (of each rank)
New fields may be added; `format` changes when one changes or goes.";

/// What to export.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory or the anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// For which tool
    #[arg(long, value_enum)]
    format: Format,

    /// The directory to make; it must not exist
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Scalasca's trace analyser
    Scalasca,
}

/// What became of a communicator.
#[derive(Debug, Default, Serialize)]
struct Exported {
    name: String,
    ranks: usize,
    archive: Option<String>,
    reason: Option<String>,
    collectives: usize,
    messages: usize,
    collectives_left_out: u64,
    messages_left_out: u64,
    left_out: Vec<LeftOut>,
    processes: Vec<String>,
}

/// Exports.
pub(crate) fn export(request: &Request) -> Result<Exit> {
    let Format::Scalasca = request.format;
    refuse_existing(&request.out)?;
    let trace = archive::open(&request.path)?;
    if !is_nccl(&trace.archive) || is_merged(&trace.archive) {
        bail!("{} is not an archive of NCCL's alone", trace.anchor.display());
    }
    let staging = Staging::create(&request.out)?;
    let lacks = complete::what_it_lacks(&trace);
    let bar = Bar::new();
    let comms: Vec<CommRef> = trace.definitions.comms.keys().copied().collect();
    bar.begin("communicators", comms.len() as u64);
    let mut all = Vec::new();
    for (number, comm) in comms.into_iter().enumerate() {
        all.push(one(&trace, (comm, number), lacks.as_deref(), &staging, request)?);
        bar.step();
    }
    drop(bar);
    let left_out = all.iter().filter(|it| it.archive.is_none()).count();
    let is_any = left_out < all.len();
    if is_any {
        staging.put_in_place()?;
    }
    if request.json {
        print::json(&serde_json::json!({ "format": 1, "communicators": all }))?;
    } else {
        print::result(&text(&all))?;
    }
    Ok(match (is_any, left_out) {
        (true, 0) => Exit::Well,
        (true, _) => Exit::Problems,
        (false, _) => Exit::CannotDo,
    })
}

fn one(
    trace: &Trace,
    (comm, number): (CommRef, usize),
    lacks: Option<&str>,
    staging: &Staging,
    request: &Request,
) -> Result<Exported> {
    let members = trace.members(comm);
    let process = |location: &LocationRef| {
        let process = trace.process(trace.group(*location));
        trace.group_name(process).to_owned()
    };
    let mut exported = Exported {
        name: trace.comm_name(comm),
        ranks: members.len(),
        processes: members.iter().map(process).collect(),
        ..Exported::default()
    };
    exported.reason = match lacks {
        Some(lacks) => Some(lacks.to_owned()),
        None => complete::missing_ranks(trace, comm),
    };
    if exported.reason.is_some() {
        return Ok(exported);
    }
    let (ranks, left_out) = complete::read(trace, comm)?;
    exported.collectives = ranks.first().map_or(0, |rank| rank.collectives.len());
    exported.messages = ranks.iter().map(|rank| rank.sends.len()).sum();
    exported.collectives_left_out = left_out.iter().map(|it| it.collectives).sum();
    exported.messages_left_out = left_out.iter().map(|it| it.messages).sum();
    exported.left_out = left_out;
    if exported.collectives + exported.messages == 0 {
        exported.reason = Some("nothing that all ranks have".to_owned());
        return Ok(exported);
    }
    let directory = format!("{number}-{}", file_name(&exported.name));
    let places = members.iter().zip(&exported.processes).map(|(location, process)| {
        let host = trace.host(trace.group(*location));
        (host.and_then(|host| trace.node_name(host)).unwrap_or("host"), process.as_str())
    });
    let written = staging.path().join(&directory);
    let communicator = Communicator {
        name: &exported.name,
        machine: machine(trace).unwrap_or("machine"),
        places: places.collect(),
        ranks: &ranks,
        ticks_per_second: trace.definitions.clock.map_or(1_000_000_000, |clock| clock.timer_resolution),
    };
    std::fs::create_dir(&written).with_context(|| format!("cannot make {}", written.display()))?;
    communicator.write(&written)?;
    let archive = request.out.join(directory).join(ANCHOR);
    exported.archive = Some(archive.display().to_string());
    Ok(exported)
}

fn machine(trace: &Trace) -> Option<&str> {
    let mut nodes = trace.definitions.system_tree_nodes.values();
    let root = nodes.find(|node| !node.parent.is_defined())?;
    trace.definitions.string(root.name)
}

/// A name without what file systems or shells have uses for.
fn file_name(name: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => letter,
        _ => '_',
    };
    name.chars().take(64).map(plain).collect()
}

fn text(all: &[Exported]) -> String {
    let mut table = Table::new(&[
        ("communicator", Side::Left),
        ("ranks", Side::Right),
        ("collectives", Side::Right),
        ("messages", Side::Right),
        ("left out", Side::Right),
        ("archive", Side::Left),
    ]);
    for it in all {
        let left_out = it.collectives_left_out + it.messages_left_out;
        let reason = it.reason.clone().map(|reason| format!("none: {reason}"));
        table.row(vec![
            it.name.clone(),
            it.ranks.to_string(),
            it.collectives.to_string(),
            it.messages.to_string(),
            left_out.to_string(),
            it.archive.clone().or(reason).unwrap_or_default(),
        ]);
    }
    let mut text = String::new();
    table.print(&mut text);
    for (it, left_out) in all.iter().flat_map(|it| it.left_out.iter().map(move |left_out| (it, left_out))) {
        let collectives = plural(left_out.collectives, "collective", "collectives");
        let ends = plural(left_out.messages, "end of a message", "ends of messages");
        text.push_str(&format!("{}: {collectives} and {ends} left out: {}\n", it.name, left_out.reason));
    }
    text.push_str("analyse one: mpirun -np RANKS scout.mpi ARCHIVE\n");
    text
}
