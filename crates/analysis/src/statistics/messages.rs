//! Pairs sends with receives, and finds how long each end waits for the other.
//!
//! ```text
//!  Pairing      the n-th send of a rank to another is the n-th receive there
//!   └► WaitEnd    until when each end waits for the other, or that this is unknown
//!       └► RankWaits   the same per rank over time: a kernel waits for the last of its partners
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use crate::read::archive::{Trace, in_parallel};
use crate::read::{NO_SEQUENCE, NONE, Tables};
use crate::statistics::collectives::Filter;
use crate::statistics::numeric::{subtract, union};
use nccl_events::collective::Function;
use nccl_events::ids::{index as large, index_u32 as small};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitsIn {
    Receive,
    Send,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    pub(crate) row: u32,
    /// The row of the other end.
    pub(crate) other: u32,
    pub(crate) waits_in: WaitsIn,
}

/// A rank's waits in messages. The operations of a kernel count as one, which waits for the last of its peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankWaits {
    /// Sorted and disjoint.
    pub(crate) waits: Vec<Wait>,
    /// Periods in which it is unknown whether the rank waited; disjoint from `waits`.
    pub(crate) unclear: Vec<(u64, u64)>,
}

impl RankWaits {
    pub(super) fn new(tables: &Tables, pairing: &Pairing, mut rows: Vec<u32>) -> Self {
        let operations = &tables.operations;
        let kernel = |row: &u32| {
            let at = large(*row);
            (operations.start_ns[at], operations.stop_ns[at], operations.member[at])
        };
        rows.sort_unstable_by_key(|row| (kernel(row), *row));
        let mut waits: Vec<Wait> = Vec::new();
        let mut unclear: Vec<(u64, u64)> = Vec::new();
        for rows in rows.chunk_by(|a, b| kernel(a) == kernel(b)) {
            let mut last: Option<Wait> = None;
            let mut unclear_ns = 0;
            for row in rows {
                let (start_ns, end_ns, _) = kernel(row);
                match WaitEnd::new(tables, pairing, *row, rows.len() == 1) {
                    WaitEnd::Never => {}
                    WaitEnd::Unclear(until_ns) => unclear_ns = until_ns.min(end_ns).max(unclear_ns),
                    WaitEnd::Other(until_ns) => {
                        let stop_ns = until_ns.min(end_ns);
                        let waits_in = if pairing.is_send(*row) { WaitsIn::Send } else { WaitsIn::Receive };
                        let is_later = last.is_none_or(|last| last.stop_ns < stop_ns);
                        if let Some(other) = pairing.other(*row).filter(|_| is_later) {
                            last = Some(Wait { start_ns, stop_ns, row: *row, other, waits_in });
                        }
                    }
                }
            }
            if let Some((start_ns, ..)) = rows.first().map(kernel).filter(|(start_ns, ..)| unclear_ns > *start_ns) {
                unclear.push((start_ns, unclear_ns));
            }
            waits.extend(last);
        }
        let waits = apart(waits);
        let waited: Vec<(u64, u64)> = waits.iter().map(|wait| (wait.start_ns, wait.stop_ns)).collect();
        Self { unclear: subtract(&union(unclear), &waited), waits }
    }
}

/// Makes waits disjoint: of overlapping waits, the one that ends last counts. `waits` are sorted by start.
fn apart(waits: Vec<Wait>) -> Vec<Wait> {
    let mut found: Vec<Wait> = Vec::new();
    for mut wait in waits {
        if let Some(last) = found.last_mut() {
            if wait.stop_ns <= last.stop_ns {
                continue;
            }
            wait.start_ns = wait.start_ns.max(last.start_ns);
            last.stop_ns = last.stop_ns.min(wait.start_ns);
            if last.start_ns == last.stop_ns {
                found.pop();
            }
        }
        found.push(wait);
    }
    found
}

/// Which sends and receives belong together.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// Indexed by row, like `others`. Both are empty without messages.
    ends: Vec<MessageEnd>,
    /// The row of the other end; [`NONE`] if it is unknown.
    others: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageEnd {
    /// Not a send or receive, or part of a collective that is compared as a whole.
    None,
    Send,
    Receive,
}

/// Keyed by communicator, sender and receiver: rows of the sends, and of the receives.
type MessagesByPair = BTreeMap<(u32, u32, u32), [Vec<u32>; 2]>;

impl Pairing {
    /// NCCL matches messages in order. If records are missing, both ranks must have equally many.
    pub(super) fn new(trace: &Trace, tables: &Tables) -> Self {
        let operations = &tables.operations;
        let mut found = Self::default();
        let mut ends = MessagesByPair::new();
        let collectives = Collectives::new(trace, tables);
        for row in 0..small(operations.len()) {
            let operation = operations.row(large(row));
            let is_send = trace.function(operation.function).and_then(Function::is_send);
            let Some(is_send) = is_send.filter(|_| operation.partner != NONE) else {
                continue;
            };
            if collectives.have(operation.member, (operation.start_ns, operation.stop_ns)) {
                continue;
            }
            let member = tables.members.row(operation.member);
            let (from, to) = if is_send { (member.rank, operation.partner) } else { (operation.partner, member.rank) };
            ends.entry((member.communicator, from, to)).or_default()[usize::from(!is_send)].push(row);
            if found.ends.is_empty() {
                found = Self { ends: vec![MessageEnd::None; operations.len()], others: vec![NONE; operations.len()] };
            }
            found.ends[large(row)] = if is_send { MessageEnd::Send } else { MessageEnd::Receive };
        }
        let is_whole = is_whole(trace);
        for [mut sends, mut receives] in ends.into_values() {
            for rows in [&mut sends, &mut receives] {
                rows.sort_unstable_by_key(|row| (operations.start_ns[large(*row)], operations.event.get(large(*row))));
            }
            let bytes = |row: u32| operations.bytes.get(large(row));
            let is_clear = is_whole || sends.len() == receives.len();
            let pairs = sends.into_iter().zip(receives).filter(|_| is_clear);
            // After sizes differ once, later pairs are unreliable.
            for (send, receive) in pairs.take_while(|(send, receive)| bytes(*send) == bytes(*receive)) {
                (found.others[large(send)], found.others[large(receive)]) = (receive, send);
            }
        }
        found
    }

