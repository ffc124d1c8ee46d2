//! Ranks of flight recordings whose positions are unknown: that they wait is seen all the same.

use super::blockage::{Blockage, Cause, Operation, Position};
use super::collectives::{Collectives, numbers};
use crate::hang::sequence::Sequence;

/// Ranks that wait in something, at an unknown position. Those that do not wait may be behind.
pub(crate) fn blockage(collectives: &Collectives<'_>, comm: usize) -> Option<Blockage> {
    let &Collectives { job, sequence, .. } = collectives;
    let ranks = collectives.ranks.iter().copied();
    let (open, others): (Vec<_>, Vec<_>) = ranks.partition(|(_, rank)| {
        let tail = sequence.of(rank);
        let is_open = tail.first_open().is_some() && !tail.has_positions();
        is_open && !collectives.survivors.outlived(job, rank)
    });
    let call = |rank| sequence.of(rank).first_open();
    let first = open.first().and_then(|(_, rank)| call(rank))?;
    let waiters = open.iter().filter_map(|(number, rank)| {
        let waited_ns = job.waited_ns(rank, call(rank)?.entered_ns)?;
        Some((*number, waited_ns))
    });
    let waiters: Vec<(u32, u64)> = waiters.collect();
    let mut others = numbers(&others);
    if sequence == Sequence::Calls {
        others.extend(collectives.comm.missing());
    }
    (!waiters.is_empty()).then(|| Blockage {
        comm,
        operation: Operation::Collective {
            sequence,
            position: Position { index: None, from_beginning: false, sequence: first.sequence },
            what: first.what.clone(),
        },
        waiters,
        cause: if others.is_empty() { Cause::AllEntered(Vec::new()) } else { Cause::Unrecorded(others) },
    })
}
