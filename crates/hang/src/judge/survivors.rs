//! Which processes of a communicator were outlived by others.

use job::life::Life;

use crate::job::{Comm, Job, Member};

/// A process that others outlived by this much was gone first: last records are at most a second old.
const OUTLIVED_NS: u64 = 2_000_000_000;
/// Ranks that wait this long at the end may hang, whatever `--after` is: times are up to a second short.
pub(super) const LONG_AT_THE_END_NS: u64 = 1_000_000_000;

/// The survivors of every communicator of a job.
pub(crate) struct Survivors<'a> {
    job: &'a Job,
    comms: Vec<OfComm>,
}

/// Whether a process of a communicator lives, and the time up to which the last one lived; 0 if none has a clock.
struct OfComm {
    some_run: bool,
    last_ns: u64,
}

impl<'a> Survivors<'a> {
    pub(crate) fn of(job: &'a Job) -> Self {
        let of_comm = |comm: &Comm| {
            let processes = comm.ranks.values().filter_map(|rank| job.process_of(rank));
            OfComm {
                some_run: processes.clone().any(|one| one.state.is_alive()),
                last_ns: processes.filter(|one| one.has_clock).map(|one| one.until_ns).max().unwrap_or(0),
            }
        };
        Self { job, comms: job.comms.iter().chain([&job.everyone]).map(of_comm).collect() }
    }

    /// Whether a member's process was gone while others of the communicator still worked or waited.
    pub(crate) fn outlived(&self, member: Member) -> bool {
        let Some((comm, process)) = self.comms.get(member.0).zip(self.job.process_of_member(member)) else {
            return false;
        };
        let is_later = process.has_clock && comm.last_ns >= process.until_ns.saturating_add(OUTLIVED_NS);
        match process.state {
            Life::Gone | Life::Ended => comm.some_run || is_later,
            // That others are running proves nothing: this process may be, too.
            Life::Unknown => is_later,
            _ => false,
        }
    }

    /// Whether an outlived rank had itself waited long enough: at a job's end it may be killed first, or give up.
    pub(crate) fn had_waited(&self, waited_ns: u64) -> bool {
        self.job.is_over() && waited_ns >= LONG_AT_THE_END_NS
    }
}
