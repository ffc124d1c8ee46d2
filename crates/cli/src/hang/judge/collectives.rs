//! The collectives of a communicator: how far they came, who waits in the first incomplete one, and for whom.

use super::blockage::{Blockage, Cause, Operation, Position, Reason};
use super::mismatch::{self, Mismatch};
use super::survivors::Survivors;
use crate::hang::job::{Comm, Job, ProcessState, Rank};
use crate::hang::operation::{Call, Stage};
use crate::hang::sequence::Sequence;
use crate::hang::tail::Tail;

/// How far behind the first incomplete position different calls are looked for.
const MISMATCH_POSITIONS: u64 = 64;

/// One sequence of collectives of a communicator.
pub(crate) struct Collectives<'a> {
    pub(super) job: &'a Job,
    pub(super) comm: &'a Comm,
    pub(super) sequence: Sequence,
    pub(super) survivors: Survivors,
    /// The ranks that take part.
    pub(super) ranks: Vec<(u32, &'a Rank)>,
}

/// What is known of the progress of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// The last position that all recorded ranks have completed, and whether that is sure (else all called it, and
    /// whether it ended is not recorded).
    pub(crate) last_complete: Option<(u64, bool)>,
    pub(crate) first_incomplete: Option<u64>,
    /// The first position with different calls.
    pub(crate) mismatch: Option<Mismatch>,
}

pub(super) fn numbers(ranks: &[(u32, &Rank)]) -> Vec<u32> {
    ranks.iter().map(|(number, _)| *number).collect()
}

impl<'a> Collectives<'a> {
    pub(crate) fn of(job: &'a Job, comm: &'a Comm, sequence: Sequence) -> Self {
        Self { job, comm, sequence, survivors: Survivors::of(job, comm), ranks: sequence.ranks(comm).collect() }
    }

