//! The sentences of the report, for readers who know NCCL but not traces: verdict, reasons and advice, what the records
//! do not show, and why a finished job may have hung.

use std::collections::BTreeSet;

use crate::job::{Comm, Job, Member, Positions, Process, Rank, Sequence, Signature, Stage};
use crate::judge::Judgement;
use crate::judge::blockage::{Blockage, Cause, Mismatch, Operation, Reason, StepCall};
use crate::judge::suspects::Suspect;
use crate::report::rows;
use crate::report::rows::{Kind as VerdictKind, call_text, may_take_part, ranges_text, waiter};
use analysis::units::{plural, time};
use model::job::RecordingState;
use nccl_events::rank_list;
use nccl_events::sort::Gather;
use nccl_events::{Kind, MOST_RANKS};

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
    tense(job, rows::verb(ranks, "has", "have"), "had")
}

pub(crate) fn waits(job: &Job, blockage: &Blockage) -> String {
    let members = |ranks: &[u32]| rows::members(job, blockage.comm, ranks);
    let for_whom = match (&blockage.cause, &blockage.operation) {
        (Cause::Mismatch(mismatch), _) => {
            let deviants = mismatch.deviants();
            let call = tense(job, rows::verb(&deviants, "calls", "call"), "called");
            format!(", where {} {call} something else", members(&deviants))
        }
        (Cause::Absent(absent), Operation::Step(call @ StepCall { is_of_all: false, .. })) => {
            let is = tense(job, rows::verb(absent, "is", "are"), rows::verb(absent, "was", "were"));
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
        tense(job, rows::verb(&waiters, "waits", "wait"), "waited"),
        rows::in_comm(job, blockage),
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
        let verb = tense(job, rows::verb(members, "calls", "call"), "called");
        format!("{} {verb} {}", rows::ranks(comm, members), rows::call(what))
    });
    let groups: Vec<String> = groups.collect();
    let shifted = match mismatch.shifted {
        Some((rank, true)) => format!("; {} seems to have left out a call", rows::ranks(comm, &[rank])),
        Some((rank, false)) => format!("; {} seems to have made one call too many", rows::ranks(comm, &[rank])),
        None => String::new(),
    };
    format!(
        "different {} in {}: {}{shifted}",
        different.join(" and "),
        rows::position(mismatch.position + 1, mismatch.from_beginning),
        groups.join(", ")
    )
}

