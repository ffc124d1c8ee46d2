//! The words of lines: ranks, operations and calls by name, and what fits into a line.

use std::collections::BTreeSet;

use crate::graph::parts::{Described, Key, Operation, Part, PartStage};
use crate::graph::play::Meeting;
use crate::graph::{Graph, Vertex};
use crate::job::{Actor, Job, Member, Process, Sequence};
use analysis::names::{MOST_COLUMNS, columns, shortened};
use analysis::units::{real, time};
use nccl_events::rank_list;
use nccl_events::sort::Gather;

/// What every line has room for: `PAST HANG: `.
const WORD: usize = 11;

/// The longest name of a communicator in a line.
const MOST_OF_NAME: usize = 24;

pub(super) const MOST_EVIDENCE: usize = 5;

/// A time span with one decimal; a long one as [`time`] has it.
pub(super) fn seconds(ns: u64) -> String {
    match ns {
        1_000_000..50_000_000 => format!("{:.1} ms", real(ns) / 1e6),
        50_000_000..600_000_000_000 => format!("{:.1} s", real(ns) / 1e9),
        _ => time(ns),
    }
}

/// The line with the most telling of these ends that fits.
pub(super) fn fit(head: &str, ends: &[String]) -> String {
    let room = (MOST_COLUMNS - WORD).saturating_sub(columns(head));
    let end = ends.iter().find(|end| columns(end) <= room);
    shortened(&format!("{head}{}", end.map_or("", String::as_str)), MOST_COLUMNS - WORD)
}

/// A line without the clauses for which there is no room; a clause that is too long itself lacks its middle.
pub(super) fn cut(line: &str) -> String {
    let fits = |text: &str| columns(text) <= MOST_COLUMNS;
    if fits(line) {
        return line.to_owned();
    }
    // Commas also separate ranks.
    let is_list = |at: usize| line[at..].starts_with(',') && line[at + 1..].trim_start().starts_with(char::is_numeric);
    let clauses = line.match_indices([';', ',']).map(|(at, _)| at).filter(|at| !is_list(*at));
    let longest = clauses.map(|at| &line[..at]).rfind(|text| fits(text));
    let longest = longest.filter(|text| 2 * columns(text) > MOST_COLUMNS);
    longest.map_or_else(|| shortened(line, MOST_COLUMNS), str::to_owned)
}

pub(super) fn short(name: &str) -> String {
    shortened(name, MOST_OF_NAME)
}

pub(super) fn comm_name(job: &Job, comm: usize) -> String {
    job.comm(comm).map_or_else(|| "?".to_owned(), |comm| short(&comm.name))
}

/// Ranks by their numbers in the job: `ranks 0-1, 3`; of a communicator whose ranks have none, `rank 1 of tp`.
pub(super) fn who(job: &Job, members: &[Member]) -> String {
    let job_rank = |(comm, rank): &Member| {
        let of = job.comm(*comm)?;
        if of.lacks_numbers { None } else { of.job_rank(*rank) }
    };
    let numbers: Option<BTreeSet<u32>> = members.iter().map(job_rank).collect();
    if let Some(numbers) = numbers {
        return named(&numbers.into_iter().collect::<Vec<_>>(), "");
    }
    let first = members.first().map_or(0, |(comm, _)| *comm);
    let lacks_numbers = job.comm(first).is_some_and(|comm| comm.lacks_numbers);
    if !lacks_numbers && members.iter().all(|(comm, _)| *comm == first) {
        let numbers: BTreeSet<u32> = members.iter().map(|(_, rank)| *rank).gather();
        let of = format!(" of {}", comm_name(job, first));
        return named(&numbers.into_iter().collect::<Vec<_>>(), &of);
    }
    let addresses = members.iter().filter_map(|member| job.process_of_member(*member)).map(Process::address);
    let addresses: BTreeSet<String> = addresses.gather();
    match addresses.len() {
        0 => format!("{} ranks", members.len()),
        1..=2 => addresses.into_iter().collect::<Vec<_>>().join(", "),
        number => format!("{number} processes"),
    }
}

fn named(ranks: &[u32], of: &str) -> String {
    let list = rank_list(ranks);
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    if list.chars().count() > 32 { format!("{} ranks{of}", ranks.len()) } else { format!("{noun} {list}{of}") }
}

pub(super) fn verb<'a>(members: &[Member], one: &'a str, several: &'a str) -> &'a str {
    if members.len() == 1 { one } else { several }
}

