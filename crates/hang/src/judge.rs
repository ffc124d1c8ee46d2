//! Judges a job: who holds it up, held it up before it went on, or could hold it up the next time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::compare;
use crate::compare::Mismatch;
use crate::graph::cycles::components;
use crate::graph::parts::{Key, PartId, PartStage, Parts};
use crate::graph::play::{Meeting, Played, Rule, is_matched};
use crate::graph::{Graph, Reason, Vertex, Why};
use crate::job::{Actor, Job, Member, Rank, Sequence, Stage};
use crate::lifetimes::{DiedBeforePeers, LONG_AT_THE_END_NS};
use crate::report::{culprits, deadlocks, lines};
use nccl_events::sort::Gather;

/// NCCL may take tens of seconds to connect thousands of ranks.
const LONG_TO_MAKE_NS: u64 = 60_000_000_000;
/// A difference or a cycle in a running job counts after this time: ends of operations are known a little late.
const SETTLED_NS: u64 = 2_000_000_000;
/// The most parts that are played again to look for unsafe orders.
const MOST_PLAYED_AGAIN: usize = 2_000_000;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    Certain,
    /// It rests on something that no record shows.
    Likely,
    /// That something is wrong is certain; which rank is, is not known.
    CannotTellWhom,
    /// The cause is below NCCL's calls.
    BelowCalls,
}

impl Confidence {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::CannotTellWhom => "cannot-tell-whom",
            Self::BelowCalls => "below-nccls-calls",
        }
    }
}

/// What is wrong with a job.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) reason: Reason,
    pub(crate) suspects: Vec<Suspect>,
    /// One line, without the word that says what it means for the job.
    pub(crate) line: String,
    /// The most convincing first.
    pub(crate) evidence: Vec<String>,
    pub(crate) confidence: Confidence,
    pub(crate) next: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    pub(crate) member: Member,
    pub(crate) reason: Reason,
    pub(crate) blocked: usize,
    pub(crate) text: String,
    /// From the rank that waits longest to the suspect.
    pub(crate) chain: Vec<String>,
}

/// How far the ranks of a sequence of collectives have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressOfRanks {
    /// The last position that all recorded ranks completed. If false, all called it but its end is not recorded.
    pub(crate) last_complete: Option<(u64, bool)>,
    pub(crate) first_incomplete: Option<u64>,
    pub(crate) mismatch: Option<Mismatch>,
}

/// A send or receive that waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingMessage {
    pub(crate) member: Member,
    /// An index in the rank's messages.
    pub(crate) message: usize,
    pub(crate) waited_ns: u64,
    pub(crate) peer_called: bool,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) progress: Vec<Vec<(Sequence, ProgressOfRanks)>>,
    pub(crate) messages: Vec<WaitingMessage>,
    /// Who holds up the job.
    pub(crate) hang: Option<Finding>,
    /// Whether waits are so short that the job may have been killed while it worked.
    pub(crate) is_unsure: bool,
    /// What was wrong and did not hang: a difference, an order that only chance let through, an aborted hang.
    pub(crate) past: Option<Finding>,
    pub(crate) mismatches: Vec<Finding>,
    pub(crate) is_unsafe: Option<Finding>,
    /// Why the waits of a job that is over may have lasted longer than is recorded, with evidence.
    pub(crate) cut_short: Option<(String, Vec<String>)>,
    /// The wait that lasts longest, as text, and how long it may last in a healthy job.
    pub(crate) longest: Option<(String, u64)>,
    /// Whether all members began what ranks wait in.
    pub(crate) all_began: bool,
}

/// Judges a job. Waits shorter than `after_ns` do not count as hanging.
pub(crate) fn judge(job: &Job, after_ns: u64) -> Judgement {
    let mut judgement = judge_moment(job, after_ns);
    if judgement.hang.is_none() && judgement.longest.is_none() {
        judgement.past = past_hang(job, after_ns);
        match lines::unmade(job, after_ns) {
            Some((found, true)) => judgement.past = judgement.past.or(Some(found)),
            Some((found, false)) => judgement.hang = Some(found),
            None => {}
        }
        judgement.is_unsafe = unsafe_order(job).or_else(|| lines::unreceived(job, unreceived(job).first()?));
    }
    judgement
}

