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
use blockage::{Blockage, Cause};
use collectives::Collectives;
use survivors::{AllSurvivors, LONG_AT_THE_END_NS, Survivors};
use suspects::{Suspect, Suspects};

/// What is found in a job.
pub(crate) struct Judgement {
    /// Everything that somebody waits for.
    pub(crate) blockages: Vec<Blockage>,
    /// Those that are no short wait for the last rank, as in any healthy job: indices of them.
    pub(crate) lasting: Vec<usize>,
    /// Who holds up the job, the likeliest first.
    pub(crate) suspects: Vec<Suspect>,
    /// Whether the suspects are those of waits that are no proof of a hang.
    pub(crate) is_unsure: bool,
    /// Whether the job is over, and the waits are so short that a job that works can be killed in one.
    pub(crate) is_brief: bool,
}

/// Judges a job. `after_ns`: who waits for less is not counted as hanging.
pub(crate) fn judge(job: &Job, after_ns: u64) -> Judgement {
    let comms = 0..job.comms.len();
    let blockages: Vec<Blockage> = comms.flat_map(|comm| of_comm(job, comm)).collect();
    let survivors = AllSurvivors::of(job);
    let lasting = |after_ns: u64| -> Vec<usize> {
        let all = blockages.iter().enumerate();
        let lasting = all.filter(|(_, one)| one.longest_ns() >= after_ns || suspects::is_final(&survivors, one));
        lasting.map(|(index, _)| index).collect()
    };
    let (sure, long) = (lasting(after_ns), lasting(LONG_AT_THE_END_NS));
    let is_unsure = sure.is_empty() && job.is_over() && !long.is_empty();
    let is_brief = job.is_over() && long.is_empty();
    let lasting = if is_unsure { long } else { sure };
    let suspects = Suspects::find(job, &survivors, &blockages, &lasting);
    Judgement { suspects, is_unsure, is_brief, blockages, lasting }
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
        let mut waits = messages::blockages(job, survivors, (index, *number), rank);
        if survivors.outlived(job, rank) {
            let is_absent = |one: &Blockage| matches!(one.cause, Cause::Absent(_));
            waits.retain(|one| is_absent(one) && Survivors::had_waited(job, one.longest_ns()));
        }
        found.extend(waits);
    }
    found
}
