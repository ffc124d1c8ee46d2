//! From what waits to what is to blame: who stands in the way in one communicator may itself wait in another, so the
//! chain is followed to its end.
//!
//! ```text
//!   rank 0 waits in A for rank 1  ─►  rank 1 waits in B for rank 2  ─►  rank 2 waits for nobody: the suspect
//!   rank 0 waits in A for rank 1  ─►  rank 1 waits in B for rank 0: a deadlock
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::job::{Actor, Job, Life, Rank};
use super::judge::{Holds, Obstacle, Way, Who};
use super::watch::Watch;

/// Why a rank is the suspect, the surest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// Ranks call different things.
    Mismatch,
    /// Its process is gone.
    Gone,
    /// Its process has ended its recording, or this communicator.
    Ended,
    /// Ranks wait for each other in different communicators.
    Deadlock,
    /// Its process is stopped.
    Stopped,
    /// It is in a call of NCCL that does not return.
    InTheCall,
    /// It runs, is not in NCCL, and has not called what the others wait for.
    NotCalled,
    /// It has recorded nothing, nor did it ever take part.
    NeverCame,
    /// It is on another host and silent.
    Silent,
    /// It entered, and its kernel has not begun, where others' have.
    NotBegun,
    /// It entered, and its GPU does not go on.
    Gpu,
    /// It is not recorded.
    Unrecorded,
    /// All entered, and nothing says who holds it up.
    Unknown,
}

/// Somebody to blame.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// Who; of [`Reason::Unknown`] any of the waiters.
    pub(crate) who: Who,
    /// Why.
    pub(crate) reason: Reason,
    /// The obstacle where it stands in the way: a place in the list.
    pub(crate) obstacle: usize,
    /// From the one who waits longest to this: places in the list of obstacles.
    pub(crate) chain: Vec<usize>,
    /// How many ranks (of whatever communicator) wait because of it.
    pub(crate) blocked: usize,
}

struct Search<'a> {
    job: &'a Job,
    watches: &'a [Watch],
    obstacles: &'a [Obstacle],
    /// Where an actor waits.
    waiting: BTreeMap<Actor, Vec<usize>>,
    found: BTreeMap<(Reason, Who), Found>,
    /// How often somebody was blamed.
    blames: usize,
}

/// What led to a suspect.
struct Found {
    obstacle: usize,
    chain: Vec<usize>,
    blocked: BTreeSet<Actor>,
}

fn rank_of(job: &Job, (comm, rank): Who) -> Option<&Rank> {
    job.comms.get(comm)?.ranks.get(&rank)
}

/// What the processes of each communicator are compared with.
pub(crate) fn watches(job: &Job) -> Vec<Watch> {
    let comms = job.comms.iter();
    comms.map(|comm| Watch::of(job, comm)).collect()
}

/// Whether a rank's process was gone when others of the communicator still worked or waited.
fn was_gone(job: &Job, watches: &[Watch], who: Who) -> bool {
    let watch = watches.get(who.0).zip(rank_of(job, who));
    watch.is_some_and(|(watch, rank)| watch.outlived(job, rank))
}

