//! Who holds up a job: a rank that is absent in one communicator may itself wait in another, so the chain of waits is
//! followed to its end.
//!
//! ```text
//!   rank 0 waits in A for rank 1  ─►  rank 1 waits in B for rank 2  ─►  rank 2 waits for nobody: the suspect
//!   rank 0 waits in A for rank 1  ─►  rank 1 waits in B for rank 0: a deadlock
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::blockage::{Blockage, Cause, Reason};
use super::survivors::AllSurvivors;
use crate::hang::job::{Actor, Job, Member, ProcessState};

/// From how many blockages the search begins: those that last longest. All lead to the same few ranks.
const MOST_STARTS: usize = 1000;
/// A rank that waits for this long is not about to call what others wait for: whom it waits for holds up them, too.
const IN_A_CHAIN_NS: u64 = 100_000_000;

/// Who holds up the job.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// Who; of [`Reason::Unknown`] any of the waiters.
    pub(crate) member: Member,
    pub(crate) reason: Reason,
    /// The blockage that is due to it: index in the list.
    pub(crate) blockage: usize,
    /// From the rank that waits longest to this one: indices in the list of blockages.
    pub(crate) chain: Vec<usize>,
    /// How many ranks (of whatever communicator) wait because of it.
    pub(crate) blocked: usize,
}

/// Whether a blockage can never end.
pub(crate) fn is_final(survivors: &AllSurvivors<'_>, blockage: &Blockage) -> bool {
    match &blockage.cause {
        Cause::Mismatch(_) => true,
        Cause::AllEntered(holding) => holding.iter().any(|(_, why)| *why == Reason::Gone),
        Cause::Absent(ranks) | Cause::Unrecorded(ranks) => {
            let mut ranks = ranks.iter();
            ranks.any(|rank| survivors.outlived((blockage.comm, *rank)))
        }
    }
}

pub(crate) struct Suspects<'a> {
    job: &'a Job,
    survivors: &'a AllSurvivors<'a>,
    blockages: &'a [Blockage],
    waiters: Vec<BTreeSet<Actor>>,
    /// The blockages that an actor waits in.
    waiting: BTreeMap<Actor, Vec<usize>>,
    found: BTreeMap<(Reason, Member), Found>,
    /// How often somebody was found.
    times_found: usize,
}

fn waiters(job: &Job, blockage: &Blockage) -> BTreeSet<Actor> {
    let waiters = blockage.waiters.iter();
    let ranks = waiters.filter_map(|(rank, _)| job.member((blockage.comm, *rank)));
    ranks.map(|rank| rank.actor).collect()
}

/// What led to a suspect.
struct Found {
    blockage: usize,
    chain: Vec<usize>,
    blocked: BTreeSet<Actor>,
}

/// From somebody who waits to the rank that holds it up.
#[derive(Debug, Default)]
struct Chain {
    blockages: Vec<usize>,
    /// All blockages that were looked at.
    seen: BTreeSet<usize>,
}

impl<'a> Suspects<'a> {
    /// The suspects, the likeliest first: those of the blockages that last.
    pub(crate) fn find(
        job: &'a Job,
        survivors: &'a AllSurvivors<'a>,
        blockages: &'a [Blockage],
        lasting: &[usize],
    ) -> Vec<Suspect> {
        let waiters = blockages.iter().map(|blockage| waiters(job, blockage)).collect();
        let (waiting, found) = (BTreeMap::new(), BTreeMap::new());
        let mut search = Self { job, survivors, blockages, waiters, waiting, found, times_found: 0 };
        for (index, (blockage, waiters)) in blockages.iter().zip(&search.waiters).enumerate() {
            if lasting.binary_search(&index).is_ok() || blockage.longest_ns() >= IN_A_CHAIN_NS {
                for actor in waiters {
                    search.waiting.entry(*actor).or_default().push(index);
                }
            }
        }
        let mut starts: Vec<usize> = lasting.to_vec();
        starts.sort_by_key(|index| Reverse(blockages.get(*index).map(Blockage::longest_ns)));
        for index in starts.into_iter().take(MOST_STARTS) {
            search.follow(index, &mut Chain::default());
        }
        let found = search.found.into_iter();
        let suspects = found.map(|((reason, member), found)| Suspect {
            member,
            reason,
            blockage: found.blockage,
            chain: found.chain,
            blocked: found.blocked.len(),
        });
        without_repetitions(job, suspects.collect())
    }

    fn suspect(&mut self, reason: Reason, member: Member, chain: &Chain) {
        self.times_found += 1;
        let process = self.job.member(member).map(|rank| rank.actor.process);
        let blockages = &chain.blockages;
        // All along the chain wait because of it.
        let blocked = blockages.iter().filter_map(|index| self.waiters.get(*index)).flatten();
        let found = self.found.entry((reason, member)).or_insert_with(|| Found {
            blockage: blockages.last().copied().unwrap_or(0),
            chain: blockages.clone(),
            blocked: BTreeSet::new(),
        });
        // The longest chain explains most.
        if blockages.len() > found.chain.len() {
            found.chain.clone_from(blockages);
        }
        // Whoever is stopped waits for nobody, also where it is in the operation.
        let is_itself = |actor: &&Actor| reason == Reason::Stopped && Some(actor.process) == process;
        found.blocked.extend(blocked.filter(|actor| !is_itself(actor)));
    }

