//! A blockage: ranks wait in an operation, for a known or unknown cause. Finds calls that do not match, messages that
//! wait, processes that others outlived, and jobs from which NCCL reports nothing any more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Call, Comm, Job, Member, Message, Process, Rank, Sequence, Signature};
use model::job::RecordingState;

/// NCCL may take tens of seconds to connect thousands of ranks.
const LONG_STEP_NS: u64 = 60_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Blockage {
    pub(crate) comm: usize,
    pub(crate) operation: Operation,
    pub(crate) waiters: Vec<(u32, u64)>,
    pub(crate) cause: Cause,
}

impl Blockage {
    /// The longest wait; 0 if nobody waits.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.waiters.iter().map(|(_, ns)| *ns).max().unwrap_or(0)
    }

    /// Whether ranks are in a call that makes or ends a communicator, and nothing says for whom they wait.
    pub(crate) const fn is_step_without_cause(&self) -> bool {
        matches!((&self.operation, &self.cause), (Operation::Step(_), Cause::AllEntered(holding)) if holding.is_empty())
    }

    /// How long it can take in a healthy job.
    pub(crate) const fn takes_ns(&self) -> u64 {
        match &self.operation {
            Operation::Step(call) if !call.is_end && self.is_step_without_cause() => LONG_STEP_NS,
            _ => 0,
        }
    }

    pub(crate) fn waiting_ranks(&self) -> Vec<u32> {
        self.waiters.iter().map(|(rank, _)| *rank).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Collective {
        sequence: Sequence,
        position: Position,
        what: Signature,
    },
    /// A send or receive of the only waiter.
    Message(Message),
    /// A call that makes or ends a communicator.
    Step(StepCall),
}

impl Operation {
    /// Whether this is a collective with an unknown position in the communicator's order.
    pub(crate) const fn has_unknown_position(&self) -> bool {
        matches!(self, Self::Collective { position, .. } if position.index.is_none())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StepCall {
    /// Such as `ncclCommSplit`.
    pub(crate) name: String,
    /// Whether the call is known to be about the blockage's communicator: for a split, as its parent.
    pub(crate) knows_comm: bool,
    /// Whether it finalizes or destroys the communicator.
    pub(crate) is_end: bool,
    /// Whether it is known to wait for all ranks of the blockage's communicator.
    pub(crate) is_of_all: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// From 0; `None` if unknown.
    pub(crate) index: Option<u64>,
    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) from_beginning: bool,
    /// NCCL's number of the call within its function.
    pub(crate) sequence: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    Mismatch(Mismatch),
    Absent(Vec<u32>),
    /// All entered; these ranks delay it, as far as known.
    AllEntered(Vec<(u32, Reason)>),
    /// All others entered; records of these ranks are missing or incomplete.
    Unrecorded(Vec<u32>),
}

/// Why a rank is the suspect, most certain reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Mismatch,
    Gone,
    /// The process has ended its recording, or this communicator.
    Ended,
    /// Ranks wait for each other in different communicators.
    Deadlock,
    Stopped,
    /// The rank is in an NCCL call that does not return.
    InTheCall,
    /// The rank runs, is outside NCCL, and has not called the operation that others wait for.
    NotCalled,
    /// The rank has no records, and never took part.
    NeverCame,
    /// The rank is on another host and silent.
    Silent,
    /// The rank entered, but its kernel has not begun, unlike other ranks' kernels.
    NotBegun,
    /// The rank entered, and its proxy waits only for its own GPU.
    Gpu,
    Unrecorded,
    /// All entered, and no record shows who delays the operation.
    Unknown,
}

impl Reason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mismatch => "mismatch",
            Self::Gone => "gone",
            Self::Ended => "ended",
            Self::Deadlock => "deadlock",
            Self::Stopped => "stopped",
            Self::InTheCall => "in-the-call",
            Self::NotCalled => "not-called",
            Self::NeverCame => "never-came",
            Self::Silent => "silent",
            Self::NotBegun => "kernel-not-begun",
            Self::Gpu => "gpu",
            Self::Unrecorded => "unrecorded",
            Self::Unknown => "unknown",
        }
    }
}

/// Ranks with different calls at the same position of a communicator's order.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    /// From 0.
    pub(crate) position: u64,
    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) from_beginning: bool,
    pub(crate) groups: Vec<(Signature, Vec<u32>)>,
    /// A rank that seems to have left out a collective (true) or to have called one too many (false).
    pub(crate) shifted: Option<(u32, bool)>,
}

impl Mismatch {
    /// The ranks outside the largest group; of two equal groups, the one without the lowest rank.
    pub(crate) fn deviants(&self) -> Vec<u32> {
        self.groups.iter().skip(1).flat_map(|(_, ranks)| ranks.iter().copied()).collect()
    }
}

