//! The sentences of the report, for people who know NCCL and nothing of traces.

use std::collections::BTreeSet;

use super::blame::{Reason, Suspect};
use super::job::{Comm, Job, Life, Process, Signature};
use super::judge::{At, Lane, Obstacle, Spot, Way};
use super::mismatch::Mismatch;
use crate::units::{count, plural, time};

/// The API's name of a function.
pub(crate) fn function(what: &Signature) -> String {
    format!("nccl{}", what.func)
}

/// A call with its arguments.
pub(crate) fn call(what: &Signature) -> String {
    let root = what
        .root
        .map_or_else(String::new, |root| format!(", root {root}"));
    let elements = if what.datatype.is_empty() {
        String::new()
    } else {
        format!(" of {} {}", count(what.count), what.datatype)
    };
    format!("{}{elements}{root}", function(what))
}

/// Ranks as people write them: `0-6, 8`.
pub(crate) fn ranks(ranks: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks.iter().collect::<BTreeSet<_>>() {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let texts: Vec<String> = parts.iter().map(text).collect();
    texts.join(", ")
}

/// "rank 3", "ranks 3-5".
pub(crate) fn rank_list(list: &[u32]) -> String {
    if list.len() == 1 {
        format!("rank {}", ranks(list))
    } else {
        format!("ranks {}", ranks(list))
    }
}

fn comm_at(job: &Job, at: usize) -> Option<&Comm> {
    job.comms.get(at)
}

fn comm_name(job: &Job, at: usize) -> &str {
    comm_at(job, at).map_or("?", |comm| comm.name.as_str())
}

fn process_of(job: &Job, comm: usize, rank: u32) -> Option<&Process> {
    let rank = comm_at(job, comm)?.ranks.get(&rank)?;
    job.processes.get(rank.actor.process)
}

/// A rank with its process.
fn rank_with_place(job: &Job, comm: usize, rank: u32) -> String {
    match process_of(job, comm, rank) {
        Some(process) => match process.launcher_rank {
            Some(job_rank) => format!("rank {rank} [job rank {job_rank}, {}]", process.place()),
            None => format!("rank {rank} [{}]", process.place()),
        },
        None => format!("rank {rank}"),
    }
}

/// A place in the order of a communicator, from 1.
pub(crate) fn place(position: u64, from_beginning: bool) -> String {
    let of = if from_beginning { "" } else { " of those kept" };
    format!("collective {position}{of}")
}

/// Where a collective is; where positions do not count from the beginning NCCL's number says more.
fn spot(spot: &Spot) -> String {
    match (spot.position, spot.sequence) {
        (Some(position), _) if spot.is_counted => place(position + 1, true),
        (_, Some(sequence)) => format!("sequence {sequence}"),
        (Some(position), None) => place(position + 1, false),
        (None, None) => "not known which".to_owned(),
    }
}

/// What is waited in.
fn operation(obstacle: &Obstacle) -> String {
    match &obstacle.at {
        At::Collective {
            lane,
            spot: at,
            what,
        } => {
            let of = match lane {
                Lane::Calls => "",
                Lane::Replays => " of launched CUDA graphs",
            };
            format!("{} ({}{of})", function(what), spot(at))
        }
        At::Message(message) => {
            let preposition = if message.is_send { "to" } else { "from" };
            format!("{} {preposition} rank {}", message.func(), message.peer)
        }
    }
}

/// Who waits in what, for whom.
pub(crate) fn waits(job: &Job, obstacle: &Obstacle) -> String {
    let waiters: Vec<u32> = obstacle.waiters.iter().map(|(rank, _)| *rank).collect();
    let verb = if waiters.len() == 1 { "waits" } else { "wait" };
    let for_whom = match &obstacle.way {
        Way::Mismatch(mismatch) => {
            format!(", where {} something else", calls(&mismatch.deviants()))
        }
        Way::Absent(absent) => match &obstacle.at {
            At::Collective { .. } => {
                format!(", which {} not called", has(absent))
            }
            At::Message(message) => format!(
                ", which has not called the matching {}",
                if message.is_send {
                    "ncclRecv"
                } else {
                    "ncclSend"
                }
            ),
        },
        Way::Inside(_) => match &obstacle.at {
            At::Collective { spot, .. } if spot.position.is_none() => {
                ", and which of them is behind is not known".to_owned()
            }
            At::Collective { .. } => ", which all have called".to_owned(),
            At::Message(_) => ", which has called its part".to_owned(),
        },
        Way::Unrecorded(missing) => format!(
            ", and of {} there are no records, or not all",
            rank_list(missing)
        ),
    };
    format!(
        "{} {verb} in {} of communicator {} for {}{for_whom}",
        rank_list(&waiters),
        operation(obstacle),
        comm_name(job, obstacle.comm),
        time(obstacle.longest_ns()),
    )
}

fn has(list: &[u32]) -> String {
    let verb = if list.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", rank_list(list))
}

fn calls(list: &[u32]) -> String {
    let verb = if list.len() == 1 { "calls" } else { "call" };
    format!("{} {verb}", rank_list(list))
}

/// What differs.
pub(crate) fn mismatch(mismatch: &Mismatch) -> String {
    let same = |of: &dyn Fn(&Signature) -> String| {
        let all: BTreeSet<String> = mismatch.groups.iter().map(|(what, _)| of(what)).collect();
        all.len() == 1
    };
    let mut differs = Vec::new();
    if !same(&|what| what.func.to_string()) {
        differs.push("functions");
    } else {
        if !same(&|what| what.count.to_string()) {
            differs.push("counts");
        }
        if !same(&|what| what.datatype.to_string()) {
            differs.push("data types");
        }
        if !same(&|what| format!("{:?}", what.root)) {
            differs.push("roots");
        }
    }
    let groups = mismatch.groups.iter().take(4);
    let groups: Vec<String> = groups
        .map(|(what, members)| format!("{} {}", calls(members), call(what)))
        .collect();
    let shifted = match mismatch.shifted {
        Some((rank, true)) => format!("; rank {rank} seems to have left out a call"),
        Some((rank, false)) => format!("; rank {rank} seems to have made one call too many"),
        None => String::new(),
    };
    format!(
        "different {} in {}: {}{shifted}",
        differs.join(" and "),
        place(mismatch.position + 1, mismatch.is_counted),
        groups.join(", ")
    )
}

/// Why somebody is the suspect, in one sentence.
pub(crate) fn suspect(job: &Job, obstacles: &[Obstacle], suspect: &Suspect) -> String {
    let (comm, rank) = suspect.who;
    let Some(obstacle) = obstacles.get(suspect.obstacle) else {
        return String::new();
    };
    let who = rank_with_place(job, comm, rank);
    let name = comm_name(job, comm);
    let what = operation(obstacle);
    let process = process_of(job, comm, rank);
    let idle = process.map_or_else(String::new, |process| {
        let until = process.until_ns.min(job.now_ns);
        match until.checked_sub(process.last_event_ns) {
            Some(idle) if process.last_event_ns > 0 => {
                format!(
                    " (NCCL's last sign of life in it was {} before)",
                    time(idle)
                )
            }
            _ => String::new(),
        }
    });
    let not_called = match &obstacle.at {
        At::Collective { .. } => format!("has not called {what} of communicator {name}"),
        At::Message(message) => format!(
            "has not called the {} that answers rank {}'s {} in communicator {name}",
            if message.is_send {
                "ncclRecv"
            } else {
                "ncclSend"
            },
            obstacle.waiters.first().map_or(0, |(rank, _)| *rank),
            message.func(),
        ),
    };
    match suspect.reason {
        Reason::Mismatch => match &obstacle.way {
            Way::Mismatch(found) => {
                format!("the ranks of communicator {name} call {}", mismatch(found))
            }
            _ => String::new(),
        },
        Reason::Gone => format!(
            "the process of {who} is gone (killed, crashed, or it ended without a word to NCCL), and others wait for it in {what} of communicator {name}"
        ),
        Reason::Ended => format!(
            "{who} is through with communicator {name} (it ended it, or its process is over and its part is written), and others wait for it in {what}"
        ),
        Reason::Deadlock => {
            let steps = suspect.chain.iter().filter_map(|&at| obstacles.get(at));
            let steps: Vec<String> = steps.map(|step| waits(job, step)).collect();
            format!(
                "a deadlock: ranks wait for each other, because they call different communicators or messages in different orders: {}",
                steps.join("; ")
            )
        }
        Reason::Stopped => {
            format!("{who} {not_called}: its process is stopped (by a signal or a debugger)")
        }
        Reason::InTheCall => {
            let seat = comm_at(job, comm).and_then(|comm| comm.ranks.get(&rank));
            let inside = seat.and_then(|seat| seat.inside.first());
            let inside = inside.map_or("in a call of NCCL that has not returned", |inside| {
                inside.what.as_str()
            });
            format!("{who} holds up {what} of communicator {name}: it is {inside}")
        }
        Reason::NotCalled => format!("{who} {not_called}{idle}"),
        Reason::NeverCame => format!(
            "{who} has recorded nothing and {not_called}: its process never came so far, or runs without the plugin"
        ),
        Reason::Silent => format!(
            "{who} {not_called}, as far as its records go; its process is on another host and has recorded nothing for {}",
            process.map_or_else(String::new, |process| time(
                job.now_ns.saturating_sub(process.last_record_ns)
            ))
        ),
        Reason::NotBegun => format!(
            "{who} has called {what} of communicator {name}, and its kernel has not begun, where others' have: its GPU does something else, or its stream waits"
        ),
        Reason::Gpu => format!(
            "{who} is in {what} of communicator {name}, and its proxy waits for nothing but its own GPU"
        ),
        Reason::Unrecorded => unrecorded(job, obstacle, suspect),
        Reason::Unknown => match &obstacle.at {
            At::Collective { spot, .. } if spot.position.is_none() => format!(
                "ranks of communicator {name} wait in {what}, and which of them is behind is not known: {NO_NUMBERS}"
            ),
            At::Collective { .. } => format!(
                "all ranks of communicator {name} have called {what}, and it does not end; what was recorded does not say which rank holds it up"
            ),
            At::Message(message) => format!(
                "{who} and rank {} have called {what} and its counterpart in communicator {name}, and it does not end",
                message.peer
            ),
        },
    }
}

/// Why calls of flight recordings may not be comparable.
pub(crate) const NO_NUMBERS: &str = "the beginning of the recording is not kept, and nothing that is kept has a number of NCCL's that other ranks have, too";

/// Of a rank that may have called something or not.
fn unrecorded(job: &Job, obstacle: &Obstacle, suspect: &Suspect) -> String {
    let (comm, rank) = suspect.who;
    let (name, what) = (comm_name(job, comm), operation(obstacle));
    let who = rank_with_place(job, comm, rank);
    let kept_since = |rank: u32| process_of(job, comm, rank)?.kept_since_ns;
    let waiters = obstacle.waiters.iter().map(|(waiter, _)| *waiter);
    match &obstacle.at {
        At::Message(_)
            if waiters
                .clone()
                .chain([rank])
                .any(|one| kept_since(one).is_some()) =>
        {
            let waiters: Vec<u32> = waiters.collect();
            format!(
                "{} waits in {what} in communicator {name}, and {who} is not seen to be in its part; whether it has called it is not known: the beginning of the recording is not kept, and NCCL gives sends and receives no numbers",
                rank_list(&waiters)
            )
        }
        At::Collective { spot, .. } if spot.position.is_none() => format!(
            "others wait in {what} of communicator {name}, and {who} is not seen to wait in it; who is behind is not known: {NO_NUMBERS}"
        ),
        At::Collective { .. } => {
            let records = match (kept_since(rank), process_of(job, comm, rank)) {
                (Some(since_ns), Some(process)) => format!(
                    "of {who} only the last {} are kept, and nothing in them has a number of NCCL's that others have too: it may have called it or not",
                    time(process.until_ns.min(job.now_ns).saturating_sub(since_ns))
                ),
                _ => format!(
                    "of rank {rank} there are no records here, or not all, and it may have called it or not"
                ),
            };
            format!("all other ranks have called {what} of communicator {name}; {records}")
        }
        At::Message(_) => format!(
            "all other ranks have called {what} of communicator {name}; of rank {rank} there are no records here, or not all, and it may have called it or not"
        ),
    }
}

/// The verdict's line: the suspect, and how many wait for how long.
pub(crate) fn verdict(job: &Job, obstacles: &[Obstacle], found: &Suspect) -> String {
    let text = suspect(job, obstacles, found);
    if found.reason == Reason::Deadlock {
        return text;
    }
    let longest = found.chain.iter().filter_map(|&at| obstacles.get(at));
    let longest = longest.map(Obstacle::longest_ns).max().unwrap_or(0);
    format!(
        "{text}; {} for {}",
        plural(found.blocked as u64, "rank waits", "ranks wait"),
        time(longest)
    )
}

/// What to do about a suspect.
pub(crate) fn advice(reason: Reason, process: Option<&Process>) -> Option<String> {
    let look = || {
        let process = process.filter(|process| process.life == Life::Running)?;
        Some(format!(
            "look at what its program does, on {}: py-spy dump --pid {pid}, or gdb -p {pid} -batch -ex 'thread apply all backtrace'",
            process.host,
            pid = process.pid
        ))
    };
    match reason {
        Reason::NotCalled | Reason::InTheCall | Reason::Deadlock => look(),
        Reason::NotBegun | Reason::Gpu => {
            Some("look at what runs on its GPU (nvidia-smi), and for errors of the device (dmesg: Xid)".to_owned())
        }
        Reason::Gone => Some("look for the reason of its end: its output, the batch system's log, dmesg (out of memory)".to_owned()),
        Reason::Mismatch => Some("compare the program's paths on these ranks: all ranks of a communicator must make the same calls in the same order".to_owned()),
        Reason::Stopped => process.map(|process| format!("kill -CONT {} lets it go on", process.pid)),
        _ => None,
    }
}

/// A call that has not returned for long, though nobody is seen to wait: NCCL makes connections in it, before it tells
/// with whom. The one that is in it longest.
pub(crate) fn stuck_inside(job: &Job, after_ns: u64) -> Option<String> {
    let mut longest: Option<(u64, String)> = None;
    for (at, comm) in job.comms.iter().enumerate() {
        for (number, rank) in &comm.ranks {
            let process = job.processes.get(rank.actor.process)?;
            let until_ns = process.until_ns.min(job.now_ns);
            let calls = rank.inside.iter().filter(|inside| inside.is_in_nccl);
            for inside in calls {
                let for_ns = until_ns.saturating_sub(inside.since_ns);
                let is_longer = longest.as_ref().is_none_or(|(most, _)| for_ns > *most);
                if for_ns >= after_ns.max(1) && is_longer {
                    let who = rank_with_place(job, at, *number);
                    let text = format!(
                        "{who} is {} of communicator {} for {}, and it has not returned; nobody is seen to wait in an operation: maybe a connection is being made, and its peer does not come",
                        inside.what,
                        comm.name,
                        time(for_ns)
                    );
                    longest = Some((for_ns, text));
                }
            }
        }
    }
    longest.map(|(_, text)| text)
}

/// Some processes are gone, and nobody waits for them yet.
pub(crate) fn died(job: &Job, first: &Process, how_many: usize) -> String {
    let others = job.processes.iter();
    let others = others.filter(|process| matches!(process.life, Life::Running | Life::Stopped));
    format!(
        "{} gone (the first is {}) and {} on; nobody waits in NCCL",
        plural(how_many as u64, "process is", "processes are"),
        first.place(),
        plural(others.count() as u64, "other goes", "others go"),
    )
}

/// Somebody waits, and not for long.
pub(crate) fn short_wait(job: &Job, obstacle: &Obstacle) -> String {
    format!("{}, less than --after", waits(job, obstacle))
}

/// Nobody waits.
pub(crate) fn nothing(job: &Job) -> String {
    let processes = plural(job.processes.len() as u64, "process", "processes");
    let runs = job
        .processes
        .iter()
        .any(|process| process.life == Life::Running);
    let comms = plural(job.comms.len() as u64, "communicator", "communicators");
    let last_ns = job.processes.iter().map(|one| one.last_event_ns).max();
    let idle = last_ns.and_then(|last| job.now_ns.checked_sub(last));
    let idle = idle.map_or_else(String::new, |idle| {
        format!("; NCCL was last heard of {} ago", time(idle))
    });
    if runs {
        format!("nobody waits in the {comms} of {processes}{idle}")
    } else {
        format!("nobody waited in the {comms} of {processes} when they ended or were killed")
    }
}
