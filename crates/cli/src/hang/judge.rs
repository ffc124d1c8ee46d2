//! Where a communicator does not go on: the first collective that is not complete, who waits in it, and what
//! stands in the way there. What the cause is, over all communicators, [`super::blame`] finds.
//!
//! ```text
//!            1          2          3
//! rank 0   AllReduce  AllReduce  Broadcast    waits in 2
//! rank 1   AllReduce  AllReduce               waits in 2
//! rank 2   AllReduce                          is not there: it stands in the way
//! ```

use super::job::{Call, Comm, Job, Message, Place, Rank, Signature, Stage, Tail};
use super::messages;
use super::mismatch::{self, Mismatch};
use super::unplaced;
use super::watch::Watch;

/// Which sequence of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// The collectives that the program called.
    Calls,
    /// Those of CUDA graphs that it launched.
    Replays,
}

impl Lane {
    pub(crate) const fn of(self, rank: &Rank) -> &Tail {
        match self {
            Self::Calls => &rank.calls,
            Self::Replays => &rank.replays,
        }
    }

    pub(crate) const fn of_mut(self, rank: &mut Rank) -> &mut Tail {
        match self {
            Self::Calls => &mut rank.calls,
            Self::Replays => &mut rank.replays,
        }
    }

    /// Whether positions count from the first collective of the communicator, not from the first that is kept.
    pub(crate) fn is_counted(self, comm: &Comm) -> bool {
        let tails = || comm.ranks.values().map(|rank| self.of(rank));
        let is_counted = |tail: &Tail| tail.place == Place::Counted;
        tails().all(is_counted) || tails().any(|tail| is_counted(tail) && !tail.list.is_empty())
    }
}

/// A rank of a communicator: a place in [`Job::comms`] and the rank there.
pub(crate) type Who = (usize, u32);

/// Somebody waits.
#[derive(Clone, Debug)]
pub(crate) struct Obstacle {
    /// The communicator: a place in [`Job::comms`].
    pub(crate) comm: usize,
    /// In what.
    pub(crate) at: At,
    /// Who, and for how long.
    pub(crate) waiters: Vec<(u32, u64)>,
    /// What stands in the way.
    pub(crate) way: Way,
}

impl Obstacle {
    /// How long the first has waited.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.waiters.iter().map(|(_, ns)| *ns).max().unwrap_or(0)
    }
}

/// In what ranks wait.
#[derive(Clone, Debug)]
pub(crate) enum At {
    /// A collective: which sequence, where in it, and what those who entered it call.
    Collective {
        lane: Lane,
        spot: Spot,
        what: Signature,
    },
    /// A send or receive of the (one) waiter.
    Message(Message),
}

/// Where in its sequence a collective is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// From 0; none where that is not known.
    pub(crate) position: Option<u64>,
    /// Whether positions count from the first of the communicator, not from the first that is kept.
    pub(crate) is_counted: bool,
    /// NCCL's number among the calls of the function.
    pub(crate) sequence: Option<u64>,
}

/// What stands in the way.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// These ranks call something else there.
    Mismatch(Mismatch),
    /// These ranks did not come.
    Absent(Vec<u32>),
    /// All came; these hold it up, as far as it can be told.
    Inside(Vec<(u32, Holds)>),
    /// All others came; of these ranks there are no records, or not all, and they may have come or not.
    Unrecorded(Vec<u32>),
}

/// Why a rank is thought to hold up an operation that it has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holds {
    /// Its process is gone.
    Gone,
    /// Its program has not returned from the call.
    InTheCall,
    /// Its kernel has not begun, others' have.
    NotBegun,
    /// Only its GPU is waited for, by its own proxy.
    Gpu,
}

/// What is known of the progress of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// The last position where all that are recorded are through, and whether that is sure (else all called it, and
    /// whether it ended is not recorded).
    pub(crate) last_complete: Option<(u64, bool)>,
    /// The first position that is not complete.
    pub(crate) first_incomplete: Option<u64>,
    /// The first position with different calls.
    pub(crate) mismatch: Option<Mismatch>,
}

/// For how long a rank has waited in what it entered; none if it began after the moment of looking.
pub(crate) fn waited_ns(job: &Job, rank: &Rank, entered_ns: u64) -> Option<u64> {
    let process = job.processes.get(rank.actor.process)?;
    process.until_ns.min(job.now_ns).checked_sub(entered_ns)
}

/// The sequences of a communicator.
pub(crate) fn lanes(comm: &Comm) -> Vec<Lane> {
    let has_replays = comm.ranks.values().any(|rank| rank.replays.count() > 0);
    if has_replays {
        vec![Lane::Calls, Lane::Replays]
    } else {
        vec![Lane::Calls]
    }
}

