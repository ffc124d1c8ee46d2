//! Layout of fields in the words of a journal record: one declaration generates a structure, its encoding, its decoding
//! and its listing.
//!
//! A field is declared as `name: type [place] "label" style`. The place `[2 32]` means bit 32 and up of the word with
//! index 2; `[flag]` is the only bit that the record header has for the payload. The label is the name in listings.
//! The style is empty, `address` (a pointer or handle) or `rare` (0 if a release does not report it). The type `S`
//! stands for strings: borrowed from NCCL during recording, a number in a record, a symbol after reading.

/// A word as in the file, little-endian.
pub type Word = [u8; 8];

/// A type of fields.
pub trait Field: Copy {
    /// Writes the value into words whose bits are 0 at this place.
    fn put(self, words: &mut [u64], at: usize, shift: u32);

    /// Reads a value. `None` if the words end before the value, or its bits are no valid value.
    fn take(words: &[Word], at: usize, shift: u32) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ident as $bits:ident,)*) => {$(
        impl Field for $type {
            #[inline(always)]
            #[expect(clippy::allow_attributes, reason = "not every type needs it")]
            #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the bits are kept")]
            fn put(self, words: &mut [u64], at: usize, shift: u32) {
                if let Some(word) = words.get_mut(at) {
                    *word |= u64::from(self as $bits) << shift;
                }
            }

            #[inline(always)]
            #[expect(clippy::allow_attributes, reason = "not every type needs it")]
            #[allow(
                clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::unnecessary_cast,
                reason = "takes the bits of one field out of a word"
            )]
            fn take(words: &[Word], at: usize, shift: u32) -> Option<Self> {
                let word = u64::from_le_bytes(*words.get(at)?);
                Some((word >> shift) as $bits as $type)
            }
        }
    )*};
}

integers! {
    u8 as u8,
    u16 as u16,
    u32 as u32,
    u64 as u64,
    i32 as u32,
    i64 as u64,
}

/// Consecutive values, in this word and the following ones.
impl<T: Field + Default, const N: usize> Field for [T; N] {
    #[inline(always)]
    fn put(self, words: &mut [u64], at: usize, shift: u32) {
        for (value, (at, shift)) in self.into_iter().zip(places::<T>(at, shift)) {
            value.put(words, at, shift);
        }
    }

    #[inline(always)]
    fn take(words: &[Word], at: usize, shift: u32) -> Option<Self> {
        let mut values = [T::default(); N];
        for (value, (at, shift)) in values.iter_mut().zip(places::<T>(at, shift)) {
            *value = T::take(words, at, shift)?;
        }
        Some(values)
    }
}

/// The places of consecutive values of a type, starting at a place.
#[inline(always)]
fn places<T>(at: usize, shift: u32) -> impl Iterator<Item = (usize, u32)> {
    std::iter::successors(Some((at, shift)), |&(at, shift)| {
        let next = shift as usize + 8 * size_of::<T>();
        Some((at + next / 64, u32::try_from(next % 64).unwrap_or(0)))
    })
}

macro_rules! packed {
    (
        $(#[$meta:meta])*
        $name:ident $(<$strings:ident>)?, $words:literal words {
            $($(#[$about:meta])* $field:ident: $type:tt [$($place:tt)+] $label:literal $($style:ident)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $(<$strings>)? {
            $($(#[$about])* pub $field: $type,)*
        }

        impl $name $(<$crate::event::packed::packed_number!($strings)>)? {
            /// Writes the fields into the words of a record and returns the flag of the record header.
            #[inline(always)]
            pub fn put(self, words: &mut [u64; $words]) -> bool {
                let _no_fields = &words;
                $($crate::event::packed::packed_put!(self.$field, words, $($place)+);)*
                false $(| $crate::event::packed::packed_flag!(self.$field, $($place)+))*
            }

            /// Reads the fields of a record. `None` if the words do not fit.
            #[inline(always)]
            pub fn take(flag: bool, words: &[$crate::event::packed::Word]) -> Option<Self> {
                let words: &[$crate::event::packed::Word; $words] = words.get(..$words)?.try_into().ok()?;
                let _no_fields = (flag, words);
                Some(Self { $($field: $crate::event::packed::packed_take!(flag, words, $($place)+),)* })
            }
        }

        $crate::event::listing::packed_listing! {
            $name $(<$strings>)? { $($field: $type, $label, [$($style)?];)* }
        }
    };
}

macro_rules! packed_number {
    ($strings:ident) => {
        u16
    };
}

macro_rules! packed_put {
    ($value:expr, $words:ident, flag) => {};
    ($value:expr, $words:ident, $at:literal $shift:literal) => {
        $crate::event::packed::Field::put($value, $words, $at, $shift);
    };
}

macro_rules! packed_flag {
    ($value:expr, flag) => {
        $value
    };
    ($value:expr, $at:literal $shift:literal) => {
        false
    };
}

macro_rules! packed_take {
    ($flag:ident, $words:ident, flag) => {
        $flag
    };
    ($flag:ident, $words:ident, $at:literal $shift:literal) => {
        $crate::event::packed::Field::take($words, $at, $shift)?
    };
}

pub(crate) use {packed, packed_flag, packed_number, packed_put, packed_take};
