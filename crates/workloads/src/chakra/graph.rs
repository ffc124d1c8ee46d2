//! The nodes of a rank, and which of them each one waited for.
//!
//! An operation waits for the operations before it on its communicator, which runs one group after the other, and for
//! the computing before it. Computing waits for the computing before it, and for what ended in the pause between both.

use std::collections::BTreeMap;

use nccl_events::collective::Function;

use crate::operations::Operation;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) what: What,
    /// The ids of nodes; an id is the place in the list, from 1.
    pub(super) waited_for: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An operation, and the tag of a message: how many messages there were between its ends before.
    Operation {
        at: usize,
        tag: u64,
    },
    Computing {
        start_ns: u64,
        stop_ns: u64,
    },
    /// The end of a large group: what comes after it waits for this node alone.
    Joined {
        at_ns: u64,
    },
}

/// Two groups with more pairs of operations than this are joined by a node.
const MOST_PAIRS: usize = 64;

/// Operations of a communicator that run at the same time.
struct Batch {
    member: u32,
    start_ns: u64,
    stop_ns: u64,
    operations: Vec<usize>,
}

/// `operations` are sorted by member and start, `computing` does not overlap.
pub(super) fn nodes<D>(operations: &[Operation<D>], computing: &[(u64, u64)]) -> Vec<Node> {
    let mut batches = batches(operations);
    batches.sort_by_key(|batch| (batch.start_ns, batch.member));
    let starts: Vec<u64> = batches.iter().map(|batch| batch.start_ns).collect();
    let mut computing = cut(computing, &starts).into_iter().peekable();
    let mut graph = Graph::default();
    for batch in &batches {
        while let Some((start_ns, stop_ns)) = computing.next_if(|(start_ns, _)| *start_ns < batch.start_ns) {
            graph.computing(start_ns, stop_ns);
        }
        graph.batch(batch, operations);
    }
    computing.for_each(|(start_ns, stop_ns)| graph.computing(start_ns, stop_ns));
    graph.nodes
}

fn batches<D>(operations: &[Operation<D>]) -> Vec<Batch> {
    let mut found: Vec<Batch> = Vec::new();
    let mut group = (0, 0);
    for (at, it) in operations.iter().enumerate() {
        let is_of = |batch: &&mut Batch| {
            let is_same_group = it.group.0 != 0 && it.group == group;
            batch.member == it.member && (is_same_group || it.start_ns < batch.stop_ns)
        };
        match found.last_mut().filter(is_of) {
            Some(batch) => {
                batch.stop_ns = batch.stop_ns.max(it.stop_ns);
                batch.operations.push(at);
            }
            None => found.push(Batch {
                member: it.member,
                start_ns: it.start_ns,
                stop_ns: it.stop_ns,
                operations: vec![at],
            }),
        }
        group = it.group;
    }
    // Ranks that call in one order have it in their ids, whatever ran first in a kernel.
    found.iter_mut().for_each(|batch| batch.operations.sort_by_key(|at| operations[*at].event));
    found
}

/// Cuts intervals at these times, ascending.
fn cut(intervals: &[(u64, u64)], at: &[u64]) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for (start_ns, stop_ns) in intervals {
        let mut from_ns = *start_ns;
        let first = at.partition_point(|time_ns| time_ns <= start_ns);
        for time_ns in at[first..].iter().take_while(|time_ns| *time_ns < stop_ns) {
            if *time_ns > from_ns {
                pieces.push((from_ns, *time_ns));
                from_ns = *time_ns;
            }
        }
        pieces.push((from_ns, *stop_ns));
    }
    pieces
}

#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    /// The last computing: its id and end.
    computing: Option<(u64, u64)>,
    /// The last batch of each member: its end and the ids of its nodes.
    last: BTreeMap<u32, (u64, Vec<u64>)>,
    /// Batches for which no computing can have waited yet: their end and nodes.
    pending: Vec<(u64, Vec<u64>)>,
    /// How many messages each member has sent to a peer, and got from it.
    messages: BTreeMap<(u32, u32, bool), u64>,
}

impl Graph {
    fn push(&mut self, what: What, waited_for: Vec<u64>) -> u64 {
        self.nodes.push(Node { what, waited_for });
        self.nodes.len() as u64
    }