/// The suspect, and why it is one, with the program's ranges that it is in.
pub(crate) fn suspect(job: &Job, blockages: &[Blockage], suspect: &Suspect) -> String {
    let text = reason_text(job, blockages, suspect);
    let Some(ranges) = job.member(suspect.member).and_then(|rank| ranges_text(&rank.activity)) else {
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

fn reason_text(job: &Job, blockages: &[Blockage], suspect: &Suspect) -> String {
    let Some(blockage) = blockages.get(suspect.blockage) else {
        return String::new();
    };
    let (comm, _) = suspect.member;
    let who = rows::member(job, suspect.member);
    let name = rows::comm(job, comm);
    let what = rows::operation(job, comm, &blockage.operation);
    let in_comm = rows::in_comm(job, blockage);
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
        Reason::Gone if process.is_some_and(|one| one.state == RecordingState::Unknown) => {
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
        Reason::NotCalled => format!("{who} {}{}", not_called(), last_event(process)),
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
        reported.or_else(|| call_text(&rank.activity, until_ns))
    });
    reported.unwrap_or_else(|| tense(job, UNKNOWN_CALL, UNKNOWN_CALL_PAST).to_owned())
}

fn last_event(process: Option<&Process>) -> String {
    let process = process.filter(|process| process.last_event_ns > 0);
    let idle_ns = process.and_then(|process| process.until_ns.checked_sub(process.last_event_ns));
    idle_ns.map_or_else(String::new, |ns| format!(" (NCCL's last event in this process was {} earlier)", time(ns)))
}

fn not_called(job: &Job, blockage: &Blockage, (_, rank): Member) -> String {
    let (comm, has) = (rows::comm(job, blockage.comm), tense(job, "has", "had"));
    match &blockage.operation {
        Operation::Step(call @ StepCall { is_of_all: false, .. }) => {
            let is = tense(job, "is", "was");
            format!("{is} not in {}, and {}", rows::in_comm(job, blockage), may_take_part(call, &[rank]))
        }
        Operation::Collective { .. } | Operation::Step(_) => {
            format!("{has} not called {}", rows::in_comm(job, blockage))
        }
        Operation::Message(message) => format!(
            "{has} not called the {} that answers the {} of {} in communicator {comm}",
            message.matching_func(),
            message.func(),
            rows::members(job, blockage.comm, &blockage.waiting_ranks()),
        ),
    }
}

/// All ranks entered an operation, and no record shows who delays it.
fn all_entered(job: &Job, blockage: &Blockage, who: &str, what: &str) -> String {
    let comm = rows::comm(job, blockage.comm);
    let (have, does_not) = (tense(job, "have", "had"), tense(job, "does not", "did not"));
    match &blockage.operation {
        Operation::Collective { position, .. } if position.index.is_none() => format!(
            "ranks of communicator {comm} {} in {what}, and which of them {} behind is not known: {NO_NUMBERS}",
            tense(job, "wait", "waited"),
            tense(job, "is", "was")
        ),
        Operation::Step(call) => {
            let of = if comm.is_empty() { "the job".to_owned() } else { format!("communicator {comm}") };
            if call.is_of_all {
                format!(
                    "all ranks of {of} {have} called {what}, and it {does_not} return; what was recorded does not say which rank {} it up",
                    tense(job, "holds", "held")
                )
            } else {
                format!("{}, and it {does_not} return", waits(job, blockage))
            }
        }
        Operation::Collective { .. } => format!(
            "all ranks of communicator {comm} {have} called {what}, and it {does_not} end; what was recorded does not say which rank {} it up",
            tense(job, "holds", "held")
        ),
        Operation::Message(message) => format!(
            "{who} and {} {have} called {what} and its counterpart in communicator {comm}, and it {does_not} end",
            rows::member(job, (blockage.comm, message.peer))
        ),
    }
}

/// A rank that may or may not have made the call.
fn unrecorded(job: &Job, blockage: &Blockage, suspect: &Suspect, in_comm: &str) -> String {
    let (comm, rank) = suspect.member;
    let who = rows::member(job, suspect.member);
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
            rows::members(job, comm, &waiters),
            tense(job, "waits", "waited"),
            rows::operation(job, comm, &blockage.operation),
            rows::comm(job, comm),
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
            rows::members(job, comm, &waiters),
            tense(job, rows::verb(&waiters, "waits", "wait"), "waited"),
            rows::members(job, comm, ranks),
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
            let Process { host, pid, .. } = process.filter(|process| process.state == RecordingState::Running)?;
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
    if job.processes.iter().all(|process| process.state == RecordingState::Ended) {
        return format!("nobody was seen to wait in the {comms} of {processes}, all of which have ended");
    }
    if !job.processes.iter().any(|process| process.state == RecordingState::Running) {
        return format!("nobody was seen to wait in the {comms} of {processes} when they ended or were killed");
    }
    let idle = job.processes.iter().map(|one| one.last_event_ns).max().and_then(|last| job.now_ns.checked_sub(last));
    let idle = idle.map_or_else(String::new, |idle| format!("; NCCL was last heard of {} ago", time(idle)));
    format!("nobody waits in the {comms} of {processes}{idle}")
}

/// Whether all processes record such events. If that is unknown for a process, its problems say so.
pub(super) fn records(job: &Job, kind: Kind) -> bool {
    let is_archive = job.is_archive;
    let mut processes = job.processes.iter().filter(|process| process.has_journal || is_archive);
    processes.all(|process| process.event_mask.is_none_or(|mask| mask & kind.mask() != 0))
}

/// Whether the archive says of each rank's last operation that it ended on the GPU, which CUPTI or CUDA events timed.
fn has_ends(job: &Job) -> bool {
    let last = |rank: &Rank| {
        Sequence::ALL
            .into_iter()
            .filter_map(|sequence| sequence.tail(rank).list.last())
            .all(|call| call.progress.stage == Stage::Done)
    };
    job.is_archive && job.comms.iter().flat_map(|comm| comm.ranks.values()).all(last)
}

/// What the records do not show, and which events would show it.
pub(crate) fn unknown(job: &Job, judgement: &Judgement, kind: VerdictKind) -> Vec<String> {
    let mut unknown = Vec::new();
    match kind {
        VerdictKind::Unknown => unknown.extend(limitations(job)),
        _ => unknown.extend(job.missing.iter().cloned()),
    }
    let mut lasting = judgement.lasting.iter().filter_map(|index| judgement.blockages.get(*index));
    let all_entered = lasting.any(|blockage| matches!(blockage.cause, Cause::AllEntered(_)));
    if !records(job, Kind::ProxyOp) {
        unknown.push("Network transfers were not recorded (NCCL_OTF2_EVENTS=standard): that a collective was called is known, whether it ended is not.".to_owned());
    } else if !records(job, Kind::KernelCh) && !has_ends(job) {
        unknown.push("No kernel channel was recorded (NCCL_OTF2_EVENTS=full, which costs the job more): a collective counts as ended with its network transfers, and on a rank without any only its launch is known.".to_owned());
    }
    if all_entered && !records(job, Kind::ProxyStep) {
        unknown.push("The steps of network transfers were not recorded (NCCL_OTF2_EVENTS=standard,ProxyStep): whether a transfer waits for the GPU, for the peer or for the network is not known.".to_owned());
    }
    let shows_calls = job.processes.iter().all(|process| process.shows_calls);
    if !shows_calls && !records(job, Kind::CollApi) {
        unknown.push("There are no API events (NCCL 2.28 and later, not left out of NCCL_OTF2_EVENTS): a rank that is inside the call and one that has not called look alike, and collectives of CUDA graphs look like others.".to_owned());
    }
    for comm in &job.comms {
        let missing = comm.missing();
        if !missing.is_empty() {
            unknown.push(format!(
                "Communicator {}: of {} there is no record here; they never came, run without the plugin, or record elsewhere.",
                comm.name,
                rows::ranks(comm, &missing)
            ));
        }
    }
    unknown.extend(job.comms.iter().flat_map(position_unknown));
    if judgement.lasting.is_empty() && shows_calls {
        unknown.push("Waiting outside of NCCL's calls is not seen: on a stream, in a nonblocking communicator, or in the program.".to_owned());
    } else if judgement.lasting.is_empty() {
        unknown.push("Waiting outside recorded operations is not seen: while communicators are created, split or destroyed, on a stream, or outside NCCL.".to_owned());
    }
    let silent = job.processes.iter().filter(|one| one.state == RecordingState::Silent).count() as u64;
    if silent > 0 {
        unknown.push(format!(
            "{} on other hosts or in other containers, and silent: whether they run is known only there.",
            plural(silent, "process is", "processes are")
        ));
    }
    unknown.extend(never_seen(job));
    for process in &job.processes {
        unknown.extend(process.problems.iter().map(|problem| format!("{}: {problem}", process.address())));
    }
    unknown
}

/// What is unknown about the positions of a communicator's ranks, in flight recordings.
fn position_unknown(comm: &Comm) -> Vec<String> {
    let mut remarks = Vec::new();
    let sequences = [(Sequence::Calls, "collectives"), (Sequence::Replays, "collectives of launched CUDA graphs")];
    for (sequence, what) in sequences {
        let is_empty = |rank: &Rank| sequence.tail(rank).list.is_empty();
        // Communicators without collectives are used for sends and receives.
        if comm.ranks.values().all(|rank| is_empty(rank) || rank.finalized) {
            continue;
        }
        let with = |positions: Positions, empty: bool| -> Option<String> {
            let is_such = |rank: &Rank| sequence.tail(rank).positions == positions && is_empty(rank) == empty;
            let ranks: Vec<u32> =
                comm.ranks.iter().filter(|(_, rank)| is_such(rank)).map(|(number, _)| *number).collect();
            (!ranks.is_empty()).then(|| rows::ranks(comm, &ranks))
        };
        let name = &comm.name;
        if let Some(ranks) = with(Positions::Unknown, false) {
            remarks.push(format!(
                "Communicator {name}: where {ranks} came to with their {what} is not known, nor who is behind: {NO_NUMBERS}."
            ));
        }
        if let Some(ranks) = with(Positions::Unknown, true).filter(|_| sequence == Sequence::Calls) {
            remarks.push(format!(
                "Communicator {name}: of {ranks} no {what} are kept; whether they have called what others wait in is not known."
            ));
        }
        if let Some(ranks) = with(Positions::Ordered, false) {
            remarks.push(format!(
                "Communicator {name}: what {ranks} called is not among the {what} that others have kept; NCCL's numbers say who is behind, not by how many."
            ));
        }
    }
    remarks
}

/// Ranks of the launcher that no process has: it is unknown whether their processes started.
fn never_seen(job: &Job) -> Option<String> {
    let Some(size) = job.processes.iter().filter_map(|one| one.launcher_size).max() else {
        let text =
            "No launcher says how many ranks there are (WORLD_SIZE …): one that has made no call of NCCL is not seen.";
        return job.comms.is_empty().then(|| text.to_owned());
    };
    if job.processes.iter().any(|one| one.event_mask.is_none() && one.launcher_rank.is_none()) {
        return None;
    }
    if size > MOST_RANKS {
        return Some(format!(
            "The launcher says that there are {size} processes, which cannot be (is WORLD_SIZE, or what the launcher \
             has in its place, set wrongly?): whether some recorded nothing is not known."
        ));
    }
    let seen: BTreeSet<u32> = job.processes.iter().filter_map(|one| one.launcher_rank).gather();
    let missing: Vec<u32> = (0..size).filter(|rank| !seen.contains(rank)).collect();
    let recorded = format!("{} {}", rows::noun(&missing), rank_list(&missing));
    (!missing.is_empty()).then(|| format!("The launcher started {size} processes; {recorded} recorded nothing here."))
}

/// Why a finished job may have hung, although no rank is seen to wait for long: the reasons, most important first;
/// empty if everything is recorded and has ended.
pub(super) fn limitations(job: &Job) -> Vec<String> {
    // Damage first: it may explain other gaps.
    let mut doubts: Vec<String> =
        job.processes.iter().filter_map(|process| limitation_of_process(job, process)).collect();
    let has_called = |rank: &Rank| {
        Sequence::ALL.into_iter().any(|sequence| !sequence.tail(rank).list.is_empty()) || !rank.messages.is_empty()
    };
    if job.comms.is_empty() {
        doubts.push("no communicator was recorded".to_owned());
    } else if !job.comms.iter().flat_map(|comm| comm.ranks.values()).any(has_called) {
        doubts.push("no operation was recorded".to_owned());
    }
    doubts.extend(job.comms.iter().flat_map(|comm| limitations_of_comm(job, comm)));
    doubts.extend(job.missing.iter().chain(&job.signs).cloned());
    // Operations that ended, as the GPU's times show, need nothing more of the network.
    let has_open = job.comms.iter().any(|comm| open_ended(job, comm).next().is_some());
    doubts.extend(job.open_below.iter().filter(|_| has_open).cloned());
    doubts
}

/// Whether missing records could show a longer wait than the existing ones.
pub(super) fn has_lost(job: &Job) -> bool {
    job.comms.iter().any(|comm| !comm.missing().is_empty())
        || job.processes.iter().any(|process| limitation_of_process(job, process).is_some())
}

pub(super) const fn workaround(job: &Job) -> &'static str {
    if job.is_archive {
        "`nccl-otf2 hang` while the job runs, or --keep-journal in the next run, lets it see more; `nccl-otf2 check` says what is missing"
    } else {
        "`nccl-otf2 finalize` makes an archive of what can be read, and `nccl-otf2 check` says what that lacks"
    }
}