    fn end(&self, row: u32) -> MessageEnd {
        self.ends.get(large(row)).copied().unwrap_or(MessageEnd::None)
    }

    pub(crate) fn is_message(&self, row: u32) -> bool {
        self.end(row) != MessageEnd::None
    }

    pub(crate) fn is_send(&self, row: u32) -> bool {
        self.end(row) == MessageEnd::Send
    }

    pub(crate) fn other(&self, row: u32) -> Option<u32> {
        self.others.get(large(row)).copied().filter(|other| *other != NONE)
    }
}

/// Whether the archive contains all messages of every rank, up to its end.
fn is_whole(trace: &Trace) -> bool {
    !trace.statements.missing_data().any(|lack| {
        use nccl_events::schema::Lack::{Beginning, Callbacks, Places, Processes, WhileOff};
        matches!(lack, Callbacks(_) | Processes(_) | Places(_) | Beginning | WhileOff)
    })
}

/// Intervals of collectives made of sends and receives, keyed by member. Their messages are not compared in pairs.
struct Collectives(BTreeMap<u32, Vec<(u64, u64)>>);

impl Collectives {
    fn new(trace: &Trace, tables: &Tables) -> Self {
        let mut found: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for operation in
            tables.operations.rows().filter(|operation| operation.sequence == NO_SEQUENCE && operation.partner == NONE)
        {
            if trace.function(operation.function).and_then(Function::collective).is_some() {
                found.entry(operation.member).or_default().push((operation.start_ns, operation.stop_ns));
            }
        }
        found.values_mut().for_each(|times| times.sort_unstable());
        Self(found)
    }

    fn have(&self, member: u32, (start_ns, stop_ns): (u64, u64)) -> bool {
        self.0.get(&member).is_some_and(|times| {
            let after = times.partition_point(|(begin_ns, _)| *begin_ns <= start_ns);
            after.checked_sub(1).is_some_and(|at| times[at].1 >= stop_ns)
        })
    }
}

/// An archive's sends and receives, compared with their other ends.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) pairing: Pairing,
    /// For each rank of the job, rows of the measured sends and receives that the filter selects.
    rows: Vec<Vec<u32>>,
}

impl Messages {
    pub(crate) fn new(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let count = tables.members.job_ranks.len();
        let mut found = Self { pairing: Pairing::new(trace, tables), rows: vec![Vec::new(); count] };
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            let is_message = operation.is_known() && found.pairing.is_message(row);
            if is_message && filter.wants(trace, &tables.members, &operation) {
                found.rows[large(tables.job_rank(row))].push(row);
            }
        }
        found
    }

    /// The waits in messages of some ranks of the job. To save memory, callers ask for a few ranks at a time.
    pub(crate) fn waits(&self, tables: &Tables, ranks: Range<usize>) -> Vec<RankWaits> {
        in_parallel(&self.rows[ranks], |rows| RankWaits::new(tables, &self.pairing, rows.clone()))
    }

    pub(crate) fn into_pairing(self) -> Pairing {
        self.pairing
    }
}

/// Until when a send or receive waits for its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    Never,
    /// Until the other end arrived.
    Other(u64),
    /// Unknown until this time; `u64::MAX` if the other end was not found.
    Unclear(u64),
}

impl WaitEnd {
    /// For a send or receive. `is_alone`: no other operation shares its kernel.
    pub(crate) fn new(tables: &Tables, pairing: &Pairing, row: u32, is_alone: bool) -> Self {
        let operations = &tables.operations;
        let operation = operations.row(large(row));
        if tables.members.row(operation.member).rank == operation.partner {
            return Self::Never;
        }
        let other = pairing.other(row).filter(|other| operations.row(large(*other)).is_known());
        let known = other.and_then(|other| Some((operations.start_ns[large(other)], tables.error_ns(row, other)?)));
        let Some((other_ns, error_ns)) = known else {
            return Self::Unclear(u64::MAX);
        };
        let is_send = pairing.is_send(row);
        if other_ns <= operation.start_ns {
            Self::Never
        } else if operation.stop_ns.saturating_add(error_ns) < other_ns {
            // A send may end early, into a buffer. A receive cannot end before its sender has arrived.
            if is_send { Self::Never } else { Self::Unclear(u64::MAX) }
        } else if other_ns - operation.start_ns <= error_ns {
            Self::Unclear(other_ns)
        } else if is_send && (!is_alone || operation.stop_ns <= other_ns.saturating_add(error_ns)) {
            // The data may have gone into a buffer: another operation of the kernel may have ended later, or the clocks
            // cannot tell.
            Self::Unclear(other_ns)
        } else {
            Self::Other(other_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_overlap_count_once() {
        let wait = |start_ns, stop_ns, other| Wait { start_ns, stop_ns, row: 0, other, waits_in: WaitsIn::Receive };
        let all = vec![wait(0, 10, 1), wait(2, 8, 2), wait(4, 20, 3), wait(30, 31, 4), wait(30, 35, 5)];
        assert_eq!(apart(all), [wait(0, 4, 1), wait(4, 20, 3), wait(30, 35, 5)]);
    }
}
