//! The sentences of the report, for people who know NCCL and nothing of traces.

use std::collections::BTreeSet;

use super::names;
use crate::hang::job::{Comm, Job, Process, ProcessState, Rank, Source};
use crate::hang::judge::blockage::{Blockage, Cause, Operation, Reason};
use crate::hang::judge::mismatch::Mismatch;
use crate::hang::judge::suspects::Suspect;
use crate::hang::operation::Signature;
use crate::units::{plural, time};

/// Why calls of flight recordings may not be comparable.
pub(crate) const NO_NUMBERS: &str = "the beginning of the recording is not kept, and nothing that is kept has a number of NCCL's that other ranks have, too";

/// Who waits in what, for whom.
pub(crate) fn waits(job: &Job, blockage: &Blockage) -> String {
    let waiters: Vec<u32> = blockage.waiters.iter().map(|(rank, _)| *rank).collect();
    let with = |ranks: &[u32], one, several| {
        format!("{} {}", names::members(job, blockage.comm, ranks), names::verb(ranks, one, several))
    };
    let is_over = job.is_over();
    let has_called = if is_over { "had called" } else { "has called" };
    let for_whom = match (&blockage.cause, &blockage.operation) {
        (Cause::Mismatch(mismatch), _) => {
            format!(", where {} something else", with(&mismatch.deviants(), "calls", "call"))
        }
        (Cause::Absent(absent), Operation::Collective { .. }) => {
            let absent = if is_over { with(absent, "had", "had") } else { with(absent, "has", "have") };
            format!(", which {absent} not called")
        }
        (Cause::Absent(_), Operation::Message(message)) => {
            let has = if is_over { "had" } else { "has" };
            format!(", which {has} not called the matching {}", message.matching_func())
        }
        (Cause::AllEntered(_), operation) if operation.has_unknown_position() => {
            ", and which of them is behind is not known".to_owned()
        }
        (Cause::AllEntered(_), Operation::Collective { .. }) => {
            format!(", which all {}", if is_over { "had called" } else { "have called" })
        }
        (Cause::AllEntered(_), Operation::Message(_)) => format!(", which {has_called} its part"),
        (Cause::Unrecorded(ranks), _) => {
            format!(", and of {} there are no records, or not all", names::members(job, blockage.comm, ranks))
        }
    };
    format!(
        "{} in {} of communicator {} for {}{for_whom}",
        if is_over { with(&waiters, "waited", "waited") } else { with(&waiters, "waits", "wait") },
        names::operation(job, blockage.comm, &blockage.operation),
        names::comm(job, blockage.comm),
        time(blockage.longest_ns()),
    )
}

pub(crate) fn mismatch(comm: &Comm, mismatch: &Mismatch) -> String {
    let is_different = |of: &dyn Fn(&Signature) -> String| {
        let all: BTreeSet<String> = mismatch.groups.iter().map(|(what, _)| of(what)).collect();
        all.len() > 1
    };
    let mut different = Vec::new();
    if is_different(&|what| what.func.to_string()) {
        different.push("functions");
    } else {
        let counts = is_different(&|what| what.count.to_string());
        let datatypes = is_different(&|what| what.datatype.to_string());
        let roots = is_different(&|what| format!("{:?}", what.root));
        different.extend(counts.then_some("counts"));
        different.extend(datatypes.then_some("data types"));
        different.extend(roots.then_some("roots"));
    }
    let groups = mismatch.groups.iter().take(4).map(|(what, members)| {
        let verb = names::verb(members, "calls", "call");
        format!("{} {verb} {}", names::ranks(comm, members), names::call(what))
    });
    let groups: Vec<String> = groups.collect();
    let shifted = match mismatch.shifted {
        Some((rank, true)) => format!("; {} seems to have left out a call", names::ranks(comm, &[rank])),
        Some((rank, false)) => format!("; {} seems to have made one call too many", names::ranks(comm, &[rank])),
        None => String::new(),
    };
    format!(
        "different {} in {}: {}{shifted}",
        different.join(" and "),
        names::position(mismatch.position + 1, mismatch.from_beginning),
        groups.join(", ")
    )
}

