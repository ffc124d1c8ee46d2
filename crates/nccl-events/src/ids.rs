//! The numbers that NCCL gets as handles; and indices into tables.
//!
//! NCCL stores whatever `startEvent` and `init` return, copies it around and never looks inside (NCCL 2.30.7
//! `profiler.cc`). So handles are numbers, not pointers: a parent that has already stopped, a stop after `finalize`,
//! and a handle that PXN brought here from another process are all harmless, and PXN is recognised by the other
//! process's tag.
//!
//! ```text
//!  63            48 47       36 35                       6  5  4       0
//! ┌────────────────┬───────────┬──────────────────────────┬───┬─────────┐
//! │ process tag    │ slot      │ sequence                 │ x │ kind    │  EventId
//! └────────────────┴───────────┴──────────────────────────┴───┴─────────┘
//!   random, not 0    0…0xffe     1, 2, 3 … per slot
//! ┌────────────────┬───────────┬────────────────────────────────────────┐
//! │ process tag    │ 0xfff     │ sequence: 1, 2, 3 … per process        │  ContextId
//! └────────────────┴───────────┴────────────────────────────────────────┘
//! ```
//!
//! An event's id contains its kind and whether its start could not be recorded (`x`). A stop or a state has only the
//! id; if it cannot be recorded either, the id tells which kind's loss to count.

use crate::Kind;

/// Bits below the slot: a context's sequence, or an event's sequence, mark and kind.
const NUMBER_BITS: u32 = 36;
/// Bits of an event's kind.
const KIND_BITS: u32 = 5;
/// Set in the ids of events whose start was not recorded.
const UNRECORDED: u64 = 1 << KIND_BITS;
/// Position of the lowest bit of an event's sequence number.
const SEQUENCE_SHIFT: u32 = KIND_BITS + 1;
/// The last sequence number of a slot, after about 50 GiB of journal. Later starts are counted as lost.
pub const LAST_SEQUENCE: u64 = (1 << (NUMBER_BITS - SEQUENCE_SHIFT)) - 1;
/// Bits of the slot number.
const SLOT_BITS: u32 = 12;
/// The slot number that marks a [`ContextId`].
const CONTEXT_SLOT: u16 = 0xfff;
/// Number of thread slots: all slot numbers below that of contexts.
pub const SLOTS: u16 = CONTEXT_SLOT;

const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

const _: () = assert!(Kind::COUNT <= 1 << KIND_BITS);

/// Distinguishes the processes of a job in handles that NCCL passes between them. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessTag(u16);

impl ProcessTag {
    /// Makes a tag from random bits. Zero, which would allow a NULL handle, becomes 1.
    #[inline]
    pub const fn new(bits: u16) -> Self {
        Self(if bits == 0 { 1 } else { bits })
    }

    /// The tag as a number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }
}

const fn pack(tag: ProcessTag, slot: u16, number: u64) -> u64 {
    ((tag.0 as u64) << (NUMBER_BITS + SLOT_BITS)) | ((slot as u64 & 0xfff) << NUMBER_BITS) | (number & NUMBER_MASK)
}

macro_rules! parts {
    ($name:ident) => {
        impl $name {
            /// The handle as NCCL sees it. Never zero.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Wraps a number from NCCL or from a journal, which may be foreign or stale.
            #[inline]
            pub const fn from_raw(raw: u64) -> Self {
                Self(raw)
            }

            /// The process that made this handle.
            #[inline]
            pub const fn tag(self) -> u16 {
                (self.0 >> (NUMBER_BITS + SLOT_BITS)) as u16
            }

            /// The slot field.
            #[inline]
            pub const fn slot(self) -> u16 {
                ((self.0 >> NUMBER_BITS) & 0xfff) as u16
            }
        }
    };
}

/// Identifies a started event. Zero means none, where NCCL passes NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u64);

/// Identifies a call of `init`: a communicator of this process. Zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(u64);

parts!(EventId);
parts!(ContextId);

impl EventId {
    /// No event: NCCL's NULL.
    pub const NONE: Self = Self(0);

    /// A group that is not recorded, but whose contents NCCL must still report. No process has tag 0.
    pub const NOT_SELECTED: Self = Self((CONTEXT_SLOT as u64) << NUMBER_BITS);

    /// The id of the `sequence`th event that is not recorded but has a handle of a chained plugin. `own` is the
    /// recorder's answer: [`Self::NONE`] or [`Self::NOT_SELECTED`].
    #[inline]
    pub const fn chained(sequence: u64, kind: Kind, own: Self) -> Self {
        let mark = if own.is_none() { 0 } else { UNRECORDED };
        // No process has tag 0, and the sequence never reaches the slot of [`Self::NOT_SELECTED`].
        Self((sequence << SEQUENCE_SHIFT | mark | kind as u64) & ((1 << (NUMBER_BITS + SLOT_BITS)) - 1))
    }

