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
}

/// Judges a job. `after_ns`: who waits for less is not counted as hanging.
pub(crate) fn judge(job: &Job, after_ns: u64) -> Judgement {
    let comms = 0..job.comms.len();
    let blockages: Vec<Blockage> = comms.flat_map(|comm| of_comm(job, comm)).collect();
    let survivors = AllSurvivors::of(job);
    let all = blockages.iter();
    let lasting = all.filter(|one| one.longest_ns() >= after_ns || suspects::is_final(&survivors, one));
    let lasting: Vec<Blockage> = lasting.cloned().collect();
    Judgement { suspects: Suspects::find(job, &survivors, &lasting), blockages, lasting }
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
