//! Sends and receives that wait. NCCL does not number them: only counting from the first shows which ones match.

use std::collections::BTreeSet;

use job::life::Life;

use super::blockage::{Blockage, Cause, Operation, Reason};
use super::survivors::Survivors;
use crate::job::{Job, Member, Rank};
use crate::operation::Message;

/// A blockage for each peer and direction: its first waiting message.
pub(crate) fn blockages(job: &Job, survivors: &Survivors<'_>, (comm, number): Member, rank: &Rank) -> Vec<Blockage> {
    let mut seen: BTreeSet<(u32, bool)> = BTreeSet::new();
    let mut blockages = Vec::new();
    for message in rank.messages.iter().filter(|message| message.peer != number) {
        let key = (message.peer, message.is_send);
        if seen.contains(&key) {
            continue;
        }
        let cause = cause(job, survivors, (comm, number), rank, message);
        if let Some((cause, waited_ns)) = cause.zip(job.waited_ns(rank, message.entered_ns)) {
            seen.insert(key);
            let operation = Operation::Message(message.clone());
            blockages.push(Blockage { comm, operation, waiters: vec![(number, waited_ns)], cause });
        }
    }
    blockages
}

/// Why a message waits; `None` if it may be complete.
fn cause(
    job: &Job,
    survivors: &Survivors<'_>,
    (comm, number): Member,
    rank: &Rank,
    message: &Message,
) -> Option<Cause> {
    // A small send may be complete without the receive: only messages known to be open wait.
    let is_open = message.progress.stage.is_open();
    let unrecorded = || Cause::Unrecorded(vec![message.peer]);
    let Some(peer) = job.member((comm, message.peer)) else {
        return is_open.then(unrecorded);
    };
    let answers = peer.message_counts.get(&(number, !message.is_send));
    let is_answered = answers.is_some_and(|answers| *answers > message.number);
    let is_counted =
        |rank: &Rank| job.process_of(rank).is_some_and(|process| process.is_whole && process.kept_since_ns.is_none());
    match (is_counted(rank) && (is_answered || is_counted(peer)), is_open) {
        (false, false) => None,
        (false, true) if !is_in_counterpart(peer, number, message) => Some(unrecorded()),
        (true, _) if !is_answered && (is_open || !message.is_send) => Some(Cause::Absent(vec![message.peer])),
        (true, false) => None,
        (_, true) => {
            let held_up_by = if survivors.outlived((comm, message.peer)) {
                vec![(message.peer, Reason::Gone)]
            } else {
                let ends = [(message.peer, peer), (number, rank)];
                let stopped = ends.into_iter().find(|(_, end)| job.has_state(end, Life::Stopped));
                stopped.map(|(number, _)| (number, Reason::Stopped)).into_iter().collect()
            };
            Some(Cause::AllEntered(held_up_by))
        }
    }
}

/// Whether the peer of an open message is in a message that may be its counterpart. If messages cannot be counted, the
/// first open messages of both ends are assumed to match.
fn is_in_counterpart(peer: &Rank, number: u32, message: &Message) -> bool {
    let is_counterpart = |other: &Message| other.peer == number && other.is_send != message.is_send;
    peer.messages.iter().any(|other| is_counterpart(other) && other.progress.stage.is_open())
}
