//! Declares the fields of records: one declaration generates a structure, its encoding in the words of a journal
//! record, its decoding and its listing. A field is declared as `name: type [place] "label" style`. The place `[2 32]`
//! means bit 32 and up of the word with index 2; `[flag]` is the only bit that the record header has for the payload.
//! The label is the name in listings. The style is empty, `address` (a pointer or handle) or `rare` (0 if a release
//! does not report it). The type `S` stands for strings: borrowed from NCCL during recording, a number in a record, a
//! symbol after reading.
//!
//! A field of an event ([`event_kinds`]) also says what becomes of it in archives, which `timeline` writes:
//!
//! * `=> Attribute`: the attribute has its value; no attribute where NCCL gave no string.
//! * `=> Attribute [unless empty]`: the same, but no attribute if it is 0 or false.
//! * `=> Attribute… [by function(a, b)]`: a function of `AttributeWriter` writes what follows from these fields,
//!   `[by function]` what follows from the event.
//! * `=> hidden ["why"]`: it has no attribute.
//!
//! [`event_kinds`]: crate::event_kinds

use crate::event::Kind;
use crate::schema::attribute::{Attribute, AttributeId, Written};

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

        impl $name $(<$crate::event::declare::packed_number!($strings)>)? {
            /// Writes the fields into the words of a record and returns the flag of the record header.
            #[inline(always)]
            pub fn put(self, words: &mut [u64; $words]) -> bool {
                let _no_fields = &words;
                $($crate::event::declare::packed_put!(self.$field, words, $($place)+);)*
                false $(| $crate::event::declare::packed_flag!(self.$field, $($place)+))*
            }

            /// Reads the fields of a record. `None` if the words do not fit.
            #[inline(always)]
            pub fn take(flag: bool, words: &[$crate::event::declare::Word]) -> Option<Self> {
                let words: &[$crate::event::declare::Word; $words] = words.get(..$words)?.try_into().ok()?;
                let _no_fields = (flag, words);
                Some(Self { $($field: $crate::event::declare::packed_take!(flag, words, $($place)+),)* })
            }
        }

        $crate::event::declare::packed_listing! {
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
        $crate::event::declare::Field::put($value, $words, $at, $shift);
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
        $crate::event::declare::Field::take($words, $at, $shift)?
    };
}

pub(crate) use {packed, packed_flag, packed_number, packed_put, packed_take};

// Generates what covers all kinds (`Kind` and `Body`) from their declarations in `crate::event`.

macro_rules! events {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$strings:ident>)? = $number:literal since $table:ident, $words:literal words {$(
            $(#[$about:meta])* $field:ident: $type:tt [$($place:tt)+] $label:literal $($style:ident)?
                => $($attribute:ident)+ $([$($rule:tt)+])?,
        )*}
    )*) => {
        $($crate::event::declare::packed! {
            $(#[$meta])*
            #[derive(Default)]
            $name $(<$strings>)?, $words words {
                $($(#[$about])* $field: $type [$($place)+] $label $($style)?,)*
            }
        })*

        /// The fields of all kinds.
        pub const FIELDS: &[DeclaredField] = &[$($(DeclaredField {
            kind: Kind::$name,
            label: $label,
            style: $crate::event::declare::packed_style!($($style)?),
            attributes: $crate::event::declare::attributes!($field: $type => $($attribute)+ $([$($rule)+])?),
        },)*)*];

        /// The kinds of events, numbered by NCCL's bits: `1 << kind` is the event type in the activation mask.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$meta])* $name = $number,)*
        }

        impl Kind {
            /// Number of kinds, including [`Kind::Unknown`].
            pub const COUNT: usize = Self::ALL.len();

            /// All kinds, in ascending order.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$name),*];

            /// NCCL's name, without the prefix `ncclProfile`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The kind with this bit number in NCCL's activation mask; [`Kind::Unknown`] for all other bits.
            #[inline]
            pub const fn from_bit(bit: u32) -> Self {
                match bit {
                    $($number => Self::$name,)*
                    _ => Self::Unknown,
                }
            }

            /// The first table with this kind.
            pub const fn since(self) -> Table {
                match self {
                    $(Self::$name => Table::$table,)*
                }
            }

            /// Number of words in the payload of a start.
            pub const fn words(self) -> usize {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }

        /// The fields of an event, by kind. `S` is the type of strings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Body<S> {
            $($(#[$meta])* $name($name $(<$strings>)?),)*
        }

        impl<S: Copy> Body<S> {
            /// The kind of these fields.
            #[inline]
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$name(_) => Kind::$name,)*
                }
            }

            /// Passes on each field: its label, its style in listings, and its value.
            pub fn each(&self, mut field: impl FnMut(&'static str, Style, Value<S>)) {
                match *self {
                    $(Self::$name(fields) => fields.each(&mut field),)*
                }
            }
        }

        impl Start<Name<'_>> {
            /// Passes the words of this event's record to `sink`, and returns the sink's result.
            #[inline]
            pub fn encode(&self, sink: &mut impl StartSink) -> bool {
                match self.body {
                    $(Body::$name(fields) => {
                        let Some(fields) = $crate::event::declare::map_body!(fields, |name| Some(sink.name(name)) $(, $strings)?)
                        else {
                            return false;
                        };
                        let mut words = [0; $words];
                        self.put_head(&mut words);
                        let flag = fields.put(&mut words);
                        sink.put(Kind::$name, flag, words)
                    })*
                }
            }
        }

        impl<S: Copy> Start<S> {
            /// Reads the record of a start. `name` maps the number of a string to the string. `None` if the words do
            /// not fit the kind, or a string is unknown.
            #[inline]
            pub fn decode(
                kind: Kind,
                flag: bool,
                words: &[Word],
                name: impl Fn(u16) -> Option<S>,
            ) -> Option<Self> {
                let body = match kind {
                    $(Kind::$name => {
                        let fields = $name::take(flag, words)?;
                        Body::$name($crate::event::declare::map_body!(fields, &name $(, $strings)?)?)
                    })*
                };
                Self::with_head(words, body)
            }
        }
    };
}

