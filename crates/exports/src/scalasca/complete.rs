//! Keeps what all ranks have: an analysis that replays communication hangs if a rank lacks an operation.

use std::collections::{BTreeMap, VecDeque};

use crate::scalasca;
use crate::scalasca::{MessageTimes, Operation, Rank, is_known};
use analysis::units::plural;
use analysis::{Sequences, Trace};
use nccl_events::archive::LocationKind;
use nccl_events::ids::index;
use nccl_events::schema::Lack;
use otf2::{Collective, CommRef};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    pub collectives: u64,
    pub messages: u64,
    pub reason: String,
}

/// Why ranks may have different operations; `None` if the archive is complete.
pub fn incompleteness(trace: &Trace) -> Option<String> {
    trace.statements.missing_data().find_map(|lack| match lack {
        Lack::Callbacks(number) => Some(format!("{} not recorded", plural(number, "callback was", "callbacks were"))),
        Lack::Processes(_) => Some("parts were left out of the archive".to_owned()),
        Lack::Beginning => Some("only the end of the recording was kept".to_owned()),
        Lack::WhileOff => Some("recording was switched off or on while the job ran".to_owned()),
        Lack::Places(_) | Lack::Ranks(_) | Lack::Collectives(_) | Lack::RanksBehind(_) | Lack::Ranges(_) => None,
    })
}

/// Why a communicator cannot be analysed: it has ranks without a recording.
pub fn missing_ranks(trace: &Trace, comm: CommRef) -> Option<String> {
    let is_missing = |location| trace.location_kind(location) == Some(LocationKind::NotRecorded);
    let without = trace.members(comm).iter().filter(|location| is_missing(**location)).count();
    (without > 0).then(|| format!("{} not recorded", plural(without as u64, "rank was", "ranks were")))
}

/// The operations that all ranks of a communicator have, and what was left out.
pub fn read(trace: &Trace, comm: CommRef) -> otf2::Result<(Vec<Rank>, Vec<LeftOut>)> {
    let ranks = trace.members(comm).iter().map(|location| scalasca::read(trace, comm, *location));
    let mut ranks = ranks.collect::<otf2::Result<Vec<Rank>>>()?;
    let left_out = unfinished(&ranks).into_iter().chain(complete(&mut ranks)).collect();
    Ok((ranks, left_out))
}

fn unfinished(ranks: &[Rank]) -> Option<LeftOut> {
    let (collectives, messages) = ranks.iter().fold((0, 0), |sum, rank| {
        let (collectives, messages) = rank.left_out;
        (sum.0 + collectives, sum.1 + messages)
    });
    let reason = "it had not ended when the recording ended, or came after something that had not".to_owned();
    (collectives + messages > 0).then_some(LeftOut { collectives, messages, reason })
}

/// Keeps only what all ranks have: collectives before the first that differs, messages between the same collectives.
fn complete(ranks: &mut [Rank]) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    let alike = collectives_alike(ranks);
    let mut step = |reason: &str, ranks: &mut [Rank], what: &dyn Fn(&mut [Rank])| {
        let before = (collectives(ranks), ends(ranks));
        what(ranks);
        let (collectives, messages) = (before.0 - collectives(ranks), before.1 - ends(ranks));
        if collectives + messages > 0 {
            let reason = reason.to_owned();
            left_out.push(LeftOut { collectives: collectives as u64, messages: messages as u64, reason });
        }
    };
    let after = match alike {
        0 => "no collective is the same on all ranks".to_owned(),
        alike => format!("after collective {alike}, the last that is the same on all ranks"),
    };
    step(&after, ranks, &|ranks| cut(ranks, alike));
    step("MPI has no such operation, or one rank alone moved nothing", ranks, &retain_usable);
    step("the other end is missing", ranks, &|ranks| pair(ranks, false));
    step("another collective lies between the ends, or began before the message had ended", ranks, &|ranks| {
        pair(ranks, true);
    });
    left_out
}

/// Keeps the first `alike` collectives and all that began before the next: later, other ranks' progress is unknown.
fn cut(ranks: &mut [Rank], alike: usize) {
    for rank in ranks {
        let end = rank.collectives.get(alike).map_or(u64::MAX, |next| next.begin);
        rank.collectives.truncate(alike);
        rank.sends.retain(|times| times.begin < end);
        rank.receives.retain(|times| times.begin < end);
    }
}

fn retain_usable(ranks: &mut [Rank]) {
    let alike = ranks.first().map_or(0, |rank| rank.collectives.len());
    let usable: Vec<bool> = (0..alike).map(|place| is_usable(ranks, place)).collect();
    for rank in &mut *ranks {
        let mut usable = usable.iter();
        rank.collectives.retain(|_| usable.next() == Some(&true));
    }
}

fn collectives_alike(ranks: &[Rank]) -> usize {
    let mut sequences = Sequences::default();
    let mut alike = usize::MAX;
    for (number, rank) in (0..).zip(ranks) {
        for Operation { collective, .. } in &rank.collectives {
            let what = (collective.op, collective.root);
            let other = sequences.add(number, what);
            if let Some(other) = other.filter(|other| *other.thing != what) {
                alike = alike.min(other.place);
            }
        }
        alike = alike.min(rank.collectives.len());
    }
    alike
}

/// Whether the operation is known and, without a root, empty on all ranks or none: empty ones are skipped.
fn is_usable(ranks: &[Rank], place: usize) -> bool {
    let mut all = ranks.iter().map(|rank| &rank.collectives[place].collective);
    let Some(first) = all.next() else {
        return false;
    };
    let is_empty = |collective: &Collective| collective.bytes_sent == 0 && collective.bytes_received == 0;
    is_known(first.op) && (first.root.is_some() || all.all(|other| is_empty(other) == is_empty(first)))
}