    /// Adds what was computed, unless that is nothing in whole µs.
    fn computing(&mut self, start_ns: u64, stop_ns: u64) {
        if start_ns / 1000 == stop_ns / 1000 {
            return;
        }
        let before = self.computing;
        let mut waited_for: Vec<u64> = before.map(|(id, _)| id).into_iter().collect();
        self.pending.retain(|(ended_ns, ids)| {
            let is_over = *ended_ns <= start_ns;
            if is_over && before.is_none_or(|(_, before_ns)| before_ns < *ended_ns) {
                waited_for.extend(ids);
            }
            !is_over
        });
        let id = self.push(What::Computing { start_ns, stop_ns }, waited_for);
        self.computing = Some((id, stop_ns));
    }

    fn batch<D>(&mut self, batch: &Batch, operations: &[Operation<D>]) {
        let (ended_ns, mut waited_for) = self.last.remove(&batch.member).unwrap_or_default();
        if waited_for.len() * batch.operations.len() > MOST_PAIRS {
            waited_for = vec![self.push(What::Joined { at_ns: ended_ns }, waited_for)];
        }
        waited_for.extend(self.computing.map(|(id, _)| id));
        let mut ids = Vec::new();
        for at in &batch.operations {
            let it = &operations[*at];
            let is_send = it.function.and_then(Function::is_send);
            let tag = is_send.map_or(0, |is_send| {
                let before = self.messages.entry((it.member, it.peer, is_send)).or_default();
                *before += 1;
                *before - 1
            });
            ids.push(self.push(What::Operation { at: *at, tag }, waited_for.clone()));
        }
        self.pending.push((batch.stop_ns, ids.clone()));
        self.last.insert(batch.member, (batch.stop_ns, ids));
    }
}

#[cfg(test)]
mod tests {
    use nccl_events::collective::Collective;

    use super::*;

    fn operation(member: u32, [start, stop]: [u64; 2], group: u64) -> Operation<()> {
        let [start_ns, stop_ns] = [start, stop].map(|us| us * 1000);
        Operation {
            member,
            function: Some(Function::Collective(Collective::AllReduce)),
            bytes: 8,
            peer: 0,
            start_ns,
            stop_ns,
            is_timed: true,
            is_unfinished: false,
            event: start_ns,
            call: group,
            group: (group, 0),
            details: (),
        }
    }

    fn shown(nodes: &[Node]) -> Vec<(String, &[u64])> {
        let name = |what: &What| match what {
            What::Operation { at, .. } => format!("operation {at}"),
            What::Computing { start_ns, stop_ns } => format!("{}..{}", start_ns / 1000, stop_ns / 1000),
            What::Joined { at_ns } => format!("joined {}", at_ns / 1000),
        };
        nodes.iter().map(|node| (name(&node.what), node.waited_for.as_slice())).collect()
    }

    #[test]
    fn operations_wait_for_their_communicator_and_for_what_was_computed_before() {
        let operations = [operation(0, [10, 20], 1), operation(0, [12, 20], 1), operation(0, [30, 40], 2)];
        let found = nodes(&operations, &[(0, 10_000), (20_000, 30_000)]);
        let wanted: [(&str, &[u64]); 5] = [
            ("0..10", &[]),
            ("operation 0", &[1]),
            ("operation 1", &[1]),
            ("20..30", &[1, 2, 3]),
            ("operation 2", &[2, 3, 4]),
        ];
        assert_eq!(shown(&found), wanted.map(|(name, ids)| (name.to_owned(), ids)));
    }

    /// Computing waits for an operation that ended in a pause, not for one that it overlapped.
    #[test]
    fn what_overlapped_is_not_waited_for() {
        let operations = [operation(0, [10, 50], 1), operation(1, [20, 45], 2)];
        let found = nodes(&operations, &[(0, 40_000), (48_000, 60_000)]);
        let wanted: [(&str, &[u64]); 6] = [
            ("0..10", &[]),
            ("operation 0", &[1]),
            ("10..20", &[1]),
            ("operation 1", &[3]),
            ("20..40", &[3]),
            ("48..60", &[5, 4]),
        ];
        assert_eq!(shown(&found), wanted.map(|(name, ids)| (name.to_owned(), ids)));
    }

    #[test]
    fn large_groups_are_joined() {
        let of_group = |group: u64| (0..20).map(move |_| operation(0, [group * 10, group * 10 + 5], group));
        let operations: Vec<Operation<()>> = [1, 2].into_iter().flat_map(of_group).collect();
        let found = nodes(&operations, &[]);
        assert_eq!(found.len(), 41);
        assert_eq!(shown(&found)[20].0, "joined 15");
        assert_eq!(found[20].waited_for.len(), 20);
        assert!(found[21..].iter().all(|node| node.waited_for == [21]), "{found:?}");
    }
}
