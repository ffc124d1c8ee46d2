//! Names of operations, ranks and communicators, for people.

use super::rows::CommRow;
use crate::hang::job::{Comm, Job, Member, Process};
use crate::hang::judge::blockage::Operation;
use crate::hang::operation::Signature;
use crate::hang::sequence::Sequence;
use crate::units::count;

/// How many processes are named in a line.
const MOST_ADDRESSES: usize = 4;

/// The API's name of a function.
pub(crate) fn function(what: &Signature) -> String {
    format!("nccl{}", what.func)
}

/// A call with its arguments.
pub(crate) fn call(what: &Signature) -> String {
    let mut text = function(what);
    if !what.datatype.is_empty() {
        text += &format!(" of {} {}", count(what.count), what.datatype);
    }
    if let Some(root) = what.root {
        text += &format!(", root {root}");
    }
    text
}

/// A communicator of which the ranks are named by their numbers in the job.
pub(crate) trait Ranks {
    fn name(&self) -> &str;
    /// The job's number of a rank; none where that is not known.
    fn job_rank(&self, rank: u32) -> Option<u32>;
}

impl Ranks for Comm {
    fn name(&self) -> &str {
        &self.name
    }

    fn job_rank(&self, rank: u32) -> Option<u32> {
        self.job_rank(rank)
    }
}

impl Ranks for CommRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn job_rank(&self, rank: u32) -> Option<u32> {
        let mut ranks = self.sequences.iter().flat_map(|sequence| &sequence.ranks);
        if self.has_all_ranks { Some(rank) } else { ranks.find(|row| row.rank == rank)?.job_rank }
    }
}

/// Ranks of a communicator: `0-6, 8`, `4-6 (0-2 in tp)`; where their numbers in the job are not known `0-2 of tp`.
pub(crate) fn numbers(of: &impl Ranks, ranks: &[u32]) -> String {
    let own = ranges(ranks);
    let in_job: Option<Vec<u32>> = ranks.iter().map(|rank| of.job_rank(*rank)).collect();
    match in_job.map(|numbers| ranges(&numbers)) {
        Some(in_job) if in_job == own => own,
        Some(in_job) => format!("{in_job} ({own} in {})", of.name()),
        None => format!("{own} of {}", of.name()),
    }
}

/// Numbers as people write them: `0-6, 8`.
pub(crate) fn ranges(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    ranks.dedup();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let texts: Vec<String> = ranges.iter().map(text).collect();
    texts.join(", ")
}

/// "rank 3", "ranks 3-5".
pub(crate) fn ranks(of: &impl Ranks, ranks: &[u32]) -> String {
    format!("{} {}", noun(ranks), numbers(of, ranks))
}

pub(crate) const fn noun(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "rank" } else { "ranks" }
}

/// Ranks with their processes, where these are few.
pub(crate) fn members(job: &Job, comm: usize, list: &[u32]) -> String {
    let Some(of) = job.comms.get(comm) else {
        return format!("{} {}", noun(list), ranges(list));
    };
    let processes = list.iter().filter_map(|rank| job.process_of_member((comm, *rank)));
    let mut addresses: Vec<String> = processes.map(Process::address).collect();
    addresses.dedup();
    let at = match addresses.len() {
        1..=MOST_ADDRESSES => format!(" [{}]", addresses.join(", ")),
        _ => String::new(),
    };
    format!("{}{at}", ranks(of, list))
}

/// The verb behind "rank 3", and behind "ranks 3-5".
pub(crate) const fn verb<'a>(list: &[u32], one: &'a str, several: &'a str) -> &'a str {
    if list.len() == 1 { one } else { several }
}

/// The name of a communicator.
pub(crate) fn comm(job: &Job, index: usize) -> &str {
    job.comms.get(index).map_or("?", |comm| &comm.name)
}

/// A rank with its process.
pub(crate) fn member(job: &Job, (comm, rank): Member) -> String {
    members(job, comm, &[rank])
}

/// A position in the order of a communicator, from 1.
pub(crate) fn position(position: u64, from_beginning: bool) -> String {
    let of = if from_beginning { "" } else { " of those kept" };
    format!("collective {position}{of}")
}

pub(crate) fn operation(job: &Job, comm: usize, operation: &Operation) -> String {
    match operation {
        Operation::Collective { sequence, position: at, what } => {
            // `stats` has NCCL's number; where positions do not count from the beginning it says more.
            let at = match (at.index, at.sequence) {
                (Some(index), Some(sequence)) if at.from_beginning => {
                    format!("{}, sequence {sequence}", position(index + 1, true))
                }
                (_, Some(sequence)) => format!("sequence {sequence}"),
                (Some(index), None) => position(index + 1, false),
                (None, None) => "not known which".to_owned(),
            };
            let graphs = match sequence {
                Sequence::Calls => "",
                Sequence::Replays => " of launched CUDA graphs",
            };
            format!("{} ({at}{graphs})", function(what))
        }
        Operation::Message(message) => {
            let preposition = if message.is_send { "to" } else { "from" };
            let peer = job.comms.get(comm).map_or_else(String::new, |comm| ranks(comm, &[message.peer]));
            format!("{} {preposition} {peer}", message.func())
        }
    }
}
