//! Finds the ranks that block a job. A rank that is absent in one communicator may itself wait in another, so the chain
//! of waits is followed to its end.
//!
//! ```text
//!   rank 0 waits in A for rank 1  ─►  rank 1 waits in B for rank 2  ─►  rank 2 waits for nobody: the suspect
//!   rank 0 waits in A for rank 1  ─►  rank 1 waits in B for rank 0: a deadlock
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Actor, Job, Member};
use crate::judge::blockage::{Blockage, Cause, DiedBeforePeers, Reason};
use model::job::RecordingState;
use nccl_events::sort::Gather;

/// How many blockages the search starts from, the longest first. All lead to the same few ranks.
const MOST_STARTS: usize = 1000;
/// A rank that waits this long is not about to make the call others wait for: its own suspect blocks them, too.
const CHAIN_WAIT_NS: u64 = 100_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// For [`Reason::Unknown`], any of the waiters.
    pub(crate) member: Member,
    pub(crate) reason: Reason,
    /// The blockage that the suspect causes: index in the list of blockages.
    pub(crate) blockage: usize,
    /// From the rank that waits longest to the suspect: indices in the list of blockages.
    pub(crate) chain: Vec<usize>,
    pub(crate) blocked: usize,
}

pub(crate) fn is_final(died: &DiedBeforePeers<'_>, blockage: &Blockage) -> bool {
    match &blockage.cause {
        Cause::Mismatch(_) => true,
        Cause::AllEntered(holding) => holding.iter().any(|(_, why)| *why == Reason::Gone),
        Cause::Absent(ranks) | Cause::Unrecorded(ranks) => {
            ranks.iter().any(|rank| died.before_peers((blockage.comm, *rank)))
        }
    }
}

pub(crate) struct Suspects<'a> {
    job: &'a Job,
    died: &'a DiedBeforePeers<'a>,
    blockages: &'a [Blockage],
    waiters: Vec<BTreeSet<Actor>>,
    waiting: BTreeMap<Actor, Vec<usize>>,
    found: BTreeMap<(Reason, Member), SuspectChain>,
    times_found: usize,
}

fn waiters(job: &Job, blockage: &Blockage) -> BTreeSet<Actor> {
    let ranks = blockage.waiters.iter().filter_map(|(rank, _)| job.member((blockage.comm, *rank)));
    ranks.map(|rank| rank.actor).gather()
}

struct SuspectChain {
    chain: Vec<usize>,
    blockage: usize,
    blocked: BTreeSet<Actor>,
}

/// The path from a waiting rank to the rank responsible.
#[derive(Debug, Default)]
struct Chain {
    blockages: Vec<usize>,
    seen: BTreeSet<usize>,
}

impl<'a> Suspects<'a> {
    pub(crate) fn find(
        job: &'a Job,
        died: &'a DiedBeforePeers<'a>,
        blockages: &'a [Blockage],
        lasting: &[usize],
    ) -> Vec<Suspect> {
        let waiters = blockages.iter().map(|blockage| waiters(job, blockage)).collect();
        let (waiting, found) = (BTreeMap::new(), BTreeMap::new());
        let mut search = Self { job, died, blockages, waiters, waiting, found, times_found: 0 };
        for (index, (blockage, waiters)) in blockages.iter().zip(&search.waiters).enumerate() {
            let lasts = lasting.binary_search(&index).is_ok() || blockage.longest_ns() >= CHAIN_WAIT_NS;
            if lasts && !blockage.is_step_without_cause() {
                for actor in waiters {
                    search.waiting.entry(*actor).or_default().push(index);
                }
            }
        }
        let mut starts: Vec<usize> = lasting.to_vec();
        nccl_events::sort::sort_by_key(&mut starts, |index| Reverse(blockages.get(*index).map(Blockage::longest_ns)));
        for index in starts.into_iter().take(MOST_STARTS) {
            search.follow(index, &mut Chain::default());
        }
        let suspects = search.found.into_iter().map(|((reason, member), SuspectChain { blockage, chain, blocked })| {
            Suspect { member, reason, blockage, chain, blocked: blocked.len() }
        });
        without_repetitions(job, suspects.collect())
    }

    fn suspect(&mut self, reason: Reason, member: Member, chain: &Chain) {
        self.times_found += 1;
        let process = self.job.member(member).map(|rank| rank.actor.process);
        let blockages = &chain.blockages;
        let found = self.found.entry((reason, member)).or_insert_with(|| SuspectChain {
            // The last blockage of a chain is the one that the suspect causes.
            blockage: blockages.last().copied().unwrap_or(0),
            chain: blockages.clone(),
            blocked: BTreeSet::new(),
        });
        // The longest chain explains most.
        if blockages.len() > found.chain.len() {
            found.chain.clone_from(blockages);
        }
        // A stopped process does not count as waiting, even in the operation.
        let is_itself = |actor: &&Actor| reason == Reason::Stopped && Some(actor.process) == process;
        // All ranks along the chain wait because of the suspect.
        let blocked = blockages.iter().filter_map(|index| self.waiters.get(*index)).flatten();
        found.blocked.extend(blocked.filter(|actor| !is_itself(actor)));
    }