/// Finds ranks with different calls at a position. Below the API, counts are not the program's, so if some calls are
/// only known from there, counts and data types are ignored.
pub(crate) fn find_mismatch(
    ranks: &[(u32, &Rank)],
    sequence: Sequence,
    from_beginning: bool,
    position: u64,
) -> Option<Mismatch> {
    let calls = ranks.iter().filter_map(|(number, rank)| Some((*number, sequence.tail(rank).at(position)?)));
    let calls: Vec<(u32, &Call)> = calls.collect();
    let all_alike = calls.windows(2).all(|pair| matches!(pair, [(_, a), (_, b)] if a.from_api == b.from_api));
    let mut by_what: BTreeMap<Signature, Vec<u32>> = BTreeMap::new();
    for (number, call) in calls {
        let mut what = call.what.clone();
        if !all_alike {
            what.count = 0;
            what.datatype = "".into();
        }
        by_what.entry(what).or_default().push(number);
    }
    if by_what.len() < 2 {
        return None;
    }
    let mut groups: Vec<(Signature, Vec<u32>)> = by_what.into_iter().collect();
    nccl_events::sort::sort_by_key(&mut groups, |(_, members)| (Reverse(members.len()), members.first().copied()));
    Some(Mismatch { position, from_beginning, shifted: shifted(ranks, sequence, position, &groups), groups })
}

/// Whether one rank is a collective ahead of the others, or behind them.
fn shifted(
    ranks: &[(u32, &Rank)],
    sequence: Sequence,
    position: u64,
    groups: &[(Signature, Vec<u32>)],
) -> Option<(u32, bool)> {
    let [(most, many), (other, one)] = groups else {
        return None;
    };
    let &[deviant] = one.as_slice() else {
        return None;
    };
    let next = |member: u32| {
        let (_, rank) = ranks.iter().find(|(number, _)| *number == member)?;
        Some(&sequence.tail(rank).at(position + 1)?.what)
    };
    if many.iter().any(|&member| next(member) == Some(other)) {
        return Some((deviant, true));
    }
    (next(deviant) == Some(most)).then_some((deviant, false))
}

/// The sends and receives of a rank that wait: a blockage for each peer and direction, its first waiting message. NCCL
/// does not number them: only counting from the first shows which ones match.
pub(crate) fn blocked_messages(
    job: &Job,
    died: &DiedBeforePeers<'_>,
    (comm, number): Member,
    rank: &Rank,
) -> Vec<Blockage> {
    let mut seen: BTreeSet<(u32, bool)> = BTreeSet::new();
    let mut blockages = Vec::new();
    for message in rank.messages.iter().filter(|message| message.peer != number) {
        let key = (message.peer, message.is_send);
        if seen.contains(&key) {
            continue;
        }
        let cause = cause(job, died, (comm, number), rank, message);
        if let Some((cause, waited_ns)) = cause.zip(job.waited_ns(rank, message.entered_ns)) {
            seen.insert(key);
            let operation = Operation::Message(message.clone());
            blockages.push(Blockage { comm, operation, waiters: vec![(number, waited_ns)], cause });
        }
    }
    blockages
}

/// Why a message waits; `None` if it may be complete.
fn cause(
    job: &Job,
    died: &DiedBeforePeers<'_>,
    (comm, number): Member,
    rank: &Rank,
    message: &Message,
) -> Option<Cause> {
    // A small send may be complete without the receive: only messages known to be open wait.
    let is_open = message.progress.stage.is_open();
    let unrecorded = || Cause::Unrecorded(vec![message.peer]);
    let Some(peer) = job.member((comm, message.peer)) else {
        return is_open.then(unrecorded);
    };
    let answers = peer.message_counts.get(&(number, !message.is_send));
    let is_answered = answers.is_some_and(|answers| *answers > message.number);
    let is_counted =
        |rank: &Rank| job.process_of(rank).is_some_and(|process| process.is_whole && process.kept_since_ns.is_none());
    match (is_counted(rank) && (is_answered || is_counted(peer)), is_open) {
        (false, false) => None,
        (false, true) if !is_in_counterpart(peer, number, message) => Some(unrecorded()),
        (true, _) if !is_answered && (is_open || !message.is_send) => Some(Cause::Absent(vec![message.peer])),
        (true, false) => None,
        (_, true) => {
            let held_up_by = if died.before_peers((comm, message.peer)) {
                vec![(message.peer, Reason::Gone)]
            } else {
                let ends = [(message.peer, peer), (number, rank)];
                let stopped = ends.into_iter().find(|(_, end)| job.has_state(end, RecordingState::Stopped));
                stopped.map(|(number, _)| (number, Reason::Stopped)).into_iter().collect()
            };
            Some(Cause::AllEntered(held_up_by))
        }
    }
}

/// Whether the peer of an open message is in a message that may be its counterpart. If messages cannot be counted, the
/// first open messages of both ends are assumed to match.
fn is_in_counterpart(peer: &Rank, number: u32, message: &Message) -> bool {
    let is_counterpart = |other: &Message| other.peer == number && other.is_send != message.is_send;
    peer.messages.iter().any(|other| is_counterpart(other) && other.progress.stage.is_open())
}

