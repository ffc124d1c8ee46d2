//! The contents of a table row.

use std::ops::Deref;

use super::contexts::ContextName;
use super::states::States;
use clocks::ticks::ClockReader;
use nccl_events::{Kind, state};

/// The stop of an event that has not stopped.
const OPEN: u64 = u64::MAX;

/// Fields common to events of all kinds.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub id: u64,
    /// The parent's handle as NCCL passed it; 0 if there is none.
    pub parent: u64,
    pub start: u64,
    stop: u64,
    /// Index among the starts of the process, in the order of the journal. Breaks ties.
    pub order: u32,
    /// See [`super::Tables::context_of`].
    pub context: ContextName,
    /// The thread that started the event: an index in [`super::Tables::threads`].
    pub thread: u32,
    /// Bit n is set if state n was seen.
    pub states_seen: u32,
}

impl Head {
    pub(super) const fn new(
        (id, parent): (u64, u64),
        start: u64,
        order: u32,
        context: ContextName,
        thread: u32,
    ) -> Self {
        Self { id, parent, start, stop: OPEN, order, context, thread, states_seen: 0 }
    }

    #[inline]
    pub const fn stop(&self) -> Option<u64> {
        if self.stop == OPEN { None } else { Some(self.stop) }
    }

    /// Records a stop; returns whether it is the first, which counts: NCCL 2.28–2.32 stops API events again, later.
    pub(super) fn stop_at(&mut self, ticks: u64) -> bool {
        let is_first = self.stop == OPEN;
        // Ticks of two processors may differ by a few cycles: no event ends before it starts.
        self.stop = self.stop.min(ticks.max(self.start));
        is_first
    }

    /// The index of the event's context in [`super::Tables::contexts`], if it is a context of this process.
    #[inline]
    pub const fn context_at(&self) -> Option<u32> {
        self.context.at()
    }

    #[inline]
    pub const fn has_state(&self, state: u32) -> bool {
        state < 32 && self.states_seen & (1 << state) != 0
    }

    fn convert(&mut self, clock: &mut ClockReader<'_>) {
        self.start = clock.nanoseconds(self.start);
        if self.stop != OPEN {
            self.stop = clock.nanoseconds(self.stop);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Event<F: Fields> {
    pub(super) head: Head,
    /// The descriptor's rank. If the context has a rank, that one counts.
    pub rank: i32,
    /// The fields of the descriptor.
    pub fields: F,
    pub(super) states: F::States,
}

impl<F: Fields> Deref for Event<F> {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        &self.head
    }
}

impl<F: Fields> Event<F> {
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// When the event first entered a state.
    #[inline]
    pub fn state_time(&self, number: u32) -> Option<u64> {
        let index = F::STATES.iter().position(|&known| known == number)?;
        self.has_state(number).then(|| self.states.time(index))?
    }

    /// The states of the kind that the event entered, each with its first time, sorted by time.
    pub fn states(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut states = [(u64::MAX, 0); MOST_STATES];
        let mut count = 0;
        for (index, &number) in F::STATES.iter().enumerate() {
            let time = self.states.time(index).filter(|_| self.has_state(number));
            if let (Some(time), Some(free)) = (time, states.get_mut(count)) {
                *free = (time, number);
                count += 1;
            }
        }
        if let Some(seen) = states.get_mut(..count) {
            nccl_events::sort::sort_by_key(seen, |&(time, _)| time);
        }
        states.into_iter().take(count).map(|(time, number)| (number, time))
    }

    /// The number that the states carry: bytes (proxy), operations taken (proxy control) or the GPU's time of the stop
    /// (kernel channel and phase); 0 if there is none.
    #[inline]
    pub fn state_value(&self) -> u64 {
        self.states.value()
    }

    /// Records a state; returns whether it is the first with its number. Under back-pressure state 20 comes thousands
    /// of times for one step: the first one counts.
    #[inline]
    pub(super) fn enter(&mut self, number: u32, ticks: u64, value: impl FnOnce(u64) -> u64) -> bool {
        self.states.set_value(value);
        let is_first = !self.has_state(number);
        if is_first {
            if number <= state::LAST {
                self.head.states_seen |= 1 << number;
            }
            if let Some(index) = F::STATES.iter().position(|&known| known == number) {
                self.states.set_time(index, ticks);
            }
        }
        is_first
    }

    #[inline]
    pub(super) fn convert(&mut self, clock: &mut ClockReader<'_>) {
        self.head.convert(clock);
        self.states.convert(clock);
    }
}

/// The largest number of states of any kind.
const MOST_STATES: usize = 9;

pub trait Fields: Copy + 'static {
    const KIND: Kind;
    /// The states whose times are kept, the n-th in slot n modulo the number of slots: exclusive states share one.
    const STATES: &'static [u32];
    type States: States;
}
