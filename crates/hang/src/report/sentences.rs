//! The sentences of the report, for readers who know NCCL but not traces.

use std::collections::BTreeSet;

use analysis::units::{plural, time};
use job::life::Life;
use nccl_events::sort::Gather;

use super::doing::{call_text, may_take_part, ranges_text, waiter};
use super::names;
use crate::job::{Comm, Job, Member, Process};
use crate::judge::blockage::{Blockage, Cause, Operation, Reason, StepCall};
use crate::judge::mismatch::Mismatch;
use crate::judge::suspects::Suspect;
use crate::operation::Signature;

/// Why calls of flight recordings may not be comparable.
pub(crate) const NO_NUMBERS: &str = "the beginning of the recording is not kept, and nothing that is kept has a number of NCCL's that other ranks have, too";

/// The place of a rank whose open call is not among its records.
const UNKNOWN_CALL: &str = "in a call of NCCL that has not returned";
const UNKNOWN_CALL_PAST: &str = "in a call of NCCL that had not returned";

/// Present tense while a process of the job lives, else past tense.
pub(super) fn tense<'a>(job: &Job, now: &'a str, past: &'a str) -> &'a str {
    if job.is_over() { past } else { now }
}

/// "has", or "have" for several ranks, or "had".
fn has(job: &Job, ranks: &[u32]) -> &'static str {
    tense(job, names::verb(ranks, "has", "have"), "had")
}

pub(crate) fn waits(job: &Job, blockage: &Blockage) -> String {
    let members = |ranks: &[u32]| names::members(job, blockage.comm, ranks);
    let for_whom = match (&blockage.cause, &blockage.operation) {
        (Cause::Mismatch(mismatch), _) => {
            let deviants = mismatch.deviants();
            let call = tense(job, names::verb(&deviants, "calls", "call"), "called");
            format!(", where {} {call} something else", members(&deviants))
        }
        (Cause::Absent(absent), Operation::Step(call @ StepCall { is_of_all: false, .. })) => {
            let is = tense(job, names::verb(absent, "is", "are"), names::verb(absent, "was", "were"));
            format!(", which {} {is} not in, and {}", members(absent), may_take_part(call, absent))
        }
        (Cause::Absent(absent), Operation::Collective { .. } | Operation::Step(_)) => {
            format!(", which {} {} not called", members(absent), has(job, absent))
        }
        (Cause::Absent(_), Operation::Message(message)) => {
            format!(", which {} not called the matching {}", tense(job, "has", "had"), message.matching_func())
        }
        (Cause::AllEntered(_), operation) if operation.has_unknown_position() => {
            format!(", and which of them {} behind is not known", tense(job, "is", "was"))
        }
        (Cause::AllEntered(_), Operation::Step(StepCall { is_of_all: false, .. })) => {
            ", and for whom is not known".to_owned()
        }
        (Cause::AllEntered(_), Operation::Collective { .. } | Operation::Step(_)) => {
            format!(", which all {} called", tense(job, "have", "had"))
        }
        (Cause::AllEntered(_), Operation::Message(_)) => {
            format!(", which {} called its part", tense(job, "has", "had"))
        }
        (Cause::Unrecorded(ranks), _) => format!(", and of {} there are no records, or not all", members(ranks)),
    };
    let waiters = blockage.waiting_ranks();
    format!(
        "{} {} in {} for {}{for_whom}",
        members(&waiters),
        tense(job, names::verb(&waiters, "waits", "wait"), "waited"),
        names::in_comm(job, blockage),
        time(blockage.longest_ns()),
    )
}

