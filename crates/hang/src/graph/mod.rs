//! Who waits for what: one graph of a job at one moment. A cycle is a deadlock, and without one each path ends at
//! something that waits for nothing.
//!
//! ```text
//!  part ──► the part before it on its stream          part ──► meeting ──► a member's part, or the member
//!  member ──► one of its parts, or its call           call ──► the parts that it starts, or its step ──► members
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::graph::parts::{Described, PartId, PartStage, Queue};
use crate::graph::play::{MeetingId, Others, Played};
use crate::graph::steps::{Cause, StepCall};
use crate::job::{Actor, Job, Member, OpenCall, Rank};
use crate::lifetimes::DiedBeforePeers;
use model::job::RecordingState;

pub(crate) mod cycles;
pub(crate) mod parts;
pub(crate) mod play;
pub(crate) mod steps;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Vertex {
    Part(PartId),
    Meeting(MeetingId),
    /// A rank outside of the operation that others wait in.
    Member(Member),
    /// The same of a rank that may have called it: its records are incomplete.
    Unsure(Member),
    /// A GPU's rank in a call of NCCL that has not returned.
    Call(Actor),
    /// An index in [`Graph::steps`].
    Step(usize),
}

/// Why one waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    BehindOnStream,
    BehindInComm,
    BehindOnThread,
    BehindOnGpu,
    NeedsOthers,
    HasNotBegun,
    HasNotCalled,
    /// Its records are incomplete.
    MayNotHaveCalled,
    /// The program may wait for its GPU, which no record shows.
    MayWait,
    InCall,
}

impl Why {
    pub(crate) const fn is_inferred(self) -> bool {
        matches!(self, Self::MayWait | Self::BehindOnThread)
    }
}

/// What waits for nothing, and why it does not go on: what names somebody surely, first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Mismatch,
    Deadlock,
    /// No records, and it never took part.
    NeverCame,
    /// It came back from a call that makes a communicator without one.
    InitFailed,
    /// The program has opened a group and not ended it.
    GroupOpen,
    Stopped,
    Gone,
    /// The process has ended its recording, or this communicator.
    Ended,
    /// It runs, is outside of NCCL, and has not called the operation.
    NotCalled,
    /// It is on another host and silent.
    Silent,
    /// It may have called the operation: its records are incomplete.
    Unrecorded,
    /// It is in a call of NCCL that does not return.
    InTheCall,
    /// Its kernel has not begun, unlike those of others.
    NotBegun,
    /// Its proxy waits only for its own GPU.
    Gpu,
    Making,
    Ending,
    /// All began, and no record shows who delays it.
    Running,
}

impl Reason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mismatch => "mismatch",
            Self::Deadlock => "deadlock",
            Self::NeverCame => "never-came",
            Self::InitFailed => "init-failed",
            Self::GroupOpen => "group-open",
            Self::Stopped => "stopped",
            Self::Gone => "gone",
            Self::Ended => "ended",
            Self::NotCalled => "not-called",
            Self::Silent => "silent",
            Self::Unrecorded => "unrecorded",
            Self::InTheCall => "in-the-call",
            Self::NotBegun => "kernel-not-begun",
            Self::Gpu => "gpu",
            Self::Making => "making",
            Self::Ending => "ending",
            Self::Running => "running",
        }
    }

    /// Whether it names a rank that is itself in no wait.
    pub(crate) const fn is_hard(self) -> bool {
        matches!(
            self,
            Self::NeverCame
                | Self::InitFailed
                | Self::GroupOpen
                | Self::Stopped
                | Self::Gone
                | Self::Ended
                | Self::NotCalled
                | Self::Silent
        )
    }
}

/// A rank that waits for nothing: it holds up what waits for it.
pub(crate) type Sink = (Member, Reason);

pub(crate) struct Graph<'a> {
    pub(crate) played: &'a Played<'a>,
    died: &'a DiedBeforePeers<'a>,
    pub(crate) steps: Vec<StepCall>,
    pub(crate) edges: BTreeMap<Vertex, Vec<(Vertex, Why)>>,
    pub(crate) sinks: BTreeMap<Vertex, Vec<Sink>>,
    /// What ranks wait in that is left of their communicators.
    pub(crate) starts: Vec<Vertex>,
    waiting: BTreeMap<Actor, Vec<PartId>>,
    members: BTreeMap<Actor, Member>,
}