fn judge_moment(job: &Job, after_ns: u64) -> Judgement {
    let died = DiedBeforePeers::new(job);
    let parts = Parts::new(job);
    let played = Played::new(job, &died, &parts, Rule::AsRecorded);
    let graph = Graph::new(&played, &died, true);
    let mismatches = mismatches(job, &played);
    let found = Search { job, graph: &graph, after_ns, back: graph.back() };
    let mut judgement = Judgement {
        progress: progress(job, &played, &mismatches),
        messages: messages(job, &graph),
        mismatches: mismatches.iter().map(|one| lines::mismatch(job, one, None)).collect(),
        ..Judgement::default()
    };
    let longest_ns = found.longest_ns();
    if longest_ns == 0 {
        return judgement;
    }
    judgement.all_began = graph.sinks.values().flatten().any(|(_, reason)| *reason == Reason::Running);
    judgement.longest = lines::longest_wait(&graph);
    let settled_ns = if job.is_over() { LONG_AT_THE_END_NS } else { SETTLED_NS.min(after_ns) };
    let hang = (longest_ns >= settled_ns)
        .then(|| found.mismatch(&mismatches).or_else(|| found.deadlock(true)).or_else(|| found.deadlock(false)))
        .flatten()
        .or_else(|| found.culprits());
    let Some(mut hang) = hang else {
        return judgement;
    };
    if let Some(mismatch) = judgement.mismatches.first().filter(|_| hang.reason != Reason::Mismatch) {
        hang.evidence.push(format!("also: {}", mismatch.line));
    }
    let is_final = matches!(hang.reason, Reason::Mismatch | Reason::Gone | Reason::Ended)
        || hang.reason == Reason::Deadlock && hang.confidence == Confidence::Certain;
    let takes_ns = if hang.reason == Reason::Making && !job.is_over() { LONG_TO_MAKE_NS } else { 0 };
    let lasts = is_final || longest_ns >= after_ns.max(takes_ns);
    judgement.is_unsure = !lasts && job.is_over() && longest_ns >= LONG_AT_THE_END_NS;
    if lasts || judgement.is_unsure {
        judgement.hang = Some(hang);
    } else if job.is_over() {
        judgement.cut_short = lines::cut_short(&graph, &died, &hang);
    }
    judgement
}

fn mismatches(job: &Job, played: &Played<'_>) -> Vec<Mismatch> {
    let mut found = compare::mismatches(job);
    let messages = played.meetings.iter().filter(|meeting| matches!(meeting.key, Key::Message { .. }));
    found.extend(messages.filter(|meeting| played.differs(meeting)).filter_map(|meeting| {
        let calls = played.described(meeting);
        let difference = compare::difference(&calls)?;
        Some(Mismatch {
            key: meeting.key,
            from_beginning: true,
            difference,
            groups: compare::groups(&calls, difference),
            explanation: None,
            is_by_habit: false,
        })
    }));
    found
}

