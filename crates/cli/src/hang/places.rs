//! Where each rank is, and who is always the last to come.

use super::job::{Call, Comm, Job, Rank, Stage, Tail, Wait, WaitState};
use super::judge::{self, Lane};
use super::report::{life_name, stage, until, waits};
use super::rows::{Latecomer, RankRow};
use super::words;
use crate::units::{plural, time};

/// Where a rank is: in the first incomplete collective, where it has entered that, else after its last. `all_came`:
/// whether all have entered that.
pub(crate) fn rank_row(
    job: &Job,
    comm: &Comm,
    number: u32,
    rank: &Rank,
    lane: Lane,
    first_incomplete: Option<u64>,
    all_came: bool,
) -> RankRow {
    let tail = lane.of(rank);
    let incomplete = first_incomplete.and_then(|at| tail.at(at));
    let open = tail.first_open().filter(|_| !tail.is_placed());
    let call = incomplete.or(open).or_else(|| tail.list.last());
    let process = job.processes.get(rank.actor.process);
    let until_ns = until(job, rank);
    let for_ns = call.and_then(|call| judge::waited_ns(job, rank, call.entered_ns));
    let inside = rank.inside.iter().map(|inside| {
        let since = until_ns.saturating_sub(inside.since_ns);
        format!("{} for {}", inside.what, time(since))
    });
    let inside: Vec<String> = inside.collect();
    let is_past = first_incomplete.is_some_and(|at| tail.is_placed() && tail.count() > at);
    let came = match first_incomplete {
        _ if !tail.is_placed() => Came::NotKnown,
        Some(_) if incomplete.is_none() && !is_past => Came::No,
        _ => Came::Yes,
    };
    RankRow {
        rank: number,
        process: process.map(super::job::Process::place).unwrap_or_default(),
        life: process.map_or("", |process| life_name(process.life)),
        entered: tail.count(),
        stage: match call {
            _ if came == Came::No => "not-entered",
            None => "nothing",
            Some(call) => stage(call.progress.stage),
        },
        for_ns,
        waits: call.map_or_else(Vec::new, |call| waits(&call.progress.waits, until_ns)),
        text: whereabouts(comm, call, came, &inside, until_ns, rank) + failed(incomplete, all_came),
        inside,
    }
}

/// Whether a rank has come to the first incomplete collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Yes,
    No,
    /// Where it is in the order is not known.
    NotKnown,
}

fn whereabouts(
    comm: &Comm,
    call: Option<&Call>,
    came: Came,
    inside: &[String],
    until_ns: u64,
    rank: &Rank,
) -> String {
    let mut text = match call {
        None if rank.finalized => "has ended the communicator".to_owned(),
        None if came == Came::NotKnown => "no call of it is kept".to_owned(),
        None => "has called no collective".to_owned(),
        Some(call) if came == Came::No => {
            let done = did(call.progress.stage);
            format!("not there; its last: {}, {done}", words::call(&call.what))
        }
        Some(call) => {
            let mut text = String::new();
            if came == Came::NotKnown {
                let what = words::call(&call.what);
                text = format!("where in the order is not known; {what}: ");
            }
            text.push_str(did(call.progress.stage));
            if call.progress.channels_open > 0 {
                let open = u64::from(call.progress.channels_open);
                text.push_str(&format!(
                    ", {} on the GPU",
                    plural(open, "channel runs", "channels run")
                ));
            }
            let waits = waits_text(comm, &call.progress.waits, until_ns);
            if !waits.is_empty() {
                text.push_str("; proxy: ");
                text.push_str(&waits);
            }
            text
        }
    };
    if !inside.is_empty() {
        text.push_str("; ");
        text.push_str(&inside.join("; "));
    }
    text
}

/// What is to be said of transfers that ended where not all ranks came.
fn failed(call: Option<&Call>, all_came: bool) -> &'static str {
    match call {
        Some(call) if !all_came && call.progress.stage.is_over() && call.what.needs_all() => {
            ", and not all ranks came: they failed"
        }
        _ => "",
    }
}

/// How far an operation came, in words.
pub(crate) const fn did(stage: Stage) -> &'static str {
    match stage {
        Stage::Calling => "in the call, which has not returned",
        Stage::Called => "called",
        Stage::Launching => "in the launch of its kernel, which has not returned",
        Stage::Enqueued => "enqueued",
        Stage::Launched => "launched",
        Stage::Running => "under way",
        Stage::Transferred => "its transfers have ended",
        Stage::Done => "done",
    }
}

/// How many waits are spelled out in a line.
const MOST_WAITS: usize = 4;

fn waits_text(comm: &Comm, waits: &[Wait], until_ns: u64) -> String {
    let one = |wait: &Wait| {
        let (way, preposition) = if wait.is_send {
            ("send", "to")
        } else {
            ("receive", "from")
        };
        let step = wait.step.map_or_else(String::new, |step| {
            format!(", step {} of {}", i64::from(step) + 1, wait.steps)
        });
        let state = match wait.state {
            WaitState::Unknown => String::new(),
            state => format!(" in {}", state.name()),
        };
        let since = time(until_ns.saturating_sub(wait.since_ns));
        let peer = match u32::try_from(wait.peer) {
            Ok(peer) if peer < comm.size => format!("rank {peer}"),
            _ => format!("peer {}", wait.peer),
        };
        format!(
            "channel {} {way} {preposition} {peer}{state}{step} for {since}",
            wait.channel
        )
    };
    let mut texts: Vec<String> = waits.iter().take(MOST_WAITS).map(one).collect();
    if let Some(more) = waits.len().checked_sub(MOST_WAITS).filter(|more| *more > 0) {
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}

/// Of how many collectives who comes last is looked at.
const LOOKED_AT: u64 = 16;

/// The rank that came last in most of the last collectives. Where the hosts' clocks differ this differs, too.
pub(crate) fn latecomer(comm: &Comm) -> Option<Latecomer> {
    let tails = || {
        let tails = comm.ranks.values().map(|rank| &rank.calls);
        tails.filter(|tail| tail.is_placed())
    };
    if tails().count() < 2 {
        return None;
    }
    let common = tails().map(Tail::count).min()?;
    let first = tails().map(|tail| tail.before).max()?;
    let mut last_of: Vec<(u32, u64)> = Vec::new();
    for position in (first.max(common.saturating_sub(LOOKED_AT)))..common {
        let ranks = comm.ranks.iter();
        let mut entered: Vec<(u64, u32)> = ranks
            .filter_map(|(number, rank)| Some((rank.calls.at(position)?.entered_ns, *number)))
            .collect();
        entered.sort_unstable();
        if let [.., (before, _), (last, number)] = entered.as_slice() {
            last_of.push((*number, last - before));
        }
    }
    let of = last_of.len() as u64;
    let times = |rank: u32| last_of.iter().filter(|(one, _)| *one == rank).count() as u64;
    let rank = comm.ranks.keys().copied().max_by_key(|&rank| times(rank))?;
    let mut behind: Vec<u64> = last_of
        .iter()
        .filter(|(one, _)| *one == rank)
        .map(|(_, behind)| *behind)
        .collect();
    behind.sort_unstable();
    let behind_ns = behind.get(behind.len() / 2).copied()?;
    // Of two ranks one is always the last: only what is felt is said.
    let is_clear = of >= 4 && times(rank) * 4 >= of * 3 && behind_ns >= FELT_NS;
    is_clear.then_some(Latecomer {
        rank,
        times: times(rank),
        of,
        behind_ns,
    })
}

/// Who comes later by less than this is not named.
const FELT_NS: u64 = 10_000_000;