impl<'a> Graph<'a> {
    /// The graph of what is left. `is_live`: ranks may still call NCCL; else only what was called counts.
    pub(crate) fn new(played: &'a Played<'a>, died: &'a DiedBeforePeers<'a>, is_live: bool) -> Self {
        let job = played.job;
        let mut graph = Self {
            played,
            died,
            steps: if is_live { steps::steps(job, died) } else { Vec::new() },
            edges: BTreeMap::new(),
            sinks: BTreeMap::new(),
            starts: Vec::new(),
            waiting: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        for (index, comm) in job.comms.iter().chain([&job.everyone]).enumerate() {
            for (number, rank) in &comm.ranks {
                graph.members.entry(rank.actor).or_insert((index, *number));
            }
        }
        for part in played.waiting() {
            let Some(found) = played.parts.get(part) else { continue };
            // What is left of an ended communicator ended with it.
            if is_live && job.member(found.member).is_some_and(|rank| rank.finalized) {
                continue;
            }
            graph.waiting.entry(found.actor).or_default().push(part);
            graph.starts.push(Vertex::Part(part));
        }
        if is_live {
            let calls = job.everyone.ranks.values().filter(|rank| graph.open_call(rank).is_some());
            let calls: Vec<Vertex> = calls.map(|rank| Vertex::Call(rank.actor)).collect();
            graph.starts.extend(calls);
        }
        graph.build();
        graph
    }

    fn build(&mut self) {
        let mut to_do: VecDeque<Vertex> = self.starts.iter().copied().collect();
        while let Some(vertex) = to_do.pop_front() {
            if self.edges.contains_key(&vertex) {
                continue;
            }
            let (edges, sinks) = match vertex {
                Vertex::Part(part) => self.part(part),
                Vertex::Meeting(meeting) => self.meeting(meeting),
                Vertex::Member(member) => self.member(member, false),
                Vertex::Unsure(member) => self.member(member, true),
                Vertex::Call(actor) => self.call(actor),
                Vertex::Step(step) => self.step(step),
            };
            to_do.extend(edges.iter().map(|(to, _)| *to));
            if edges.is_empty() && !sinks.is_empty() {
                self.sinks.insert(vertex, sinks);
            }
            self.edges.insert(vertex, edges);
        }
    }

    const fn job(&self) -> &'a Job {
        self.played.job
    }

    /// The call of NCCL that a rank of the job is in, if it is one that waits for others.
    fn open_call(&self, rank: &Rank) -> Option<u64> {
        let calls = self.open_calls(rank.actor).map(|call| call.since_ns);
        let of_range = rank.activity.call.as_ref();
        let of_range = of_range.filter(|call| call.name != "ncclGroupStart" && call.name != ABORT);
        calls.chain(of_range.map(|call| call.since_ns)).min()
    }

