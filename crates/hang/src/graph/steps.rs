//! Calls that make, split or end a communicator, which its ranks make together: who is in one, and for whom it waits.

use std::collections::BTreeMap;

use crate::graph::Reason;
use crate::job::{Actor, Comm, Job, NcclCall, Process, Rank, Step};
use crate::lifetimes::DiedBeforePeers;
use model::job::RecordingState;
use nccl_events::range::RangeField;
use nccl_events::sort::Gather;

/// Ranks in one such call.
#[derive(Clone, Debug)]
pub(crate) struct StepCall {
    /// An index of [`Job::comm`].
    pub(crate) comm: usize,
    /// Such as `ncclCommSplit`.
    pub(crate) name: String,
    pub(crate) step: Step,
    /// Whether it is known to wait for all ranks of the communicator.
    pub(crate) is_of_all: bool,
    pub(crate) callers: Vec<Actor>,
    /// Its ranks in `comm`, and for how long.
    pub(crate) waiters: Vec<(u32, u64)>,
    pub(crate) cause: Cause,
}

/// For whom the ranks in a step wait.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    Absent(Vec<u32>),
    Unsure(Vec<u32>),
    /// For nobody that is known, or for these, which are in the call.
    AllThere(Vec<(u32, Reason)>),
}

type Callers<'a> = BTreeMap<Actor, &'a NcclCall>;

/// Who waits in calls that make or end a communicator. NCCL's profiler interface lacks these calls; its NVTX ranges
/// show who is in one.
///
/// Of which communicator a call is, NCCL often states only when it returns. Then the ranks that are in it tell: a split
/// of three ranks is one of a communicator that they have in common.
pub(crate) fn steps(job: &Job, died: &DiedBeforePeers<'_>) -> Vec<StepCall> {
    let mut steps: BTreeMap<(Step, Option<u64>), Callers<'_>> = BTreeMap::new();
    for (process, of) in job.processes.iter().enumerate().filter(|(_, process)| shows_calls(process)) {
        for (&gpu, activity) in &of.activities {
            if let Some((step, call)) = activity.call.as_ref().and_then(|call| Some((call.step()?, call))) {
                let id = call.number(if step == Step::End { RangeField::CommId } else { RangeField::ParentCommId });
                steps.entry((step, id)).or_default().insert(Actor { process, gpu }, call);
            }
        }
    }
    let steps = steps.into_iter().map(|((step, id), callers)| Calls { job, died, step, id, callers });
    steps.filter_map(|calls| calls.step_call()).collect()
}

/// Whether each call that a rank is in would be seen.
const fn shows_calls(process: &Process) -> bool {
    process.shows_calls && process.is_whole
}

/// The ranks in a step of one communicator, as far as the communicator is known.
struct Calls<'a> {
    job: &'a Job,
    died: &'a DiedBeforePeers<'a>,
    step: Step,
    id: Option<u64>,
    callers: Callers<'a>,
}

/// How the ranks of a communicator take part in a step.
#[derive(Default)]
struct Parts {
    waiters: Vec<(u32, u64)>,
    /// Waiting ranks whose process is gone before the others, or stopped.
    held_up_by: Vec<(u32, Reason)>,
    /// How many have been through.
    over: usize,
    absent: Vec<u32>,
    unsure: Vec<u32>,
}

impl<'a> Calls<'a> {
    fn step_call(&self) -> Option<StepCall> {
        let (index, mut is_of_all) = self.comm();
        let comm = self.job.comm(index)?;
        let ranks = self.ranks();
        is_of_all |= ranks.is_some() && ranks == Some(comm.size as usize);
        let mut parts = self.parts((index, comm), is_of_all);
        match self.step {
            Step::Init => parts.absent.extend(comm.missing()),
            _ if is_of_all => parts.unsure.extend(comm.missing()),
            _ => {}
        }
        let all_entered = ranks.is_some_and(|ranks| self.callers.len() + parts.over >= ranks);
        // Most ranks have other things to do than to make a communicator of a few, once they have one.
        let is_of_few = !is_of_all && !self.job.comms.is_empty() && parts.absent.len() > self.callers.len();
        let name = self.callers.values().next()?.name.clone();
        let cause = match parts {
            Parts { held_up_by, .. } if all_entered || is_of_few => Cause::AllThere(held_up_by),
            Parts { absent, .. } if !absent.is_empty() => Cause::Absent(absent),
            Parts { unsure, .. } if !unsure.is_empty() => Cause::Unsure(unsure),
            Parts { held_up_by, .. } => Cause::AllThere(held_up_by),
        };
        let callers = self.callers.keys().copied().collect();
        let step = self.step;
        (!parts.waiters.is_empty()).then_some(StepCall {
            comm: index,
            name,
            step,
            is_of_all,
            callers,
            waiters: parts.waiters,
            cause,
        })
    }

