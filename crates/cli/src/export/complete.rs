//! What all ranks have: an analysis that replays communication waits for ever for what one of them lacks.

use std::collections::BTreeMap;

use analysis::Sequences;
use analysis::rank::{End, Operation, Rank};
use otf2::{Collective, CollectiveOp};

/// What was left out, of all ranks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Collectives.
    pub(super) collectives: u64,
    /// Ends of messages: sends and receives.
    pub(super) messages: u64,
}

/// What MPI has an operation for.
pub(super) const OPERATIONS: [(CollectiveOp, &str, &str); 8] = [
    (CollectiveOp::Allreduce, "MPI_Allreduce", "ncclAllReduce"),
    (CollectiveOp::Bcast, "MPI_Bcast", "ncclBroadcast"),
    (CollectiveOp::Reduce, "MPI_Reduce", "ncclReduce"),
    (CollectiveOp::Allgather, "MPI_Allgather", "ncclAllGather"),
    (CollectiveOp::ReduceScatterBlock, "MPI_Reduce_scatter_block", "ncclReduceScatter"),
    (CollectiveOp::Alltoall, "MPI_Alltoall", "ncclAlltoAll"),
    (CollectiveOp::Gather, "MPI_Gather", "ncclGather"),
    (CollectiveOp::Scatter, "MPI_Scatter", "ncclScatter"),
];

/// Leaves in every rank only what all have: collectives up to the first that differs, and messages with both ends,
/// between the same collectives on both.
pub(super) fn complete(ranks: &mut [Rank]) -> LeftOut {
    let before = ends(ranks);
    let collectives = collectives(ranks);
    messages(ranks);
    LeftOut { collectives, messages: (before - ends(ranks)) as u64 }
}

fn collectives(ranks: &mut [Rank]) -> u64 {
    let count = |ranks: &[Rank]| -> usize { ranks.iter().map(|it| it.collectives.len()).sum() };
    let before = count(ranks);
    let alike = alike(ranks);
    for rank in &mut *ranks {
        // What was done after the last collective that all have: who knows how far the others came.
        let end = rank.collectives.get(alike).map_or(u64::MAX, |next| next.begin);
        rank.collectives.truncate(alike);
        rank.sends.retain(|it| it.begin < end);
        rank.receives.retain(|it| it.begin < end);
    }
    let usable: Vec<bool> = (0..alike).map(|place| is_usable(ranks, place)).collect();
    for rank in &mut *ranks {
        let mut usable = usable.iter();
        rank.collectives.retain(|_| usable.next() == Some(&true));
    }
    (before - count(ranks)) as u64
}

/// How many collectives are the same on all ranks, from the first on.
fn alike(ranks: &[Rank]) -> usize {
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

/// Whether MPI has the operation, and no rank alone says that it moved nothing: it would be skipped there, and only
/// there.
fn is_usable(ranks: &[Rank], place: usize) -> bool {
    let mut all = ranks.iter().map(|rank| &rank.collectives[place].collective);
    let Some(first) = all.next() else {
        return false;
    };
    let is_empty = |it: &Collective| it.bytes_sent == 0 && it.bytes_received == 0;
    let has_root = first.root.is_some();
    OPERATIONS.iter().any(|(op, ..)| *op == first.op)
        && (has_root || all.all(|other| is_empty(other) == is_empty(first)))
}

/// Between which collectives something was done: before and after as many as there are up to then.
fn epoch(rank: &Rank, end: &End) -> (usize, usize) {
    let ended = |time: u64| rank.collectives.partition_point(|it| it.begin < time);
    (ended(end.begin), ended(end.end))
}

fn ends(ranks: &[Rank]) -> usize {
    let ranks = ranks.iter();
    ranks.map(|rank| rank.sends.len() + rank.receives.len()).sum()
}

fn messages(ranks: &mut [Rank]) {
    // NCCL matches sends and receives of two ranks in their order.
    let mut kept: Vec<(Vec<End>, Vec<End>)> = vec![(Vec::new(), Vec::new()); ranks.len()];
    let mut receives: BTreeMap<(usize, u32), Vec<End>> = BTreeMap::new();
    for (number, rank) in ranks.iter().enumerate() {
        for receive in &rank.receives {
            receives.entry((number, receive.peer)).or_default().push(*receive);
        }
    }
    let mut used: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    for (number, rank) in ranks.iter().enumerate() {
        let own = u32::try_from(number).unwrap_or(u32::MAX);
        for send in &rank.sends {
            let Ok(peer) = usize::try_from(send.peer) else {
                continue;
            };
            let key = (peer, own);
            let place = used.entry(key).or_default();
            let receive = receives.get(&key).and_then(|list| list.get(*place));
            *place += 1;
            let (Some(receive), Some(other)) = (receive, ranks.get(peer)) else {
                continue;
            };
            let epochs = [epoch(rank, send), epoch(other, receive)];
            let [(a, b), (c, d)] = epochs;
            // What goes on while a collective does could be on its other side elsewhere.
            if a != b || a != c || a != d {
                continue;
            }
            if let Some((sends, _)) = kept.get_mut(number) {
                sends.push(*send);
            }
            if let Some((_, receives)) = kept.get_mut(peer) {
                receives.push(*receive);
            }
        }
    }
    for (rank, (sends, receives)) in ranks.iter_mut().zip(kept) {
        rank.sends = sends;
        rank.receives = receives;
        rank.receives.sort_by_key(|it| it.begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::CommRef;

    fn collective(begin: u64, end: u64, op: CollectiveOp) -> Operation {
        Operation {
            begin,
            end,
            collective: Collective { op, comm: CommRef::new(0), root: None, bytes_sent: 8, bytes_received: 8 },
        }
    }

    fn message(begin: u64, end: u64, peer: u32) -> End {
        End { begin, end, peer, bytes: 8 }
    }

    fn rank(collectives: &[(u64, u64, CollectiveOp)]) -> Rank {
        let collectives = collectives.iter().map(|(a, b, op)| collective(*a, *b, *op));
        Rank { collectives: collectives.collect(), ..Rank::default() }
    }

    #[test]
    fn only_what_all_ranks_have_is_kept() {
        use CollectiveOp::{Allgather, Allreduce, Barrier};
        let all = [(0, 10, Allreduce), (20, 30, Barrier), (40, 50, Allgather), (60, 70, Allreduce)];
        let mut ranks = [rank(&all), rank(&all[..3]), rank(&all)];
        // NCCL has no barrier; the fourth is not on rank 1.
        assert_eq!(complete(&mut ranks), LeftOut { collectives: 2 + 3, messages: 0 });
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
        assert_eq!(complete(&mut ranks).collectives, 2);
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
        assert_eq!(left_out.messages, 3 + 1 + 2);
    }
}