pub(crate) fn mismatch(job: &Job, comm: &Comm, mismatch: &Mismatch) -> String {
    let differ = |of: &dyn Fn(&Signature) -> String| {
        mismatch.groups.iter().map(|(what, _)| of(what)).gather::<BTreeSet<String>>().len() > 1
    };
    let mut different = Vec::new();
    if differ(&|what| what.func.to_string()) {
        different.push("functions");
    } else {
        different.extend(differ(&|what| what.count.to_string()).then_some("counts"));
        different.extend(differ(&|what| what.datatype.to_string()).then_some("data types"));
        different.extend(differ(&|what| format!("{:?}", what.root)).then_some("roots"));
    }
    let groups = mismatch.groups.iter().take(4).map(|(what, members)| {
        let verb = tense(job, names::verb(members, "calls", "call"), "called");
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

/// The suspect, and why it is one, with the program's ranges that it is in.
pub(crate) fn suspect(job: &Job, blockages: &[Blockage], suspect: &Suspect) -> String {
    let text = why(job, blockages, suspect);
    let Some(ranges) = job.member(suspect.member).and_then(|rank| ranges_text(&rank.doing)) else {
        return text;
    };
    let is = tense(job, "is", "was");
    match suspect.reason {
        Reason::NotCalled => format!("{text}: it {is} {ranges}"),
        Reason::InTheCall => format!("{text}, {ranges}"),
        Reason::Gone | Reason::Silent => format!("{text}; it was {ranges}"),
        Reason::Stopped | Reason::NotBegun | Reason::Gpu => format!("{text}; it {is} {ranges}"),
        _ => text,
    }
}

fn why(job: &Job, blockages: &[Blockage], suspect: &Suspect) -> String {
    let Some(blockage) = blockages.get(suspect.blockage) else {
        return String::new();
    };
    let (comm, _) = suspect.member;
    let who = names::member(job, suspect.member);
    let name = names::comm(job, comm);
    let what = names::operation(job, comm, &blockage.operation);
    let in_comm = names::in_comm(job, blockage);
    let process = job.process_of_member(suspect.member);
    let not_called = || not_called(job, blockage, suspect.member);
    let [is, has, holds_up, wait] = [("is", "was"), ("has", "had"), ("holds up", "held up"), ("wait", "waited")]
        .map(|(now, past)| tense(job, now, past));
    match suspect.reason {
        Reason::Mismatch => {
            let call = tense(job, "call", "called");
            let (Cause::Mismatch(found), Some(comm)) = (&blockage.cause, job.comms.get(comm)) else {
                return String::new();
            };
            format!("the ranks of communicator {name} {call} {}", mismatch(job, comm, found))
        }
        Reason::Gone if process.is_some_and(|one| one.state == Life::Unknown) => {
            let before = time(job.now_ns.saturating_sub(process.map_or(job.now_ns, |process| process.until_ns)));
            format!(
                "the recording of {who} ended {before} before the last one (it was stopped, killed, crashed, or ended), and others {wait} for it in {in_comm}"
            )
        }
        Reason::Gone => format!(
            "the process of {who} {is} gone (killed, maybe while it was stopped; crashed; or it ended without telling NCCL), and others {wait} for it in {in_comm}"
        ),
        Reason::Ended if name.is_empty() => format!("{who} {is} over, and others {wait} for it in {what}"),
        Reason::Ended => format!(
            "{who} {is} through with communicator {name} (it ended it, or its process {is} over and its part {is} written), and others {wait} for it in {what}"
        ),
        Reason::Deadlock => {
            let steps = suspect.chain.iter().filter_map(|&at| blockages.get(at)).map(|step| waits(job, step));
            let (steps, call) = (steps.collect::<Vec<_>>().join("; "), tense(job, "call", "called"));
            format!(
                "a deadlock: ranks {wait} for each other, because they {call} different communicators or messages in different orders: {steps}"
            )
        }
        // A stopped process is alive, so the job is not over.
        Reason::Stopped => {
            let where_it_is = match blockage.cause {
                Cause::Absent(_) => not_called(),
                Cause::AllEntered(_) => format!("is in {in_comm}"),
                _ => format!("holds up {in_comm}"),
            };
            format!("{who} {where_it_is}: its process is stopped (by a signal or a debugger)")
        }
        Reason::InTheCall if matches!(blockage.operation, Operation::Step(_)) => {
            format!("{who} {}: it {is} {}", not_called(), in_call(job, suspect.member))
        }
        Reason::InTheCall => format!("{who} {holds_up} {in_comm}: it {is} {}", in_call(job, suspect.member)),
        Reason::NotCalled => format!("{who} {}{}", not_called(), last_sign_of_life(process)),
        Reason::NeverCame => format!(
            "{who} {has} recorded nothing and {}: its process never came so far, or {} without the plugin",
            not_called(),
            tense(job, "runs", "ran")
        ),
        Reason::Silent => format!(
            "{who} {}, as far as its records go; its process cannot be seen from here (another host or container) and has recorded nothing for {}",
            not_called(),
            process.map_or_else(String::new, |one| time(job.now_ns.saturating_sub(one.last_record_ns)))
        ),
        Reason::NotBegun => format!(
            "{who} {has} called {in_comm}, and its kernel {has} not begun, where others' {}: its GPU {} something else, or its stream {}",
            tense(job, "have", "had"),
            tense(job, "does", "did"),
            tense(job, "waits", "waited")
        ),
        Reason::Gpu => {
            let waits = tense(job, "waits", "waited");
            format!("{who} {is} in {in_comm}, and its proxy {waits} for nothing but its own GPU")
        }
        Reason::Unrecorded => unrecorded(job, blockage, suspect, &in_comm),
        Reason::Unknown => all_entered(job, blockage, &who, &what),
    }
}

/// The call that a rank is in.
fn in_call(job: &Job, member: Member) -> String {
    let reported = job.member(member).and_then(|rank| {
        let until_ns = job.process_of(rank).map_or(job.now_ns, |process| process.until_ns);
        let reported = rank.open_calls.first().map(|call| call.what.clone());
        reported.or_else(|| call_text(&rank.doing, until_ns))
    });
    reported.unwrap_or_else(|| tense(job, UNKNOWN_CALL, UNKNOWN_CALL_PAST).to_owned())
}

fn last_sign_of_life(process: Option<&Process>) -> String {
    let process = process.filter(|process| process.last_event_ns > 0);
    let idle_ns = process.and_then(|process| process.until_ns.checked_sub(process.last_event_ns));
    idle_ns.map_or_else(String::new, |ns| format!(" (NCCL's last sign of life in it was {} before)", time(ns)))
}

fn not_called(job: &Job, blockage: &Blockage, (_, rank): Member) -> String {
    let (comm, has) = (names::comm(job, blockage.comm), tense(job, "has", "had"));
    match &blockage.operation {
        Operation::Step(call @ StepCall { is_of_all: false, .. }) => {
            let is = tense(job, "is", "was");
            format!("{is} not in {}, and {}", names::in_comm(job, blockage), may_take_part(call, &[rank]))
        }
        Operation::Collective { .. } | Operation::Step(_) => {
            format!("{has} not called {}", names::in_comm(job, blockage))
        }
        Operation::Message(message) => format!(
            "{has} not called the {} that answers the {} of {} in communicator {comm}",
            message.matching_func(),
            message.func(),
            names::members(job, blockage.comm, &blockage.waiting_ranks()),
        ),
    }
}

/// All ranks entered an operation, and no record shows who delays it.
fn all_entered(job: &Job, blockage: &Blockage, who: &str, what: &str) -> String {
    let comm = names::comm(job, blockage.comm);
    let (have, does_not) = (tense(job, "have", "had"), tense(job, "does not", "did not"));
    match &blockage.operation {
        Operation::Collective { position, .. } if position.index.is_none() => format!(
            "ranks of communicator {comm} {} in {what}, and which of them {} behind is not known: {NO_NUMBERS}",
            tense(job, "wait", "waited"),
            tense(job, "is", "was")
        ),
        Operation::Step(call) => {
            let of = if comm.is_empty() { "the job".to_owned() } else { format!("communicator {comm}") };
            match call.is_of_all {
                true => format!(
                    "all ranks of {of} {have} called {what}, and it {does_not} return; what was recorded does not say which rank {} it up",
                    tense(job, "holds", "held")
                ),
                false => format!("{}, and it {does_not} return", waits(job, blockage)),
            }
        }
        Operation::Collective { .. } => format!(
            "all ranks of communicator {comm} {have} called {what}, and it {does_not} end; what was recorded does not say which rank {} it up",
            tense(job, "holds", "held")
        ),
        Operation::Message(message) => format!(
            "{who} and {} {have} called {what} and its counterpart in communicator {comm}, and it {does_not} end",
            names::member(job, (blockage.comm, message.peer))
        ),
    }
}

/// A rank that may or may not have made the call.
fn unrecorded(job: &Job, blockage: &Blockage, suspect: &Suspect, in_comm: &str) -> String {
    let (comm, rank) = suspect.member;
    let who = names::member(job, suspect.member);
    let kept_since = |rank: u32| {
        let process = job.process_of_member((comm, rank))?;
        Some(process.until_ns.saturating_sub(process.kept_since_ns?))
    };
    let waiters = blockage.waiting_ranks();
    let is_message = matches!(blockage.operation, Operation::Message(_));
    let is_step = matches!(blockage.operation, Operation::Step(_));
    if is_message && waiters.iter().chain([&rank]).any(|rank| kept_since(*rank).is_some()) {
        return format!(
            "{} {} in {} in communicator {}, and {who} {} not seen to be in its part; whether it {} called it is not known: the beginning of the recording is not kept, and NCCL gives sends and receives no numbers",
            names::members(job, comm, &waiters),
            tense(job, "waits", "waited"),
            names::operation(job, comm, &blockage.operation),
            names::comm(job, comm),
            tense(job, "is", "was"),
            tense(job, "has", "had"),
        );
    }
    if blockage.operation.has_unknown_position() {
        let (wait, is) = (tense(job, "wait", "waited"), tense(job, "is", "was"));
        return format!(
            "others {wait} in {in_comm}, and {who} {is} not seen to wait in it; who {is} behind is not known: {NO_NUMBERS}"
        );
    }
    let records = match kept_since(rank) {
        Some(kept_ns) if !is_message && !is_step => format!(
            "of {who} only the last {} are kept, and nothing in them has a number of NCCL's that others have too: it may have called it or not",
            time(kept_ns)
        ),
        _ if is_step && job.process_of_member(suspect.member).is_some_and(|process| process.is_whole) => {
            format!("of {who} NVTX ranges are not recorded (NCCL_OTF2_NVTX), and it may have called it or not")
        }
        _ => format!("of {who} there are no records here, or not all, and it may have called it or not"),
    };
    if let Cause::Unrecorded(ranks) = &blockage.cause
        && ranks.len() > 1
    {
        return format!(
            "{} {} in {in_comm}; of {} there are no records here, or not all: each may have called it or not",
            names::members(job, comm, &waiters),
            tense(job, names::verb(&waiters, "waits", "wait"), "waited"),
            names::members(job, comm, ranks),
        );
    }
    format!("all other ranks {} called {in_comm}; {records}", tense(job, "have", "had"))
}

/// The verdict's line: the suspect, how many ranks wait, and for how long.
pub(crate) fn verdict(job: &Job, blockages: &[Blockage], found: &Suspect) -> String {
    let text = suspect(job, blockages, found);
    // In a job that was stopped as a whole no rank waits.
    if found.reason == Reason::Deadlock || found.blocked == 0 {
        return text;
    }
    let longest_ns = found.chain.iter().filter_map(|&at| blockages.get(at)).map(Blockage::longest_ns).max();
    let (one, several) = if job.is_over() { ("rank waited", "ranks waited") } else { ("rank waits", "ranks wait") };
    // The chain includes the blockage that the suspect causes.
    let up_to = if found.blocked > 1 { "up to " } else { "" };
    let waiters = plural(found.blocked as u64, one, several);
    let waiter = blockages.get(found.blockage).map_or_else(String::new, |blockage| waiter(job, blockage, found));
    format!("{text}; {waiters} for {up_to}{}{waiter}", time(longest_ns.unwrap_or(0)))
}

pub(crate) fn advice(reason: Reason, process: Option<&Process>) -> Option<String> {
    let text = match reason {
        Reason::NotCalled | Reason::InTheCall | Reason::Deadlock => {
            let Process { host, pid, .. } = process.filter(|process| process.state == Life::Running)?;
            return Some(format!(
                "look at what its program does, on {host}: py-spy dump --pid {pid}, or gdb -p {pid} -batch -ex 'thread apply all backtrace'"
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

/// Some processes are gone, and nobody waits for them yet.
pub(crate) fn died(job: &Job, first: &Process, n: usize) -> String {
    let others = job.processes.iter().filter(|one| one.state.is_alive());
    format!(
        "{} gone (the first is {}, whose last record is from {} before) and {}; nobody is seen to wait for it in NCCL",
        plural(n as u64, "process is", "processes are"),
        first.address(),
        time(job.now_ns.saturating_sub(first.last_record_ns)),
        plural(others.count() as u64, "other runs", "others run"),
    )
}

pub(crate) fn nothing(job: &Job) -> String {
    let processes = plural(job.processes.len() as u64, "process", "processes");
    let comms = plural(job.comms.len() as u64, "communicator", "communicators");
    if job.is_archive {
        return format!("by the archive all operations in the {comms} of {processes} ended, on all their ranks");
    }
    if job.processes.iter().all(|process| process.state == Life::Ended) {
        return format!("nobody was seen to wait in the {comms} of {processes}, all of which have ended");
    }
    if !job.processes.iter().any(|process| process.state == Life::Running) {
        return format!("nobody was seen to wait in the {comms} of {processes} when they ended or were killed");
    }
    let idle = job.processes.iter().map(|one| one.last_event_ns).max().and_then(|last| job.now_ns.checked_sub(last));
    let idle = idle.map_or_else(String::new, |idle| format!("; NCCL was last heard of {} ago", time(idle)));
    format!("nobody waits in the {comms} of {processes}{idle}")
}
