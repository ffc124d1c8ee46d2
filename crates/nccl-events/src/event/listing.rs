//! Listings of fields.

use super::net::NetData;

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
                Some($name { $($field: $crate::event::listing::packed_map!($type, self.$field, name),)* })
            }

            /// Passes on each field: its label, its style in listings, and its value.
            pub fn each(self, field: &mut impl FnMut(&'static str, $crate::event::listing::Style, $crate::event::listing::Value<S>)) {
                $(field(
                    $label,
                    $crate::event::listing::packed_style!($($style)?),
                    $crate::event::listing::packed_value!($type, self.$field),
                );)*
            }
        }
    };
    ($name:ident { $($field:ident: $type:tt, $label:literal, [$($style:ident)?];)* }) => {
        impl $name {
            /// Passes on each field: its label, its style in listings, and its value.
            pub fn each<S>(self, field: &mut impl FnMut(&'static str, $crate::event::listing::Style, $crate::event::listing::Value<S>)) {
                let _no_fields = &field;
                $(field(
                    $label,
                    $crate::event::listing::packed_style!($($style)?),
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
        $crate::event::listing::Style::Plain
    };
    (address) => {
        $crate::event::listing::Style::Address
    };
    (rare) => {
        $crate::event::listing::Style::Rare
    };
}

macro_rules! packed_value {
    (S, $value:expr) => {
        $crate::event::listing::Value::Name($value)
    };
    ($type:tt, $value:expr) => {
        $value.into()
    };
}

pub(crate) use {packed_listing, packed_map, packed_style, packed_value};
