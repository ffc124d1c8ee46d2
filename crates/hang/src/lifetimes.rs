//! Which processes others outlived, and jobs from which NCCL reports nothing any more.

use crate::job::{Comm, Job, Member, Process};
use model::job::RecordingState;

/// A process that others outlived by this much was gone first: last records are at most a second old.
const OUTLIVED_NS: u64 = 2_000_000_000;
/// Ranks that wait this long at the end may hang, whatever `--after` is: times are up to a second short.
pub(crate) const LONG_AT_THE_END_NS: u64 = 1_000_000_000;

/// Of every communicator of a job, which processes were outlived by others.
pub(crate) struct DiedBeforePeers<'a> {
    job: &'a Job,
    comms: Vec<CommLifetime>,
}

/// Whether a process of a communicator lives, and the time up to which the last one lived; 0 if none has a clock.
struct CommLifetime {
    some_run: bool,
    last_ns: u64,
}

impl<'a> DiedBeforePeers<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        let lifetime_of_comm = |comm: &Comm| {
            let processes = comm.ranks.values().filter_map(|rank| job.process_of(rank));
            CommLifetime {
                some_run: processes.clone().any(|one| one.state.is_alive()),
                last_ns: processes.filter(|one| one.has_clock).map(|one| one.until_ns).max().unwrap_or(0),
            }
        };
        Self { job, comms: job.comms.iter().chain([&job.everyone]).map(lifetime_of_comm).collect() }
    }

    /// Whether a member's process was gone while others of the communicator still worked or waited.
    pub(crate) fn before_peers(&self, member: Member) -> bool {
        let Some((comm, process)) = self.comms.get(member.0).zip(self.job.process_of_member(member)) else {
            return false;
        };
        let is_later = self.outlived_ns(member).is_some();
        match process.state {
            RecordingState::Gone | RecordingState::Ended => comm.some_run || is_later,
            // That others are running proves nothing: this process may be, too.
            RecordingState::Unknown => is_later,
            _ => false,
        }
    }

    /// By how much others of the communicator outlived a member's process, if by more than chance.
    pub(crate) fn outlived_ns(&self, member: Member) -> Option<u64> {
        let (comm, process) = self.comms.get(member.0).zip(self.job.process_of_member(member))?;
        let ns = comm.last_ns.checked_sub(process.until_ns)?;
        (process.has_clock && ns >= OUTLIVED_NS).then_some(ns)
    }

    /// Whether an outlived rank had itself waited long enough: at a job's end it may be killed first, or give up.
    pub(crate) fn had_waited(&self, waited_ns: u64) -> bool {
        self.job.is_over() && waited_ns >= LONG_AT_THE_END_NS
    }
}

/// Minimum, because a process with recording off records only once a second that NCCL still calls.
const SHORTEST_NS: u64 = 2_000_000_000;

/// A job from which NCCL reports nothing any more, without a visible wait, though its processes live or were killed.
#[derive(Debug)]
pub(crate) struct NoRecentEvents {
    /// From NCCL's last call of the plugin in any process to `until_ns`.
    pub(crate) for_ns: u64,
    /// The moment of judgement, or the last record if the job is over.
    pub(crate) until_ns: u64,
    /// The processes that could call NCCL: indices in [`Job::processes`], stopped ones first, then the quietest.
    pub(crate) processes: Vec<usize>,
}

/// Whether NCCL called the plugin in no process for the last `after_ns`. If the job is over, killed processes count:
/// their clock readings, one per second, show how long they lived on.
pub(crate) fn find_no_recent_events(job: &Job, after_ns: u64) -> Option<NoRecentEvents> {
    let living = job.processes.iter().enumerate().filter(|(index, process)| is_expected(job, *index, process));
    let mut living: Vec<(usize, &Process)> = living.collect();
    nccl_events::sort::sort_by_key(&mut living, |(_, process)| {
        (process.state != RecordingState::Stopped, process.last_event_ns)
    });
    let last_ns = living.iter().map(|(_, process)| process.last_event_ns).max()?;
    let killed = living.iter().map(|(_, process)| process.until_ns);
    let until_ns = if job.is_over() { killed.max()? } else { job.now_ns };
    let for_ns = until_ns.checked_sub(last_ns)?;
    let is_quiet = for_ns >= after_ns.max(SHORTEST_NS);
    is_quiet.then(|| NoRecentEvents {
        for_ns,
        until_ns,
        processes: living.into_iter().map(|(index, _)| index).collect(),
    })
}

/// Whether a process can be expected to call NCCL: it lives or was killed, has records, and has not ended all its
/// communicators. An archive does not record how a process ended.
fn is_expected(job: &Job, index: usize, process: &Process) -> bool {
    let ranks = job.comms.iter().flat_map(|comm| comm.ranks.values());
    let mut ranks = ranks.filter(|rank| rank.actor.process == index).peekable();
    let has_ended_all = ranks.peek().is_some() && ranks.all(|rank| rank.finalized);
    let may_be_killed = if job.is_archive { RecordingState::Unknown } else { RecordingState::Gone };
    let was_killed = job.is_over() && process.state == may_be_killed && process.is_whole && process.has_clock;
    (process.state.is_alive() || was_killed)
        && (process.has_journal || job.is_archive)
        && process.last_event_ns > 0
        && !has_ended_all
}
