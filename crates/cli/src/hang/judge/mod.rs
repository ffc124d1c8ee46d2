//! Where a job does not go on, and who holds it up.
//!
//! ```text
//!            1          2          3
//! rank 0   AllReduce  AllReduce  Broadcast    waits in 2
//! rank 1   AllReduce  AllReduce               waits in 2
//! rank 2   AllReduce                          absent in 2: the blockage is due to it, unless it waits elsewhere
//! ```

pub(super) mod blockage;
pub(super) mod collectives;
mod messages;
pub(super) mod mismatch;
pub(super) mod quiet;
mod survivors;
pub(super) mod suspects;
mod unknown_position;

use super::job::Job;
use super::sequence::Sequence;
use blockage::Blockage;
use collectives::Collectives;
use survivors::{AllSurvivors, Survivors};
use suspects::{Suspect, Suspects};

/// What is found in a job.
pub(crate) struct Judgement {
    /// Everything that somebody waits for.
    pub(crate) blockages: Vec<Blockage>,
    /// Those that are no short wait for the last rank, as in any healthy job.
    pub(crate) lasting: Vec<Blockage>,
    /// Who holds up the job, the likeliest first.
    pub(crate) suspects: Vec<Suspect>,
    /// Whether the suspects are those of waits that are no proof of a hang.
    pub(crate) is_unsure: bool,
    /// Whether the job is over, and the waits are so short that a job that works can be killed in one.
    pub(crate) is_brief: bool,
}

/// A job that ends while ranks wait for this long may have hung, whatever `--after` is: the times of the dead are up to
/// a second short.
const LONG_AT_THE_END_NS: u64 = 1_000_000_000;

/// Judges a job. `after_ns`: who waits for less is not counted as hanging.
pub(crate) fn judge(job: &Job, after_ns: u64) -> Judgement {
    let comms = 0..job.comms.len();
    let blockages: Vec<Blockage> = comms.flat_map(|comm| of_comm(job, comm)).collect();
    let survivors = AllSurvivors::of(job);
    let lasting = |after_ns: u64| -> Vec<Blockage> {
        let all = blockages.iter();
        all.filter(|one| one.longest_ns() >= after_ns || suspects::is_final(&survivors, one)).cloned().collect()
    };
    let (sure, long) = (lasting(after_ns), lasting(LONG_AT_THE_END_NS));
    let is_unsure = sure.is_empty() && job.is_over() && !long.is_empty();
    let is_brief = job.is_over() && long.is_empty();
    let lasting = if is_unsure { long } else { sure };
    Judgement { suspects: Suspects::find(job, &survivors, &lasting), is_unsure, is_brief, blockages, lasting }
}

/// Everything that somebody waits for in a communicator.
fn of_comm(job: &Job, index: usize) -> Vec<Blockage> {
    let Some(comm) = job.comms.get(index) else {
        return Vec::new();
    };
    let in_sequence = |sequence| {
        let collectives = Collectives::of(job, comm, sequence);
        let reach = collectives.reach();
        match reach.first_incomplete {
            Some(position) => collectives.blockage(index, reach, position),
            None => unknown_position::blockage(&collectives, index),
        }
    };
    let mut found: Vec<Blockage> = Sequence::in_comm(comm).filter_map(in_sequence).collect();
    let survivors = Survivors::of(job, comm);
    for (number, rank) in &comm.ranks {
        if !survivors.outlived(job, rank) {
            found.extend(messages::blockages(job, survivors, (index, *number), rank));
        }
    }
    found
}
