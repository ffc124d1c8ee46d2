//! `nccl-otf2 merge`: NCCL's archive becomes part of the trace that Score-P made of the same job.
//!
//! ```text
//!  scorep, nccl      what is in the archives: processes, clocks
//!  pairing           which process of one is which of the other
//!  several_traces    traces of Score-P's, one a process, become one
//!  clock, clocks     from the time of NCCL's events to that of the trace
//!  calls, nesting    which threads of NCCL's are threads of Score-P's, where the calls of both nest
//!  definitions       Score-P's as they are, NCCL's behind them under new numbers
//!  output            event files are linked, definitions and anchor are new, and everything is read back
//!  records           event files as records: those of two writers become one
//!  scalasca          instead of the last two: NCCL's operations as MPI's, between Score-P's events
//!  report            what people and programs read
//! ```
//!
//! Mapping tables and clock offsets in the local definitions say what NCCL's events mean there. Only calls on locations
//! of Score-P's are written anew.

mod calls;
mod clock;
mod clocks;
mod definitions;
mod nccl;
mod nesting;
mod output;
mod pairing;
mod plan;
mod records;
mod report;
mod scalasca;
mod scorep;
mod several_traces;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::place::ANCHOR;
use crate::print;
use crate::progress::Bar;
use crate::staging::{self, Staging};
use calls::Calls;
use clocks::Local;
use definitions::Merged;
use definitions::ids::{self, Ids, MergedProcesses};
use output::{Appended, anchor, verify};
use pairing::Mapping;
use plan::Plan;
use scorep::ScoreP;

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 merge --dry-run scorep-20261121_1200_1234 trace
  nccl-otf2 merge scorep-20261121_1200_1234 trace -o merged
  nccl-otf2 merge scorep-of-rank-* trace -o merged
  nccl-otf2 merge --for scalasca scorep-20261121_1200_1234 trace -o analysis
  nccl-otf2 merge --map 3=0 --map node7:4711=1 scorep-20261121_1200_1234 trace -o merged

Both are of the same run of a job: Score-P's experiment directory (with SCOREP_ENABLE_TRACING=true) and the \
directory of NCCL's archive. Score-P's events are not touched and keep their definitions; NCCL's locations are added \
to the processes and hosts that Score-P has, and their times are brought onto its clock. Calls of NCCL's are put \
between Score-P's events of the same thread, where Score-P says which thread that is and the regions of both nest. \
Processes are found by host and process id, else by their rank: the launcher's, or NCCL's in a communicator as large \
as MPI_COMM_WORLD.

Exit codes: 0 merged, 2 not merged, or wrong usage.

--json prints an object:
  format    version of this description: 1
  archive   the anchor of what was written; null with --dry-run
  clock     anchors (exact), or guess
  scorep    anchor, creator, timer (tsc, clock_gettime, gettimeofday),
            ticks_per_second and processes
  nccl      for each archive: anchor and processes
  pairs     for each of NCCL's processes: name, host, process_id, rank, locations,
            events, begins_after_ns (after the trace's begin; null where it has
            no events), by (map, process, rank, communicator),
            scorep (host, process_id, rank)
  calls     of threads that call NCCL: on_score_p_locations (number), own_locations
            (threads and reason of those that have a location of NCCL's); null with
            --for scalasca
  locations, events
            of what was written; null with --dry-run
New fields may be added; `format` changes when one changes or goes.";

/// What to merge.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Score-P's experiment directory and NCCL's archives of the same job, or their anchor files.
    /// Where every process has a trace of Score-P's (torchrun): all of them
    #[arg(value_name = "ARCHIVE", required = true, num_args = 2..)]
    archives: Vec<PathBuf>,

    /// The directory to make; it must not exist
    #[arg(short, long, visible_alias = "output", value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,

    /// Which process is which, each a rank or HOST:PROCESS_ID; can be given for several
    #[arg(long, value_name = "NCCL=SCOREP")]
    map: Vec<Mapping>,

    /// Say which process is which and whether the clocks fit; write nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not believe the clocks: lay NCCL's first event this many seconds after the beginning of
    /// Score-P's trace. A guess, for traces whose clocks have nothing in common
    #[arg(long, value_name = "SECONDS")]
    align_start: Option<Seconds>,

    /// For which tool: for scalasca, operations of NCCL's are written as MPI's where the host waits for them
    #[arg(long = "for", value_enum, value_name = "TOOL", default_value = "vampir")]
    tool: Tool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Who is to read the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Vampir and all other readers of OTF2
    Vampir,
    /// Scalasca's analyser, scout
    Scalasca,
}

