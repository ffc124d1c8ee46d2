//! Sends and receives that wait. NCCL gives them no numbers: only counting them from the first shows which are the
//! same.

use std::collections::BTreeSet;

use super::blockage::{Blockage, Cause, Operation, Reason};
use super::survivors::Survivors;
use crate::hang::job::{Job, Member, ProcessState, Rank};
use crate::hang::operation::Message;

/// The first message with each peer and direction that waits.
pub(crate) fn blockages(job: &Job, survivors: Survivors, (comm, number): Member, rank: &Rank) -> Vec<Blockage> {
    let mut seen: BTreeSet<(u32, bool)> = BTreeSet::new();
    let mut blockages = Vec::new();
    for message in &rank.messages {
        let key = (message.peer, message.is_send);
        if message.peer == number || seen.contains(&key) {
            continue;
        }
        let peer = job.member((comm, message.peer));
        let cause = cause(job, survivors, number, rank, peer, message);
        let waited_ns = job.waited_ns(rank, message.entered_ns);
        if let Some((cause, waited_ns)) = cause.zip(waited_ns) {
            seen.insert(key);
            blockages.push(Blockage {
                comm,
                operation: Operation::Message(message.clone()),
                waiters: vec![(number, waited_ns)],
                cause,
            });
        }
    }
    blockages
}

/// Why a message waits; none if it may be complete.
fn cause(
    job: &Job,
    survivors: Survivors,
    number: u32,
    rank: &Rank,
    peer: Option<&Rank>,
    message: &Message,
) -> Option<Cause> {
    // A small send may be complete without the receive: only what is seen to be open waits.
    let is_open = message.progress.stage.is_open();
    let unrecorded = || Cause::Unrecorded(vec![message.peer]);
    let Some(peer) = peer else {
        return is_open.then(unrecorded);
    };
    let answers = peer.message_counts.get(&(number, !message.is_send));
    let is_answered = answers.copied().unwrap_or(0) > message.number;
    let is_counted = |rank: &Rank| {
        let process = job.process_of(rank);
        process.is_some_and(|process| process.is_whole && process.kept_since_ns.is_none())
    };
    let is_sure = is_counted(rank) && (is_answered || is_counted(peer));
    match (is_sure, is_open) {
        (false, false) => None,
        (false, true) if !is_in_counterpart(peer, number, message) => Some(unrecorded()),
        (true, _) if !is_answered && (is_open || !message.is_send) => Some(Cause::Absent(vec![message.peer])),
        (true, false) => None,
        (_, true) => {
            let is_stopped = |rank| job.process_of(rank).is_some_and(|it| it.state == ProcessState::Stopped);
            let held_up_by = match () {
                () if survivors.outlived(job, peer) => Some((message.peer, Reason::Gone)),
                () if is_stopped(peer) => Some((message.peer, Reason::Stopped)),
                () if is_stopped(rank) => Some((number, Reason::Stopped)),
                () => None,
            };
            Some(Cause::AllEntered(held_up_by.into_iter().collect()))
        }
    }
}

/// Whether the peer of an open message is seen to be in a message that may be its counterpart: where they cannot be
/// counted, the first open ones of both ends are taken to be one.
fn is_in_counterpart(peer: &Rank, number: u32, message: &Message) -> bool {
    let mut open = peer.messages.iter();
    open.any(|other| other.peer == number && other.is_send != message.is_send && other.progress.stage.is_open())
}
