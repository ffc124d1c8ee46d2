//! The collectives of a communicator: how far ranks got, and who waits in the first incomplete one, and for whom. Also
//! who waits in calls that make or end a communicator.

use std::collections::BTreeMap;

use crate::job::{Actor, Call, Comm, Job, NcclCall, Process, Rank, Sequence, Stage, Step, Tail};
use crate::judge::blockage;
use crate::judge::blockage::{Blockage, Cause, DiedBeforePeers, Mismatch, Operation, Position, Reason, StepCall};
use model::job::RecordingState;
use nccl_events::range::RangeField;
use nccl_events::sort::Gather;

/// How many positions after the first incomplete one are searched for mismatched calls.
const MISMATCH_POSITIONS: u64 = 64;

pub(crate) struct Collectives<'a> {
    job: &'a Job,
    died: &'a DiedBeforePeers<'a>,
    index: usize,
    comm: &'a Comm,
    sequence: Sequence,
    ranks: Vec<(u32, &'a Rank)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressOfRanks {
    /// The last position that all recorded ranks completed. If false, all called it but its end is not recorded.
    pub(crate) last_complete: Option<(u64, bool)>,
    pub(crate) first_incomplete: Option<u64>,
    pub(crate) mismatch: Option<Mismatch>,
}

fn numbers(ranks: &[(u32, &Rank)]) -> Vec<u32> {
    ranks.iter().map(|(number, _)| *number).collect()
}

impl<'a> Collectives<'a> {
    pub(crate) fn new(
        job: &'a Job,
        died: &'a DiedBeforePeers<'a>,
        (index, comm): (usize, &'a Comm),
        sequence: Sequence,
    ) -> Self {
        Self { job, died, index, comm, sequence, ranks: sequence.ranks(comm).collect() }
    }

    fn tails(&self) -> impl Iterator<Item = &'a Tail> {
        self.ranks.iter().map(|(_, rank)| self.sequence.tail(rank)).filter(|tail| tail.has_positions())
    }

