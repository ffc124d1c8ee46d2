//! A job from which NCCL reports nothing any more, without a visible wait, though its processes live or were killed.

use job::life::Life;

use crate::job::{Job, Process};

/// Minimum, because a process with recording off records only once a second that NCCL still calls.
const SHORTEST_NS: u64 = 2_000_000_000;

#[derive(Debug)]
pub(crate) struct Quiet {
    /// From NCCL's last call of the plugin in any process to `until_ns`.
    pub(crate) for_ns: u64,
    /// The moment of judgement, or the last record if the job is over.
    pub(crate) until_ns: u64,
    /// The processes that could call NCCL: indices in [`Job::processes`], stopped ones first, then the quietest.
    pub(crate) processes: Vec<usize>,
}

/// Whether NCCL called the plugin in no process for the last `after_ns`. If the job is over, killed processes count:
/// their clock readings, one per second, show how long they lived on.
pub(crate) fn find(job: &Job, after_ns: u64) -> Option<Quiet> {
    let living = job.processes.iter().enumerate().filter(|(index, process)| is_expected(job, *index, process));
    let mut living: Vec<(usize, &Process)> = living.collect();
    nccl_events::sort::sort_by_key(&mut living, |(_, process)| (process.state != Life::Stopped, process.last_event_ns));
    let last_ns = living.iter().map(|(_, process)| process.last_event_ns).max()?;
    let killed = living.iter().map(|(_, process)| process.until_ns);
    let until_ns = if job.is_over() { killed.max()? } else { job.now_ns };
    let for_ns = until_ns.checked_sub(last_ns)?;
    let is_quiet = for_ns >= after_ns.max(SHORTEST_NS);
    is_quiet.then(|| Quiet { for_ns, until_ns, processes: living.into_iter().map(|(index, _)| index).collect() })
}

/// Whether a process can be expected to call NCCL: it lives or was killed, has records, and has not ended all its
/// communicators. An archive does not record how a process ended.
fn is_expected(job: &Job, index: usize, process: &Process) -> bool {
    let ranks = job.comms.iter().flat_map(|comm| comm.ranks.values());
    let mut ranks = ranks.filter(|rank| rank.actor.process == index).peekable();
    let has_ended_all = ranks.peek().is_some() && ranks.all(|rank| rank.finalized);
    let may_be_killed = if job.is_archive { Life::Unknown } else { Life::Gone };
    let was_killed = job.is_over() && process.state == may_be_killed && process.is_whole && process.has_clock;
    (process.state.is_alive() || was_killed)
        && (process.has_journal || job.is_archive)
        && process.last_event_ns > 0
        && !has_ended_all
}
