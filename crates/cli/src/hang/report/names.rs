//! Names of operations, ranks and communicators, for people.

use crate::hang::job::{Job, Member};
use crate::hang::judge::blockage::Operation;
use crate::hang::operation::Signature;
use crate::hang::sequence::Sequence;
use crate::units::count;

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

/// Ranks as people write them: `0-6, 8`.
pub(crate) fn numbers(ranks: &[u32]) -> String {
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
pub(crate) fn ranks(ranks: &[u32]) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", numbers(ranks))
}

/// "rank 3 calls", "ranks 3-5 call".
pub(crate) fn ranks_do(list: &[u32], one: &str, several: &str) -> String {
    let verb = if list.len() == 1 { one } else { several };
    format!("{} {verb}", ranks(list))
}

/// The name of a communicator.
pub(crate) fn comm(job: &Job, index: usize) -> &str {
    job.comms.get(index).map_or("?", |comm| &comm.name)
}

/// A rank with its process.
pub(crate) fn member(job: &Job, member: Member) -> String {
    let (_, rank) = member;
    let Some(process) = job.process_of_member(member) else {
        return format!("rank {rank}");
    };
    let job_rank = process.launcher_rank;
    let job_rank = job_rank.map_or_else(String::new, |rank| format!("job rank {rank}, "));
    format!("rank {rank} [{job_rank}{}]", process.address())
}

/// A position in the order of a communicator, from 1.
pub(crate) fn position(position: u64, from_beginning: bool) -> String {
    let of = if from_beginning { "" } else { " of those kept" };
    format!("collective {position}{of}")
}

/// What is waited in.
pub(crate) fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Collective { sequence, position: at, what } => {
            // Where positions do not count from the beginning NCCL's number says more.
            let at = match (at.index, at.sequence) {
                (Some(index), _) if at.from_beginning => position(index + 1, true),
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
            format!("{} {preposition} rank {}", message.func(), message.peer)
        }
    }
}