    /// The tails with operations: parts whose journal is removed only have a count.
    fn kept_tails(&self) -> impl Iterator<Item = &'a Tail> {
        self.tails().filter(|tail| !tail.list.is_empty())
    }

    pub(crate) fn progress(&self) -> ProgressOfRanks {
        let first = self.kept_tails().map(|tail| tail.before).min().unwrap_or(0);
        let end = self.tails().map(Tail::count).max().unwrap_or(0);
        let counts = |rank: &Rank| self.sequence.tail(rank).has_positions() && self.job.is_whole(rank);
        let whole: Vec<(u32, &Rank)> = self.ranks.iter().copied().filter(|(_, rank)| counts(rank)).collect();
        let all_entered = |position| whole.iter().all(|(_, rank)| self.sequence.tail(rank).count() > position);
        let mut progress = ProgressOfRanks::default();
        if first > 0 && self.tails().all(|tail| tail.count() >= first) {
            progress.last_complete = Some((first - 1, true));
        }
        for position in first..end {
            let entered = EnteredRanks::at(self, position);
            if !all_entered(position) || entered.is_open() {
                // Ranks that are ahead may no longer have records of this position.
                let ahead = self.kept_tails().filter(|tail| tail.count() > position);
                progress.first_incomplete = Some(ahead.map(|tail| tail.before.max(position)).min().unwrap_or(position));
                break;
            }
            progress.last_complete = Some((position, entered.is_surely_complete()));
        }
        // After a mismatch, calls can differ at every position: the first mismatch counts.
        let last =
            progress.first_incomplete.map_or(end, |position| end.min(position.saturating_add(MISMATCH_POSITIONS)));
        let from_beginning = self.sequence.is_from_beginning(self.comm);
        progress.mismatch =
            (first..last).find_map(|position| blockage::find_mismatch(&whole, self.sequence, from_beginning, position));
        progress
    }

    /// The ranks waiting at the first incomplete position, and why; `None` if the only rank there has just entered.
    pub(crate) fn blockage(&self, progress: &ProgressOfRanks) -> Option<Blockage> {
        let Some(position) = progress.first_incomplete else {
            return self.blockage_at_unknown_position();
        };
        let entered = EnteredRanks::at(self, position);
        let (absent, unsure) = self.not_entered(position);
        let waiters = entered.waiters(!absent.is_empty());
        let (_, _, first) = entered.calls.first().filter(|_| !waiters.is_empty())?;
        let position = Position {
            index: Some(position),
            from_beginning: self.sequence.is_from_beginning(self.comm),
            sequence: entered.calls.iter().find_map(|(_, _, call)| call.sequence),
        };
        let operation = Operation::Collective { sequence: self.sequence, position, what: first.what.clone() };
        Some(Blockage { comm: self.index, operation, waiters, cause: self.cause(progress, &entered, absent, unsure) })
    }

    /// Ranks of flight recordings that wait at an unknown position. Ranks that do not wait may be behind.
    fn blockage_at_unknown_position(&self) -> Option<Blockage> {
        let sequence = self.sequence;
        let (open, others): (Vec<_>, Vec<_>) = self.ranks.iter().copied().partition(|(number, rank)| {
            let tail = sequence.tail(rank);
            tail.first_open().is_some() && !tail.has_positions() && !self.died.before_peers((self.index, *number))
        });
        let call = |rank| sequence.tail(rank).first_open();
        let first = open.first().and_then(|(_, rank)| call(rank))?;
        let waited =
            |(number, rank): &(u32, &'a Rank)| Some((*number, self.job.waited_ns(rank, call(rank)?.entered_ns)?));
        let waiters: Vec<(u32, u64)> = open.iter().filter_map(waited).collect();
        let mut others = numbers(&others);
        if sequence == Sequence::Calls {
            others.extend(self.comm.missing());
        }
        let position = Position { index: None, from_beginning: false, sequence: first.sequence };
        (!waiters.is_empty()).then(|| Blockage {
            comm: self.index,
            operation: Operation::Collective { sequence, position, what: first.what.clone() },
            waiters,
            cause: if others.is_empty() { Cause::AllEntered(Vec::new()) } else { Cause::Unrecorded(others) },
        })
    }

    /// The ranks that did not enter a position, and the ranks that may or may not have entered.
    fn not_entered(&self, position: u64) -> (Vec<u32>, Vec<u32>) {
        let tail = |rank| self.sequence.tail(rank);
        let (placed, unknown): (Vec<_>, Vec<_>) =
            self.ranks.iter().copied().partition(|(_, rank)| tail(rank).has_positions());
        let behind = placed.into_iter().filter(|(_, rank)| tail(rank).count() <= position);
        let (absent, mut unsure): (Vec<_>, Vec<_>) = behind.partition(|(_, rank)| self.job.is_whole(rank));
        // Of the ranks at unknown positions, prefers those that do not wait.
        let (waiting, idle): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|(_, rank)| tail(rank).first_open().is_some());
        unsure.extend(if idle.is_empty() { waiting } else { idle });
        (numbers(&absent), numbers(&unsure))
    }

    fn cause(
        &self,
        progress: &ProgressOfRanks,
        entered: &EnteredRanks<'_>,
        absent: Vec<u32>,
        mut unsure: Vec<u32>,
    ) -> Cause {
        let missing = match self.sequence {
            Sequence::Calls => self.comm.missing(),
            Sequence::Replays => Vec::new(),
        };
        // If an earlier operation completed without the missing ranks, they record elsewhere or not at all.
        let are_elsewhere = progress.last_complete.is_some_and(|(_, is_sure)| is_sure);
        match &progress.mismatch {
            Some(mismatch) if mismatch.position <= entered.position => Cause::Mismatch(mismatch.clone()),
            _ if !absent.is_empty() => Cause::Absent(absent),
            _ if unsure.is_empty() && !missing.is_empty() && !are_elsewhere => Cause::Absent(missing),
            _ if unsure.is_empty() && missing.is_empty() => Cause::AllEntered(entered.held_up_by()),
            _ => {
                unsure.extend(missing);
                Cause::Unrecorded(unsure)
            }
        }
    }
}

/// The ranks that entered a position, as far as their calls are kept.
struct EnteredRanks<'a> {
    collectives: &'a Collectives<'a>,
    position: u64,
    calls: Vec<(u32, &'a Rank, &'a Call)>,
    /// Whether a process was gone before the others, in the middle of this collective.
    is_broken: bool,
}