fn limitations_of_comm(job: &Job, comm: &Comm) -> Vec<String> {
    let mut doubts = Vec::new();
    let missing = comm.missing();
    if !missing.is_empty() {
        let ranks = rows::ranks(comm, &missing);
        let name = if ranks.ends_with(&*comm.name) { String::new() } else { format!(" of communicator {}", comm.name) };
        doubts.push(format!("of {ranks}{name} there is no record"));
    }
    let open_ended: Vec<u32> = open_ended(job, comm).collect();
    if !open_ended.is_empty() {
        doubts.push(format!(
            "whether the last operation of {} in communicator {} ended is not recorded (NCCL_OTF2_EVENTS=full shows the end on the GPU)",
            rows::ranks(comm, &open_ended),
            comm.name
        ));
    }
    doubts
}

/// The ranks that may be in their last operation. One that ended the communicator had completed it.
fn open_ended(job: &Job, comm: &Comm) -> impl Iterator<Item = u32> {
    let ranks = comm.ranks.iter().filter(|(_, rank)| !rank.finalized && may_be_in_its_last(job, rank));
    ranks.map(|(number, _)| *number)
}

/// Whether a rank's last operation is not known to have ended.
fn may_be_in_its_last(job: &Job, rank: &Rank) -> bool {
    let is_read = job.is_archive || job.process_of(rank).is_some_and(|process| process.has_journal);
    let calls = Sequence::ALL.into_iter().filter_map(|sequence| sequence.tail(rank).list.last());
    let mut last = calls.map(|call| call.progress.stage).chain(rank.messages.last().map(|last| last.progress.stage));
    is_read && last.any(|stage| !stage.is_over())
}