/// The ranks that take part in a sequence: only ranks with network transfers report the launches of graphs.
pub(crate) fn taking_part(comm: &Comm, lane: Lane) -> impl Iterator<Item = (u32, &Rank)> {
    let ranks = comm.ranks.iter().map(|(number, rank)| (*number, rank));
    ranks.filter(move |(_, rank)| lane == Lane::Calls || lane.of(rank).count() > 0)
}

/// Whether it is known of a rank what it did not do, from some time on.
fn is_whole(job: &Job, rank: &Rank) -> bool {
    let process = job.processes.get(rank.actor.process);
    process.is_some_and(|process| process.is_whole)
}

/// Whether a process was gone before the others in the middle of a collective.
fn is_broken(job: &Job, watch: Watch, calls: &[(u32, &Rank, &Call)]) -> bool {
    let mut calls = calls.iter();
    calls.any(|(_, rank, call)| watch.outlived(job, rank) && !call.progress.stage.is_over())
}

/// Whether transfers that ended may have failed, where a process died in the middle: nothing later says that the
/// program went on.
fn may_have_failed(lane: Lane, rank: &Rank, position: u64, call: &Call) -> bool {
    let is_last = lane.of(rank).count() == position + 1;
    is_last && call.progress.stage == Stage::Transferred && call.what.needs_all()
}

/// How far a communicator came.
pub(crate) fn reach(job: &Job, comm: &Comm, lane: Lane) -> Reach {
    let watch = Watch::of(job, comm);
    let placed = taking_part(comm, lane).filter(|(_, rank)| lane.of(rank).is_placed());
    let ranks: Vec<(u32, &Rank)> = placed.collect();
    let is_counted = lane.is_counted(comm);
    // Where something is missing places in the order mean nothing.
    let whole = ranks.iter().copied();
    let whole: Vec<(u32, &Rank)> = whole.filter(|(_, rank)| is_whole(job, rank)).collect();
    let most = ranks.iter().map(|(_, rank)| lane.of(rank).count()).max();
    // Of a part whose journal is gone the number is known, and nothing else.
    let kept = || {
        let tails = ranks.iter().map(|(_, rank)| lane.of(rank));
        tails.filter(|tail| !tail.list.is_empty())
    };
    let first = kept().map(|tail| tail.before).min().unwrap_or(0);
    let mut reach = Reach::default();
    let all_passed = ranks.iter().all(|(_, rank)| lane.of(rank).count() >= first);
    if first > 0 && all_passed {
        reach.last_complete = Some((first - 1, true));
    }
    for position in first..most.unwrap_or(0) {
        let calls: Vec<(u32, &Rank, &Call)> = ranks
            .iter()
            .filter_map(|(number, rank)| Some((*number, *rank, lane.of(rank).at(position)?)))
            .collect();
        if reach.mismatch.is_none() {
            reach.mismatch = mismatch::find(&whole, lane, is_counted, position);
        }
        let all_came = whole
            .iter()
            .all(|(_, rank)| lane.of(rank).count() > position);
        let mut alive = calls
            .iter()
            .filter(|(_, rank, _)| !watch.outlived(job, rank));
        let broken = is_broken(job, watch, &calls);
        let is_open = alive.any(|(_, rank, call)| {
            let stage = call.progress.stage;
            stage.is_open() || (broken && may_have_failed(lane, rank, position, call))
        });
        if !all_came || is_open {
            // Those who are further may have kept nothing of it.
            let ahead = kept().filter(|tail| tail.count() > position);
            let nearest = ahead.map(|tail| tail.before.max(position)).min();
            reach.first_incomplete = Some(nearest.unwrap_or(position));
            break;
        }
        let is_sure = calls.len() == kept().count()
            && calls
                .iter()
                .all(|(_, _, call)| call.progress.stage.is_over());
        reach.last_complete = Some((position, is_sure));
    }
    if let Some(position) = reach.first_incomplete {
        // Ranks that go on at different places after a mismatch differ everywhere: the first one counts.
        let later = position + 1..most.unwrap_or(0).min(position + 64);
        for position in later {
            if reach.mismatch.is_some() {
                break;
            }
            reach.mismatch = mismatch::find(&whole, lane, is_counted, position);
        }
    }
    reach
}

/// Everything that somebody waits for in a communicator.
pub(crate) fn obstacles(job: &Job, at: usize, comm: &Comm) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    for lane in lanes(comm) {
        obstacles.extend(collective(job, at, comm, lane));
    }
    let watch = Watch::of(job, comm);
    for (number, rank) in &comm.ranks {
        if !watch.outlived(job, rank) {
            obstacles.extend(messages::obstacles(job, watch, at, *number, rank));
        }
    }
    obstacles
}

