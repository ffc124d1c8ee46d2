//! Storage for the states of an event.

use clocks::ticks::ClockReader;

/// The time of a state that was not seen.
const UNSEEN: u64 = u64::MAX;

/// The times of an event's states, and the number that the states carry.
pub trait States: Clone + Copy + Default + std::fmt::Debug {
    /// When the state with this index was entered.
    fn time(&self, index: usize) -> Option<u64>;
    fn set_time(&mut self, index: usize, time: u64);
    fn value(&self) -> u64;
    fn set_value(&mut self, change: impl FnOnce(u64) -> u64);
    /// The last of the times.
    fn last(&self) -> Option<u64>;
    fn convert(&mut self, clock: &mut ClockReader<'_>);
}

/// For kinds without kept states.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStates;

impl States for NoStates {
    #[inline]
    fn time(&self, _index: usize) -> Option<u64> {
        None
    }

    #[inline]
    fn set_time(&mut self, _index: usize, _time: u64) {}

    #[inline]
    fn value(&self) -> u64 {
        0
    }

    #[inline]
    fn set_value(&mut self, _change: impl FnOnce(u64) -> u64) {}

    fn last(&self) -> Option<u64> {
        None
    }

    #[inline]
    fn convert(&mut self, _clock: &mut ClockReader<'_>) {}
}

/// `N` time slots for states, and a number.
#[derive(Clone, Copy, Debug)]
pub struct StateTimes<const N: usize> {
    times: [u64; N],
    value: u64,
}

impl<const N: usize> Default for StateTimes<N> {
    #[inline]
    fn default() -> Self {
        Self { times: [UNSEEN; N], value: 0 }
    }
}

impl<const N: usize> States for StateTimes<N> {
    #[inline]
    fn time(&self, index: usize) -> Option<u64> {
        self.times.get(index % N).copied().filter(|&time| time != UNSEEN)
    }

    #[inline]
    fn set_time(&mut self, index: usize, time: u64) {
        if let Some(unseen) = self.times.get_mut(index % N)
            && *unseen == UNSEEN
        {
            *unseen = time;
        }
    }

    #[inline]
    fn value(&self) -> u64 {
        self.value
    }

    #[inline]
    fn set_value(&mut self, change: impl FnOnce(u64) -> u64) {
        self.value = change(self.value);
    }

    fn last(&self) -> Option<u64> {
        self.times.iter().filter(|&&time| time != UNSEEN).max().copied()
    }

    #[inline]
    fn convert(&mut self, clock: &mut ClockReader<'_>) {
        for time in self.times.iter_mut().filter(|time| **time != UNSEEN) {
            *time = clock.nanoseconds(*time);
        }
    }
}