fn progress(job: &Job, played: &Played<'_>, mismatches: &[Mismatch]) -> Vec<Vec<(Sequence, ProgressOfRanks)>> {
    let comms = job.comms.iter().enumerate();
    let of_comm = |(index, comm)| {
        let of_sequence = |sequence: Sequence| {
            let mut found = ProgressOfRanks::default();
            let tails =
                || sequence.ranks(comm).map(|(_, rank)| sequence.tail(rank)).filter(|tail| tail.has_positions());
            let kept = || tails().filter(|tail| !tail.list.is_empty());
            let first = kept().map(|tail| tail.before).min().unwrap_or(0);
            let end = tails().map(crate::job::Tail::count).max().unwrap_or(0);
            if first > 0 && tails().all(|tail| tail.count() >= first) {
                found.last_complete = Some((first - 1, true));
            }
            for position in first..end {
                let key = Key::Collective(index, sequence, position);
                let is_open = |part: &PartId| {
                    let part_of = played.parts.get(*part);
                    let rank = part_of.and_then(|part| job.member(part.member));
                    // A rank that is alone waits for nobody, and may still be in its operation.
                    let runs = |rank: &Rank| {
                        let call = sequence.tail(rank).at(position);
                        let is_in = |stage| matches!(stage, Stage::Calling | Stage::Launching | Stage::Running);
                        comm.size == 1 && call.is_some_and(|call| is_in(call.progress.stage))
                    };
                    (!played.is_over(*part) || rank.is_some_and(runs)) && rank.is_some_and(|rank| !rank.finalized)
                };
                let is_waited_in = played
                    .meeting_with(key)
                    .is_some_and(|meeting| meeting.parts.values().any(|(part, _)| is_open(part)));
                let mut matched = sequence.ranks(comm).filter(|(_, rank)| is_matched(job, rank, key));
                if is_waited_in || matched.any(|(_, rank)| sequence.tail(rank).count() <= position) {
                    // Ranks that are ahead may no longer have records of this position.
                    let ahead = kept().filter(|tail| tail.count() > position);
                    found.first_incomplete =
                        Some(ahead.map(|tail| tail.before.max(position)).min().unwrap_or(position));
                    break;
                }
                let is_sure = kept().all(|tail| tail.at(position).is_some_and(|call| call.progress.stage.is_over()));
                found.last_complete = Some((position, is_sure));
            }
            found.mismatch =
                mismatches.iter().find(|one| one.key.is_in_order_with(Key::Collective(index, sequence, 0))).cloned();
            (sequence, found)
        };
        Sequence::in_comm(comm).map(of_sequence).collect()
    };
    comms.map(of_comm).collect()
}

fn messages(job: &Job, graph: &Graph<'_>) -> Vec<WaitingMessage> {
    let played = graph.played;
    let mut found = Vec::new();
    for start in &graph.starts {
        let Vertex::Part(id) = *start else { continue };
        let Some(part) = played.parts.get(id) else { continue };
        for operation in &part.operations {
            let crate::graph::parts::Operation::Message(at) = *operation else { continue };
            let Some(meeting) = played.parts.key(job, part, *operation).and_then(|key| played.meeting_with(key)) else {
                continue;
            };
            let others = played.others(meeting);
            let peer_called = others.absent.is_empty() && others.missing.is_empty() && others.unsure.is_empty();
            let text = lines::waiting_message(graph, id, meeting, peer_called);
            let waited_ns = graph.waited_ns(*start);
            found.push(WaitingMessage { member: part.member, message: at, waited_ns, peer_called, text });
        }
    }
    found
}

/// The search for what holds up a job.
pub(crate) struct Search<'a, 'b> {
    pub(crate) job: &'a Job,
    pub(crate) graph: &'b Graph<'a>,
    pub(crate) after_ns: u64,
    pub(crate) back: BTreeMap<Vertex, Vec<Vertex>>,
}

