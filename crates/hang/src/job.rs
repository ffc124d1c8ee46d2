//! The state of a job at one moment, as far as known, for [`super::judge`]. Times are the host's CLOCK_REALTIME ns.

use std::collections::{BTreeMap, BTreeSet};

use job::life::Life;
use nccl_events::MOST_RANKS;
use nccl_events::archive::{RankIdentity, number};
use nccl_events::sort::Gather;

use super::doing::Doing;
use super::operation::{Message, OpenCall, Tail};

#[derive(Debug, Default)]
pub(crate) struct Job {
    /// Sorted by name of the part.
    pub(crate) processes: Vec<Process>,
    pub(crate) comms: Vec<Comm>,
    /// All ranks of the job, for calls whose communicator is not known or being made. Its index is behind those of
    /// `comms`, and its name is empty.
    pub(crate) everyone: Comm,
    /// The moment of judgement. Later events do not count, because processes are read one after the other.
    pub(crate) now_ns: u64,
    /// Whether the job was read from an archive, after its journals were removed.
    pub(crate) is_archive: bool,
    /// The archive's statements about missing data.
    pub(crate) missing: Vec<String>,
    /// The archive's statements about operations that do not end, or differ between ranks.
    pub(crate) signs: Vec<String>,
    /// The archive's statement about network events that do not end. It is a sign where their operations may not have.
    pub(crate) open_below: Option<String>,
}

/// A member of a communicator: index of [`Job::comm`], and rank.
pub(crate) type Member = (usize, u32);

impl Job {
    /// Whether no process is alive, so that nothing more can be called.
    pub(crate) fn is_over(&self) -> bool {
        !self.processes.iter().any(|process| process.state.is_alive())
    }

    pub(crate) fn number(&mut self) {
        let mut identities: BTreeMap<Actor, RankIdentity> = BTreeMap::new();
        for (at, comm) in (0..).zip(&self.comms) {
            for (number, rank) in &comm.ranks {
                let identities = identities.entry(rank.actor).or_default();
                identities.process = rank.actor.process;
                identities.launcher_rank = self.process_of(rank).and_then(|process| process.launcher_rank);
                identities.members.entry(at).or_insert(*number);
            }
        }
        let (actors, identities): (Vec<Actor>, Vec<RankIdentity>) = identities.into_iter().unzip();
        let (world, numbers) = number(&identities);
        let numbers: BTreeMap<Actor, Option<u32>> = actors.into_iter().zip(numbers).gather();
        for (at, comm) in (0..).zip(&mut self.comms) {
            comm.has_all = world == Some(at);
            for rank in comm.ranks.values_mut() {
                rank.job_rank = numbers.get(&rank.actor).copied().flatten();
            }
        }
        self.everyone = self.everyone(&numbers);
    }

    /// All ranks of the job, and the processes that have no rank yet.
    fn everyone(&self, numbers: &BTreeMap<Actor, Option<u32>>) -> Comm {
        let mut found: Vec<(Option<u32>, Rank)> = Vec::new();
        let mut has_one_each = true;
        for (at, process) in self.processes.iter().enumerate() {
            let [first, last] = [0, u32::MAX].map(|gpu| Actor { process: at, gpu });
            let mut actors: Vec<(Actor, Option<u32>)> =
                numbers.range(first..=last).map(|(actor, number)| (*actor, *number)).collect();
            if actors.is_empty() {
                actors.push((first, process.launcher_rank));
            }
            has_one_each &= actors.len() == 1;
            for (actor, job_rank) in actors {
                let doing = process.doing.get(&actor.gpu).cloned().unwrap_or_default();
                let finalized = process.state == Life::Ended;
                found.push((job_rank, Rank { actor, job_rank, doing, finalized, ..Rank::default() }));
            }
        }
        let known: BTreeSet<u32> = found.iter().filter_map(|(number, _)| *number).gather();
        let has_numbers = known.len() == found.len();
        let launched = self.processes.iter().filter_map(|process| process.launcher_size.filter(|_| has_one_each));
        let world = self.comms.iter().filter(|comm| comm.has_all).map(|comm| comm.size);
        let size = launched.filter(|size| *size <= MOST_RANKS).chain(world).max().unwrap_or(0);
        let size = size.max(known.last().map_or(0, |last| last.saturating_add(1)));
        let ranks = (0..).zip(found).map(|(at, (number, rank))| match number.filter(|_| has_numbers) {
            Some(number) => (number, rank),
            None => (at, rank),
        });
        let ranks: BTreeMap<u32, Rank> = ranks.gather();
        let size = if has_numbers { size } else { u32::try_from(ranks.len()).unwrap_or(u32::MAX) };
        Comm { size, has_all: has_numbers, lacks_numbers: !has_numbers, ranks, ..Comm::default() }
    }

    /// The communicator with this index, or [`Self::everyone`].
    pub(crate) fn comm(&self, index: usize) -> Option<&Comm> {
        self.comms.get(index).or_else(|| (index == self.comms.len()).then_some(&self.everyone))
    }

