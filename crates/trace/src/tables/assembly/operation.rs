//! One event with everything that was said about it.

use crate::clocks::ticks::ClockReader;
use crate::tables::named::ContextName;
use crate::tables::packed::Packed;
use crate::tables::place::NOWHERE;
use journal::format::record::Symbol;
use nccl_events::Kind;

/// A started event with everything that was said about it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Operation {
    /// Its event id.
    pub id: u64,
    /// The parent's handle as NCCL passed it; 0 for none.
    pub parent: u64,
    /// When it started.
    pub start: u64,
    pub(crate) end: u64,
    /// The place of the parent, or [`NOWHERE`].
    pub(crate) parent_at: u32,
    /// See [`Assembly::context_of`](super::Assembly::context_of).
    pub(crate) context: ContextName,
    /// The thread that started it: a place in [`Assembly::threads`](super::Assembly::threads).
    pub thread: u32,
    /// Bit n: state n was seen.
    pub states_seen: u32,
    pub(crate) fields: Packed,
}

// One line of a cache: operations are many, and are visited one here, one there.
const _: () = assert!(size_of::<Operation>() == 64);

const fn somewhere(place: u32) -> Option<u32> {
    if place == NOWHERE { None } else { Some(place) }
}

/// The end of what has not ended.
pub(crate) const OPEN: u64 = u64::MAX;

impl Operation {
    /// When it stopped, if it did.
    #[must_use]
    pub const fn end(&self) -> Option<u64> {
        if self.end == OPEN {
            None
        } else {
            Some(self.end)
        }
    }

    /// The place of its parent, if that was recorded.
    #[must_use]
    pub const fn parent_at(&self) -> Option<u32> {
        somewhere(self.parent_at)
    }

    /// The place of its context in [`Assembly::contexts`](super::Assembly::contexts), if that is of this process.
    #[must_use]
    pub const fn context_at(&self) -> Option<u32> {
        self.context.at()
    }

    /// See [`Packed::detail`].
    #[inline]
    pub(crate) fn detail(&self) -> u32 {
        self.fields.detail()
    }

    /// The function of a call, collective or point-to-point operation: no other memory is asked for it.
    #[must_use]
    pub(crate) const fn func(&self) -> Symbol {
        self.fields.func()
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.fields.kind()
    }

    /// The bytes that NCCL told of a proxy step; 0 for none.
    #[must_use]
    pub const fn step_bytes(&self) -> u64 {
        self.fields.step_bytes()
    }

    #[inline]
    pub(super) fn turn_to_nanoseconds(&mut self, clock: &mut ClockReader<'_>) {
        self.start = clock.nanoseconds(self.start);
        if self.end != OPEN {
            self.end = clock.nanoseconds(self.end);
        }
    }

    /// Whether NCCL reported this state.
    #[must_use]
    pub const fn saw(&self, state: u32) -> bool {
        state < 32 && self.states_seen & (1 << state) != 0
    }
}