impl<'a> Search<'a, '_> {
    fn longest_ns(&self) -> u64 {
        self.graph.starts.iter().map(|start| self.graph.waited_ns(*start)).max().unwrap_or(0)
    }

    /// A difference in a communicator that has something left, there or before.
    fn mismatch(&self, mismatches: &[Mismatch]) -> Option<Finding> {
        let played = self.graph.played;
        let waiting: Vec<&Meeting> = self
            .graph
            .starts
            .iter()
            .filter_map(|start| if let Vertex::Part(part) = start { Some(*part) } else { None })
            .flat_map(|part| played.meetings_of(part))
            .filter_map(|meeting| played.meeting(*meeting))
            .collect();
        let is_waited_in = |mismatch: &&Mismatch| waiting.iter().any(|meeting| meeting.key == mismatch.key);
        let may_be_behind = |mismatch: &&Mismatch| {
            let mut keys = waiting.iter().map(|meeting| meeting.key);
            if mismatch.is_message() {
                keys.any(|key| key.is_in_order_with(mismatch.key) && key.position() > mismatch.key.position())
            } else {
                keys.any(|key| key.comm() == mismatch.key.comm())
            }
        };
        // If a call was left out or added, the calls after it do not match either. Otherwise, a mismatch that has ended
        // is not the cause while a rank that waits for nobody holds up the job.
        let has_culprit = self.graph.sinks.values().flatten().any(|(_, reason)| reason.is_hard());
        let is_cause = |mismatch: &&Mismatch| {
            is_waited_in(mismatch) || may_be_behind(mismatch) && (mismatch.shifts_what_follows() || !has_culprit)
        };
        let found = mismatches.iter().find(is_cause)?;
        let blocked: BTreeSet<Actor> = self.graph.starts.iter().filter_map(|start| self.graph.actor(*start)).gather();
        let mut finding = lines::mismatch(self.job, found, Some(self.longest_ns()));
        for suspect in &mut finding.suspects {
            suspect.blocked = blocked.len();
        }
        Some(finding)
    }

    /// Ranks that wait for each other. A cycle with edges that are inferred counts only if nobody else is to blame.
    fn deadlock(&self, is_certain: bool) -> Option<Finding> {
        let has_culprit = || self.graph.sinks.values().flatten().any(|(_, reason)| reason.is_hard());
        if !is_certain && has_culprit() {
            return None;
        }
        let counts =
            |_: Vertex, _: Vertex, why: Why| why != Why::MayNotHaveCalled && (!is_certain || !why.is_inferred());
        let found = components(&self.graph.edges, counts);
        let largest =
            found.into_iter().max_by_key(|component| (component.len(), Reverse(component.first().copied())))?;
        let confidence = if is_certain { Confidence::Certain } else { Confidence::Likely };
        Some(deadlocks::deadlock(self.graph, &largest, confidence, Some(self.longest_ns())))
    }

    /// The ranks at the ends of all waits.
    fn culprits(&self) -> Option<Finding> {
        let sinks = self.graph.sinks.iter().flat_map(|(vertex, sinks)| sinks.iter().map(move |sink| (*vertex, *sink)));
        let mut sinks: Vec<(Vertex, (Member, Reason))> = sinks.collect();
        if sinks.is_empty() {
            // All wait in a circle that rests on what may not have been called.
            sinks.extend(self.graph.edges.keys().filter_map(|vertex| match vertex {
                Vertex::Unsure(member) => Some((*vertex, (*member, Reason::Unrecorded))),
                _ => None,
            }));
        }
        let best = sinks.iter().map(|(_, (_, reason))| *reason).min()?;
        sinks.retain(|(_, (_, reason))| *reason == best || reason.is_hard());
        sinks.sort_by_key(|(vertex, (member, reason))| (*reason, *member, *vertex));
        // A GPU's ranks in several communicators are one culprit.
        let mut found: BTreeMap<(Option<Actor>, Member), Culprit> = BTreeMap::new();
        for (vertex, (member, reason)) in sinks {
            let actor = self.job.member(member).map(|rank| rank.actor);
            let key = (actor, if actor.is_some() { Member::default() } else { member });
            let culprit = Culprit { vertices: Vec::new(), member, reason, blocked: 0, longest_ns: 0 };
            found.entry(key).or_insert(culprit).vertices.push(vertex);
        }
        for ((actor, _), culprit) in &mut found {
            let behind = self.graph.waiting_for(&culprit.vertices, &self.back);
            let own = behind.iter().filter_map(|one| self.graph.actor(*one)).filter(|one| Some(*one) != *actor);
            culprit.blocked = own.collect::<BTreeSet<Actor>>().len();
            culprit.longest_ns = behind.iter().map(|one| self.graph.waited_ns(*one)).max().unwrap_or(0);
        }
        let mut found: Vec<Culprit> = found.into_values().collect();
        found.sort_by_key(|one| (one.reason, Reverse(one.blocked), one.member));
        culprits::culprits(self, &found)
    }
}

