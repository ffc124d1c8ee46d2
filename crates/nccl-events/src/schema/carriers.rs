//! How Rust values are represented in archives: OTF2's types and values, and a carrier for each kind of value.

use crate::archive::{LocationKind, Timing};
use crate::schema::attribute::Anchor;

/// A type of OTF2 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Unsigned 8-bit integer, used for flags.
    U8,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Double-precision floating-point number.
    F64,
    /// Reference to a string.
    String,
    /// Reference to a location.
    Location,
    /// Reference to a communicator.
    Comm,
}

/// A value in OTF2. `S` is the type of texts: a reference, or the text itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<S> {
    /// [`Type::U8`].
    U8(u8),
    /// [`Type::U32`].
    U32(u32),
    /// [`Type::U64`].
    U64(u64),
    /// [`Type::I32`].
    I32(i32),
    /// [`Type::I64`].
    I64(i64),
    /// [`Type::F64`].
    F64(f64),
    /// [`Type::String`].
    String(S),
    /// [`Type::Location`], by the location's number.
    Location(u64),
    /// [`Type::Comm`], by the communicator's number.
    Comm(u32),
}

impl<S> Value<S> {
    /// The value as an unsigned integer, from any width: Score-P's bridge writes U64 where archives have I32 or U8.
    fn whole(self) -> Option<u64> {
        match self {
            Self::U8(number) => Some(number.into()),
            Self::U32(number) => Some(number.into()),
            Self::U64(number) => Some(number),
            Self::I32(number) => u64::try_from(number).ok(),
            Self::I64(number) => u64::try_from(number).ok(),
            Self::F64(_) | Self::String(_) | Self::Location(_) | Self::Comm(_) => None,
        }
    }

    /// Replaces the text of the value, if it has one.
    pub fn map<T>(self, text: impl FnOnce(S) -> T) -> Value<T> {
        match self {
            Self::U8(number) => Value::U8(number),
            Self::U32(number) => Value::U32(number),
            Self::U64(number) => Value::U64(number),
            Self::I32(number) => Value::I32(number),
            Self::I64(number) => Value::I64(number),
            Self::F64(number) => Value::F64(number),
            Self::String(content) => Value::String(text(content)),
            Self::Location(number) => Value::Location(number),
            Self::Comm(number) => Value::Comm(number),
        }
    }
}

/// The representation of a Rust value in an archive. `S` is the type of texts.
pub trait Carrier {
    /// The type in the archive.
    const TYPE: Type;
    /// The type that is written.
    type Written<S>;
    /// The type that is read.
    type Parsed<S>;
    /// Converts to the value in the archive.
    fn put<S>(value: Self::Written<S>) -> Value<S>;
    /// Converts from a value of any suitable type; `None` for other types. `text` resolves a text.
    fn take<R, S>(value: Value<R>, text: impl FnOnce(R) -> Option<S>) -> Option<Self::Parsed<S>>
    where
        S: AsRef<str>;
}

macro_rules! carriers {
    ($($(#[doc = $doc:literal])+
        $name:ident $type:ident $written:ty, $parsed:ty: |$put:ident| $make:expr, |$value:ident, $text:ident| $take:expr;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub enum $name {}

        impl Carrier for $name {
            const TYPE: Type = Type::$type;
            type Written<S> = $written;
            type Parsed<S> = $parsed;

            #[inline]
            fn put<S>($put: $written) -> Value<S> {
                Value::$type($make)
            }

            #[inline]
            fn take<R, S: AsRef<str>>($value: Value<R>, $text: impl FnOnce(R) -> Option<S>) -> Option<$parsed> {
                $take
            }
        }
    )+};
}

carriers! {
    /// An unsigned 64-bit integer.
    Number U64 u64, u64: |number| number, |value, _text| value.whole();
    /// An unsigned 32-bit integer.
    Small U32 u32, u32: |number| number, |value, _text| value.whole()?.try_into().ok();
    /// A signed 32-bit integer.
    Signed I32 i32, i32: |number| number, |value, _text| match value {
        Value::I32(number) => Some(number),
        other => other.whole()?.try_into().ok(),
    };
    /// A signed 64-bit integer.
    Long I64 i64, i64: |number| number, |value, _text| match value {
        Value::I64(number) => Some(number),
        _ => None,
    };
    /// A communicator, by its number.
    CommNumber Comm u32, u32: |number| number, |value, _text| match value {
        Value::Comm(number) => Some(number),
        _ => None,
    };
    /// A rank. NCCL uses a negative number for no rank.
    Rank I32 i32, u32: |rank| rank, |value, _text| value.whole()?.try_into().ok();
    /// A boolean.
    Flag U8 bool, bool: |is_so| is_so.into(), |value, _text| Some(value.whole()? != 0);
    /// A finite floating-point number.
    Fraction F64 f64, f64: |number| number, |value, _text| match value {
        Value::F64(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    };
    /// A text.
    Word String S, S: |text| text, |value, text| match value {
        Value::String(reference) => text(reference),
        _ => None,
    };
    /// The name of a [`Timing`].
    MeasuredBy String S, Timing: |text| text, |value, text| match value {
        Value::String(reference) => Timing::parse(text(reference)?.as_ref()),
        _ => None,
    };
    /// The name of a [`LocationKind`].
    KindOfLocation String S, LocationKind: |text| text, |value, text| match value {
        Value::String(reference) => LocationKind::parse(text(reference)?.as_ref()),
        _ => None,
    };
    /// [`Anchor`]s.
    Anchors String S, Vec<Anchor>: |text| text, |value, text| match value {
        Value::String(reference) => Anchor::parse(text(reference)?.as_ref()),
        _ => None,
    };
}
