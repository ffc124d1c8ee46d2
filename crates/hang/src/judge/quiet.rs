//! A job about which NCCL reports nothing any more, though its processes live and nobody is seen to wait.

use crate::job::{Job, Process};

/// Nothing shorter counts: while recording is off a process records once a second that NCCL still calls.
const SHORTEST_NS: u64 = 2_000_000_000;

#[derive(Debug)]
pub(crate) struct Quiet {
    /// Since the last call of the plugin in any process.
    pub(crate) for_ns: u64,
    /// The processes that live: indices in [`Job::processes`], the one that is quiet longest first.
    pub(crate) processes: Vec<usize>,
}

/// Whether NCCL has called the plugin in no living process for `after_ns`.
pub(crate) fn find(job: &Job, after_ns: u64) -> Option<Quiet> {
    let living = job.processes.iter().enumerate().filter(|(index, process)| is_expected(job, *index, process));
    let mut living: Vec<(u64, usize)> = living.map(|(index, process)| (process.last_event_ns, index)).collect();
    living.sort_unstable();
    let (last_ns, _) = living.last()?;
    let for_ns = job.now_ns.checked_sub(*last_ns)?;
    let is_quiet = for_ns >= after_ns.max(SHORTEST_NS);
    is_quiet.then(|| Quiet { for_ns, processes: living.into_iter().map(|(_, index)| index).collect() })
}

/// Whether a process can be expected to call NCCL: it lives, its journal can be read, and it has not ended all its
/// communicators.
fn is_expected(job: &Job, index: usize, process: &Process) -> bool {
    let ranks = job.comms.iter().flat_map(|comm| comm.ranks.values());
    let mut ranks = ranks.filter(|rank| rank.actor.process == index).peekable();
    let has_ended_all = ranks.peek().is_some() && ranks.all(|rank| rank.finalized);
    process.state.is_alive() && process.has_journal && process.last_event_ns > 0 && !has_ended_all
}