    pub(crate) fn process_of(&self, rank: &Rank) -> Option<&Process> {
        self.processes.get(rank.actor.process)
    }

    pub(crate) fn member(&self, (comm, rank): Member) -> Option<&Rank> {
        self.comm(comm)?.ranks.get(&rank)
    }

    pub(crate) fn process_of_member(&self, member: Member) -> Option<&Process> {
        self.process_of(self.member(member)?)
    }

    pub(crate) fn has_state(&self, rank: &Rank, state: Life) -> bool {
        self.process_of(rank).is_some_and(|process| process.state == state)
    }

    /// Whether all records of a rank are there. If not, it may have done more, and positions mean nothing.
    pub(crate) fn is_whole(&self, rank: &Rank) -> bool {
        self.process_of(rank).is_some_and(|process| process.is_whole)
    }

    /// How long a rank has been in an operation; `None` if it entered after the moment of judgement, or has no clock.
    pub(crate) fn waited_ns(&self, rank: &Rank, entered_ns: u64) -> Option<u64> {
        self.process_of(rank).filter(|process| process.has_clock)?.until_ns.checked_sub(entered_ns)
    }
}

pub(crate) const fn state_name(state: Life) -> &'static str {
    match state {
        Life::Running => "running",
        Life::Stopped => "stopped",
        Life::Gone => "gone",
        Life::Ended => "ended",
        Life::Silent => "silent",
        Life::Unknown => "not-known",
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) part: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) launcher_rank: Option<u32>,
    pub(crate) launcher_size: Option<u32>,
    /// Unknown if only the archive is left, which does not record how a process ended.
    pub(crate) state: Life,
    /// The time up to which the process is known: the moment of judgement, or its last record if it is not running.
    pub(crate) until_ns: u64,
    /// Time of the last record, including the plugin's own clock readings (one per second).
    pub(crate) last_record_ns: u64,
    /// Time of NCCL's last call of the plugin; 0 if never.
    pub(crate) last_event_ns: u64,
    /// `None` if the recorded kinds of events are unknown.
    pub(crate) event_mask: Option<u32>,
    pub(crate) has_journal: bool,
    /// Whether the records are complete from some time on up to `until_ns`.
    pub(crate) is_whole: bool,
    /// Whether clock readings exist. Without them the process's times are not compared.
    pub(crate) has_clock: bool,
    /// The time from which a flight recording is complete, if its beginning was removed.
    pub(crate) kept_since_ns: Option<u64>,
    /// Missing or doubtful parts of the recording.
    pub(crate) problems: Vec<String>,
    /// What each of its GPUs' ranks is in, by NVTX ranges; without ranks one value.
    pub(crate) doing: BTreeMap<u32, Doing>,
    /// Whether NCCL's NVTX ranges are recorded, so that each call that a rank is in is in `doing`.
    pub(crate) shows_calls: bool,
}

impl Process {
    pub(crate) fn address(&self) -> String {
        if self.host.is_empty() { self.part.clone() } else { format!("{}:{}", self.host, self.pid) }
    }
}

/// One GPU of one process: while waiting in one communicator it cannot enter another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Actor {
    pub(crate) process: usize,
    pub(crate) gpu: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Comm {
    /// The user's name, else the id.
    pub(crate) name: String,
    /// NCCL's id or hash; 0 if there is none.
    pub(crate) id: u64,
    /// Number of ranks. If NCCL does not report it (2.26 and earlier), the highest rank seen plus one.
    pub(crate) size: u32,
    pub(crate) knows_size: bool,
    /// Whether the communicator's ranks equal the job's ranks.
    pub(crate) has_all: bool,
    /// Whether the ranks' numbers mean nothing: only of [`Job::everyone`].
    pub(crate) lacks_numbers: bool,
    pub(crate) ranks: BTreeMap<u32, Rank>,
}

impl Comm {
    /// The job's number of a rank of this communicator; `None` if unknown.
    pub(crate) fn job_rank(&self, rank: u32) -> Option<u32> {
        if self.has_all { Some(rank) } else { self.ranks.get(&rank)?.job_rank }
    }

    pub(crate) fn missing(&self) -> Vec<u32> {
        (0..self.size).filter(|rank| !self.ranks.contains_key(rank)).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rank {
    pub(crate) actor: Actor,
    pub(crate) job_rank: Option<u32>,
    /// The collectives that the rank called, in order.
    pub(crate) calls: Tail,
    /// The collectives of launched CUDA graphs: NCCL reports them only on ranks with network transfers.
    pub(crate) replays: Tail,
    /// Sends and receives that may be incomplete.
    pub(crate) messages: Vec<Message>,
    /// Number of sends (true) and receives called, by peer.
    pub(crate) message_counts: BTreeMap<(u32, bool), u64>,
    pub(crate) open_calls: Vec<OpenCall>,
    pub(crate) doing: Doing,
    pub(crate) finalized: bool,
}