/// Why somebody is the suspect, in one sentence.
pub(crate) fn suspect(job: &Job, blockages: &[Blockage], suspect: &Suspect) -> String {
    let Some(blockage) = blockages.get(suspect.blockage) else {
        return String::new();
    };
    let (comm, rank) = suspect.member;
    let who = names::member(job, suspect.member);
    let name = names::comm(job, comm);
    let what = names::operation(job, comm, &blockage.operation);
    let process = job.process_of_member(suspect.member);
    let not_called = not_called(job, blockage, &what);
    match suspect.reason {
        Reason::Mismatch => match (&blockage.cause, job.comms.get(comm)) {
            (Cause::Mismatch(found), Some(comm)) => {
                format!("the ranks of communicator {name} call {}", mismatch(comm, found))
            }
            _ => String::new(),
        },
        Reason::Gone if process.is_some_and(|one| one.state == ProcessState::NotKnown) => {
            let end_ns = process.map_or(job.now_ns, |process| process.until_ns);
            let before = time(job.now_ns.saturating_sub(end_ns));
            format!(
                "the recording of {who} ended {before} before the last one (it was stopped, killed, crashed, or ended), and others wait for it in {what} of communicator {name}"
            )
        }
        Reason::Gone => format!(
            "the process of {who} is gone (killed, maybe while it was stopped; crashed; or it ended without telling NCCL), and others wait for it in {what} of communicator {name}"
        ),
        Reason::Ended => format!(
            "{who} is through with communicator {name} (it ended it, or its process is over and its part is written), and others wait for it in {what}"
        ),
        Reason::Deadlock => {
            let steps = suspect.chain.iter().filter_map(|&at| blockages.get(at));
            let steps: Vec<String> = steps.map(|step| waits(job, step)).collect();
            format!(
                "a deadlock: ranks wait for each other, because they call different communicators or messages in different orders: {}",
                steps.join("; ")
            )
        }
        Reason::Stopped => {
            let where_it_is = match blockage.cause {
                Cause::Absent(_) => not_called,
                Cause::AllEntered(_) => format!("is in {what} of communicator {name}"),
                _ => format!("holds up {what} of communicator {name}"),
            };
            format!("{who} {where_it_is}: its process is stopped (by a signal or a debugger)")
        }
        Reason::InTheCall => {
            let call = job.member((comm, rank));
            let call = call.and_then(|rank| rank.open_calls.first());
            let call = call.map_or("in a call of NCCL that has not returned", |call| &call.what);
            format!("{who} holds up {what} of communicator {name}: it is {call}")
        }
        Reason::NotCalled => {
            let last_ns = process.filter(|process| process.last_event_ns > 0);
            let idle_ns = last_ns.and_then(|one| one.until_ns.checked_sub(one.last_event_ns));
            let idle = idle_ns.map(|idle_ns| format!(" (NCCL's last sign of life in it was {} before)", time(idle_ns)));
            format!("{who} {not_called}{}", idle.unwrap_or_default())
        }
        Reason::NeverCame => format!(
            "{who} has recorded nothing and {not_called}: its process never came so far, or runs without the plugin"
        ),
        Reason::Silent => {
            let silent_ns = process.map(|one| job.now_ns.saturating_sub(one.last_record_ns));
            format!(
                "{who} {not_called}, as far as its records go; its process is on another host and has recorded nothing for {}",
                silent_ns.map_or_else(String::new, time)
            )
        }
        Reason::NotBegun => format!(
            "{who} has called {what} of communicator {name}, and its kernel has not begun, where others' have: its GPU does something else, or its stream waits"
        ),
        Reason::Gpu => {
            format!("{who} is in {what} of communicator {name}, and its proxy waits for nothing but its own GPU")
        }
        Reason::Unrecorded => unrecorded(job, blockage, suspect),
        Reason::Unknown => all_entered(job, blockage, &who, &what),
    }
}

fn not_called(job: &Job, blockage: &Blockage, what: &str) -> String {
    let comm = names::comm(job, blockage.comm);
    let has = if job.is_over() { "had" } else { "has" };
    match &blockage.operation {
        Operation::Collective { .. } => format!("{has} not called {what} of communicator {comm}"),
        Operation::Message(message) => format!(
            "{has} not called the {} that answers the {} of {} in communicator {comm}",
            message.matching_func(),
            message.func(),
            names::member(job, (blockage.comm, blockage.waiters.first().map_or(0, |(rank, _)| *rank))),
        ),
    }
}