    /// Goes from a blockage to those that it is due to.
    fn follow(&mut self, index: usize, chain: &mut Chain) {
        let Some(blockage) = self.blockages.get(index) else {
            return;
        };
        chain.blockages.push(index);
        chain.seen.insert(index);
        let comm = blockage.comm;
        match &blockage.cause {
            Cause::Mismatch(mismatch) => {
                for rank in mismatch.deviants() {
                    self.suspect(Reason::Mismatch, (comm, rank), chain);
                }
            }
            Cause::Absent(ranks) => {
                for rank in ranks {
                    self.absent((comm, *rank), chain);
                }
            }
            Cause::Unrecorded(ranks) => {
                for rank in ranks {
                    self.unrecorded((comm, *rank), chain);
                }
            }
            Cause::AllEntered(holding) if holding.is_empty() => {
                if let Some((rank, _)) = blockage.waiters.first() {
                    self.suspect(Reason::Unknown, (comm, *rank), chain);
                }
            }
            Cause::AllEntered(holding) => {
                for (rank, reason) in holding {
                    self.suspect(*reason, (comm, *rank), chain);
                }
            }
        }
        chain.blockages.pop();
    }

    /// Where the GPU of a member waits.
    fn waits_in(&self, member: Member) -> Vec<usize> {
        let rank = self.job.member(member);
        let waits_in = rank.and_then(|rank| self.waiting.get(&rank.actor));
        waits_in.cloned().unwrap_or_default()
    }

    /// A rank of which not all is known: its process may be over, and that is reason enough; or it waits elsewhere.
    fn unrecorded(&mut self, member: Member, chain: &mut Chain) {
        let process = self.job.process_of_member(member);
        let reason = match process.map(|process| process.state) {
            Some(ProcessState::Gone | ProcessState::NotKnown) if self.survivors.outlived(member) => Reason::Gone,
            Some(ProcessState::Ended) => Reason::Ended,
            Some(ProcessState::Stopped) => Reason::Stopped,
            _ => Reason::Unrecorded,
        };
        if reason == Reason::Unrecorded {
            let before = self.times_found;
            for next in self.waits_in(member) {
                if !chain.seen.contains(&next) {
                    self.follow(next, chain);
                }
            }
            if self.times_found > before {
                return;
            }
        }
        self.suspect(reason, member, chain);
    }

    /// A rank that did not enter: it waits elsewhere, or it is the suspect.
    fn absent(&mut self, member: Member, chain: &mut Chain) {
        let Some(rank) = self.job.member(member) else {
            self.suspect(Reason::NeverCame, member, chain);
            return;
        };
        let process = self.job.process_of(rank);
        let state = process.map_or(ProcessState::Running, |process| process.state);
        let elsewhere = self.waits_in(member);
        // One that had waited in vain before it was gone is not what its end is due to.
        let is_gone = elsewhere.is_empty() && self.survivors.outlived(member);
        if is_gone && matches!(state, ProcessState::Gone | ProcessState::NotKnown) {
            self.suspect(Reason::Gone, member, chain);
            return;
        }
        if rank.finalized || (is_gone && state == ProcessState::Ended) {
            self.suspect(Reason::Ended, member, chain);
            return;
        }
        if state == ProcessState::Stopped {
            self.suspect(Reason::Stopped, member, chain);
            return;
        }
        for &next in &elsewhere {
            if let Some(from) = chain.blockages.iter().position(|index| *index == next) {
                // Where it is not known whether a member of a circle is waited for there may be no circle.
                let circle = chain.blockages.iter().skip(from);
                let mut circle = circle.filter_map(|index| self.blockages.get(*index));
                if circle.all(|one| !matches!(one.cause, Cause::Unrecorded(_))) {
                    self.suspect(Reason::Deadlock, member, chain);
                }
            } else if !chain.seen.contains(&next) {
                self.follow(next, chain);
            }
        }
        if elsewhere.is_empty() {
            let reason = match state {
                ProcessState::Silent => Reason::Silent,
                _ if !rank.open_calls.is_empty() => Reason::InTheCall,
                _ => Reason::NotCalled,
            };
            self.suspect(reason, member, chain);
        }
    }
}

/// The likeliest first. A GPU, a process or a deadlock that blocks several communicators is listed once.
fn without_repetitions(job: &Job, mut suspects: Vec<Suspect>) -> Vec<Suspect> {
    suspects.sort_by_key(|one| (one.reason, Reverse(one.blocked), one.member));
    let mut known: BTreeSet<(Reason, Actor)> = BTreeSet::new();
    let mut circles: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    suspects.retain(|suspect| {
        let reason = suspect.reason;
        let is_process = matches!(reason, Reason::Gone | Reason::Stopped | Reason::Silent);
        let actor = job
            .member(suspect.member)
            .map(|rank| Actor { gpu: if is_process { 0 } else { rank.actor.gpu }, ..rank.actor });
        actor.is_none_or(|actor| known.insert((reason, actor)))
            && (reason != Reason::Deadlock || circles.insert(suspect.chain.iter().copied().collect()))
    });
    suspects
}
