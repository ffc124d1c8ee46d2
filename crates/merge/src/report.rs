//! The findings before anything is written.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use small_sort::Gather;

use crate::calls::Calls;
use crate::clock::NS_PER_SECOND;
use crate::inputs::Inputs;
use crate::nccl;
use crate::pairing::{By, Pair};
use crate::scorep::ProcessId;

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
    pub nccl: &'a nccl::Process,
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
    pub(crate) fn of(inputs: &'a Inputs, calls: Option<&'a Calls>) -> Self {
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
