//! Readable names of operations, ranks and communicators.

use analysis::units::count;
use job::communicators::rank_list;

use crate::job::{Comm, Job, Member, Process};
use crate::judge::blockage::{Blockage, Operation, StepCall};
use crate::operation::{Message, Signature};
use crate::sequence::Sequence;

/// Limit on the processes named in a line.
const MOST_ADDRESSES: usize = 4;

pub(crate) fn function(what: &Signature) -> String {
    format!("nccl{}", what.func)
}

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

pub(crate) fn message(comm: Option<&Comm>, message: &Message) -> String {
    let preposition = if message.is_send { "to" } else { "from" };
    let peer = comm.map_or_else(String::new, |comm| ranks(comm, &[message.peer]));
    format!("{} {preposition} {peer}", message.func())
}

/// Ranks of a communicator by their numbers in the job: `0-6, 8`, `4-6 (0-2 in tp)`; if these are unknown, `0-2 of tp`.
pub(crate) fn numbers(comm: &str, ranks: &[u32], job_rank: impl Fn(u32) -> Option<u32>) -> String {
    let own = rank_list(ranks);
    let in_job: Option<Vec<u32>> = ranks.iter().map(|rank| job_rank(*rank)).collect();
    match in_job.map(|numbers| rank_list(&numbers)) {
        Some(in_job) if in_job == own => own,
        Some(in_job) => format!("{in_job} ({own} in {comm})"),
        None => format!("{own} of {comm}"),
    }
}

pub(crate) fn ranks(comm: &Comm, ranks: &[u32]) -> String {
    format!("{} {}", noun(ranks), numbers(&comm.name, ranks, |rank| comm.job_rank(rank)))
}

pub(crate) const fn noun(ranks: &[u32]) -> &'static str {
    verb(ranks, "rank", "ranks")
}

pub(crate) fn members(job: &Job, comm: usize, list: &[u32]) -> String {
    let Some(of) = job.comm(comm) else {
        return format!("{} {}", noun(list), rank_list(list));
    };
    let processes = list.iter().filter_map(|rank| job.process_of_member((comm, *rank)));
    if of.lacks_numbers {
        return addresses(processes.map(Process::address));
    }
    let mut addresses: Vec<String> = processes.map(Process::address).collect();
    addresses.dedup();
    match addresses.len() {
        1..=MOST_ADDRESSES => format!("{} [{}]", ranks(of, list), addresses.join(", ")),
        _ => ranks(of, list),
    }
}

/// Processes whose ranks are not known.
pub(crate) fn addresses(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    all.dedup();
    match all.len() {
        0..=MOST_ADDRESSES => all.join(", "),
        n => format!("{n} processes"),
    }
}

/// The verb form for "rank 3" or for "ranks 3-5".
pub(crate) const fn verb<'a>(list: &[u32], one: &'a str, several: &'a str) -> &'a str {
    if list.len() == 1 { one } else { several }
}

pub(crate) fn comm(job: &Job, index: usize) -> &str {
    job.comm(index).map_or("?", |comm| &comm.name)
}

/// An operation with its communicator, if that is known.
pub(crate) fn in_comm(job: &Job, blockage: &Blockage) -> String {
    let what = operation(job, blockage.comm, &blockage.operation);
    match &blockage.operation {
        Operation::Step(StepCall { knows_comm: false, .. }) => what,
        _ => format!("{what} of communicator {}", comm(job, blockage.comm)),
    }
}

pub(crate) fn member(job: &Job, (comm, rank): Member) -> String {
    members(job, comm, &[rank])
}

pub(crate) fn position(position: u64, from_beginning: bool) -> String {
    let of = if from_beginning { "" } else { " of those kept" };
    format!("collective {position}{of}")
}

pub(crate) fn operation(job: &Job, comm: usize, operation: &Operation) -> String {
    let (sequence, at, what) = match operation {
        Operation::Message(one) => return message(job.comms.get(comm), one),
        Operation::Step(call) => return call.name.clone(),
        Operation::Collective { sequence, position, what } => (*sequence, position, what),
    };
    // `stats` shows NCCL's number, which identifies a call if positions do not count from the beginning.
    let at = match (at.index, at.sequence) {
        (Some(index), Some(sequence)) if at.from_beginning => {
            format!("{}, sequence {sequence}", position(index + 1, true))
        }
        (_, Some(sequence)) => format!("sequence {sequence}"),
        (Some(index), None) => position(index + 1, false),
        (None, None) => "not known which".to_owned(),
    };
    let graphs = if sequence == Sequence::Replays { " of launched CUDA graphs" } else { "" };
    format!("{} ({at}{graphs})", function(what))
}
