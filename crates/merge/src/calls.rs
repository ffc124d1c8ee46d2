//! NCCL calls are placed between Score-P's events of the same thread, if Score-P has that thread and the regions of
//! both nest. Otherwise they keep a separate location.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use anyhow::{Context as _, Result};
use nccl_events::archive::LocationKind;
use otf2::verbatim::RecordKind;
use otf2::{EventKind, LocationRef};
use schema::definition::{Sibling, ThreadId};
use small_sort::Gather;

use crate::alignment::OwnTicks;
use crate::inputs::Inputs;
use crate::nesting::{self, Step};
use crate::pairing::Pair;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// For each NCCL archive, the threads whose calls are on Score-P's locations.
    pub(crate) threads: Vec<Vec<Thread>>,
    /// Number of threads that keep a separate location, by reason.
    pub(crate) own: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) ours: LocationRef,
    pub(crate) theirs: LocationRef,
    /// The order of both writers' events: whether the next one is NCCL's.
    pub(crate) order: Vec<bool>,
    pub(crate) ticks: OwnTicks,
}

impl Calls {
    pub(crate) fn of(inputs: &Inputs) -> Result<Self> {
        let mut calls = Self { threads: inputs.nccls.iter().map(|_| Vec::new()).collect(), own: BTreeMap::new() };
        let for_all = for_all(inputs);
        let mut taken = BTreeSet::new();
        for pair in &inputs.pairs {
            let known = match for_all {
                None => inputs.scorep(pair).threads(inputs.theirs(pair))?,
                Some(_) => BTreeMap::new(),
            };
            for (location, thread_id) in threads(inputs, pair) {
                let theirs = thread_id.and_then(|id| known.get(&id)).copied();
                let found = match (for_all, thread_id, theirs) {
                    (Some(reason), ..) => Err(reason),
                    (None, None, _) => Err("NCCL's archive does not say which threads they are"),
                    (None, Some(_), None) => Err("Score-P does not say that it has these threads"),
                    (.., Some(theirs)) if !taken.insert(theirs) => {
                        Err("another archive of NCCL's has the same threads")
                    }
                    (.., Some(theirs)) => thread(inputs, pair, location, theirs)?,
                };
                match found {
                    Ok(thread) => calls.threads[pair.nccl.archive].push(thread),
                    Err(reason) => *calls.own.entry(reason).or_default() += 1,
                }
            }
        }
        Ok(calls)
    }

    pub(crate) fn events(&self) -> BTreeMap<LocationRef, u64> {
        self.threads.iter().flatten().map(|thread| (thread.theirs, thread.order.len() as u64)).gather()
    }
}

fn for_all(inputs: &Inputs) -> Option<&'static str> {
    if inputs.is_guess {
        return Some("where NCCL's events lie is a guess");
    }
    match inputs.scoreps.as_slice() {
        [scorep] if scorep.has_regions_of_nccl() => {
            Some("Score-P was shown NCCL's calls while the job ran, they would be there twice (NCCL_OTF2_SCOREP=off)")
        }
        [_] => None,
        _ => Some("every process has a trace of its own"),
    }
}

/// The locations of a process's threads that call NCCL, with their system thread ids.
fn threads(inputs: &Inputs, pair: &Pair) -> Vec<(LocationRef, Option<u64>)> {
    let (trace, group) = (&inputs.nccl(pair).trace, inputs.ours(pair).group);
    let is_of_process = |it: &LocationRef| trace.process(trace.group(*it)) == group;
    let own = trace.locations_of(&[LocationKind::ApiThread]).into_iter().filter(is_of_process);
    own.filter(|it| trace.of_location(*it, Sibling).is_none()).map(|it| (it, trace.of_location(it, ThreadId))).collect()
}

/// The Score-P thread for a location, or the reason why its calls cannot be there.
fn thread(
    inputs: &Inputs,
    pair: &Pair,
    ours: LocationRef,
    theirs: LocationRef,
) -> Result<Result<Thread, &'static str>> {
    let scorep = inputs.scorep(pair);
    let Some(ticks) = OwnTicks::of(inputs, pair, ours)? else {
        return Ok(Err("they have no clock"));
    };
    let mut steps = Vec::new();
    let mut is_calls = true;
    inputs
        .nccl(pair)
        .trace
        .archive
        .for_each_event(&[ours], |_, event| {
            let step = match event.kind {
                EventKind::Enter(_) => Step::Enter,
                EventKind::Leave(_) => Step::Leave,
                EventKind::MeasurementOnOff(_) => Step::Other,
                _ => {
                    is_calls = false;
                    return ControlFlow::Break(());
                }
            };
            steps.push((ticks.at(event.time), step));
            ControlFlow::Continue(())
        })
        .context("cannot read NCCL's calls")?;
    if !is_calls {
        return Ok(Err("they have other events than calls"));
    }
    let records = scorep.records(theirs)?;
    let their_steps = records.as_slice().iter().map(|record| {
        let step = match record.kind {
            RecordKind::Enter(_) | RecordKind::CallingContextEnter => Step::Enter,
            RecordKind::Leave(_) | RecordKind::CallingContextLeave => Step::Leave,
            RecordKind::MpiCollectiveEnd | RecordKind::Other => Step::Other,
        };
        (record.time, step)
    });
    Ok(nesting::order(their_steps, &steps).map(|order| Thread { ours, theirs, order, ticks }))
}