/// All entered an operation, and nothing says who holds it up.
fn all_entered(job: &Job, blockage: &Blockage, who: &str, what: &str) -> String {
    let comm = names::comm(job, blockage.comm);
    match &blockage.operation {
        Operation::Collective { position, .. } if position.index.is_none() => format!(
            "ranks of communicator {comm} wait in {what}, and which of them is behind is not known: {NO_NUMBERS}"
        ),
        Operation::Collective { .. } => format!(
            "all ranks of communicator {comm} have called {what}, and it does not end; what was recorded does not say which rank holds it up"
        ),
        Operation::Message(message) => format!(
            "{who} and {} have called {what} and its counterpart in communicator {comm}, and it does not end",
            names::member(job, (blockage.comm, message.peer))
        ),
    }
}

/// Of a rank that may have called something or not.
fn unrecorded(job: &Job, blockage: &Blockage, suspect: &Suspect) -> String {
    let (comm, rank) = suspect.member;
    let who = names::member(job, suspect.member);
    let what = names::operation(job, comm, &blockage.operation);
    let name = names::comm(job, comm);
    let kept_since = |rank: u32| {
        let process = job.process_of_member((comm, rank))?;
        Some(process.until_ns.saturating_sub(process.kept_since_ns?))
    };
    let waiters: Vec<u32> = blockage.waiters.iter().map(|(rank, _)| *rank).collect();
    let is_flight = |rank: &u32| kept_since(*rank).is_some();
    let is_message = matches!(blockage.operation, Operation::Message(_));
    if is_message && (waiters.iter().any(is_flight) || is_flight(&rank)) {
        return format!(
            "{} waits in {what} in communicator {name}, and {who} is not seen to be in its part; whether it has called it is not known: the beginning of the recording is not kept, and NCCL gives sends and receives no numbers",
            names::members(job, comm, &waiters)
        );
    }
    if blockage.operation.has_unknown_position() {
        return format!(
            "others wait in {what} of communicator {name}, and {who} is not seen to wait in it; who is behind is not known: {NO_NUMBERS}"
        );
    }
    let records = match kept_since(rank) {
        Some(kept_ns) if !is_message => format!(
            "of {who} only the last {} are kept, and nothing in them has a number of NCCL's that others have too: it may have called it or not",
            time(kept_ns)
        ),
        _ => format!("of {who} there are no records here, or not all, and it may have called it or not"),
    };
    format!("all other ranks have called {what} of communicator {name}; {records}")
}

/// The verdict's line: the suspect, and how many wait for how long.
pub(crate) fn verdict(job: &Job, blockages: &[Blockage], found: &Suspect) -> String {
    let text = suspect(job, blockages, found);
    // Of a job that is stopped as a whole nobody waits.
    if found.reason == Reason::Deadlock || found.blocked == 0 {
        return text;
    }
    let longest = found.chain.iter().filter_map(|&at| blockages.get(at));
    let longest = longest.map(Blockage::longest_ns).max().unwrap_or(0);
    let waits = match job.is_over() {
        true => plural(found.blocked as u64, "rank waited", "ranks waited"),
        false => plural(found.blocked as u64, "rank waits", "ranks wait"),
    };
    format!("{text}; {waits} for {}", time(longest))
}

