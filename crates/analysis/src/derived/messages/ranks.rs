//! A rank's waits in messages over time. A kernel waits for the last of its partners, and counts once.

use super::pairing::Pairing;
use super::waits::Until;
use crate::derived::instances::Instances;
use crate::derived::maths::union::{Covered, subtract, union};
use crate::tables::{NONE, Tables};
use nccl_events::ids::index as large;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::derived) enum WaitsIn {
    Receive,
    Send,
    Collective(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::derived) struct Wait {
    pub(in crate::derived) start_ns: u64,
    pub(in crate::derived) stop_ns: u64,
    pub(in crate::derived) row: u32,
    /// The row of the other end, or of the rank that came last.
    pub(in crate::derived) other: u32,
    pub(in crate::derived) waits_in: WaitsIn,
}

/// The waits of a rank, sorted and disjoint, in half of the memory: the waiting operations tell the rest.
#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Waits {
    pub(super) times: Covered,
    rows: Vec<u32>,
}

impl Waits {
    pub(in crate::derived) fn of(waits: &[Wait]) -> Self {
        let times: Vec<(u64, u64)> = waits.iter().map(|it| (it.start_ns, it.stop_ns)).collect();
        Self { times: Covered::of(&times), rows: waits.iter().map(|it| it.row).collect() }
    }

    pub(super) fn at(&self, instances: &Instances, pairing: &Pairing, at: usize) -> Wait {
        let ((start_ns, stop_ns), row) = (self.times.at(at), self.rows[at]);
        let (other, waits_in) = match instances.of_operation(row) {
            Some(number) => (instances.all[large(number)].awaited, WaitsIn::Collective(number)),
            None if pairing.is_send(row) => (pairing.other(row).unwrap_or(NONE), WaitsIn::Send),
            None => (pairing.other(row).unwrap_or(NONE), WaitsIn::Receive),
        };
        Wait { start_ns, stop_ns, row, other, waits_in }
    }
}

#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct OfRank {
    /// Sorted and disjoint.
    pub(in crate::derived) waits: Vec<Wait>,
    /// Periods in which it is unknown whether the rank waited; disjoint from `waits`.
    pub(in crate::derived) unclear: Vec<(u64, u64)>,
}

impl OfRank {
    pub(super) fn of(tables: &Tables, pairing: &Pairing, mut rows: Vec<u32>) -> Self {
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
                match Until::of(tables, pairing, *row, rows.len() == 1) {
                    Until::Never => {}
                    Until::Unclear(until_ns) => unclear_ns = until_ns.min(end_ns).max(unclear_ns),
                    Until::Other(until_ns) => {
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
        let waited: Vec<(u64, u64)> = waits.iter().map(|it| (it.start_ns, it.stop_ns)).collect();
        Self { unclear: subtract(&union(unclear), &waited), waits }
    }
}

/// Makes waits disjoint: of those that overlap, the longest-lasting counts. `waits` are sorted by start.
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