/// `ncclAllReduce #5 of world`.
pub(super) fn operation_name(job: &Job, member: Member, operation: Operation) -> String {
    let (comm, _) = member;
    let of = comm_name(job, comm);
    let Some(described) = job.described(member, operation) else { return of };
    match (described, operation) {
        (Described::Collective(call), Operation::Collective(sequence, at)) => {
            let tail = job.member(member).map(|rank| sequence.tail(rank));
            let is_from_beginning = job.comms.get(comm).is_some_and(|comm| sequence.is_from_beginning(comm));
            let position = tail.map_or(0, |tail| tail.before) + at as u64 + 1;
            let number = match call.sequence {
                _ if is_from_beginning => format!(" #{position}"),
                Some(sequence) => format!(" (sequence {sequence})"),
                None => String::new(),
            };
            let graph = if sequence == Sequence::Replays { " (graph)" } else { "" };
            format!("nccl{}{number}{graph} of {of}", call.what.func)
        }
        (Described::Message(message), Operation::WithoutPeer(_)) => format!("{} of {of}", message.func()),
        (Described::Message(message), _) => {
            let preposition = if message.is_send { "to" } else { "from" };
            let peer = job.comms.get(comm).and_then(|comm| comm.job_rank(message.peer)).unwrap_or(message.peer);
            format!("{} {preposition} {peer} #{} of {of}", message.func(), message.number + 1)
        }
        (Described::Collective(call), _) => format!("nccl{} of {of}", call.what.func),
    }
}

/// A part: its operation, or the functions of a group.
pub(super) fn part_name(job: &Job, part: &Part) -> String {
    match part.operations.as_slice() {
        [] => comm_name(job, part.member.0),
        [one] => operation_name(job, part.member, *one),
        several => {
            let functions = several.iter().filter_map(|one| job.described(part.member, *one)).map(|call| match call {
                Described::Collective(call) => format!("nccl{}", call.what.func),
                Described::Message(message) => message.func().to_owned(),
            });
            let functions: BTreeSet<String> = functions.gather();
            let functions: Vec<String> = functions.into_iter().collect();
            format!("a group of {} ({}) of {}", several.len(), functions.join(", "), comm_name(job, part.member.0))
        }
    }
}

/// What the members of an operation call.
fn meeting_name(graph: &Graph<'_>, meeting: &Meeting) -> String {
    let first = meeting.parts.iter().next();
    first.map_or_else(String::new, |(rank, (_, operation))| {
        operation_name(graph.played.job, (meeting.key.comm(), *rank), *operation)
    })
}

/// What others wait for a member to call: the operation, or of a message its other end.
pub(super) fn missing_call(graph: &Graph<'_>, meeting: &Meeting) -> String {
    let job = graph.played.job;
    let Key::Message { comm, .. } = meeting.key else {
        return meeting_name(graph, meeting);
    };
    let first = meeting.parts.iter().next();
    let Some((rank, (_, operation))) = first else { return String::new() };
    let Some(Described::Message(message)) = job.described((comm, *rank), *operation) else { return String::new() };
    let number = message.number + 1;
    format!(
        "the {} for {}'s {} #{number} of {}",
        message.matching_func(),
        who(job, &[(comm, *rank)]),
        message.func(),
        comm_name(job, comm)
    )
}

pub(super) fn members_of(graph: &Graph<'_>, actors: impl IntoIterator<Item = Actor>) -> Vec<Member> {
    actors.into_iter().filter_map(|actor| graph.member_of(actor)).collect()
}

/// What a rank waits in.
pub(super) fn place_name(graph: &Graph<'_>, vertex: Vertex) -> String {
    let job = graph.played.job;
    match vertex {
        Vertex::Part(part) => graph.played.parts.get(part).map_or_else(String::new, |part| part_name(job, part)),
        Vertex::Meeting(meeting) => {
            graph.played.meeting(meeting).map_or_else(String::new, |meeting| meeting_name(graph, meeting))
        }
        Vertex::Step(step) => graph.steps.get(step).map_or_else(String::new, |step| step.name.clone()),
        Vertex::Call(actor) => call_name(graph, actor),
        Vertex::Member(member) | Vertex::Unsure(member) => who(job, &[member]),
    }
}

/// The call of NCCL that a rank is in.
pub(super) fn call_name(graph: &Graph<'_>, actor: Actor) -> String {
    let job = graph.played.job;
    let everyone = job.everyone.ranks.values().find(|rank| rank.actor == actor);
    let of_range = everyone.and_then(|rank| rank.activity.call.as_ref()).map(|call| call.name.clone());
    let ranks = job.comms.iter().flat_map(|comm| comm.ranks.values()).filter(|rank| rank.actor == actor);
    let open = ranks.flat_map(|rank| &rank.open_calls).find(|call| call.is_in_nccl);
    if let Some(name) = of_range {
        return name;
    }
    let parts = graph
        .played
        .parts
        .all
        .iter()
        .zip(0..)
        .filter(|(part, id)| part.actor == actor && part.stage == PartStage::Calling && !graph.played.is_over(*id));
    let mut starts = parts.map(|(part, _)| part_name(job, part));
    match (starts.next(), open) {
        (Some(starts), _) => format!("the call that starts {starts}"),
        (None, Some(_)) => "a call that starts operations".to_owned(),
        (None, None) => "an NCCL call".to_owned(),
    }
}
