//! Merges NCCL's archives into the trace that Score-P made of the same job.
//!
//! ```text
//!  scorep       Score-P's archive: processes, clocks; order of NCCL's calls and Score-P's on a thread, if both nest
//!  pairing      NCCL's archives: processes, clocks; pairs them with Score-P's processes
//!  inputs       the archives, the pairs, and the clock of every location
//!  clock        from the time of NCCL's events to that of the trace
//!  alignment    the clock of every location of NCCL's; NCCL's threads that are Score-P's; joins Score-P traces of one
//!               process each into one
//!  definitions  Score-P's unchanged, followed by NCCL's with new numbers
//!  output       links event files, writes definitions and anchor, and reads everything back
//!  scalasca     in place of calls on Score-P's threads: NCCL's operations as MPI's, between Score-P's events
//! ```
//!
//! Mapping tables and clock offsets in local definitions relate NCCL's event files to the merged archive. Only event
//! files of Score-P locations that get NCCL calls are rewritten. [`Report`] has the findings before anything is
//! written.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::alignment::Calls;
use crate::clock::NS_PER_SECOND;
use crate::inputs::Inputs;
use crate::pairing::{Nccl, Pair};
use crate::scorep::ScoreP;
use anyhow::{Context as _, Result, bail};
use nccl_events::Progress;
use nccl_events::sort::Gather;
use otf2::Archive;
use schemars::JsonSchema;
use serde::Serialize;

mod alignment;
mod clock;
mod definitions;
mod inputs;
mod output;
mod pairing;
mod scalasca;
mod scorep;

pub use crate::output::WrittenArchive;
pub use crate::pairing::{By, Mapping, Process as NcclProcess};
pub use crate::scorep::{ProcessId, SETTINGS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    All,
    /// Scalasca's analyser: NCCL's operations become MPI's, at times when the host waits for them.
    Scalasca,
}

/// Everything that is known before anything is written.
#[derive(Debug)]
pub struct Plan {
    inputs: Inputs,
    /// `None` for Scalasca.
    calls: Option<Calls>,
}

impl Plan {
    /// Opens the archives with these anchor files, pairs their processes, and relates their clocks. `align_start`
    /// places NCCL's first event this many seconds after the start of Score-P's trace, and ignores the clocks.
    pub fn open(anchors: &[PathBuf], map: &[Mapping], align_start: Option<f64>, readers: Readers) -> Result<Self> {
        let (scoreps, nccls) = open(anchors)?;
        let is_several = scoreps.len() > 1;
        if is_several {
            if align_start.is_some() {
                bail!("--align-start needs a single Score-P trace");
            }
            alignment::refuse(&scoreps)?;
        }
        let pairs = pairing::pairs(&scoreps, &nccls, map)?;
        let locals = nccls.iter().map(alignment::locals).collect::<Result<_>>()?;
        let mut inputs = Inputs { scoreps, nccls, pairs, locals, is_guess: align_start.is_some() };
        if is_several {
            alignment::order(&mut inputs);
            alignment::align(&mut inputs)?;
        }
        match align_start {
            Some(seconds) => alignment::by_guess(&mut inputs, seconds),
            None => alignment::by_anchors(&mut inputs)?,
        }
        let calls = match readers {
            Readers::All => Some(Calls::read(&inputs)?),
            Readers::Scalasca => None,
        };
        Ok(Self { inputs, calls })
    }

    pub fn report(&self) -> Report<'_> {
        Report::new(&self.inputs, self.calls.as_ref())
    }

    /// Writes the merged archive into an empty directory and reads it back. After an error the directory is unusable.
    pub fn write(&self, directory: &Path, progress: &dyn Progress) -> Result<WrittenArchive> {
        match &self.calls {
            Some(calls) => output::write(&self.inputs, calls, directory, progress),
            None => scalasca::write(&self.inputs, directory, progress),
        }
    }
}

