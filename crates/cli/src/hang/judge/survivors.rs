//! Which processes of a communicator others outlived.

use crate::hang::job::{Comm, Job, Member, ProcessState, Rank};

/// A process that others outlived by this much was gone before them: its last record is at most a second old when
/// it goes.
const OUTLIVED_NS: u64 = 2_000_000_000;
/// A job that ends while ranks wait for this long may have hung, whatever `--after` is: the times of the dead are up to
/// a second short.
pub(super) const LONG_AT_THE_END_NS: u64 = 1_000_000_000;

/// Until when the processes of a communicator lived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survivors {
    some_run: bool,
    last_ns: u64,
}

impl Survivors {
    pub(crate) fn of(job: &Job, comm: &Comm) -> Self {
        let ranks = comm.ranks.values();
        let processes = ranks.filter_map(|rank| job.process_of(rank));
        Self {
            some_run: processes.clone().any(|one| one.state.is_alive()),
            last_ns: processes.filter(|one| one.has_clock).map(|one| one.until_ns).max().unwrap_or(0),
        }
    }

    /// Whether the process of a rank was gone when others still worked or waited.
    pub(crate) fn outlived(self, job: &Job, rank: &Rank) -> bool {
        job.process_of(rank).is_some_and(|process| {
            let until_ns = process.until_ns.saturating_add(OUTLIVED_NS);
            let is_later = process.has_clock && self.last_ns >= until_ns;
            match process.state {
                ProcessState::Gone | ProcessState::Ended => self.some_run || is_later,
                // That others run says nothing: it may, too.
                ProcessState::NotKnown => is_later,
                _ => false,
            }
        })
    }

    /// Whether a rank that was outlived had waited in vain for so long: of a job that is over it may have been killed
    /// before the others, or have given up.
    pub(crate) fn had_waited(job: &Job, waited_ns: u64) -> bool {
        job.is_over() && waited_ns >= LONG_AT_THE_END_NS
    }
}

/// The survivors of every communicator of a job.
pub(crate) struct AllSurvivors<'a> {
    job: &'a Job,
    comms: Vec<Survivors>,
}

impl<'a> AllSurvivors<'a> {
    pub(crate) fn of(job: &'a Job) -> Self {
        let comms = job.comms.iter();
        Self { job, comms: comms.map(|comm| Survivors::of(job, comm)).collect() }
    }

    /// Whether a member's process was gone when others of its communicator still worked or waited.
    pub(crate) fn outlived(&self, member: Member) -> bool {
        let comm = self.comms.get(member.0).zip(self.job.member(member));
        comm.is_some_and(|(survivors, rank)| survivors.outlived(self.job, rank))
    }
}
