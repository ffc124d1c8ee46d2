//! Sends and receives that wait: NCCL gives them no numbers, so only counting them from the first says which are the same.

use std::collections::BTreeSet;

use super::job::{Job, Message, Rank};
use super::judge::{At, Holds, Obstacle, Way, waited_ns};
use super::watch::Watch;

/// Whether the sends and receives of a rank can be counted: nothing but their order says which are the same.
fn counts_messages(job: &Job, rank: &Rank) -> bool {
    let process = job.processes.get(rank.actor.process);
    process.is_some_and(|process| process.is_whole && process.kept_since_ns.is_none())
}

/// The first message with each peer that waits.
pub(crate) fn obstacles(
    job: &Job,
    watch: Watch,
    at: usize,
    number: u32,
    rank: &Rank,
) -> Vec<Obstacle> {
    let mut seen: BTreeSet<(u32, bool)> = BTreeSet::new();
    let mut obstacles = Vec::new();
    for message in &rank.messages {
        if message.peer == number || seen.contains(&(message.peer, message.is_send)) {
            continue;
        }
        let Some(waited) = waited_ns(job, rank, message.entered_ns) else {
            continue;
        };
        let peer = job.comms.get(at);
        let peer = peer.and_then(|comm| comm.ranks.get(&message.peer));
        let answers = peer.and_then(|peer| peer.message_counts.get(&(number, !message.is_send)));
        let is_answered = answers.copied().unwrap_or(0) > message.number;
        let is_counted = |rank: &Rank| counts_messages(job, rank);
        let is_unsure =
            !is_counted(rank) || (!is_answered && peer.is_some_and(|peer| !is_counted(peer)));
        let stage = message.progress.stage;
        let way = match peer {
            // A small send may be complete without the receive: only what is seen to be open waits.
            None if stage.is_open() => Way::Unrecorded(vec![message.peer]),
            Some(_) if is_unsure && !stage.is_open() => continue,
            Some(peer) if is_unsure && !is_in_counterpart(peer, number, message) => {
                Way::Unrecorded(vec![message.peer])
            }
            Some(_) if !is_unsure && !is_answered && (stage.is_open() || !message.is_send) => {
                Way::Absent(vec![message.peer])
            }
            Some(peer) if stage.is_open() => {
                let gone = watch
                    .outlived(job, peer)
                    .then_some((message.peer, Holds::Gone));
                Way::Inside(gone.into_iter().collect())
            }
            _ => continue,
        };
        seen.insert((message.peer, message.is_send));
        obstacles.push(Obstacle {
            comm: at,
            at: At::Message(message.clone()),
            waiters: vec![(number, waited)],
            way,
        });
    }
    obstacles
}

/// Whether the peer of an open message is seen to be in a message that may be its counterpart: where they cannot be
/// counted, the first open ones of both ends are taken to be one.
fn is_in_counterpart(peer: &Rank, number: u32, message: &Message) -> bool {
    let mut open = peer.messages.iter();
    open.any(|other| {
        other.peer == number && other.is_send != message.is_send && other.progress.stage.is_open()
    })
}