macro_rules! attributes {
    ($field:ident: $type:tt => hidden [$why:literal]) => {
        &[]
    };
    ($field:ident: $type:tt => hidden) => {
        compile_error!(concat!("why is `", stringify!($field), "` hidden?"))
    };
    ($field:ident: $type:tt => $($attribute:ident)+ [by $function:ident $(($($of:ident),+))?]) => {
        &[$($crate::schema::attribute::AttributeId::$attribute),+]
    };
    ($field:ident: S => $attribute:ident) => {
        <$crate::schema::attribute::$attribute as $crate::event::declare::Carries<&'static str>>::ALONE
    };
    ($field:ident: $type:tt => $attribute:ident $([unless empty])?) => {
        <$crate::schema::attribute::$attribute as $crate::event::declare::Carries<$type>>::ALONE
    };
}

macro_rules! map_body {
    ($fields:ident, $name:expr) => {
        Some($fields)
    };
    ($fields:ident, $name:expr, $strings:ident) => {
        $fields.map_names($name)
    };
}

pub(crate) use {attributes, events, map_body};

/// A field of a kind of events, as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredField {
    /// The kind that has the field.
    pub kind: Kind,
    /// The name in listings.
    pub label: &'static str,
    /// How listings show it.
    pub style: Style,
    /// The attributes that it becomes in archives; none if it is hidden.
    pub attributes: &'static [AttributeId],
}

/// An attribute that can carry values of type `T`.
pub(crate) trait Carries<T>: Attribute {
    /// A list of only this attribute.
    const ALONE: &'static [AttributeId] = &[Self::ID];
}

impl<T: Into<Written<A, &'static str>>, A: Attribute> Carries<T> for A {}

/// How a listing shows a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The plain value.
    Plain,
    /// A pointer or handle, in hexadecimal; 0 is NULL.
    Address,
    /// Omitted if it is 0: only some releases report the field.
    Rare,
}

/// The value of a field. `S` is the type of strings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the type of the field")]
pub enum Value<S> {
    Unsigned(u64),
    Signed(i64),
    Flag(bool),
    Name(S),
    Text(&'static str),
    Net(NetData),
    Uuid([u8; 16]),
    Extent([u32; 3]),
    Version([u16; 2]),
}

macro_rules! values {
    ($($type:ty => $value:ident,)*) => {$(
        impl<S> From<$type> for Value<S> {
            fn from(value: $type) -> Self {
                Self::$value(value.into())
            }
        }
    )*};
}

values! {
    u8 => Unsigned,
    u16 => Unsigned,
    u32 => Unsigned,
    u64 => Unsigned,
    i32 => Signed,
    i64 => Signed,
    bool => Flag,
    NetData => Net,
    [u8; 16] => Uuid,
    [u32; 3] => Extent,
    [u16; 2] => Version,
}

macro_rules! packed_listing {
    ($name:ident <$strings:ident> { $($field:ident: $type:tt, $label:literal, [$($style:ident)?];)* }) => {
        impl<S: ::core::marker::Copy> $name<S> {
            /// The same fields with other strings; `None` if `name` maps one of them to `None`.
            #[inline(always)]
            pub fn map_names<T>(self, mut name: impl FnMut(S) -> Option<T>) -> Option<$name<T>> {
                Some($name { $($field: $crate::event::declare::packed_map!($type, self.$field, name),)* })
            }

            /// Passes on each field: its label, its style in listings, and its value.
            pub fn each(self, field: &mut impl FnMut(&'static str, $crate::event::declare::Style, $crate::event::declare::Value<S>)) {
                $(field(
                    $label,
                    $crate::event::declare::packed_style!($($style)?),
                    $crate::event::declare::packed_value!($type, self.$field),
                );)*
            }
        }
    };
    ($name:ident { $($field:ident: $type:tt, $label:literal, [$($style:ident)?];)* }) => {
        impl $name {
            /// Passes on each field: its label, its style in listings, and its value.
            pub fn each<S>(self, field: &mut impl FnMut(&'static str, $crate::event::declare::Style, $crate::event::declare::Value<S>)) {
                let _no_fields = &field;
                $(field(
                    $label,
                    $crate::event::declare::packed_style!($($style)?),
                    self.$field.into(),
                );)*
            }
        }
    };
}

macro_rules! packed_map {
    (S, $value:expr, $name:ident) => {
        $name($value)?
    };
    ($type:tt, $value:expr, $name:ident) => {
        $value
    };
}

macro_rules! packed_style {
    () => {
        $crate::event::declare::Style::Plain
    };
    (address) => {
        $crate::event::declare::Style::Address
    };
    (rare) => {
        $crate::event::declare::Style::Rare
    };
}

macro_rules! packed_value {
    (S, $value:expr) => {
        $crate::event::declare::Value::Name($value)
    };
    ($type:tt, $value:expr) => {
        $value.into()
    };
}

pub(crate) use {packed_listing, packed_map, packed_style, packed_value};

/// A network plugin's data about one of its events, by plugin id; copied in the callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of NCCL's net_ib and net_socket descriptors")]
pub enum NetData {
    /// An id whose layout is unknown, or NULL data: only the id is kept.
    #[default]
    Opaque,
    IbQueuePair {
        device: i32,
        work_request: u64,
        opcode: i32,
        queue_pair: i32,
        bytes: u64,
    },
    Socket {
        descriptor: i32,
        operation: i32,
        bytes: u64,
    },
}