/// Who is to blame, the likeliest first.
pub(crate) fn suspects(job: &Job, watches: &[Watch], obstacles: &[Obstacle]) -> Vec<Suspect> {
    let mut waiting: BTreeMap<Actor, Vec<usize>> = BTreeMap::new();
    for (at, obstacle) in obstacles.iter().enumerate() {
        for (rank, _) in &obstacle.waiters {
            if let Some(rank) = rank_of(job, (obstacle.comm, *rank)) {
                waiting.entry(rank.actor).or_default().push(at);
            }
        }
    }
    let mut search = Search {
        job,
        watches,
        obstacles,
        waiting,
        found: BTreeMap::new(),
        blames: 0,
    };
    let mut starts: Vec<usize> = (0..obstacles.len()).collect();
    starts.sort_by_key(|&at| {
        let obstacle = obstacles.get(at);
        std::cmp::Reverse(obstacle.map_or(0, Obstacle::longest_ns))
    });
    for at in starts.into_iter().take(MOST_STARTS) {
        let mut way = Chain {
            blocked: search.waiters(at),
            ..Chain::default()
        };
        search.follow(at, &mut way);
    }
    let mut suspects: Vec<Suspect> = search
        .found
        .into_iter()
        .map(|((reason, who), found)| Suspect {
            who,
            reason,
            obstacle: found.obstacle,
            chain: found.chain,
            blocked: found.blocked.len(),
        })
        .collect();
    suspects.sort_by_key(|suspect| {
        (
            suspect.reason,
            std::cmp::Reverse(suspect.blocked),
            suspect.who,
        )
    });
    // One GPU may stand in the way in several communicators, a process with several GPUs: once is enough.
    let mut known: BTreeSet<(Reason, Actor)> = BTreeSet::new();
    suspects.retain(|suspect| {
        let is_about_process = matches!(
            suspect.reason,
            Reason::Gone | Reason::Stopped | Reason::Silent
        );
        let actor = rank_of(job, suspect.who).map(|rank| Actor {
            gpu: if is_about_process { 0 } else { rank.actor.gpu },
            ..rank.actor
        });
        actor.is_none_or(|actor| known.insert((suspect.reason, actor)))
    });
    // All ranks of a circle are as guilty as each other: it is told once.
    let mut circles: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    suspects.retain(|suspect| {
        let circle: BTreeSet<usize> = suspect.chain.iter().copied().collect();
        suspect.reason != Reason::Deadlock || circles.insert(circle)
    });
    suspects
}

/// The way from somebody who waits to whom it is due to.
#[derive(Debug, Default)]
struct Chain {
    /// Who waits at its beginning.
    blocked: BTreeSet<Actor>,
    /// The obstacles on the way here.
    obstacles: Vec<usize>,
    /// All obstacles that were looked at.
    seen: BTreeSet<usize>,
}