/// What to do about a suspect.
pub(crate) fn advice(reason: Reason, process: Option<&Process>) -> Option<String> {
    let text = match reason {
        Reason::NotCalled | Reason::InTheCall | Reason::Deadlock => {
            let process = process.filter(|process| process.state == ProcessState::Running)?;
            return Some(format!(
                "look at what its program does, on {}: py-spy dump --pid {pid}, or gdb -p {pid} -batch -ex 'thread apply all backtrace'",
                process.host,
                pid = process.pid
            ));
        }
        Reason::Stopped => return Some(format!("kill -CONT {} lets it go on", process?.pid)),
        Reason::NotBegun | Reason::Gpu => {
            "look at what runs on its GPU (nvidia-smi), and for errors of the device (dmesg: Xid)"
        }
        Reason::Gone => "look for the reason of its end: its output, the batch system's log, dmesg (out of memory)",
        Reason::Mismatch => {
            "compare the program's paths on these ranks: all ranks of a communicator must make the same calls in the same order"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// A call that has not returned for long, though nobody is seen to wait: NCCL makes connections in it, before it
/// reports with whom. The one that is in it longest.
pub(crate) fn stuck_in_call(job: &Job, after_ns: u64) -> Option<String> {
    let members = job.comms.iter().enumerate().flat_map(|(index, comm)| {
        let shows_ends = |rank: &Rank| job.process_of(rank).is_some_and(|process| process.is_whole);
        let ranks = comm.ranks.iter().filter(move |(_, rank)| shows_ends(rank));
        ranks.map(move |(number, rank)| ((index, *number), comm, rank))
    });
    let calls = members.flat_map(|(member, comm, rank)| {
        let calls = rank.open_calls.iter().filter(|call| call.is_in_nccl);
        let calls = calls.map(|call| (job.waited_ns(rank, call.since_ns).unwrap_or(0), call));
        calls.map(move |(for_ns, call)| (for_ns, member, comm, call))
    });
    // Of equal ones the first.
    let longest = calls.rev().max_by_key(|(for_ns, ..)| *for_ns);
    let (for_ns, member, comm, call) = longest.filter(|(for_ns, ..)| *for_ns >= after_ns.max(1))?;
    let in_call = format!("{} of communicator {} for {}, and it has not returned", call.what, comm.name, time(for_ns));
    let who = names::member(job, member);
    let outside = outside(job, comm);
    if outside.is_empty() {
        return Some(format!(
            "{who} is {in_call}; nobody is seen to wait in an operation: maybe a connection is being made, and its peer \
             does not come"
        ));
    }
    Some(format!(
        "{} {} in no call of NCCL, and all other ranks of the communicator are: {who} is {in_call}; maybe a connection is \
         being made, and its peer does not come",
        names::members(job, member.0, &outside),
        names::verb(&outside, "is", "are"),
    ))
}

/// The ranks of a communicator that are in no call, where most are in one.
fn outside(job: &Job, comm: &Comm) -> Vec<u32> {
    let is_known = |rank: &Rank| job.process_of(rank).is_some_and(|process| process.is_whole) && !rank.finalized;
    let is_inside = |rank: &Rank| rank.open_calls.iter().any(|call| call.is_in_nccl);
    let (inside, outside): (Vec<_>, Vec<_>) = comm.ranks.iter().partition(|(_, rank)| is_inside(rank));
    let all_known = comm.missing().is_empty() && outside.iter().all(|(_, rank)| is_known(rank));
    let is_clear = all_known && outside.len() <= inside.len();
    outside.into_iter().filter(|_| is_clear).map(|(number, _)| *number).collect()
}

/// Some processes are gone, and nobody waits for them yet.
pub(crate) fn died(job: &Job, first: &Process, n: usize) -> String {
    let others = job.processes.iter().filter(|one| one.state.is_alive());
    format!(
        "{} gone (the first is {}, whose last record is from {} before) and {}; nobody waits in NCCL",
        plural(n as u64, "process is", "processes are"),
        first.address(),
        time(job.now_ns.saturating_sub(first.last_record_ns)),
        plural(others.count() as u64, "other runs", "others run"),
    )
}

pub(crate) fn nothing(job: &Job) -> String {
    let processes = plural(job.processes.len() as u64, "process", "processes");
    let comms = plural(job.comms.len() as u64, "communicator", "communicators");
    let mut states = job.processes.iter().map(|process| process.state);
    if job.source == Source::Archive {
        return format!("by the archive all operations in the {comms} of {processes} ended, on all their ranks");
    }
    if !states.any(|state| state == ProcessState::Running) {
        return format!("nobody waited in the {comms} of {processes} when they ended or were killed");
    }
    let last_ns = job.processes.iter().map(|one| one.last_event_ns).max();
    let idle = last_ns.and_then(|last| job.now_ns.checked_sub(last));
    let idle = idle.map_or_else(String::new, |idle| format!("; NCCL was last heard of {} ago", time(idle)));
    format!("nobody waits in the {comms} of {processes}{idle}")
}
