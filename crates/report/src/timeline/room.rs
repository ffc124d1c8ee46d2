//! Which windows have room for their events.

use std::sync::atomic::{AtomicU64, Ordering};

use super::events::Event;
use super::plan::Plan;

/// Why an event is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// For the window of this importance, if that fits.
    Window,
    Chosen,
    /// It is the longest of its part of the time. If its window fits, that has it.
    Longest,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) event: Event,
    pub(super) why: Why,
    /// The window that it is in.
    pub(super) place: u32,
}

impl Kept {
    pub(super) const fn stays(&self, fitting: u32) -> bool {
        match self.why {
            Why::Chosen => true,
            Why::Window => self.place < fitting,
            Why::Longest => self.place >= fitting,
        }
    }

    pub(super) const fn length_ns(&self) -> u64 {
        self.event.end_ns - self.event.begin_ns
    }
}

/// The events in each window, by its importance: less important windows are given up where the events do not fit.
#[derive(Debug)]
pub(super) struct Room {
    in_windows: Vec<AtomicU64>,
    most: u64,
}

impl Room {
    pub(super) fn of(plan: &Plan) -> Self {
        let in_windows = (0..plan.windows.len()).map(|_| AtomicU64::new(0)).collect();
        Self { in_windows, most: plan.most_in_windows }
    }

    /// Adds events. Returns how many of the windows fit, as far as events were added.
    pub(super) fn add(&self, events: &mut [u64]) -> u32 {
        let (mut sum, mut fitting) = (0, 0);
        for (all, own) in self.in_windows.iter().zip(events) {
            sum += all.fetch_add(*own, Ordering::Relaxed) + *own;
            *own = 0;
            fitting += u32::from(sum <= self.most);
        }
        fitting
    }
}
