//! The numbers handed to NCCL as handles.
//!
//! NCCL stores whatever `startEvent` and `init` write, copies it around and never looks inside
//! (NCCL 2.30.7 `profiler.cc`). So a handle is a number, not a pointer: a parent that has already
//! stopped, a stop after `finalize`, or a handle that PXN carried here from another process are all
//! harmless, and a foreign process tag is how PXN is recognised.
//!
//! ```text
//!  63            48 47       36 35                                    0
//! ┌────────────────┬───────────┬───────────────────────────────────────┐
//! │ process tag    │ slot      │ sequence                              │
//! └────────────────┴───────────┴───────────────────────────────────────┘
//!   random, not 0    0…0xffe     1, 2, 3 … per slot       (EventId)
//!                    0xfff       1, 2, 3 … per process    (ContextId)
//! ```

/// Bits of the sequence number.
pub const SEQUENCE_BITS: u32 = 36;
/// Bits of the slot number.
pub const SLOT_BITS: u32 = 12;
/// The slot number that marks a [`ContextId`].
pub const CONTEXT_SLOT: u16 = 0xfff;
/// How many thread slots there are: every slot number below [`CONTEXT_SLOT`].
pub const SLOTS: u16 = CONTEXT_SLOT;

const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// Tells the processes of a job apart in the handles that NCCL passes between them. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessTag(u16);

impl ProcessTag {
    /// Makes a tag from random bits. Zero, which would allow a NULL handle, becomes one.
    #[must_use]
    pub const fn new(bits: u16) -> Self {
        Self(if bits == 0 { 1 } else { bits })
    }

    /// The tag as a number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

const fn pack(tag: ProcessTag, slot: u16, sequence: u64) -> u64 {
    ((tag.0 as u64) << (SEQUENCE_BITS + SLOT_BITS))
        | ((slot as u64 & 0xfff) << SEQUENCE_BITS)
        | (sequence & SEQUENCE_MASK)
}

macro_rules! parts {
    ($name:ident) => {
        impl $name {
            /// The handle as NCCL sees it. Never zero.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Takes a number that came from NCCL or from a journal as it is; it may be foreign or stale.
            #[must_use]
            pub const fn from_raw(raw: u64) -> Self {
                Self(raw)
            }

            /// The process that made this handle.
            #[must_use]
            pub const fn tag(self) -> u16 {
                (self.0 >> (SEQUENCE_BITS + SLOT_BITS)) as u16
            }

            /// The slot field.
            #[must_use]
            pub const fn slot(self) -> u16 {
                ((self.0 >> SEQUENCE_BITS) & 0xfff) as u16
            }

            /// The sequence field.
            #[must_use]
            pub const fn sequence(self) -> u64 {
                self.0 & SEQUENCE_MASK
            }
        }
    };
}

/// Names one started event. Zero means "none" where NCCL passes NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u64);

/// Names one `init`: a communicator of this process. Zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(u64);

parts!(EventId);
parts!(ContextId);

impl EventId {
    /// No event: NCCL's NULL.
    pub const NONE: Self = Self(0);

    /// The id of the `sequence`th event of a slot.
    #[must_use]
    pub const fn new(tag: ProcessTag, slot: u16, sequence: u64) -> Self {
        Self(pack(tag, slot, sequence))
    }

    /// Whether there is no event.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl ContextId {
    /// No context: NCCL's NULL.
    pub const NONE: Self = Self(0);

    /// The id of the `sequence`th `init` of a process.
    #[must_use]
    pub const fn new(tag: ProcessTag, sequence: u64) -> Self {
        Self(pack(tag, CONTEXT_SLOT, sequence))
    }

    /// Whether this can be a context at all.
    #[must_use]
    pub const fn is_context(self) -> bool {
        self.slot() == CONTEXT_SLOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let id = EventId::new(ProcessTag::new(0xbeef), 0xffe, (1 << 36) - 1);
        assert_eq!(
            (id.tag(), id.slot(), id.sequence()),
            (0xbeef, 0xffe, (1 << 36) - 1)
        );
        let context = ContextId::new(ProcessTag::new(7), 3);
        assert_eq!(
            (context.tag(), context.slot(), context.sequence()),
            (7, CONTEXT_SLOT, 3)
        );
        assert!(context.is_context());
    }

    #[test]
    fn no_handle_is_null() {
        assert_ne!(EventId::new(ProcessTag::new(0), 0, 0).get(), 0);
        assert_ne!(ContextId::new(ProcessTag::new(0), 0).get(), 0);
    }
}