/// The number of collectives that began before an operation's start, and before its end.
fn epoch(rank: &Rank, end: &MessageTimes) -> (usize, usize) {
    let ended = |time: u64| rank.collectives.partition_point(|operation| operation.begin < time);
    (ended(end.begin), ended(end.end))
}

fn ends(ranks: &[Rank]) -> usize {
    ranks.iter().map(|rank| rank.sends.len() + rank.receives.len()).sum()
}

fn collectives(ranks: &[Rank]) -> usize {
    ranks.iter().map(|rank| rank.collectives.len()).sum()
}

/// Keeps messages with both ends; with `in_epoch`, only if no collective intervenes.
fn pair(ranks: &mut [Rank], in_epoch: bool) {
    // NCCL matches sends and receives of two ranks in order.
    let mut kept: Vec<(Vec<MessageTimes>, Vec<MessageTimes>)> = vec![(Vec::new(), Vec::new()); ranks.len()];
    let mut receives: BTreeMap<(usize, u32), VecDeque<MessageTimes>> = BTreeMap::new();
    for (number, rank) in ranks.iter().enumerate() {
        for receive in &rank.receives {
            receives.entry((number, receive.peer)).or_default().push_back(*receive);
        }
    }
    for (own, (number, rank)) in (0_u32..).zip(ranks.iter().enumerate()) {
        for send in &rank.sends {
            let peer = index(send.peer);
            let Some(receive) = receives.get_mut(&(peer, own)).and_then(VecDeque::pop_front) else {
                continue;
            };
            let [(a, b), (c, d)] = [epoch(rank, send), epoch(&ranks[peer], &receive)];
            // A message that overlaps a collective may be before or after it on another rank.
            if !in_epoch || [b, c, d] == [a; 3] {
                kept[number].0.push(*send);
                kept[peer].1.push(receive);
            }
        }
    }
    for (rank, (sends, receives)) in ranks.iter_mut().zip(kept) {
        rank.sends = sends;
        rank.receives = receives;
        rank.receives.sort_by_key(|times| times.begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::CollectiveOp;

    fn number(left_out: &[LeftOut]) -> (u64, u64) {
        left_out.iter().fold((0, 0), |sum, left_out| (sum.0 + left_out.collectives, sum.1 + left_out.messages))
    }

    fn collective(begin: u64, end: u64, op: CollectiveOp) -> Operation {
        Operation {
            begin,
            end,
            collective: Collective { op, comm: CommRef::new(0), root: None, bytes_sent: 8, bytes_received: 8 },
        }
    }

    fn message(begin: u64, end: u64, peer: u32) -> MessageTimes {
        MessageTimes { begin, end, peer, bytes: 8 }
    }

    fn rank(collectives: &[(u64, u64, CollectiveOp)]) -> Rank {
        Rank { collectives: collectives.iter().map(|(a, b, op)| collective(*a, *b, *op)).collect(), ..Rank::default() }
    }

    #[test]
    fn only_what_all_ranks_have_is_kept() {
        use CollectiveOp::{Allgather, Allreduce, Barrier};
        let all = [(0, 10, Allreduce), (20, 30, Barrier), (40, 50, Allgather), (60, 70, Allreduce)];
        let mut ranks = [rank(&all), rank(&all[..3]), rank(&all)];
        // NCCL has no barrier, so it is left out; rank 1 lacks the fourth collective.
        let left_out = complete(&mut ranks);
        assert_eq!(number(&left_out), (2 + 3, 0));
        assert_eq!(left_out[0].reason, "after collective 3, the last that is the same on all ranks");
        assert_eq!(ranks[0].collectives.len(), 2);
        assert_eq!(ranks[0], ranks[1]);
        let mut other = all;
        other[2].2 = Allreduce;
        let mut ranks = [rank(&all), rank(&other)];
        complete(&mut ranks);
        assert_eq!(ranks[1].collectives.len(), 1);
    }

    #[test]
    fn a_rank_without_bytes_is_not_alone() {
        let all = [(0, 10, CollectiveOp::Allreduce), (20, 30, CollectiveOp::Allreduce)];
        let mut ranks = [rank(&all), rank(&all)];
        let nothing = &mut ranks[1].collectives[0].collective;
        (nothing.bytes_sent, nothing.bytes_received) = (0, 0);
        assert_eq!(number(&complete(&mut ranks)).0, 2);
        assert_eq!(ranks[0].collectives[0].begin, 20);
    }

    #[test]
    fn messages_have_both_ends_between_the_same_collectives() {
        let all = [(100, 110, CollectiveOp::Allreduce)];
        let mut ranks = [rank(&all), rank(&all)];
        ranks[0].sends = vec![message(10, 20, 1), message(30, 40, 1), message(50, 60, 1), message(1, 2, 7)];
        ranks[1].receives = vec![message(10, 25, 0), message(30, 105, 0)];
        ranks[1].sends = vec![message(120, 130, 0)];
        ranks[0].receives = vec![message(90, 95, 1)];
        let left_out = complete(&mut ranks);
        assert_eq!((ranks[0].sends.len(), ranks[1].receives.len()), (1, 1));
        assert!(ranks[1].sends.is_empty() && ranks[0].receives.is_empty());
        assert_eq!(number(&left_out), (0, 3 + 1 + 2));
        let reasons: Vec<(u64, &str)> =
            left_out.iter().map(|left_out| (left_out.messages, left_out.reason.as_str())).collect();
        assert_eq!(reasons[0], (2, "the other end is missing"));
    }
}
