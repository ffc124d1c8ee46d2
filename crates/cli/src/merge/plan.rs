//! What is known before anything is written: the archives, which process is which, and how the clocks go together.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use otf2::Archive;

use super::clocks::{self, Local};
use super::nccl::Nccl;
use super::pairing::{self, Mapping, Pair};
use super::scorep::{self, ScoreP};
use super::several_traces;
use crate::archive::{is_merged, is_nccl};
use crate::place;

/// What is known before anything is written.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) scoreps: Vec<ScoreP>,
    pub(super) nccls: Vec<Nccl>,
    pub(super) pairs: Vec<Pair>,
    /// Of each archive of NCCL's.
    pub(super) locals: Vec<Vec<Local>>,
    pub(super) is_guess: bool,
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
            bail!("{} is merged already; merge Score-P's own archive with all of NCCL's at once", anchor.display());
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
    /// Finds out. `align_start`: where NCCL's first event lies, in seconds, without regard to the clocks.
    pub(super) fn of(archives: &[PathBuf], map: &[Mapping], align_start: Option<f64>) -> Result<Self> {
        let (mut scoreps, nccls) = open(archives)?;
        if scoreps.len() > 1 {
            if align_start.is_some() {
                bail!("--align-start is for one trace of Score-P's");
            }
            several_traces::refuse(&scoreps)?;
        }
        let mut pairs = pairing::pairs(&scoreps, &nccls, map)?;
        let locals: Result<Vec<Vec<Local>>> = nccls.iter().map(clocks::locals).collect();
        let mut locals = locals?;
        if scoreps.len() > 1 {
            several_traces::order(&mut scoreps, &nccls, &mut pairs);
            several_traces::align(&mut scoreps, &nccls, &pairs, &locals)?;
        }
        match (align_start, scoreps.first()) {
            (Some(seconds), Some(scorep)) => {
                clocks::by_guess(scorep, &mut locals, seconds);
            }
            _ => clocks::by_anchors(&scoreps, &nccls, &pairs, &mut locals)?,
        }
        Ok(Self { scoreps, nccls, pairs, locals, is_guess: align_start.is_some() })
    }

    /// How the clocks were brought together.
    pub(super) const fn clock(&self) -> &'static str {
        match self.is_guess {
            true => "guess",
            false => "anchors",
        }
    }
}