impl Search<'_> {
    fn waiters(&self, at: usize) -> BTreeSet<Actor> {
        let obstacle = self.obstacles.get(at);
        let waiters = obstacle.into_iter().flat_map(|obstacle| {
            let of = |rank: &u32| rank_of(self.job, (obstacle.comm, *rank));
            let ranks = obstacle
                .waiters
                .iter()
                .filter_map(move |(rank, _)| of(rank));
            ranks.map(|rank| rank.actor)
        });
        waiters.collect()
    }

    fn blame(&mut self, reason: Reason, who: Who, chain: &Chain) {
        self.blames += 1;
        let way = &chain.obstacles;
        let found = self.found.entry((reason, who)).or_insert_with(|| Found {
            obstacle: way.last().copied().unwrap_or(0),
            chain: way.clone(),
            blocked: BTreeSet::new(),
        });
        // The longest way here tells most.
        if way.len() > found.chain.len() {
            found.chain.clone_from(way);
        }
        found.blocked.extend(&chain.blocked);
    }

    /// Goes from an obstacle to whom it is due to.
    fn follow(&mut self, at: usize, chain: &mut Chain) {
        let Some(obstacle) = self.obstacles.get(at) else {
            return;
        };
        chain.obstacles.push(at);
        chain.seen.insert(at);
        let comm = obstacle.comm;
        match &obstacle.way {
            Way::Mismatch(mismatch) => {
                for rank in mismatch.deviants() {
                    self.blame(Reason::Mismatch, (comm, rank), chain);
                }
            }
            Way::Absent(absent) => {
                for rank in absent.clone() {
                    self.absent((comm, rank), chain);
                }
            }
            Way::Unrecorded(ranks) => {
                for rank in ranks.clone() {
                    self.unrecorded((comm, rank), chain);
                }
            }
            Way::Inside(holding) if holding.is_empty() => {
                if let Some((rank, _)) = obstacle.waiters.first() {
                    self.blame(Reason::Unknown, (comm, *rank), chain);
                }
            }
            Way::Inside(holding) => {
                for (rank, why) in holding {
                    let reason = match why {
                        Holds::Gone => Reason::Gone,
                        Holds::InTheCall => Reason::InTheCall,
                        Holds::NotBegun => Reason::NotBegun,
                        Holds::Gpu => Reason::Gpu,
                    };
                    self.blame(reason, (comm, *rank), chain);
                }
            }
        }
        chain.obstacles.pop();
    }

    /// A rank of which not everything is known: its process may be over, and that is reason enough; or it waits elsewhere.
    fn unrecorded(&mut self, who: Who, chain: &mut Chain) {
        let rank = rank_of(self.job, who);
        let process = rank.and_then(|rank| self.job.processes.get(rank.actor.process));
        let reason = match process.map(|process| process.life) {
            Some(Life::Gone) if was_gone(self.job, self.watches, who) => Reason::Gone,
            Some(Life::Ended) => Reason::Ended,
            Some(Life::Stopped) => Reason::Stopped,
            _ => Reason::Unrecorded,
        };
        let elsewhere = rank.and_then(|rank| self.waiting.get(&rank.actor));
        let mut elsewhere = elsewhere.cloned().unwrap_or_default();
        elsewhere.retain(|next| !chain.obstacles.contains(next));
        if reason == Reason::Unrecorded {
            let before = self.blames;
            for next in elsewhere {
                if !chain.seen.contains(&next) {
                    self.follow(next, chain);
                }
            }
            if self.blames > before {
                return;
            }
        }
        self.blame(reason, who, chain);
    }

    /// A rank that did not come: because it waits elsewhere, or else it is to blame.
    fn absent(&mut self, who: Who, chain: &mut Chain) {
        let Some(rank) = rank_of(self.job, who) else {
            self.blame(Reason::NeverCame, who, chain);
            return;
        };
        let process = self.job.processes.get(rank.actor.process);
        let life = process.map_or(Life::Running, |process| process.life);
        let outlived = was_gone(self.job, self.watches, who);
        if outlived && life == Life::Gone {
            self.blame(Reason::Gone, who, chain);
            return;
        }
        if rank.finalized || (outlived && life == Life::Ended) {
            self.blame(Reason::Ended, who, chain);
            return;
        }
        let elsewhere = self.waiting.get(&rank.actor).cloned().unwrap_or_default();
        let mut goes_on = false;
        for next in elsewhere {
            goes_on = true;
            if let Some(from) = chain.obstacles.iter().position(|at| *at == next) {
                // Where it is not known whether one of a circle is waited for it may be none.
                let circle = chain.obstacles.iter().skip(from);
                let mut circle = circle.filter_map(|at| self.obstacles.get(*at));
                if circle.all(|one| !matches!(one.way, Way::Unrecorded(_))) {
                    self.blame(Reason::Deadlock, who, chain);
                }
            } else if !chain.seen.contains(&next) {
                self.follow(next, chain);
            }
        }
        if goes_on {
            return;
        }
        let reason = match life {
            Life::Stopped => Reason::Stopped,
            Life::Silent => Reason::Silent,
            _ if !rank.inside.is_empty() => Reason::InTheCall,
            _ => Reason::NotCalled,
        };
        self.blame(reason, who, chain);
    }
}

/// From how many obstacles the search begins: those that last longest. All lead to the same few ranks.
const MOST_STARTS: usize = 1000;

/// Whether an obstacle counts, or is what happens in any healthy job: ranks that wait a little for the last one.
pub(crate) fn counts(job: &Job, watches: &[Watch], obstacle: &Obstacle, after_ns: u64) -> bool {
    let lasting = obstacle.longest_ns() >= after_ns;
    let gone = |rank: u32| was_gone(job, watches, (obstacle.comm, rank));
    let for_ever = match &obstacle.way {
        Way::Mismatch(_) => true,
        Way::Absent(ranks) => ranks.iter().any(|rank| gone(*rank)),
        Way::Inside(holding) => holding.iter().any(|(_, why)| *why == Holds::Gone),
        Way::Unrecorded(ranks) => ranks.iter().any(|rank| gone(*rank)),
    };
    lasting || for_ever
}