fn collective(job: &Job, at: usize, comm: &Comm, lane: Lane) -> Option<Obstacle> {
    let reach = reach(job, comm, lane);
    let Some(position) = reach.first_incomplete else {
        return unplaced::obstacle(job, at, comm, lane);
    };
    let ranks: Vec<(u32, &Rank)> = taking_part(comm, lane).collect();
    let entered = ranks
        .iter()
        .filter_map(|(number, rank)| Some((*number, *rank, lane.of(rank).at(position)?)));
    let entered: Vec<(u32, &Rank, &Call)> = entered.collect();
    let (placed, not_placed): (Vec<_>, Vec<_>) = ranks
        .iter()
        .copied()
        .partition(|(_, rank)| lane.of(rank).is_placed());
    let absent = placed
        .into_iter()
        .filter(|(_, rank)| lane.of(rank).count() <= position);
    let (absent, mut unsure): (Vec<_>, Vec<_>) = absent.partition(|(_, rank)| is_whole(job, rank));
    unsure.extend(unplaced::least_busy(lane, not_placed));
    let (absent, mut unsure) = (unplaced::numbers(&absent), unplaced::numbers(&unsure));
    let watch = Watch::of(job, comm);
    let broken = is_broken(job, watch, &entered);
    let waiters = entered.iter().filter_map(|(number, rank, call)| {
        let has_failed = !absent.is_empty() && call.what.needs_all();
        let may_have_failed = broken && may_have_failed(lane, rank, position, call);
        let is_waiting = !call.progress.stage.is_over() || has_failed || may_have_failed;
        let is_waiting = is_waiting && !watch.outlived(job, rank);
        let waited = waited_ns(job, rank, call.entered_ns).filter(|_| is_waiting)?;
        Some((*number, waited))
    });
    let waiters: Vec<(u32, u64)> = waiters.collect();
    let (_, _, first) = entered.first()?;
    let mut sequences = entered.iter().filter_map(|(_, _, call)| call.sequence);
    let missing = if lane == Lane::Calls {
        comm.missing()
    } else {
        Vec::new()
    };
    // Something was complete before without them: they exist, and record elsewhere or not at all.
    let are_elsewhere = reach.last_complete.is_some_and(|(_, is_sure)| is_sure);
    let way = match reach.mismatch {
        Some(mismatch) if mismatch.position <= position => Way::Mismatch(mismatch),
        _ if !absent.is_empty() => Way::Absent(absent),
        _ if unsure.is_empty() && !missing.is_empty() && !are_elsewhere => Way::Absent(missing),
        _ if !(unsure.is_empty() && missing.is_empty()) => {
            unsure.extend(missing);
            Way::Unrecorded(unsure)
        }
        _ => Way::Inside(holds(job, watch, &entered)),
    };
    // Nobody waits where the only one that is not through has only just come.
    if waiters.is_empty() {
        return None;
    }
    Some(Obstacle {
        comm: at,
        at: At::Collective {
            lane,
            spot: Spot {
                position: Some(position),
                is_counted: lane.is_counted(comm),
                sequence: sequences.next(),
            },
            what: first.what.clone(),
        },
        waiters,
        way,
    })
}

/// Who holds up an operation that all have entered: the surest sign counts.
fn holds(job: &Job, watch: Watch, entered: &[(u32, &Rank, &Call)]) -> Vec<(u32, Holds)> {
    let open = || {
        entered
            .iter()
            .filter(|(_, _, call)| !call.progress.stage.is_over())
    };
    let others_began = entered.iter().any(|(_, _, call)| call.progress.began);
    let mut found: Vec<(u32, Holds)> = open()
        .filter_map(|(number, rank, call)| {
            let progress = &call.progress;
            let waits = &progress.waits;
            let for_gpu_only = !waits.is_empty()
                && waits.iter().all(|wait| !wait.state.is_for_peer())
                && waits.iter().all(|wait| wait.step.is_some());
            let why = if watch.outlived(job, rank) {
                Holds::Gone
            } else if matches!(progress.stage, Stage::Calling | Stage::Launching) {
                Holds::InTheCall
            } else if others_began && !progress.began && for_gpu_only {
                Holds::NotBegun
            } else if for_gpu_only {
                Holds::Gpu
            } else {
                return None;
            };
            Some((*number, why))
        })
        .collect();
    let surest = found.iter().map(|(_, why)| *why).min();
    found.retain(|(_, why)| Some(*why) == surest);
    // All of them is as good as none.
    if found.len() == entered.len() && surest > Some(Holds::Gone) {
        found.clear();
    }
    found
}