    /// The operations of the ranks with known positions.
    fn tails(&self) -> impl Iterator<Item = &'a Tail> {
        let tails = self.ranks.iter().map(|(_, rank)| self.sequence.of(rank));
        tails.filter(|tail| tail.has_positions())
    }

    /// Those of which anything is kept: of a part whose journal is removed only the number is known.
    fn kept_tails(&self) -> impl Iterator<Item = &'a Tail> {
        self.tails().filter(|tail| !tail.list.is_empty())
    }

    /// Whether all records of a rank are there: else it may have done more, and positions mean nothing.
    fn is_whole(&self, rank: &Rank) -> bool {
        let process = self.job.process_of(rank);
        process.is_some_and(|process| process.is_whole)
    }

    /// How far the sequence came.
    pub(crate) fn reach(&self) -> Reach {
        let first = self.kept_tails().map(|tail| tail.before).min().unwrap_or(0);
        let end = self.tails().map(Tail::count).max().unwrap_or(0);
        let whole = self
            .ranks
            .iter()
            .copied()
            .filter(|(_, rank)| self.sequence.of(rank).has_positions() && self.is_whole(rank));
        let whole: Vec<(u32, &Rank)> = whole.collect();
        let all_entered = |position: u64| {
            let mut ranks = whole.iter();
            ranks.all(|(_, rank)| self.sequence.of(rank).count() > position)
        };
        let mut reach = Reach::default();
        if first > 0 && self.tails().all(|tail| tail.count() >= first) {
            reach.last_complete = Some((first - 1, true));
        }
        for position in first..end {
            let entered = Entered::at(self, position);
            if !all_entered(position) || entered.is_open() {
                // Those who are further may have kept nothing of it.
                let ahead = self.kept_tails().filter(|tail| tail.count() > position);
                let nearest = ahead.map(|tail| tail.before.max(position)).min();
                reach.first_incomplete = Some(nearest.unwrap_or(position));
                break;
            }
            reach.last_complete = Some((position, entered.is_surely_complete()));
        }
        // Ranks that go on after a mismatch differ everywhere: the first one counts.
        let last = reach.first_incomplete.map_or(end, |position| end.min(position.saturating_add(MISMATCH_POSITIONS)));
        let from_beginning = self.sequence.is_from_beginning(self.comm);
        reach.mismatch =
            (first..last).find_map(|position| mismatch::find(&whole, self.sequence, from_beginning, position));
        reach
    }

    /// Who waits at the first incomplete position, and why; none where the only rank that has not completed it has
    /// only just entered it.
    pub(crate) fn blockage(&self, comm: usize, reach: Reach, position: u64) -> Option<Blockage> {
        let entered = Entered::at(self, position);
        let (absent, unsure) = self.not_entered(position);
        let waiters = entered.waiters(!absent.is_empty());
        let (_, _, first) = entered.calls.first().filter(|_| !waiters.is_empty())?;
        let mut sequences = entered.calls.iter().filter_map(|(_, _, call)| call.sequence);
        Some(Blockage {
            comm,
            operation: Operation::Collective {
                sequence: self.sequence,
                position: Position {
                    index: Some(position),
                    from_beginning: self.sequence.is_from_beginning(self.comm),
                    sequence: sequences.next(),
                },
                what: first.what.clone(),
            },
            waiters,
            cause: self.cause(reach, &entered, absent, unsure),
        })
    }

    /// The ranks that did not enter a position, and those that may have entered it or not.
    fn not_entered(&self, position: u64) -> (Vec<u32>, Vec<u32>) {
        let tail = |rank| self.sequence.of(rank);
        let ranks = self.ranks.iter().copied();
        let (placed, unknown): (Vec<_>, Vec<_>) = ranks.partition(|(_, rank)| tail(rank).has_positions());
        let (absent, mut unsure): (Vec<_>, Vec<_>) = placed
            .into_iter()
            .filter(|(_, rank)| tail(rank).count() <= position)
            .partition(|(_, rank)| self.is_whole(rank));
        // Of those whose position is unknown the ones that wait for nothing, if there are any.
        let (waiting, idle): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|(_, rank)| tail(rank).first_open().is_some());
        unsure.extend(if idle.is_empty() { waiting } else { idle });
        (numbers(&absent), numbers(&unsure))
    }

    fn cause(&self, reach: Reach, entered: &Entered<'_>, absent: Vec<u32>, mut unsure: Vec<u32>) -> Cause {
        let missing = match self.sequence {
            Sequence::Calls => self.comm.missing(),
            Sequence::Replays => Vec::new(),
        };
        // Something was complete before without the missing ranks: they record elsewhere or not at all.
        let are_elsewhere = reach.last_complete.is_some_and(|(_, is_sure)| is_sure);
        match reach.mismatch {
            Some(mismatch) if mismatch.position <= entered.position => Cause::Mismatch(mismatch),
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

/// The ranks that entered one position, as far as their calls are kept.
struct Entered<'a> {
    of: &'a Collectives<'a>,
    position: u64,
    calls: Vec<(u32, &'a Rank, &'a Call)>,
    /// Whether a process was gone before the others in the middle of this collective.
    is_broken: bool,
}

impl<'a> Entered<'a> {
    fn at(of: &'a Collectives<'a>, position: u64) -> Self {
        let ranks = of.ranks.iter();
        let calls = ranks.filter_map(|&(number, rank)| {
            let call = of.sequence.of(rank).at(position)?;
            Some((number, rank, call))
        });
        let mut entered = Self { of, position, calls: calls.collect(), is_broken: false };
        let mut calls = entered.calls.iter();
        entered.is_broken = calls.any(|(_, rank, call)| entered.is_outlived(rank) && !call.progress.stage.is_over());
        entered
    }

    fn is_outlived(&self, rank: &Rank) -> bool {
        self.of.survivors.outlived(self.of.job, rank)
    }

    /// Whether transfers that ended may have failed because a process died: nothing later shows that the program went
    /// on.
    fn may_have_failed(&self, rank: &Rank, call: &Call) -> bool {
        let is_last = self.of.sequence.of(rank).count() == self.position + 1;
        let has_ended = call.progress.stage == Stage::Transferred;
        self.is_broken && is_last && has_ended && call.what.needs_all()
    }

    /// Whether the end of its call would be there: of records that end early, or are missing, that is not known where
    /// others went on.
    fn shows_ends(&self, rank: &Rank) -> bool {
        let went_on = |(_, other, call): &(u32, &Rank, &Call)| {
            call.progress.stage.is_over() && self.of.sequence.of(other).count() > self.position + 1
        };
        self.of.is_whole(rank) || !self.calls.iter().any(went_on)
    }

    /// Whether a rank that was not outlived is known not to have completed it.
    fn is_open(&self) -> bool {
        let calls = self.calls.iter();
        let mut alive = calls.filter(|(_, rank, _)| !self.is_outlived(rank) && self.shows_ends(rank));
        alive.any(|(_, rank, call)| call.progress.stage.is_open() || self.may_have_failed(rank, call))
    }

    /// Whether all of which anything is kept are known to have completed it.
    fn is_surely_complete(&self) -> bool {
        let mut calls = self.calls.iter();
        self.calls.len() == self.of.kept_tails().count() && calls.all(|(_, _, call)| call.progress.stage.is_over())
    }

    /// Who waits, and for how long.
    fn waiters(&self, some_are_absent: bool) -> Vec<(u32, u64)> {
        let waiters = self.calls.iter().filter_map(|(number, rank, call)| {
            let has_failed = some_are_absent && call.what.needs_all();
            let is_open = !call.progress.stage.is_over();
            let is_waiting = is_open || has_failed || self.may_have_failed(rank, call);
            let waited_ns = self.of.job.waited_ns(rank, call.entered_ns)?;
            let had_waited = || some_are_absent && Survivors::had_waited(self.of.job, waited_ns);
            let is_there = !self.is_outlived(rank) || had_waited();
            (is_waiting && is_there && self.shows_ends(rank)).then_some((*number, waited_ns))
        });
        waiters.collect()
    }

    /// Who holds it up when all have entered it: the surest reason counts.
    fn held_up_by(&self) -> Vec<(u32, Reason)> {
        let others_began = self.calls.iter().any(|(_, _, call)| call.progress.began);
        let reason = |rank: &Rank, call: &Call| {
            let progress = &call.progress;
            let for_gpu_only = !progress.waits.is_empty()
                && progress.waits.iter().all(|wait| !wait.state.is_for_peer() && wait.step.is_some());
            match progress.stage {
                stage if stage.is_over() => None,
                _ if self.is_outlived(rank) => Some(Reason::Gone),
                _ if self.of.job.process_of(rank).is_some_and(|it| it.state == ProcessState::Stopped) => {
                    Some(Reason::Stopped)
                }
                Stage::Calling | Stage::Launching => Some(Reason::InTheCall),
                _ if !for_gpu_only => None,
                _ if others_began && !progress.began => Some(Reason::NotBegun),
                _ => Some(Reason::Gpu),
            }
        };
        let calls = self.calls.iter();
        let mut found: Vec<(u32, Reason)> =
            calls.filter_map(|(number, rank, call)| Some((*number, reason(rank, call)?))).collect();
        let surest = found.iter().map(|(_, reason)| *reason).min();
        found.retain(|(_, reason)| Some(*reason) == surest);
        // All of them is as good as none.
        if found.len() == self.calls.len() && surest > Some(Reason::Stopped) {
            found.clear();
        }
        found
    }
}
