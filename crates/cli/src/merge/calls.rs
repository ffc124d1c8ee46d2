//! Calls of NCCL's lie between the events of Score-P's on the same thread, where Score-P has that thread and the
//! regions of both nest. Else they keep a location of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use analysis::stated;
use anyhow::{Context as _, Result};
use nccl_events::archive::LocationKind;
use otf2::{EventKind, LocationRef};
use schema::definition::{self, Sibling, ThreadId};

use super::clocks::OwnTicks;
use super::nccl::Nccl;
use super::nesting::{self, Step};
use super::pairing::Pair;
use super::plan::Plan;
use super::records::Records;

/// Where the calls of all threads are.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Of each archive of NCCL's: those on locations of Score-P's.
    pub(super) threads: Vec<Vec<Thread>>,
    /// How many threads keep a location of their own, and why.
    pub(super) own: BTreeMap<String, u64>,
}

/// A thread whose calls are on Score-P's location of it.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its location in NCCL's archive.
    pub(super) ours: LocationRef,
    /// Its location in Score-P's.
    pub(super) theirs: LocationRef,
    /// The order of the events of both: whether the next one is NCCL's.
    pub(super) order: Vec<bool>,
    /// When the events of NCCL's are there.
    pub(super) ticks: OwnTicks,
}

impl Calls {
    /// Finds out, and writes nothing.
    pub(super) fn of(plan: &Plan) -> Result<Self> {
        let mut calls = Self { threads: plan.nccls.iter().map(|_| Vec::new()).collect(), own: BTreeMap::new() };
        let for_all = for_all(plan);
        let mut taken = BTreeSet::new();
        for pair in &plan.pairs {
            let (Some(scorep), Some(nccl)) = (plan.scoreps.get(pair.scorep.0), plan.nccls.get(pair.nccl.0)) else {
                continue;
            };
            let known = match (for_all, scorep.processes.get(pair.scorep.1)) {
                (None, Some(process)) => scorep.threads(process)?,
                _ => BTreeMap::new(),
            };
            for (location, thread_id) in threads(nccl, pair) {
                let theirs = thread_id.and_then(|id| known.get(&id)).copied();
                let found = match (for_all, thread_id, theirs) {
                    (Some(reason), ..) => Err(reason.to_owned()),
                    (None, None, _) => Err("NCCL's archive does not say which threads they are".to_owned()),
                    (None, Some(_), None) => Err("Score-P does not say that it has these threads".to_owned()),
                    (.., Some(theirs)) if !taken.insert(theirs) => {
                        Err("another archive of NCCL's has the same threads".to_owned())
                    }
                    (.., Some(theirs)) => thread(plan, pair, location, theirs)?,
                };
                match found {
                    Ok(thread) => calls.threads.get_mut(pair.nccl.0).context("an archive")?.push(thread),
                    Err(reason) => *calls.own.entry(reason).or_default() += 1,
                }
            }
        }
        Ok(calls)
    }

    /// How many threads have their calls on locations of Score-P's.
    pub(super) fn on_theirs(&self) -> u64 {
        self.threads.iter().flatten().count() as u64
    }

    /// The locations of an archive of NCCL's whose events are on Score-P's, and those.
    pub(super) fn locations(&self, archive: usize) -> BTreeMap<LocationRef, LocationRef> {
        let threads = self.threads.get(archive).into_iter().flatten();
        threads.map(|thread| (thread.ours, thread.theirs)).collect()
    }

    /// How many events the locations of Score-P's have then.
    pub(super) fn events(&self) -> BTreeMap<LocationRef, u64> {
        self.threads.iter().flatten().map(|thread| (thread.theirs, thread.order.len() as u64)).collect()
    }
}

/// Why all threads keep their locations.
fn for_all(plan: &Plan) -> Option<&'static str> {
    if plan.is_guess {
        return Some("where NCCL's events lie is a guess");
    }
    match plan.scoreps.as_slice() {
        [scorep] if scorep.has_regions_of_nccl() => {
            Some("Score-P was shown NCCL's calls while the job ran, they would be there twice (NCCL_OTF2_SCOREP=off)")
        }
        [_] => None,
        _ => Some("every process has a trace of its own"),
    }
}

/// The locations of the threads of a process that call NCCL, with the system's numbers of the threads.
fn threads(nccl: &Nccl, pair: &Pair) -> Vec<(LocationRef, Option<u64>)> {
    let definitions = &nccl.definitions;
    let group = nccl.processes.get(pair.nccl.1).map(|process| process.group);
    let mut threads = Vec::new();
    for (location, definition) in &definitions.locations {
        let properties = &definition.properties;
        let kind = stated(definitions, properties, definition::LocationKind);
        let is_of_process = nccl.process_of(*location) == group && definition.number_of_events > 0;
        if is_of_process && kind == Some(LocationKind::ApiThread) && stated(definitions, properties, Sibling).is_none()
        {
            threads.push((*location, stated(definitions, properties, ThreadId)));
        }
    }
    threads
}

/// A thread that Score-P has, or why its calls cannot be there.
fn thread(plan: &Plan, pair: &Pair, ours: LocationRef, theirs: LocationRef) -> Result<Result<Thread, String>> {
    let (Some(scorep), Some(nccl)) = (plan.scoreps.get(pair.scorep.0), plan.nccls.get(pair.nccl.0)) else {
        return Ok(Err("an archive is not there".to_owned()));
    };
    let mut locals = plan.locals.get(pair.nccl.0).into_iter().flatten();
    let local = locals.find(|local| local.locations.contains(&ours));
    let ticks = match (local, scorep.processes.get(pair.scorep.1)) {
        (Some(local), Some(process)) => OwnTicks::of(scorep, process, local)?,
        _ => None,
    };
    let Some(ticks) = ticks else {
        return Ok(Err("they have no clock".to_owned()));
    };
    let mut steps = Vec::new();
    let mut is_calls = true;
    nccl.archive
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
        return Ok(Err("they have other events than calls".to_owned()));
    }
    let records = Records::read(&scorep.archive.event_file(theirs))?;
    let order = nesting::order(records.all.iter().map(nesting::step), &steps);
    Ok(order.map(|order| Thread { ours, theirs, order, ticks }).map_err(str::to_owned))
}
