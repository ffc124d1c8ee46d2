//! Ranges: what the program, a library or NCCL itself says through NVTX that a thread does, and what the recorder
//! counts about them.
//!
//! `N` is a string: a string of the recorder when recording, a symbol of the journal when reading.

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $field:ident = $number:literal, $name:literal;)+) => {
        /// What a number of a range means. The numbers are those in the journal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum RangeField {
            $($(#[doc = $doc])+ $field = $number,)+
        }

        impl RangeField {
            /// The field with this number in the journal.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$field),)+
                    _ => None,
                }
            }

            /// The name in listings.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)+
                }
            }
        }
    };
}

fields! {
    /// The number that was taken out of the name: 17 of "step 17", whose name is "step #".
    Number = 1, "number";
    /// The number of the category in its domain.
    Category = 2, "category";
    /// The color as ARGB.
    Color = 3, "color";
    /// The payload, an unsigned integer.
    Unsigned = 4, "payload";
    /// The payload, a signed integer.
    Signed = 5, "payload";
    /// The payload, the bits of an `f64`.
    Float = 6, "payload";
    /// NCCL's id of the communicator.
    CommId = 7, "commId";
    /// NCCL's id of the communicator that this one was split from, or that it extends.
    ParentCommId = 8, "parentCommId";
    /// Number of ranks.
    Ranks = 9, "ranks";
    /// This rank in the communicator.
    Rank = 10, "rank";
    /// CUDA's ordinal of the device.
    Device = 11, "device";
    /// Size of the message in bytes.
    Bytes = 12, "bytes";
    /// The root's rank.
    Root = 13, "root";
    /// The peer's rank.
    Peer = 14, "peer";
    /// `ncclRedOp_t`.
    Reduction = 15, "op";
    /// The color of `ncclCommSplit`.
    SplitColor = 16, "splitColor";
    /// The key of `ncclCommSplit`.
    SplitKey = 17, "splitKey";
}

/// The numbers of a range. Further ones than [`Self::MOST`] are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeFields {
    count: u8,
    kinds: [u8; Self::MOST],
    values: [u64; Self::MOST],
}

impl RangeFields {
    /// The most numbers of a range.
    pub const MOST: usize = 8;

    /// Adds a number, of at most 64 bits; a signed one sign-extended.
    #[inline]
    pub fn add(&mut self, field: RangeField, value: u64) {
        let at = usize::from(self.count);
        if let (Some(kind), Some(place)) = (self.kinds.get_mut(at), self.values.get_mut(at)) {
            *kind = field as u8;
            *place = value;
            self.count += 1;
        }
    }

    /// The number that a range has for a field.
    pub fn get(&self, field: RangeField) -> Option<u64> {
        self.iter().find(|(of, _)| *of == field).map(|(_, value)| value)
    }

    /// The numbers of a range, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (RangeField, u64)> {
        let pairs = self.kinds.into_iter().zip(self.values).take(self.count.into());
        pairs.filter_map(|(kind, value)| Some((RangeField::from_number(kind)?, value)))
    }

    /// Adds the numbers of `later`, unless a field has one already.
    pub fn complete(&mut self, later: &Self) {
        for (field, value) in later.iter() {
            if self.get(field).is_none() {
                self.add(field, value);
            }
        }
    }

    /// Number, kinds (a byte for each, the first in the lowest bits) and values, as in the journal.
    #[inline]
    pub fn words(&self) -> (usize, u64, &[u64; Self::MOST]) {
        (self.count.into(), u64::from_le_bytes(self.kinds), &self.values)
    }

    /// The inverse of [`Self::words`]. `None` if a kind is unknown.
    pub fn from_words(kinds: u64, values: impl Iterator<Item = u64>) -> Option<Self> {
        let mut fields = Self::default();
        let kinds = kinds.to_le_bytes().into_iter().take_while(|kind| *kind != 0);
        for (kind, value) in kinds.zip(values) {
            fields.add(RangeField::from_number(kind)?, value);
        }
        Some(fields)
    }
}

/// A range or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<N> {
    /// The domain, `NCCL` for NCCL's own; none for NVTX's default domain.
    pub domain: N,
    /// The name, with `#` in place of a number that changes.
    pub name: N,
    /// The name of the category; often absent.
    pub category: N,
    /// What else is known about it.
    pub fields: RangeFields,
}

/// The domain of NCCL's own ranges.
pub const NCCL_DOMAIN: &str = "NCCL";

/// The most levels of pushed ranges of a thread that are recorded.
pub const MOST_LEVELS: u16 = 128;

/// A record about ranges. Each variant defines the meaning of the record's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRecord<N> {
    /// The thread pushed a range. `level` counts the ranges of all domains that were open around it on this thread.
    /// The record's ticks are those of the push. No id.
    Push {
        /// The zero-based level.
        level: u16,
        /// Whether the record repeats a push that precedes the recording, or whose record may have been removed.
        is_repeated: bool,
        /// The range.
        range: Range<N>,
    },
    /// The thread popped the range at this level. No id.
    Pop {
        /// The level of the range's push.
        level: u16,
        /// What became known only at the end.
        fields: RangeFields,
    },
    /// A moment was marked. No id.
    Mark(Range<N>),
    /// A range began that any thread can end. The id is the range's. `is_repeated` is as for a push.
    Start {
        /// Whether the record repeats an earlier one.
        is_repeated: bool,
        /// The range.
        range: Range<N>,
    },
    /// The range with the record's id ended.
    End {
        /// What became known only at the end.
        fields: RangeFields,
    },
    /// What the process could not record as it came: running totals, final in its last such record. No id.
    Counts([u64; RangeCount::COUNT]),
}

/// What the recorder counts about ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RangeCount {
    /// Ranges and marks under the name `(other names)`, because the process had too many names.
    OtherNames = 0,
    /// Pushes deeper than [`MOST_LEVELS`], which are not recorded.
    TooDeep = 1,
    /// Pops of a domain without an open range on the thread, which are ignored.
    UnbalancedPops = 2,
    /// Ranges and marks that a thread could not record: no room, or no slot.
    Lost = 3,
}

impl RangeCount {
    /// Number of counts.
    pub const COUNT: usize = 4;
    /// All counts, in the order of the journal.
    pub const ALL: [Self; Self::COUNT] = [Self::OtherNames, Self::TooDeep, Self::UnbalancedPops, Self::Lost];
}
