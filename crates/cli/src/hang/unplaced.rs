//! Ranks of flight recordings of which nothing says where in the communicator's order they are: that they wait is seen all
//! the same.

use super::job::{Call, Comm, Job, Rank};
use super::judge::{At, Lane, Obstacle, Spot, Way, taking_part, waited_ns};
use super::watch::Watch;

/// Their numbers.
pub(crate) fn numbers(ranks: &[(u32, &Rank)]) -> Vec<u32> {
    ranks.iter().map(|(number, _)| *number).collect()
}

/// Those of some ranks, wherever they are, that wait for nothing; all of them where all do.
pub(crate) fn least_busy(lane: Lane, ranks: Vec<(u32, &Rank)>) -> Vec<(u32, &Rank)> {
    let is_open = |rank: &Rank| lane.of(rank).first_open().is_some();
    let (busy, idle): (Vec<_>, Vec<_>) = ranks.into_iter().partition(|(_, rank)| is_open(rank));
    if idle.is_empty() { busy } else { idle }
}

/// Ranks that wait in something, and nothing says where in the order that is. Who does not wait may be behind.
pub(crate) fn obstacle(job: &Job, at: usize, comm: &Comm, lane: Lane) -> Option<Obstacle> {
    let ranks: Vec<(u32, &Rank)> = taking_part(comm, lane).collect();
    let watch = Watch::of(job, comm);
    let open = ranks.iter().filter_map(|(number, rank)| {
        let tail = lane.of(rank);
        let call = tail.first_open().filter(|_| !tail.is_placed())?;
        (!watch.outlived(job, rank)).then_some((*number, *rank, call))
    });
    let open: Vec<(u32, &Rank, &Call)> = open.collect();
    let (_, _, first) = open.first()?;
    let waiters = open.iter().filter_map(|(number, rank, call)| {
        let waited = waited_ns(job, rank, call.entered_ns)?;
        Some((*number, waited))
    });
    let waiters: Vec<(u32, u64)> = waiters.collect();
    let others = ranks.iter().copied();
    let others = others.filter(|(number, _)| open.iter().all(|(waiter, _, _)| waiter != number));
    let mut others = numbers(&others.collect::<Vec<_>>());
    if lane == Lane::Calls {
        others.extend(comm.missing());
    }
    if waiters.is_empty() {
        return None;
    }
    Some(Obstacle {
        comm: at,
        at: At::Collective {
            lane,
            spot: Spot {
                position: None,
                is_counted: false,
                sequence: first.sequence,
            },
            what: first.what.clone(),
        },
        waiters,
        way: if others.is_empty() {
            Way::Inside(Vec::new())
        } else {
            Way::Unrecorded(others)
        },
    })
}
