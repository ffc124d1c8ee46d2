//! Selects operations of several communicators that the analyser can replay: no overlap on a rank, one common order.

use std::collections::{BTreeMap, BTreeSet};

/// An operation: its communicator, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OperationId {
    Collective {
        communicator: usize,
        number: usize,
    },
    /// The nth message between two ranks of the communicator.
    Message {
        communicator: usize,
        from: u32,
        to: u32,
        number: usize,
    },
}

impl OperationId {
    const fn communicator(self) -> usize {
        match self {
            Self::Collective { communicator, .. } | Self::Message { communicator, .. } => communicator,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) id: OperationId,
    /// A send waits for no other rank.
    pub(super) is_send: bool,
}

/// Operations that overlap one of another communicator on some rank, or whose order differs between ranks: the analyser
/// would wait for them forever. `ranks` holds the parts of each rank.
pub(super) fn left_out(ranks: &[Vec<Part>]) -> BTreeSet<OperationId> {
    let mut left_out = overlapping(ranks);
    let mut parts: BTreeMap<OperationId, usize> = BTreeMap::new();
    let mut queues: Vec<Vec<Part>> = Vec::new();
    for rank in ranks {
        let mut queue: Vec<Part> = rank.iter().filter(|part| !left_out.contains(&part.id)).copied().collect();
        // A rank reaches a collective or a send when it begins, and passes a receive when it ends.
        queue.sort_by_key(|part| match part.id {
            OperationId::Message { .. } if !part.is_send => (part.end, part.id),
            _ => (part.begin, part.id),
        });
        queue.iter().for_each(|part| *parts.entry(part.id).or_default() += 1);
        queue.reverse();
        queues.push(queue);
    }
    let mut arrived: BTreeMap<OperationId, usize> = BTreeMap::new();
    let mut waits: Vec<bool> = vec![false; queues.len()];
    loop {
        let mut has_advanced = false;
        for (queue, waits) in queues.iter_mut().zip(&mut waits) {
            while let Some(part) = queue.last() {
                if !*waits && !left_out.contains(&part.id) {
                    *arrived.entry(part.id).or_default() += 1;
                    *waits = !part.is_send;
                    has_advanced = true;
                }
                let is_done = part.is_send || arrived.get(&part.id) == parts.get(&part.id);
                if !is_done && !left_out.contains(&part.id) {
                    break;
                }
                queue.pop();
                *waits = false;
                has_advanced = true;
            }
        }
        if has_advanced {
            continue;
        }
        // All ranks wait for another one.
        let Some(first) = queues.iter().filter_map(|queue| queue.last()).min() else {
            return left_out;
        };
        left_out.insert(first.id);
    }
}

/// Operations that begin on some rank before one of another communicator has ended.
fn overlapping(ranks: &[Vec<Part>]) -> BTreeSet<OperationId> {
    let mut found = BTreeSet::new();
    for rank in ranks {
        let mut parts = rank.clone();
        parts.sort_unstable();
        let mut before: Option<Part> = None;
        for part in parts {
            match &mut before {
                Some(before) if part.begin <= before.end && part.id.communicator() != before.id.communicator() => {
                    found.insert(part.id);
                }
                Some(before) if part.id.communicator() == before.id.communicator() => {
                    before.end = before.end.max(part.end);
                }
                _ => before = Some(part),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(begin: u64, end: u64, communicator: usize, number: usize) -> Part {
        Part { begin, end, id: OperationId::Collective { communicator, number }, is_send: false }
    }

    fn message(begin: u64, end: u64, is_send: bool) -> Part {
        Part { begin, end, id: OperationId::Message { communicator: 1, from: 0, to: 1, number: 0 }, is_send }
    }

    #[test]
    fn what_comes_in_one_order_stays() {
        let rank = vec![collective(0, 10, 0, 0), collective(20, 30, 1, 0), collective(40, 50, 0, 1)];
        assert!(left_out(&[rank.clone(), rank.clone(), rank[..1].to_vec()]).is_empty());
        let ranks = [
            vec![message(12, 14, true), collective(20, 30, 0, 0)],
            vec![message(2, 15, false), collective(20, 30, 0, 0)],
        ];
        assert!(left_out(&ranks).is_empty());
    }

    #[test]
    fn overlapping_and_crossing_operations_are_left_out() {
        let overlapping = vec![collective(0, 10, 0, 0), collective(5, 30, 1, 0), collective(30, 50, 0, 1)];
        let apart = vec![collective(0, 10, 0, 0), collective(15, 30, 1, 0), collective(40, 50, 0, 1)];
        let of_second = BTreeSet::from([OperationId::Collective { communicator: 1, number: 0 }]);
        assert_eq!(left_out(&[apart.clone(), overlapping]), of_second);
        // The second rank begins with the other communicator.
        let crossing = vec![collective(15, 20, 0, 0), collective(1, 2, 1, 0), collective(40, 50, 0, 1)];
        assert_eq!(left_out(&[apart, crossing]).len(), 1);
        // A receive before a collective, of a message that is sent after it.
        let ranks =
            [vec![collective(0, 10, 0, 0), message(12, 14, true)], vec![message(1, 5, false), collective(7, 10, 0, 0)]];
        assert_eq!(left_out(&ranks).len(), 1);
    }
}