impl<'a> EnteredRanks<'a> {
    fn at(of: &'a Collectives<'a>, position: u64) -> Self {
        let call = |&(number, rank): &(u32, &'a Rank)| Some((number, rank, of.sequence.tail(rank).at(position)?));
        let mut entered =
            Self { collectives: of, position, calls: of.ranks.iter().filter_map(call).collect(), is_broken: false };
        let mut calls = entered.calls.iter();
        entered.is_broken = calls.any(|(rank, _, call)| entered.is_outlived(*rank) && !call.progress.stage.is_over());
        entered
    }

    fn is_outlived(&self, number: u32) -> bool {
        self.collectives.died.before_peers((self.collectives.index, number))
    }

    /// Whether ended transfers may have failed because a process died: the program made no later call.
    fn may_have_failed(&self, rank: &Rank, call: &Call) -> bool {
        let is_last = self.collectives.sequence.tail(rank).count() == self.position + 1;
        self.is_broken && is_last && call.progress.stage == Stage::Transferred && call.what.needs_all()
    }

    /// Whether the rank would have a record of its end. If the rank's records are incomplete, that is unknown once
    /// another rank has completed the call and made a later one.
    fn shows_ends(&self, rank: &Rank) -> bool {
        let continued = |(_, other, call): &(u32, &Rank, &Call)| {
            call.progress.stage.is_over() && self.collectives.sequence.tail(other).count() > self.position + 1
        };
        self.collectives.job.is_whole(rank) || !self.calls.iter().any(continued)
    }

    /// Whether a rank that was not outlived is known not to have completed the collective.
    fn is_open(&self) -> bool {
        let mut alive =
            self.calls.iter().filter(|(number, rank, _)| !self.is_outlived(*number) && self.shows_ends(rank));
        alive.any(|(_, rank, call)| call.progress.stage.is_open() || self.may_have_failed(rank, call))
    }

    /// Whether all ranks with kept operations are known to have completed the collective.
    fn is_surely_complete(&self) -> bool {
        self.calls.len() == self.collectives.kept_tails().count()
            && self.calls.iter().all(|(_, _, call)| call.progress.stage.is_over())
    }

    fn waiters(&self, some_are_absent: bool) -> Vec<(u32, u64)> {
        let waiter = |&(number, rank, call): &(u32, &'a Rank, &'a Call)| {
            let has_failed = some_are_absent && call.what.needs_all();
            let is_waiting = !call.progress.stage.is_over() || has_failed || self.may_have_failed(rank, call);
            let waited_ns = self.collectives.job.waited_ns(rank, call.entered_ns)?;
            let is_there = !self.is_outlived(number) || some_are_absent && self.collectives.died.had_waited(waited_ns);
            (is_waiting && is_there && self.shows_ends(rank)).then_some((number, waited_ns))
        };
        self.calls.iter().filter_map(waiter).collect()
    }

    /// The ranks that delay a collective that all have entered, for the most certain reason.
    fn held_up_by(&self) -> Vec<(u32, Reason)> {
        let others_began = self.calls.iter().any(|(_, _, call)| call.progress.began);
        let reason = |number: u32, rank: &Rank, call: &Call| {
            let waits = &call.progress.waits;
            let is_for_gpu = waits.iter().all(|wait| !wait.state.is_for_peer() && wait.step.is_some());
            match call.progress.stage {
                stage if stage.is_over() => None,
                _ if self.is_outlived(number) => Some(Reason::Gone),
                _ if self.collectives.job.has_state(rank, RecordingState::Stopped) => Some(Reason::Stopped),
                Stage::Calling | Stage::Launching => Some(Reason::InTheCall),
                _ if waits.is_empty() || !is_for_gpu => None,
                _ if others_began && !call.progress.began => Some(Reason::NotBegun),
                _ => Some(Reason::Gpu),
            }
        };
        let calls = self.calls.iter();
        let mut found: Vec<(u32, Reason)> =
            calls.filter_map(|(number, rank, call)| Some((*number, reason(*number, rank, call)?))).collect();
        let surest = found.iter().map(|(_, reason)| *reason).min();
        found.retain(|(_, reason)| Some(*reason) == surest);
        // If all ranks do, none is singled out.
        if found.len() == self.calls.len() && surest > Some(Reason::Stopped) {
            found.clear();
        }
        found
    }
}

type Callers<'a> = BTreeMap<Actor, &'a NcclCall>;

/// Who waits in calls that make or end a communicator. NCCL's profiler interface lacks these calls; its NVTX ranges
/// show who is in one.
///
/// Of which communicator a call is, NCCL often states only when it returns. Then the ranks that are in it tell: a split
/// of three ranks is one of a communicator that they have in common.
pub(crate) fn blocked_communicator_calls(job: &Job, died: &DiedBeforePeers<'_>) -> Vec<Blockage> {
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
    steps.filter_map(|calls| calls.blockage()).collect()
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
    fn blockage(&self) -> Option<Blockage> {
        let (index, knows_comm, mut is_of_all) = self.comm();
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
            Parts { held_up_by, .. } if all_entered || is_of_few => Cause::AllEntered(held_up_by),
            Parts { absent, .. } if !absent.is_empty() => Cause::Absent(absent),
            Parts { unsure, .. } if !unsure.is_empty() => Cause::Unrecorded(unsure),
            Parts { held_up_by, .. } => Cause::AllEntered(held_up_by),
        };
        let operation = Operation::Step(StepCall { name, knows_comm, is_of_all, is_end: self.step == Step::End });
        (!parts.waiters.is_empty()).then_some(Blockage { comm: index, operation, waiters: parts.waiters, cause })
    }

    /// The communicator, whether it is known, and whether all its ranks take part.
    fn comm(&self) -> (usize, bool, bool) {
        let everyone = (self.job.comms.len(), false, false);
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
            [(index, _)] => (*index, true, is_of_all),
            [(first, comm), others @ ..] => {
                let actors = |comm: &Comm| comm.ranks.values().map(|rank| rank.actor).collect::<Vec<_>>();
                let is_same = others.iter().all(|(_, other)| actors(other) == actors(comm));
                let largest = comms.iter().rev().max_by_key(|(_, comm)| comm.ranks.len());
                let largest = largest.map_or(*first, |(index, _)| *index);
                (largest, false, is_of_all && is_same)
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