    /// The communicator, and whether all its ranks take part.
    fn comm(&self) -> (usize, bool) {
        let everyone = (self.job.comms.len(), false);
        if self.step == Step::Init {
            return everyone;
        }
        let comms = self.job.comms.iter().enumerate().filter(|(_, comm)| self.may_be_of(comm));
        let mut comms: Vec<(usize, &Comm)> = comms.collect();
        if comms.iter().any(|(_, comm)| !has_ended(comm)) {
            comms.retain(|(_, comm)| !has_ended(comm));
        }
        let is_of_all = self.step.is_of_all();
        match comms.as_slice() {
            [] => everyone,
            [(index, _)] => (*index, is_of_all),
            [(first, comm), others @ ..] => {
                let actors = |comm: &Comm| comm.ranks.values().map(|rank| rank.actor).collect::<Vec<_>>();
                let is_same = others.iter().all(|(_, other)| actors(other) == actors(comm));
                let largest = comms.iter().rev().max_by_key(|(_, comm)| comm.ranks.len());
                let largest = largest.map_or(*first, |(index, _)| *index);
                (largest, is_of_all && is_same)
            }
        }
    }

    /// Whether all callers have this communicator, and what NCCL stated of their calls is true of it.
    fn may_be_of(&self, comm: &Comm) -> bool {
        let ranks: BTreeMap<Actor, (u32, &Rank)> =
            comm.ranks.iter().map(|(number, rank)| (rank.actor, (*number, rank))).gather();
        self.id.is_none_or(|id| id == comm.id)
            && self.callers.iter().all(|(actor, call)| {
                let is_stated = |(number, rank): &(u32, &Rank)| {
                    // With an id come the numbers of the new communicator; in 2.23 they are the parent's.
                    let stated = |field, number: u32| call.number(field).is_none_or(|value| value == u64::from(number));
                    let is_it = self.id.is_some()
                        || call.number(RangeField::CommId).is_some()
                        || stated(RangeField::Rank, *number) && stated(RangeField::Ranks, comm.size);
                    is_it && (self.step == Step::End || !rank.finalized)
                };
                ranks.get(actor).is_some_and(is_stated)
            })
    }

    /// The number of ranks of a communicator that is being made, if NCCL has stated it.
    fn ranks(&self) -> Option<usize> {
        let mut ranks = self.callers.values().map(|call| call.number(RangeField::Ranks));
        let first = ranks.next()?.filter(|_| self.step == Step::Init)?;
        ranks.all(|ranks| ranks == Some(first)).then(|| usize::try_from(first).ok())?
    }

    fn parts(&self, (index, comm): (usize, &Comm), is_of_all: bool) -> Parts {
        let mut parts = Parts::default();
        for (&number, rank) in &comm.ranks {
            let state = self.job.process_of(rank).map_or(RecordingState::Unknown, |process| process.state);
            if let Some(call) = self.callers.get(&rank.actor) {
                let is_gone = self.died.before_peers((index, number));
                let reason = if is_gone { Some(Reason::Gone) } else { None };
                let reason = reason.or_else(|| (state == RecordingState::Stopped).then_some(Reason::Stopped));
                parts.held_up_by.extend(reason.map(|reason| (number, reason)));
                if let Some(waited_ns) = self.job.waited_ns(rank, call.since_ns)
                    && (!is_gone || self.died.had_waited(waited_ns))
                {
                    parts.waiters.push((number, waited_ns));
                }
            } else if self.is_through(rank) {
                parts.over += 1;
            } else if state == RecordingState::Ended && !is_of_all {
                // It need not have had anything to do with this communicator.
            } else if self.job.process_of(rank).is_some_and(shows_calls) {
                parts.absent.push(number);
            } else {
                parts.unsure.push(number);
            }
        }
        let surest = parts.held_up_by.iter().map(|(_, reason)| *reason).min();
        parts.held_up_by.retain(|(_, reason)| Some(*reason) == surest);
        parts
    }

    /// Whether a rank that is not in the call has returned from it: the step that it took last ended after the others
    /// began, and it is not one step behind.
    fn is_through(&self, rank: &Rank) -> bool {
        let activity = |actor: &Actor| {
            let process = self.job.processes.get(actor.process)?;
            Some((process, process.activities.get(&actor.gpu)?))
        };
        let times = |actor: &Actor| {
            activity(actor).and_then(|(_, activity)| activity.taken.get(&self.step)).map_or(0, |taken| taken.times)
        };
        let fewest = self.callers.keys().map(times).min().unwrap_or(0);
        let began_ns = self.callers.values().map(|call| call.since_ns).min().unwrap_or(0);
        let is_later = activity(&rank.actor).is_some_and(|(process, activity)| {
            let is_counted = process.kept_since_ns.is_none();
            let is_next = |times: u64| !is_counted || times > fewest;
            activity.taken.get(&self.step).is_some_and(|taken| taken.last_ns >= began_ns && is_next(taken.times))
        });
        is_later || (self.step == Step::End && rank.finalized)
    }
}

fn has_ended(comm: &Comm) -> bool {
    comm.ranks.values().all(|rank| rank.finalized)
}
