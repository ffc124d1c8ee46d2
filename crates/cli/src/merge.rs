//! `nccl-otf2 merge`: NCCL's archive becomes part of the trace that Score-P made of the same job.
//!
//! ```text
//!  scorep, nccl     what is in the archives: processes, clocks
//!  pairing          which process of one is which of the other
//!  several          traces of Score-P's, one a process, become one
//!  clock, clocks    from the time of NCCL's events to that of the trace
//!  ids              the ids of NCCL's locations there
//!  numbers, definitions, order
//!                   Score-P's as they are, NCCL's behind them under new numbers
//!  said             what the anchor says
//!  write            Score-P's files are linked as they are, NCCL's under new names
//!  verify           everything is read back before it is put in place
//!  report           what people and programs are told
//! ```
//!
//! No event is written anew: mapping tables and clock offsets in the local definitions say what NCCL's mean there.

mod clock;
mod clocks;
mod definitions;
mod ids;
mod nccl;
mod numbers;
mod order;
mod pairing;
mod report;
mod said;
mod scorep;
mod several;
mod verify;
mod write;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use otf2::Archive;

use crate::archive::{is_merged, is_nccl};
use crate::exit::Exit;
use crate::place::{self, ANCHOR};
use crate::print;
use crate::progress::Bar;

use crate::staging::{self, Staging};
use clocks::Local;
use definitions::Merged;
use nccl::Nccl;
use pairing::{Pair, Wish};
use scorep::ScoreP;
use write::Appended;

/// The property that says which process is which.
const MAP: &str = "NCCL::MERGED::MAP";
/// The property that says how the clocks were brought together.
const CLOCK: &str = "NCCL::MERGED::CLOCK";

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 merge --dry-run scorep-20261121_1200_1234 trace
  nccl-otf2 merge scorep-20261121_1200_1234 trace -o merged
  nccl-otf2 merge scorep-of-rank-* trace -o merged
  nccl-otf2 merge --map 3=0 --map node7:4711=1 scorep-20261121_1200_1234 trace -o merged

Both are of the same run of a job: Score-P's experiment directory (with SCOREP_ENABLE_TRACING=true) and the \
directory of NCCL's archive. Score-P's events are not touched and keep their definitions; NCCL's rows are added \
to the processes and hosts that Score-P has, and their times are brought onto its clock. Processes are found by \
host and process id, else by their rank: the launcher's, or NCCL's in a communicator as large as MPI_COMM_WORLD.

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
    #[arg(short, long, value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,

    /// Which process is which, each a rank or HOST:PROCESS_ID; can be given for several
    #[arg(long, value_name = "NCCL=SCOREP")]
    map: Vec<Wish>,

    /// Say which process is which and whether the clocks fit; write nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not believe the clocks: lay NCCL's first event so many seconds after the beginning of
    /// Score-P's trace. A guess, for traces whose clocks have nothing in common
    #[arg(long, value_name = "SECONDS")]
    align_start: Option<Seconds>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A time from 0 on.
#[derive(Clone, Copy, Debug)]
struct Seconds(f64);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.parse().ok();
        let seconds = seconds.filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
        seconds
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a number of seconds from 0 on"))
    }
}

/// What is known before anything is written.
#[derive(Debug)]
struct Plan {
    scoreps: Vec<ScoreP>,
    nccls: Vec<Nccl>,
    pairs: Vec<Pair>,
    /// Of each archive of NCCL's.
    locals: Vec<Vec<Local>>,
    is_guess: bool,
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
    let plan = Plan::of(request)?;
    let written = match out {
        None => None,
        Some(out) => Some((out.join(ANCHOR), plan.write(out)?)),
    };
    if request.json {
        print::json(&report::json(&plan, written.as_ref()))?;
    } else {
        print::result(&report::text(&plan, written.as_ref()))?;
    }
    Ok(Exit::Well)
}

