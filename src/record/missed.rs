//! Counts callbacks that no thread could record.

use std::sync::atomic::{AtomicU64, Ordering};

use journal::writer::Lost;
use nccl_events::Kind;

/// Outside of any recording while NCCL still had handles: after the last finalize.
pub(super) static LATE: Missed = Missed::new();
/// During a recording, on a thread that has no share of it, or in a handler that interrupted its use.
pub(super) static UNRECORDED: Missed = Missed::new();

pub(super) struct Missed([AtomicU64; PLACES]);

const PLACES: usize = Kind::COUNT + 3;
const STOPS: usize = Kind::COUNT;
const STATES: usize = Kind::COUNT + 1;
const COMMUNICATORS: usize = Kind::COUNT + 2;

impl Missed {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; PLACES])
    }

    pub(super) fn add(&self, what: Lost) {
        let place = match what {
            Lost::Start(kind) => kind as usize,
            Lost::Stop(_) => STOPS,
            Lost::State(_) => STATES,
            Lost::Communicator => COMMUNICATORS,
        };
        if let Some(count) = self.0.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the counts since the last call to `each`. The events of stops and states are not known.
    pub(super) fn take(&self, mut each: impl FnMut(Lost, u64)) {
        let starts = Kind::ALL.iter().map(|kind| (Lost::Start(*kind), *kind as usize));
        let others = [(Lost::Stop(0), STOPS), (Lost::State(0), STATES), (Lost::Communicator, COMMUNICATORS)];
        for (what, place) in starts.chain(others) {
            let count = self.0.get(place).map_or(0, |count| count.swap(0, Ordering::Relaxed));
            if count > 0 {
                each(what, count);
            }
        }
    }
}
