//! Merges NCCL's archives into the trace that Score-P made of the same job.
//!
//! ```text
//!  scorep, nccl      the contents of the archives: processes, clocks
//!  pairing           pairs the processes of NCCL's archives with Score-P's
//!  inputs            the archives, the pairs, and the clock of every location
//!  several_traces    joins Score-P traces of one process each into one
//!  clock, alignment  from the time of NCCL's events to that of the trace
//!  calls, nesting    finds NCCL's threads that are Score-P's, if the calls of both nest
//!  definitions       Score-P's unchanged, followed by NCCL's with new numbers
//!  output            links event files, writes definitions and anchor, and reads everything back
//!  scalasca          in place of calls and output: NCCL's operations as MPI's, between Score-P's events
//!  report            the findings, for people and programs
//! ```
//!
//! Mapping tables and clock offsets in local definitions relate NCCL's event files to the merged archive. Only event
//! files of Score-P locations that get NCCL calls are rewritten.

#![forbid(unsafe_code)]

mod alignment;
mod calls;
mod clock;

mod definitions;
mod inputs;
mod nccl;
mod nesting;
mod output;
mod pairing;
mod report;
mod scalasca;
mod scorep;
mod several_traces;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use nccl_events::Progress;
use otf2::Archive;

use calls::Calls;
use inputs::Inputs;
use nccl::Nccl;
use scorep::ScoreP;

pub use nccl::Process as NcclProcess;
pub use output::Written;
pub use pairing::{By, Mapping};
pub use report::{CallsReport, NcclArchive, OwnLocations, PairReport, Report, ScorePArchive};
pub use scorep::{ProcessId, SETTINGS};

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
    pub fn of(anchors: &[PathBuf], map: &[Mapping], align_start: Option<f64>, readers: Readers) -> Result<Self> {
        let (scoreps, nccls) = open(anchors)?;
        let is_several = scoreps.len() > 1;
        if is_several {
            if align_start.is_some() {
                bail!("--align-start is for one trace of Score-P's");
            }
            several_traces::refuse(&scoreps)?;
        }
        let pairs = pairing::pairs(&scoreps, &nccls, map)?;
        let locals = nccls.iter().map(alignment::locals).collect::<Result<_>>()?;
        let mut inputs = Inputs { scoreps, nccls, pairs, locals, is_guess: align_start.is_some() };
        if is_several {
            several_traces::order(&mut inputs);
            several_traces::align(&mut inputs)?;
        }
        match align_start {
            Some(seconds) => alignment::by_guess(&mut inputs, seconds),
            None => alignment::by_anchors(&mut inputs)?,
        }
        let calls = match readers {
            Readers::All => Some(Calls::of(&inputs)?),
            Readers::Scalasca => None,
        };
        Ok(Self { inputs, calls })
    }

    pub fn report(&self) -> Report<'_> {
        Report::of(&self.inputs, self.calls.as_ref())
    }

    /// Writes the merged archive into an empty directory and reads it back. After an error the directory is unusable.
    pub fn write(&self, directory: &Path, progress: &dyn Progress) -> Result<Written> {
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
        match analysis::is_nccl(&archive) {
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
        bail!("no archive of NCCL is among these");
    }
    Ok((scoreps, nccls))
}
