//! The known state of a job at one moment: plain data, from which [`super::judge`] finds the suspects. Times are
//! CLOCK_REALTIME ns of the process's host.

use std::collections::BTreeMap;

use job::life::Life;
use nccl_events::ranks::{RankIdentity, number};

use super::operation::{Message, OpenCall, Tail};

#[derive(Debug, Default)]
pub(crate) struct Job {
    /// Sorted by name of the part.
    pub(crate) processes: Vec<Process>,
    pub(crate) comms: Vec<Comm>,
    /// The moment of judgement. Later events do not count, because processes are read one after the other.
    pub(crate) now_ns: u64,
    /// Whether the job was read from an archive, after its journals were removed.
    pub(crate) is_archive: bool,
    /// The archive's statements about missing data.
    pub(crate) missing: Vec<String>,
    /// The archive's statements about operations that do not end, or differ between ranks.
    pub(crate) signs: Vec<String>,
}

/// A member of a communicator: index in [`Job::comms`], and rank.
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
        let numbers: BTreeMap<Actor, Option<u32>> = actors.into_iter().zip(numbers).collect();
        for (at, comm) in (0..).zip(&mut self.comms) {
            comm.has_all = world == Some(at);
            for rank in comm.ranks.values_mut() {
                rank.job_rank = numbers.get(&rank.actor).copied().flatten();
            }
        }
    }

    pub(crate) fn process_of(&self, rank: &Rank) -> Option<&Process> {
        self.processes.get(rank.actor.process)
    }

    pub(crate) fn member(&self, (comm, rank): Member) -> Option<&Rank> {
        self.comms.get(comm)?.ranks.get(&rank)
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
    pub(crate) finalized: bool,
}