/// Opens all archives: each is Score-P's or NCCL's.
fn open(paths: &[PathBuf]) -> Result<(Vec<ScoreP>, Vec<Nccl>)> {
    let (mut scoreps, mut nccls) = (Vec::new(), Vec::new());
    for path in paths {
        let anchor = place::anchor(path);
        if anchor.is_err() && path.join(scorep::SETTINGS).exists() {
            bail!(
                "{}: Score-P was here and wrote no trace: it does so with SCOREP_ENABLE_TRACING=true",
                path.display()
            );
        }
        let anchor = anchor?;
        let archive = Archive::open(&anchor).context("cannot open an archive")?;
        if is_merged(&archive) {
            bail!(
                "{} is merged already; merge Score-P's own archive with all of NCCL's at once",
                anchor.display()
            );
        }
        match is_nccl(&archive) {
            true => nccls.push(Nccl::open(archive)?),
            false => scoreps.push(ScoreP::open(archive)?),
        }
    }
    if scoreps.is_empty() {
        bail!(
            "all of these archives are NCCL's, none is Score-P's (which traces with SCOREP_ENABLE_TRACING=true only)"
        );
    }
    if nccls.is_empty() {
        bail!("none of these archives is NCCL's");
    }
    Ok((scoreps, nccls))
}

impl Plan {
    fn of(request: &Request) -> Result<Self> {
        let (mut scoreps, nccls) = open(&request.archives)?;
        if scoreps.len() > 1 {
            if request.align_start.is_some() {
                bail!("--align-start is for one trace of Score-P's");
            }
            several::refuse(&scoreps)?;
        }
        let mut pairs = pairing::pairs(&scoreps, &nccls, &request.map)?;
        let locals: Result<Vec<Vec<Local>>> = nccls.iter().map(clocks::locals).collect();
        let mut locals = locals?;
        if scoreps.len() > 1 {
            several::order(&mut scoreps, &nccls, &mut pairs);
            several::align(&mut scoreps, &nccls, &pairs, &locals)?;
        }
        match (request.align_start, scoreps.first()) {
            (Some(Seconds(seconds)), Some(scorep)) => {
                clocks::by_guess(scorep, &mut locals, seconds);
            }
            _ => clocks::by_anchors(&scoreps, &nccls, &pairs, &mut locals)?,
        }
        Ok(Self {
            scoreps,
            nccls,
            pairs,
            locals,
            is_guess: request.align_start.is_some(),
        })
    }

    /// How the clocks were brought together.
    const fn clock(&self) -> &'static str {
        match self.is_guess {
            true => "guess",
            false => "anchors",
        }
    }

    /// Writes the archive, reads it back and puts it in place.
    fn write(&self, out: &std::path::Path) -> Result<verify::Read> {
        let scorep = self
            .scoreps
            .first()
            .context("there is no trace of Score-P's")?;
        let staging = Staging::create(out)?;
        let mut merged = Merged::new(scorep.verbatim.clone());
        let mut ids = ids::Ids::beside(scorep);
        let mut appended = Vec::new();
        let others: Result<Vec<Vec<Local>>> = self.scoreps.iter().map(several::locals).collect();
        let others = others?;
        let mut places = ids::Places::of(scorep);
        for (archive, locals) in self.scoreps.iter().zip(&others).skip(1) {
            let common = ids.of_another(archive)?;
            let numbers = merged.append(&archive.verbatim, &common)?;
            places.add(archive, &numbers);
            appended.push(Appended {
                archive: &archive.archive,
                definitions: &archive.definitions,
                numbers,
                locals,
            });
        }
        for (number, (nccl, locals)) in self.nccls.iter().zip(&self.locals).enumerate() {
            let common = ids.in_common(&places, nccl, number, &self.pairs)?;
            let numbers = merged.append(&nccl.verbatim, &common)?;
            appended.push(Appended {
                archive: &nccl.archive,
                definitions: &nccl.definitions,
                numbers,
                locals,
            });
        }
        let definitions = merged.finish(clocks::span(&self.scoreps, &self.locals));
        let lines: Vec<String> = self
            .pairs
            .iter()
            .map(|pair| report::line(self, pair))
            .collect();
        let said = said::said(&self.scoreps, &self.nccls, &lines, self.clock());
        let bar = Bar::new();
        write::write(staging.path(), scorep, &appended, &definitions, &said, &bar)?;
        let anchor = staging.path().join(ANCHOR);
        let read = verify::verify(&anchor, &definitions, ids::is_ours, &bar)
            .context("the merged archive is not sound, and was not put in place")?;
        drop(bar);
        staging.put_in_place()?;
        Ok(read)
    }
}