fn limitation_of_process(job: &Job, process: &Process) -> Option<String> {
    let who = process.address();
    let problems = || {
        let first = process.problems.first().map_or("", String::as_str);
        format!("{first}{}", if process.problems.len() > 1 { " (more below)" } else { "" })
    };
    match process.state {
        _ if job.is_archive => None,
        // A process that ended all its communicators had no open operation.
        RecordingState::Ended if process.has_clock && process.has_journal => None,
        RecordingState::Ended if !process.has_journal => {
            Some(format!("the journal of {who} is removed, and only its archive says what it did"))
        }
        _ if !process.has_journal => Some(format!("nothing of {who} can be read here: {}", problems())),
        _ if !process.is_whole => Some(format!("not all that {who} did is recorded: {}", problems())),
        _ if !process.has_clock => Some(format!("the times of {who} are not known: {}", problems())),
        RecordingState::Unknown => Some(format!("how {who} ended is not known: {}", problems())),
        _ => None,
    }
}

/// The unreturned call that has lasted longest, if nobody is seen to wait for its ranks: NCCL is connecting in it, and
/// reports nothing yet.
pub(crate) fn stuck_in_call(job: &Job, after_ns: u64) -> Option<String> {
    let members = job.comms.iter().enumerate().flat_map(|(index, comm)| {
        let ranks = comm.ranks.iter().filter(|(_, rank)| job.is_whole(rank));
        ranks.map(move |(number, rank)| ((index, *number), comm, rank))
    });
    let calls = members.flat_map(|(member, comm, rank)| {
        let reported = rank.open_calls.iter().filter(|call| call.is_in_nccl);
        let reported = reported.map(|call| (call.since_ns, format!("{} of communicator {}", call.what, comm.name)));
        // Whoever is in a step waits for others: that is a blockage.
        let range_calls = rank.activity.call.iter().filter(|call| call.step().is_none() && !is_in_nccl(rank));
        let range_texts = range_calls.map(|call| (call.since_ns, format!("in {}", call.name)));
        // A call without a time counts as just begun.
        let calls = reported.chain(range_texts).collect::<Vec<_>>().into_iter();
        calls.map(move |(since_ns, what)| (job.waited_ns(rank, since_ns).unwrap_or(0), member, comm, what))
    });
    // The first of equals.
    let longest = calls.rev().max_by_key(|(for_ns, ..)| *for_ns);
    let (for_ns, member, comm, what) = longest.filter(|(for_ns, ..)| *for_ns >= after_ns.max(1))?;
    let [is, has, does] = [("is", "was"), ("has", "had"), ("does", "did")].map(|(now, past)| tense(job, now, past));
    let who = rows::member(job, member);
    let ranges = job.member(member).and_then(|rank| ranges_text(&rank.activity));
    let ranges = ranges.map_or_else(String::new, |ranges| format!(", {ranges}"));
    let in_call = format!("{who} {is} {what} for {}{ranges}, and it {has} not returned", time(for_ns));
    let maybe = format!("maybe a connection {is} being made, and its peer {does} not come");
    let outside = ranks_outside(job, comm);
    if outside.is_empty() {
        return Some(format!("{in_call}; nobody {is} seen to wait in an operation: {maybe}"));
    }
    Some(format!(
        "{} {} in no call of NCCL, and all other ranks of the communicator {}: {in_call}; {maybe}",
        rows::members(job, member.0, &outside),
        tense(job, rows::verb(&outside, "is", "are"), rows::verb(&outside, "was", "were")),
        tense(job, "are", "were"),
    ))
}

/// Whether NCCL has reported a call that has not returned.
fn is_in_nccl(rank: &Rank) -> bool {
    rank.open_calls.iter().any(|call| call.is_in_nccl)
}

/// The ranks of a communicator outside any call, if most are in one.
fn ranks_outside(job: &Job, comm: &Comm) -> Vec<u32> {
    let is_inside = |rank: &Rank| is_in_nccl(rank) || rank.activity.call.is_some();
    let (inside, outside): (Vec<_>, Vec<_>) = comm.ranks.iter().partition(|(_, rank)| is_inside(rank));
    let are_known = outside.iter().all(|(_, rank)| job.is_whole(rank) && !rank.finalized);
    let is_clear = are_known && comm.missing().is_empty() && outside.len() <= inside.len();
    outside.into_iter().filter(|_| is_clear).map(|(number, _)| *number).collect()
}