    /// The recorder's id: this id, or the recorder's answer for an event that only a chained plugin has.
    #[inline]
    pub const fn own(self) -> Self {
        match self.tag() {
            0 if self.is_unrecorded() || self.0 == Self::NOT_SELECTED.0 => Self::NOT_SELECTED,
            0 => Self::NONE,
            _ => self,
        }
    }

    /// The id of the `sequence`th event of a slot.
    #[inline]
    pub const fn new(tag: ProcessTag, slot: u16, sequence: u64, kind: Kind) -> Self {
        Self(pack(tag, slot, 0)).with_number(sequence, kind)
    }

    /// The id of the `sequence`th event of this event's slot.
    #[inline]
    pub const fn with_number(self, sequence: u64, kind: Kind) -> Self {
        Self(self.0 & !NUMBER_MASK | ((sequence << SEQUENCE_SHIFT) | kind as u64) & NUMBER_MASK)
    }

    /// Index of the event in its slot, from 1.
    #[inline]
    pub const fn sequence(self) -> u64 {
        (self.0 & NUMBER_MASK) >> SEQUENCE_SHIFT
    }

    /// The kind in the id. Valid only for ids of this process, because the maker of other ids is unknown.
    #[inline]
    pub fn kind(self) -> Kind {
        let number = u8::try_from(self.0 & KIND_MASK).unwrap_or(u8::MAX);
        Kind::from_number(number).unwrap_or(Kind::Unknown)
    }

    /// Whether the kind in the id is in a mask of [`Kind::mask`] bits: cheaper than [`Self::kind`].
    #[inline]
    pub const fn is_of(self, kinds: u32) -> bool {
        kinds >> (self.0 & KIND_MASK) & 1 != 0
    }

    /// The id of the same event, marked as not recorded.
    #[inline]
    pub const fn unrecorded(self) -> Self {
        Self(self.0 | UNRECORDED)
    }

    /// Whether the event's start was not recorded. Valid only for ids of this process.
    #[inline]
    pub const fn is_unrecorded(self) -> bool {
        self.0 & UNRECORDED != 0
    }

    /// Whether this is [`Self::NONE`].
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl ContextId {
    /// No context: NCCL's NULL.
    pub const NONE: Self = Self(0);

    /// The id of the `sequence`th `init` of a process.
    #[inline]
    pub const fn new(tag: ProcessTag, sequence: u64) -> Self {
        Self(pack(tag, CONTEXT_SLOT, sequence))
    }

    /// Index of the context in its process, from 1.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 & NUMBER_MASK
    }

    /// Whether the number can be a context's id.
    #[inline]
    pub const fn is_context(self) -> bool {
        self.slot() == CONTEXT_SLOT
    }
}

// Tables store indices in 32 bits: each of a million operations has several.

/// Converts a stored index. Tables have fewer than 2³² rows.
#[inline]
pub fn index(kept: u32) -> usize {
    usize::try_from(kept).unwrap_or(usize::MAX)
}

/// Converts an index for storage in tables.
#[inline]
pub fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        for kind in Kind::ALL {
            let id = EventId::new(ProcessTag::new(0xbeef), 0xffe, LAST_SEQUENCE, kind);
            for (id, unrecorded) in [(id, false), (id.unrecorded(), true)] {
                assert_eq!((id.tag(), id.slot(), id.sequence(), id.kind()), (0xbeef, 0xffe, LAST_SEQUENCE, kind));
                assert_eq!(id.is_unrecorded(), unrecorded);
                assert_eq!(id.is_of(kind.mask()), kind != Kind::Unknown);
                assert!(!id.is_of(!kind.mask()) || kind == Kind::Unknown);
            }
        }
        let context = ContextId::new(ProcessTag::new(7), 3);
        assert_eq!((context.tag(), context.slot(), context.sequence()), (7, CONTEXT_SLOT, 3));
        assert!(context.is_context());
        let none = ProcessTag::new(0);
        assert!(EventId::new(none, 0, 0, Kind::Group).get() != 0 && ContextId::new(none, 0).get() != 0, "NULL");
    }

    #[test]
    fn an_id_says_what_the_recorder_answered() {
        for own in [EventId::NONE, EventId::NOT_SELECTED] {
            let id = EventId::chained(7, Kind::Coll, own);
            assert_eq!((id.own(), id.kind(), id.tag()), (own, Kind::Coll, 0));
            assert_eq!(own.own(), own);
        }
        let recorded = EventId::new(ProcessTag::new(9), 3, 7, Kind::Coll).unrecorded();
        assert_eq!(recorded.own(), recorded);
    }
}