    fn open_calls(&self, actor: Actor) -> impl Iterator<Item = &'a OpenCall> {
        let ranks = self.job().comms.iter().flat_map(|comm| comm.ranks.values());
        ranks.filter(move |rank| rank.actor == actor).flat_map(|rank| &rank.open_calls).filter(|call| call.is_in_nccl)
    }

    fn part(&self, id: PartId) -> Outcome {
        let Some(part) = self.played.parts.get(id) else { return Outcome::default() };
        if !self.played.is_first(id) {
            let before = self.played.before(id).into_iter().map(|(before, queue)| {
                let why = match queue {
                    Queue::Stream(..) => Why::BehindOnStream,
                    Queue::Comm(..) => Why::BehindInComm,
                    Queue::Thread(..) => Why::BehindOnThread,
                    Queue::Gpu(_) => Why::BehindOnGpu,
                };
                (Vertex::Part(before), why)
            });
            return (before.collect(), Vec::new());
        }
        if part.stage == PartStage::GroupOpen {
            return (Vec::new(), vec![(part.member, Reason::GroupOpen)]);
        }
        let meetings = self.played.meetings_of(id).iter();
        let edges: Vec<_> = meetings.map(|meeting| (Vertex::Meeting(*meeting), Why::NeedsOthers)).collect();
        if !edges.is_empty() {
            return (edges, Vec::new());
        }
        if part.stage == PartStage::Calling && self.is_incomplete(part.member) {
            return (Vec::new(), vec![(part.member, Reason::Unrecorded)]);
        }
        if part.stage == PartStage::Calling {
            let outside = self.outside(part.member.0);
            let sinks = if outside.is_empty() { vec![(part.member, Reason::InTheCall)] } else { Vec::new() };
            return (outside, sinks);
        }
        // Which of its communicator's operations it is, is not known: ranks that wait in nothing may be behind.
        let (comm, _) = part.member;
        let ranks = self.job().comms.get(comm).into_iter().flat_map(|comm| &comm.ranks);
        let idle = ranks.filter(|(_, rank)| !self.waiting.contains_key(&rank.actor));
        let idle: Vec<_> = idle.map(|(number, _)| (Vertex::Unsure((comm, *number)), Why::MayNotHaveCalled)).collect();
        let sinks = if idle.is_empty() { vec![(part.member, Reason::Running)] } else { Vec::new() };
        (idle, sinks)
    }

    /// Whether records of a rank may be missing: then a call without an end need not be where it is.
    fn is_incomplete(&self, member: Member) -> bool {
        self.job().member(member).is_some_and(|rank| !self.job().is_whole(rank))
    }

    /// The ranks of a communicator that are in no call of NCCL and wait in nothing, if most others are in one.
    fn outside(&self, comm: usize) -> Vec<(Vertex, Why)> {
        let Some(comm_of) = self.job().comms.get(comm) else { return Vec::new() };
        let is_inside = |rank: &Rank| self.waiting.contains_key(&rank.actor) || self.is_in_call(rank);
        let (inside, outside): (Vec<_>, Vec<_>) = comm_of.ranks.iter().partition(|(_, rank)| is_inside(rank));
        let are_known = outside.iter().all(|(_, rank)| self.job().is_whole(rank) && !rank.finalized);
        if !are_known || !comm_of.missing().is_empty() || outside.len() > inside.len() {
            return Vec::new();
        }
        outside.into_iter().map(|(number, _)| (Vertex::Member((comm, *number)), Why::MayNotHaveCalled)).collect()
    }

    fn meeting(&self, id: MeetingId) -> Outcome {
        let Some(meeting) = self.played.meeting(id) else { return Outcome::default() };
        let comm = meeting.key.comm();
        let Others { begun, waiting, absent, mut unsure, missing } = self.played.others(meeting);
        let mut edges: Vec<(Vertex, Why)> =
            waiting.iter().map(|(_, part)| (Vertex::Part(*part), Why::HasNotBegun)).collect();
        edges.extend(absent.iter().map(|rank| (Vertex::Member((comm, *rank)), Why::HasNotCalled)));
        if !edges.is_empty() {
            return (edges, Vec::new());
        }
        // If an earlier operation ended without the missing ranks, they record elsewhere or not at all.
        if unsure.is_empty() && !missing.is_empty() && !self.ended_before(comm) {
            return (Vec::new(), missing.into_iter().map(|rank| ((comm, rank), Reason::NeverCame)).collect());
        }
        // Of the ranks that may have called it, those that wait in nothing are more likely to be behind.
        let waits = |rank: &u32| {
            let member = self.job().member((comm, *rank));
            member.is_some_and(|rank| self.waiting.contains_key(&rank.actor))
        };
        if !unsure.iter().all(waits) {
            unsure.retain(|rank| !waits(rank));
        }
        unsure.extend(missing);
        if !unsure.is_empty() {
            let to = unsure.into_iter().map(|rank| (Vertex::Unsure((comm, rank)), Why::MayNotHaveCalled));
            return (to.collect(), Vec::new());
        }
        (Vec::new(), self.delayed_by(id, comm, &begun))
    }

    /// Whether an operation of a communicator ended on a rank.
    fn ended_before(&self, comm: usize) -> bool {
        let ranks = self.job().comms.get(comm).into_iter().flat_map(|comm| comm.ranks.values());
        let mut calls = ranks.flat_map(|rank| rank.calls.list.iter().chain(&rank.replays.list));
        calls.any(|call| call.progress.stage.is_over())
    }

    /// The ranks that delay an operation that all have begun, for the surest reason.
    fn delayed_by(&self, id: MeetingId, comm: usize, begun: &[u32]) -> Vec<Sink> {
        let Some(meeting) = self.played.meeting(id) else { return Vec::new() };
        // That others' parts ended is no proof that one of a rank did whose process was gone first.
        let is_open = |rank: u32, part: PartId| {
            let ended = self.played.parts.get(part).is_some_and(|part| part.stage == PartStage::Ended);
            !self.played.is_over(part) || !ended && self.died.before_peers((comm, rank))
        };
        let open = meeting.parts.iter().filter(|(rank, (part, _))| begun.contains(rank) && is_open(**rank, *part));
        let open: Vec<(u32, PartId, Described<'_>)> = open
            .filter_map(|(rank, (part, operation))| {
                Some((*rank, *part, self.job().described((comm, *rank), *operation)?))
            })
            .collect();
        let others_began = open.iter().any(|(_, _, call)| call.progress().began);
        let state = |rank: u32| self.job().process_of_member((comm, rank)).map(|process| process.state);
        let reason = |(rank, part, call): &(u32, PartId, Described<'_>)| {
            let progress = call.progress();
            let is_for_gpu = progress.waits.iter().all(|wait| !wait.state.is_for_peer() && wait.step.is_some());
            match self.played.parts.get(*part).map(|part| part.stage) {
                _ if self.died.before_peers((comm, *rank)) => Some(Reason::Gone),
                _ if state(*rank) == Some(RecordingState::Stopped) => Some(Reason::Stopped),
                Some(PartStage::Calling) => Some(Reason::InTheCall),
                _ if progress.waits.is_empty() || !is_for_gpu => None,
                _ if others_began && !progress.began => Some(Reason::NotBegun),
                _ => Some(Reason::Gpu),
            }
        };
        let mut found: Vec<Sink> = open.iter().filter_map(|one| Some(((comm, one.0), reason(one)?))).collect();
        let surest = found.iter().map(|(_, reason)| *reason).min();
        found.retain(|(_, reason)| Some(*reason) == surest);
        // If all ranks do, none is singled out.
        if found.is_empty() || found.len() == open.len() && surest > Some(Reason::InTheCall) {
            let first = open.first().map(|(rank, ..)| ((comm, *rank), Reason::Running));
            return first.into_iter().collect();
        }
        found
    }

    /// A rank that is not in an operation: in which others it is, or why not.
    fn member(&self, member: Member, is_unsure: bool) -> Outcome {
        let job = self.job();
        let Some(rank) = job.member(member) else {
            let is_elsewhere = member.0 < job.comms.len() && self.ended_before(member.0);
            let reason = if is_elsewhere { Reason::Unrecorded } else { Reason::NeverCame };
            return (Vec::new(), vec![(member, reason)]);
        };
        let state = job.process_of(rank).map_or(RecordingState::Running, |process| process.state);
        let parts = self.waiting.get(&rank.actor).into_iter().flatten();
        let first = parts.filter(|part| self.played.is_first(**part));
        // A program that is in the call which starts a part waits for that.
        let is_calling =
            |part: PartId| self.played.parts.get(part).is_some_and(|part| part.stage == PartStage::Calling);
        let why = |part: PartId| if is_calling(part) { Why::InCall } else { Why::MayWait };
        let heads: Vec<_> = first.map(|part| (Vertex::Part(*part), why(*part))).collect();
        let is_gone = heads.is_empty() && self.died.before_peers(member);
        let one = |reason| (Vec::new(), vec![(member, reason)]);
        let unmade = job.process_of(rank).is_some_and(|process| !process.unmade_since_ns.is_empty());
        match state {
            RecordingState::Gone | RecordingState::Unknown | RecordingState::Ended
                if is_gone && unmade && member.0 >= job.comms.len() =>
            {
                one(Reason::InitFailed)
            }
            RecordingState::Gone | RecordingState::Unknown if is_gone => one(Reason::Gone),
            _ if rank.finalized => one(Reason::Ended),
            RecordingState::Ended if is_gone => one(Reason::Ended),
            RecordingState::Stopped => one(Reason::Stopped),
            _ if is_unsure
                && !heads.is_empty()
                && self.is_incomplete(member)
                && heads.iter().all(|(_, why)| *why == Why::InCall) =>
            {
                one(Reason::Unrecorded)
            }
            _ if !heads.is_empty() => (heads, Vec::new()),
            _ if self.members.contains_key(&rank.actor) && self.is_in_call(rank) => {
                (vec![(Vertex::Call(rank.actor), Why::InCall)], Vec::new())
            }
            RecordingState::Silent => one(Reason::Silent),
            _ if is_unsure || !job.is_whole(rank) => one(Reason::Unrecorded),
            _ => one(Reason::NotCalled),
        }
    }

    fn is_in_call(&self, rank: &Rank) -> bool {
        let everyone = self.job().everyone.ranks.values().find(|one| one.actor == rank.actor);
        everyone.is_some_and(|one| self.open_call(one).is_some()) || rank.activity.call.is_some()
    }

    fn call(&self, actor: Actor) -> Outcome {
        let step = self.steps.iter().position(|step| step.callers.contains(&actor));
        if let Some(step) = step {
            return (vec![(Vertex::Step(step), Why::InCall)], Vec::new());
        }
        let parts = self.waiting.get(&actor).into_iter().flatten();
        let starts =
            parts.filter(|part| self.played.parts.get(**part).is_some_and(|part| part.stage == PartStage::Calling));
        let starts: Vec<_> = starts.map(|part| (Vertex::Part(*part), Why::InCall)).collect();
        let member = self.members.get(&actor).copied();
        let has_parts = !starts.is_empty() || self.waiting.contains_key(&actor);
        if has_parts {
            return (starts, Vec::new());
        }
        let comms = self.job().comms.iter().enumerate();
        let own = comms.filter(|(_, comm)| comm.ranks.values().any(|rank| rank.actor == actor)).map(|(at, _)| at);
        // Whether the call waits for them is not recorded: only a few can be said to lack.
        let outside = match own.collect::<Vec<_>>().as_slice() {
            [only] => self.outside(*only),
            _ => Vec::new(),
        };
        let size = member.and_then(|(comm, _)| self.job().comm(comm)).map_or(0, |comm| comm.ranks.len());
        let outside = if outside.len() * 2 < size { outside } else { Vec::new() };
        let sinks = if outside.is_empty() { member.map(|member| (member, Reason::InTheCall)) } else { None };
        (outside, sinks.into_iter().collect())
    }

    fn step(&self, at: usize) -> Outcome {
        let Some(step) = self.steps.get(at) else { return Outcome::default() };
        match &step.cause {
            Cause::Absent(ranks) => {
                let to = ranks.iter().map(|rank| (Vertex::Member((step.comm, *rank)), Why::HasNotCalled));
                (to.collect(), Vec::new())
            }
            Cause::Unsure(ranks) => {
                let to = ranks.iter().map(|rank| (Vertex::Unsure((step.comm, *rank)), Why::MayNotHaveCalled));
                (to.collect(), Vec::new())
            }
            Cause::AllThere(held_up_by) if !held_up_by.is_empty() => {
                (Vec::new(), held_up_by.iter().map(|(rank, reason)| ((step.comm, *rank), *reason)).collect())
            }
            Cause::AllThere(_) => {
                let reason = if step.step == crate::job::Step::End { Reason::Ending } else { Reason::Making };
                let first = step.waiters.first().map(|(rank, _)| ((step.comm, *rank), reason));
                (Vec::new(), first.into_iter().collect())
            }
        }
    }

    /// All that waits for some vertices, directly or not, and these themselves.
    pub(crate) fn waiting_for(&self, to: &[Vertex], back: &BTreeMap<Vertex, Vec<Vertex>>) -> BTreeSet<Vertex> {
        let mut found: BTreeSet<Vertex> = to.iter().copied().collect();
        let mut to_do = to.to_vec();
        while let Some(vertex) = to_do.pop() {
            for from in back.get(&vertex).into_iter().flatten() {
                if found.insert(*from) {
                    to_do.push(*from);
                }
            }
        }
        found
    }

    /// The edges by their ends.
    pub(crate) fn back(&self) -> BTreeMap<Vertex, Vec<Vertex>> {
        let mut back: BTreeMap<Vertex, Vec<Vertex>> = BTreeMap::new();
        for (from, edges) in &self.edges {
            for (to, _) in edges {
                back.entry(*to).or_default().push(*from);
            }
        }
        back
    }

    pub(crate) fn actor(&self, vertex: Vertex) -> Option<Actor> {
        match vertex {
            Vertex::Part(part) => self.played.parts.get(part).map(|part| part.actor),
            Vertex::Member(member) | Vertex::Unsure(member) => self.job().member(member).map(|rank| rank.actor),
            Vertex::Call(actor) => Some(actor),
            Vertex::Meeting(_) | Vertex::Step(_) => None,
        }
    }

    /// A member that an actor is.
    pub(crate) fn member_of(&self, actor: Actor) -> Option<Member> {
        self.members.get(&actor).copied()
    }

    /// How long a rank has waited in a part or a call; 0 if that is not known.
    pub(crate) fn waited_ns(&self, vertex: Vertex) -> u64 {
        let job = self.job();
        match vertex {
            Vertex::Part(id) => {
                let Some(part) = self.played.parts.get(id) else { return 0 };
                job.member(part.member).and_then(|rank| job.waited_ns(rank, part.called_ns)).unwrap_or(0)
            }
            Vertex::Call(actor) => {
                let rank = job.everyone.ranks.values().find(|rank| rank.actor == actor);
                rank.and_then(|rank| job.waited_ns(rank, self.open_call(rank)?)).unwrap_or(0)
            }
            Vertex::Step(step) => {
                let waiters = self.steps.get(step).into_iter().flat_map(|step| &step.waiters);
                waiters.map(|(_, ns)| *ns).max().unwrap_or(0)
            }
            Vertex::Meeting(_) | Vertex::Member(_) | Vertex::Unsure(_) => 0,
        }
    }
}

/// `ncclCommAbort` waits for nobody.
const ABORT: &str = "ncclCommAbort";

type Outcome = (Vec<(Vertex, Why)>, Vec<Sink>);
