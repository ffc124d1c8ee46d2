//! Who was gone before the others.

use super::job::{Comm, Job, Life, Rank};

/// A process that others outlived by this much was gone before them: its last record is at most a second old when
/// it goes.
const OUTLIVED_NS: u64 = 2_000_000_000;

/// What the processes of a communicator are compared with, to tell who went first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    some_run: bool,
    last_ns: u64,
}

impl Watch {
    /// Looks at the processes of a communicator.
    pub(crate) fn of(job: &Job, comm: &Comm) -> Self {
        let ranks = comm.ranks.values();
        let processes = || {
            let ranks = ranks.clone();
            ranks.filter_map(|rank| job.processes.get(rank.actor.process))
        };
        Self {
            some_run: processes().any(|one| matches!(one.life, Life::Running | Life::Stopped)),
            last_ns: processes().map(|one| one.until_ns).max().unwrap_or(0),
        }
    }

    /// Whether the process of a rank was gone when others still worked or waited.
    pub(crate) fn outlived(self, job: &Job, rank: &Rank) -> bool {
        let process = job.processes.get(rank.actor.process);
        process.is_some_and(|process| {
            let until_ns = process.until_ns.saturating_add(OUTLIVED_NS);
            process.is_over() && (self.some_run || self.last_ns >= until_ns)
        })
    }
}