fn open(anchors: &[PathBuf]) -> Result<(Vec<ScoreP>, Vec<Nccl>)> {
    let (mut scoreps, mut nccls) = (Vec::new(), Vec::new());
    for anchor in anchors {
        let archive = Archive::open(anchor).context("cannot open an archive")?;
        if analysis::is_merged(&archive) {
            bail!("{} is merged already; merge Score-P's own archive with all of NCCL's at once", anchor.display());
        }
        if analysis::is_nccl(&archive) {
            nccls.push(Nccl::open(archive)?)
        } else {
            scoreps.push(ScoreP::open(archive)?)
        }
    }
    if scoreps.is_empty() {
        bail!(
            "all of these archives are NCCL's, none is Score-P's (Score-P traces only with SCOREP_ENABLE_TRACING=true)"
        );
    }
    if nccls.is_empty() {
        bail!("none of these is an NCCL archive");
    }
    Ok((scoreps, nccls))
}

/// Field names are those in the JSON of `nccl-otf2 merge`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report<'a> {
    /// `anchors`, or `guess`.
    pub clock: &'static str,
    pub scorep: Vec<ScorePArchive<'a>>,
    pub nccl: Vec<NcclArchive>,
    /// `None` for Scalasca.
    pub calls: Option<CallsReport<'a>>,
    pub pairs: Vec<PairReport<'a>>,
    /// Score-P processes that did not record NCCL.
    #[serde(skip)]
    pub without_nccl: u64,
    /// Whether the plugin already passed NCCL's calls to Score-P while the job ran.
    #[serde(skip)]
    pub has_calls_twice: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScorePArchive<'a> {
    pub anchor: String,
    pub creator: &'a str,
    /// `tsc`, `clock_gettime` or `gettimeofday`.
    pub timer: &'static str,
    pub ticks_per_second: u64,
    pub processes: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NcclArchive {
    pub anchor: String,
    pub processes: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PairReport<'a> {
    #[serde(flatten)]
    pub nccl: &'a pairing::Process,
    /// From the start of the trace to the process's first call; `None` without events.
    pub begins_after_ns: Option<i64>,
    pub by: By,
    pub scorep: &'a ProcessId,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallsReport<'a> {
    /// Threads whose calls are on Score-P's locations.
    pub on_score_p_locations: usize,
    pub own_locations: Vec<OwnLocations<'a>>,
}

/// Threads whose calls keep a separate location.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OwnLocations<'a> {
    pub threads: u64,
    pub reason: &'a str,
}

impl<'a> Report<'a> {
    pub(crate) fn new(inputs: &'a Inputs, calls: Option<&'a Calls>) -> Self {
        let paired: BTreeSet<_> = inputs.pairs.iter().map(|pair| pair.scorep).gather();
        let processes: usize = inputs.scoreps.iter().map(|scorep| scorep.processes.len()).sum();
        let scoreps = inputs.scoreps.iter().map(|scorep| ScorePArchive {
            anchor: scorep.archive.anchor_file().display().to_string(),
            creator: scorep.archive.creator(),
            timer: scorep.timer.name(),
            ticks_per_second: scorep.ticks_per_second,
            processes: scorep.processes.len(),
        });
        let nccls = inputs.nccls.iter().map(|nccl| NcclArchive {
            anchor: nccl.trace.anchor.display().to_string(),
            processes: nccl.processes.len(),
        });
        let calls = calls.map(|calls| CallsReport {
            on_score_p_locations: calls.threads.iter().flatten().count(),
            own_locations: calls.own.iter().map(|(reason, n)| OwnLocations { threads: *n, reason }).collect(),
        });
        Self {
            clock: inputs.clock(),
            scorep: scoreps.collect(),
            nccl: nccls.collect(),
            calls,
            pairs: inputs.pairs.iter().map(|pair| pair_report(inputs, pair)).collect(),
            without_nccl: (processes - paired.len()) as u64,
            has_calls_twice: inputs.scoreps.iter().any(|scorep| scorep.has_regions_of_nccl()),
        }
    }
}

fn pair_report<'a>(inputs: &'a Inputs, pair: &Pair) -> PairReport<'a> {
    let first = inputs.first();
    let begins = inputs.locals_of(pair).filter_map(|local| local.span()).map(|(begin, _)| begin).min();
    let after_ns =
        begins.map(|begin| (begin - i128::from(first.span.0)) * NS_PER_SECOND / i128::from(first.ticks_per_second));
    PairReport {
        nccl: inputs.ours(pair),
        begins_after_ns: after_ns.and_then(|ns| i64::try_from(ns).ok()),
        by: pair.by,
        scorep: &inputs.theirs(pair).id,
    }
}
