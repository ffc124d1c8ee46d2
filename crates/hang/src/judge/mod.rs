//! Finds where a job is stuck, and which rank is responsible.
//!
//! ```text
//!            1          2          3
//! rank 0   AllReduce  AllReduce  Broadcast    waits in 2
//! rank 1   AllReduce  AllReduce               waits in 2
//! rank 2   AllReduce                          absent in 2: it causes the blockage, unless it waits elsewhere
//! ```

use crate::job::{Comm, Job, Sequence};
use crate::judge::blockage::{Blockage, Cause, DiedBeforePeers, LONG_AT_THE_END_NS};
use crate::judge::collectives::{Collectives, ProgressOfRanks};
use crate::judge::suspects::{Suspect, Suspects};

pub(crate) mod blockage;
pub(crate) mod collectives;
pub(crate) mod suspects;

pub(crate) struct Judgement {
    pub(crate) progress: Vec<Vec<(Sequence, ProgressOfRanks)>>,
    pub(crate) blockages: Vec<Blockage>,
    /// Indices of the blockages that last for `after_ns`, or can never end.
    pub(crate) lasting: Vec<usize>,
    pub(crate) suspects: Vec<Suspect>,
    /// Whether the suspects come from waits that do not prove a hang.
    pub(crate) is_unsure: bool,
    /// Whether the job is over and its waits are so short that a healthy job can be killed during one.
    pub(crate) is_brief: bool,
}

/// Judges a job. Waits shorter than `after_ns` do not count as hanging.
pub(crate) fn judge(job: &Job, after_ns: u64) -> Judgement {
    let died = DiedBeforePeers::new(job);
    let progress: Vec<Vec<(Sequence, ProgressOfRanks)>> = job
        .comms
        .iter()
        .enumerate()
        .map(|(index, comm)| {
            let progress = |sequence| (sequence, Collectives::new(job, &died, (index, comm), sequence).progress());
            Sequence::in_comm(comm).map(progress).collect()
        })
        .collect();
    let comms = job.comms.iter().zip(&progress).enumerate();
    let mut blockages: Vec<Blockage> =
        comms.flat_map(|(index, (comm, progress))| blockages_of_comm(job, &died, (index, comm), progress)).collect();
    blockages.extend(collectives::blocked_communicator_calls(job, &died));
    let lasting = |after_ns: u64| -> Vec<usize> {
        let lasts = |one: &Blockage| one.longest_ns() >= after_ns.max(one.takes_ns()) || suspects::is_final(&died, one);
        blockages.iter().enumerate().filter(|(_, one)| lasts(one)).map(|(index, _)| index).collect()
    };
    let (sure, long) = (lasting(after_ns), lasting(LONG_AT_THE_END_NS));
    let is_unsure = sure.is_empty() && job.is_over() && !long.is_empty();
    let is_brief = job.is_over() && long.is_empty();
    let lasting = if is_unsure { long } else { sure };
    let suspects = Suspects::find(job, &died, &blockages, &lasting);
    Judgement { progress, suspects, is_unsure, is_brief, blockages, lasting }
}

fn blockages_of_comm(
    job: &Job,
    died: &DiedBeforePeers<'_>,
    (index, comm): (usize, &Comm),
    progress: &[(Sequence, ProgressOfRanks)],
) -> Vec<Blockage> {
    let mut found: Vec<Blockage> = progress
        .iter()
        .filter_map(|(sequence, progress)| Collectives::new(job, died, (index, comm), *sequence).blockage(progress))
        .collect();
    for (number, rank) in &comm.ranks {
        let mut waits = blockage::blocked_messages(job, died, (index, *number), rank);
        if died.before_peers((index, *number)) {
            let is_absent = |one: &Blockage| matches!(one.cause, Cause::Absent(_));
            waits.retain(|one| is_absent(one) && died.had_waited(one.longest_ns()));
        }
        found.extend(waits);
    }
    found
}