    /// Follows a blockage to the ranks that cause it.
    fn follow(&mut self, index: usize, chain: &mut Chain) {
        let Some(blockage) = self.blockages.get(index) else {
            return;
        };
        chain.blockages.push(index);
        chain.seen.insert(index);
        let comm = blockage.comm;
        match &blockage.cause {
            Cause::Mismatch(mismatch) => {
                mismatch.deviants().into_iter().for_each(|rank| self.suspect(Reason::Mismatch, (comm, rank), chain));
            }
            Cause::Absent(ranks) => ranks.iter().for_each(|rank| self.absent((comm, *rank), chain)),
            Cause::Unrecorded(ranks) => ranks.iter().for_each(|rank| self.unrecorded((comm, *rank), chain)),
            Cause::AllEntered(holding) if holding.is_empty() => {
                if let Some((rank, _)) = blockage.waiters.first() {
                    self.suspect(Reason::Unknown, (comm, *rank), chain);
                }
            }
            Cause::AllEntered(holding) => {
                holding.iter().for_each(|(rank, reason)| self.suspect(*reason, (comm, *rank), chain));
            }
        }
        chain.blockages.pop();
    }

    /// The blockages in which the member's GPU waits.
    fn waits_in(&self, member: Member) -> Vec<usize> {
        self.job.member(member).and_then(|rank| self.waiting.get(&rank.actor)).cloned().unwrap_or_default()
    }

    /// A rank with missing records: the suspect if its process is over, unless it waits elsewhere.
    fn unrecorded(&mut self, member: Member, chain: &mut Chain) {
        let reason = match self.job.process_of_member(member).map(|process| process.state) {
            Some(RecordingState::Gone | RecordingState::Unknown) if self.died.before_peers(member) => Reason::Gone,
            Some(RecordingState::Ended) => Reason::Ended,
            Some(RecordingState::Stopped) => Reason::Stopped,
            _ => Reason::Unrecorded,
        };
        let before = self.times_found;
        if reason == Reason::Unrecorded {
            for next in self.waits_in(member) {
                if !chain.seen.contains(&next) {
                    self.follow(next, chain);
                }
            }
        }
        if self.times_found == before {
            self.suspect(reason, member, chain);
        }
    }

    /// A rank that did not enter: it waits elsewhere, or is the suspect.
    fn absent(&mut self, member: Member, chain: &mut Chain) {
        let Some(rank) = self.job.member(member) else {
            self.suspect(Reason::NeverCame, member, chain);
            return;
        };
        let state = self.job.process_of(rank).map_or(RecordingState::Running, |process| process.state);
        let elsewhere = self.waits_in(member);
        // A rank that had itself waited before it was gone is not the cause.
        let is_gone = elsewhere.is_empty() && self.died.before_peers(member);
        let reason = match state {
            RecordingState::Gone | RecordingState::Unknown if is_gone => Some(Reason::Gone),
            _ if rank.finalized => Some(Reason::Ended),
            RecordingState::Ended if is_gone => Some(Reason::Ended),
            RecordingState::Stopped => Some(Reason::Stopped),
            _ if !elsewhere.is_empty() => None,
            RecordingState::Silent => Some(Reason::Silent),
            _ if !rank.open_calls.is_empty() || rank.activity.call.is_some() => Some(Reason::InTheCall),
            _ => Some(Reason::NotCalled),
        };
        if let Some(reason) = reason {
            self.suspect(reason, member, chain);
            return;
        }
        for next in elsewhere {
            if let Some(from) = chain.blockages.iter().position(|index| *index == next) {
                // With missing records of a member, the circle is not certain.
                let mut circle = chain.blockages.iter().skip(from).filter_map(|index| self.blockages.get(*index));
                if circle.all(|one| !matches!(one.cause, Cause::Unrecorded(_))) {
                    self.suspect(Reason::Deadlock, member, chain);
                }
            } else if !chain.seen.contains(&next) {
                self.follow(next, chain);
            }
        }
    }
}

/// The likeliest suspects first, without duplicates: a GPU, process or deadlock that blocks several communicators, and
/// the ranks with missing records of one operation, are listed once.
fn without_repetitions(job: &Job, mut suspects: Vec<Suspect>) -> Vec<Suspect> {
    nccl_events::sort::sort_by_key(&mut suspects, |one| (one.reason, Reverse(one.blocked), one.member));
    let mut known: BTreeSet<(Reason, Actor)> = BTreeSet::new();
    let mut cycles: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    let mut unrecorded: BTreeSet<usize> = BTreeSet::new();
    suspects.retain(|suspect| {
        let reason = suspect.reason;
        let is_process = matches!(reason, Reason::Gone | Reason::Stopped | Reason::Silent);
        let actor = job.member(suspect.member).map(|rank| rank.actor);
        let actor = actor.map(|actor| Actor { gpu: if is_process { 0 } else { actor.gpu }, ..actor });
        actor.is_none_or(|actor| known.insert((reason, actor)))
            && (reason != Reason::Deadlock || cycles.insert(suspect.chain.iter().copied().gather()))
            // One sentence names all ranks with missing records.
            && (reason != Reason::Unrecorded || unrecorded.insert(suspect.blockage))
    });
    suspects
}