/// A time from 0 on.
#[derive(Clone, Copy, Debug)]
struct Seconds(f64);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.parse().ok();
        let seconds = seconds.filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
        seconds.map(Self).ok_or_else(|| format!("{text:?} is not a number of seconds from 0 on"))
    }
}

/// Merges.
///
/// # Errors
///
/// When archives are missing, damaged, or do not fit together, or a file cannot be written.
pub(crate) fn merge(request: &Request) -> Result<Exit> {
    let out = request.out.as_ref().filter(|_| !request.dry_run);
    if let Some(out) = out {
        staging::refuse_existing(out)?;
    }
    let start = request.align_start.map(|Seconds(seconds)| seconds);
    let plan = Plan::of(&request.archives, &request.map, start)?;
    let calls = match request.tool {
        Tool::Vampir => Some(Calls::of(&plan)?),
        Tool::Scalasca => None,
    };
    let written = match (out, &calls) {
        (None, _) => None,
        (Some(out), Some(calls)) => Some((out.join(ANCHOR), write(&plan, calls, out)?)),
        (Some(out), None) => {
            let (read, left_out) = scalasca::write(&plan, out)?;
            if plan.scoreps.iter().any(ScoreP::has_regions_of_nccl) {
                print::note(format_args!(
                    "Score-P was shown NCCL's calls while the job ran: the report will have them beside the operations, \
                     under the same names (NCCL_OTF2_SCOREP=off)"
                ));
            }
            for communicator in left_out {
                print::note(format_args!("left out: {communicator}"));
            }
            Some((out.join(ANCHOR), read))
        }
    };
    if request.json {
        print::json(&report::json(&plan, calls.as_ref(), written.as_ref()))?;
    } else {
        print::text(&report::text(&plan, calls.as_ref(), written.as_ref()))?;
    }
    Ok(Exit::Well)
}

/// Writes the archive, reads it back and puts it in place.
fn write(plan: &Plan, calls: &Calls, out: &Path) -> Result<verify::Read> {
    let scorep = plan.scoreps.first().context("there is no trace of Score-P's")?;
    let staging = Staging::create(out)?;
    let mut merged = Merged::new(scorep.verbatim.clone());
    let mut ids = Ids::beside(scorep);
    if plan.scoreps.len() > 1 {
        merged.prefix_first(&ids::prefix(scorep));
    }
    let mut appended = Vec::new();
    let others: Result<Vec<Vec<Local>>> = plan.scoreps.iter().map(several_traces::locals).collect();
    let others = others?;
    let mut processes = MergedProcesses::of(scorep);
    for (archive, locals) in plan.scoreps.iter().zip(&others).skip(1) {
        let shared = ids.of_another(archive)?;
        let numbers = merged.append(&archive.verbatim, &shared)?;
        processes.add(archive, &numbers);
        appended.push(Appended {
            archive: &archive.archive,
            definitions: &archive.definitions,
            numbers,
            locals,
            threads: &[],
        });
    }
    for (number, (nccl, locals)) in plan.nccls.iter().zip(&plan.locals).enumerate() {
        let shared = ids.shared(&processes, nccl, number, &plan.pairs, &calls.locations(number))?;
        let numbers = merged.append(&nccl.verbatim, &shared)?;
        let threads = calls.threads.get(number).map_or(&[][..], Vec::as_slice);
        appended.push(Appended { archive: &nccl.archive, definitions: &nccl.definitions, numbers, locals, threads });
    }
    let span = clocks::span(&plan.scoreps, &plan.locals);
    let began_ns = if plan.is_guess { None } else { clocks::began_ns(scorep, &plan.locals, span.0) };
    let (ends, events) = (merged.ends(), calls.events());
    merged.set_number_of_events(&events);
    let definitions = merged.finish(span, began_ns);
    let lines: Vec<String> = plan.pairs.iter().map(|pair| report::line(plan, pair)).collect();
    let text = anchor::text(&plan.scoreps, &plan.nccls, &lines, plan.clock());
    let bar = Bar::new();
    output::write(staging.path(), scorep, &appended, &definitions, &ends, &text, &bar)?;
    let anchor = staging.path().join(ANCHOR);
    let read = verify::verify(&anchor, &definitions, ids::is_ours, |it| events.contains_key(&it), &bar)
        .context("the merged archive is not sound, and was not put in place")?;
    drop(bar);
    staging.put_in_place()?;
    Ok(read)
}