impl Culprit {
    pub(crate) fn is_outside(&self) -> bool {
        self.vertices.iter().all(|vertex| matches!(vertex, Vertex::Member(_) | Vertex::Unsure(_)))
    }

    pub(crate) fn first(&self) -> Vertex {
        self.vertices.first().copied().unwrap_or(Vertex::Member(self.member))
    }
}

/// A rank at the end of waits.
pub(crate) struct Culprit {
    pub(crate) vertices: Vec<Vertex>,
    pub(crate) member: Member,
    pub(crate) reason: Reason,
    pub(crate) blocked: usize,
    pub(crate) longest_ns: u64,
}

/// A hang that `ncclCommAbort` ended, in a job that went on.
fn past_hang(job: &Job, after_ns: u64) -> Option<Finding> {
    let members = job
        .comms
        .iter()
        .enumerate()
        .flat_map(|(index, comm)| comm.ranks.iter().map(move |(number, rank)| ((index, *number), rank)));
    let aborted: Vec<(u64, Member)> = members
        .filter_map(|(member, rank)| rank.ended.filter(|(_, is_abort)| *is_abort).map(|(ns, _)| (ns, member)))
        .collect();
    let at_ns = aborted.iter().map(|(ns, _)| *ns).min()?;
    let before = job.cut(at_ns);
    let found = judge_moment(&before, after_ns).hang?;
    let later = |rank: &Rank| {
        let calls =
            rank.calls.list.iter().filter(|call| call.entered_ns > at_ns && call.progress.stage != Default::default());
        calls.count()
    };
    let later: usize = job.comms.iter().flat_map(|comm| comm.ranks.values()).map(later).sum();
    let members: Vec<Member> = aborted.into_iter().map(|(_, member)| member).collect();
    Some(lines::past(job, found, &members, later))
}

/// Messages between two ranks that one of them sent and the other one never received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreceived {
    pub(crate) comm: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The messages that were never received of ranks that ended their communicators well.
pub(crate) fn unreceived(job: &Job) -> Vec<Unreceived> {
    let is_through = |rank: &&Rank| rank.finalized && job.is_whole(rank) && rank.ended.is_none_or(|(_, abort)| !abort);
    let mut found = Vec::new();
    for (index, comm) in job.comms.iter().enumerate() {
        for (from, rank) in comm.ranks.iter().filter(|(_, rank)| is_through(rank)) {
            for (&(to, _), &sent) in rank.message_counts.iter().filter(|((_, is_send), _)| *is_send) {
                let Some(receiver) = comm.ranks.get(&to).filter(is_through) else { continue };
                let received = receiver.message_counts.get(&(*from, false)).copied().unwrap_or(0);
                if received < sent {
                    found.push(Unreceived { comm: index, from: *from, to, sent, received });
                }
            }
        }
    }
    found
}

/// Whether what ended would not have ended without buffers, or without kernels that run at the same time.
fn unsafe_order(job: &Job) -> Option<Finding> {
    let died = DiedBeforePeers::new(job);
    let parts = Parts::new(job);
    // With lost records, calls at equal positions need not belong together.
    let is_whole = job.processes.iter().all(|process| process.is_whole);
    if !is_whole || parts.all.len() > MOST_PLAYED_AGAIN || parts.all.iter().any(|part| part.stage < PartStage::Enqueued)
    {
        return None;
    }
    [Rule::AsGuaranteed, Rule::OneQueueEach].into_iter().find_map(|rule| {
        let played = Played::new(job, &died, &parts, rule);
        let graph = Graph::new(&played, &died, false);
        let counts = |_: Vertex, _: Vertex, why: Why| !why.is_inferred();
        let is_of_parts = |component: &Vec<Vertex>| {
            component.iter().all(|vertex| matches!(vertex, Vertex::Part(_) | Vertex::Meeting(_)))
        };
        let found = components(&graph.edges, counts).into_iter().find(is_of_parts)?;
        Some(deadlocks::unsafe_order(&graph, &found, rule))
    })
}