/// A process that others outlived by this much was gone first: last records are at most a second old.
const OUTLIVED_NS: u64 = 2_000_000_000;
/// Ranks that wait this long at the end may hang, whatever `--after` is: times are up to a second short.
pub(super) const LONG_AT_THE_END_NS: u64 = 1_000_000_000;

/// Of every communicator of a job, which processes were outlived by others.
pub(crate) struct DiedBeforePeers<'a> {
    job: &'a Job,
    comms: Vec<CommLifetime>,
}

/// Whether a process of a communicator lives, and the time up to which the last one lived; 0 if none has a clock.
struct CommLifetime {
    some_run: bool,
    last_ns: u64,
}

impl<'a> DiedBeforePeers<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        let lifetime_of_comm = |comm: &Comm| {
            let processes = comm.ranks.values().filter_map(|rank| job.process_of(rank));
            CommLifetime {
                some_run: processes.clone().any(|one| one.state.is_alive()),
                last_ns: processes.filter(|one| one.has_clock).map(|one| one.until_ns).max().unwrap_or(0),
            }
        };
        Self { job, comms: job.comms.iter().chain([&job.everyone]).map(lifetime_of_comm).collect() }
    }

    /// Whether a member's process was gone while others of the communicator still worked or waited.
    pub(crate) fn before_peers(&self, member: Member) -> bool {
        let Some((comm, process)) = self.comms.get(member.0).zip(self.job.process_of_member(member)) else {
            return false;
        };
        let is_later = process.has_clock && comm.last_ns >= process.until_ns.saturating_add(OUTLIVED_NS);
        match process.state {
            RecordingState::Gone | RecordingState::Ended => comm.some_run || is_later,
            // That others are running proves nothing: this process may be, too.
            RecordingState::Unknown => is_later,
            _ => false,
        }
    }

    /// Whether an outlived rank had itself waited long enough: at a job's end it may be killed first, or give up.
    pub(crate) fn had_waited(&self, waited_ns: u64) -> bool {
        self.job.is_over() && waited_ns >= LONG_AT_THE_END_NS
    }
}

/// Minimum, because a process with recording off records only once a second that NCCL still calls.
const SHORTEST_NS: u64 = 2_000_000_000;

/// A job from which NCCL reports nothing any more, without a visible wait, though its processes live or were killed.
#[derive(Debug)]
pub(crate) struct NoRecentEvents {
    /// From NCCL's last call of the plugin in any process to `until_ns`.
    pub(crate) for_ns: u64,
    /// The moment of judgement, or the last record if the job is over.
    pub(crate) until_ns: u64,
    /// The processes that could call NCCL: indices in [`Job::processes`], stopped ones first, then the quietest.
    pub(crate) processes: Vec<usize>,
}

/// Whether NCCL called the plugin in no process for the last `after_ns`. If the job is over, killed processes count:
/// their clock readings, one per second, show how long they lived on.
pub(crate) fn find_no_recent_events(job: &Job, after_ns: u64) -> Option<NoRecentEvents> {
    let living = job.processes.iter().enumerate().filter(|(index, process)| is_expected(job, *index, process));
    let mut living: Vec<(usize, &Process)> = living.collect();
    nccl_events::sort::sort_by_key(&mut living, |(_, process)| {
        (process.state != RecordingState::Stopped, process.last_event_ns)
    });
    let last_ns = living.iter().map(|(_, process)| process.last_event_ns).max()?;
    let killed = living.iter().map(|(_, process)| process.until_ns);
    let until_ns = if job.is_over() { killed.max()? } else { job.now_ns };
    let for_ns = until_ns.checked_sub(last_ns)?;
    let is_quiet = for_ns >= after_ns.max(SHORTEST_NS);
    is_quiet.then(|| NoRecentEvents {
        for_ns,
        until_ns,
        processes: living.into_iter().map(|(index, _)| index).collect(),
    })
}

/// Whether a process can be expected to call NCCL: it lives or was killed, has records, and has not ended all its
/// communicators. An archive does not record how a process ended.
fn is_expected(job: &Job, index: usize, process: &Process) -> bool {
    let ranks = job.comms.iter().flat_map(|comm| comm.ranks.values());
    let mut ranks = ranks.filter(|rank| rank.actor.process == index).peekable();
    let has_ended_all = ranks.peek().is_some() && ranks.all(|rank| rank.finalized);
    let may_be_killed = if job.is_archive { RecordingState::Unknown } else { RecordingState::Gone };
    let was_killed = job.is_over() && process.state == may_be_killed && process.is_whole && process.has_clock;
    (process.state.is_alive() || was_killed)
        && (process.has_journal || job.is_archive)
        && process.last_event_ns > 0
        && !has_ended_all
}
