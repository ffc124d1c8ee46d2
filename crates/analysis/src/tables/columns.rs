//! A table that stores each column contiguously: code that needs two of twelve columns reads only two.

/// Declares a table, its row type, and conversions between them. `as` names the type that stores a column.
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident of $row:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty $(as $kept:ty)?,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $row { $($(#[$field_doc])* pub $field: $type,)* }

        #[doc = concat!("The columns of [`", stringify!($row), "`].")]
        #[derive(Clone, Debug, Default)]
        pub struct $table { $($(#[$field_doc])* pub $field: Vec<$crate::tables::columns::kept!($type $(, $kept)?)>,)* }

        #[expect(clippy::allow_attributes, reason = "not every table uses every method")]
        #[allow(dead_code, reason = "not every table uses every method")]
        impl $table {
            pub fn len(&self) -> usize {
                [$(self.$field.len()),*].first().copied().unwrap_or(0)
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            pub(crate) fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field.into());)*
            }

            pub fn row(&self, at: usize) -> $row {
                $row { $($field: self.$field[at].into(),)* }
            }

            pub fn rows(&self) -> impl Iterator<Item = $row> + '_ {
                (0..self.len()).map(|at| self.row(at))
            }

            pub(crate) fn append(&mut self, other: Self) {
                $(self.$field.extend_from_slice(&other.$field);)*
            }
        }
    };
}

macro_rules! kept {
    ($type:ty) => {
        $type
    };
    ($type:ty, $kept:ty) => {
        $kept
    };
}

pub(crate) use {columns, kept};

/// A number in four bytes: exact below 2³¹ (two seconds in ns), beyond that to 2¹⁶ (66 µs), up to 2⁴⁷ (39 hours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Short(u32);

impl Short {
    const IS_LARGE: u32 = 1 << 31;
    const UNIT: u64 = 1 << 16;
}

impl From<u64> for Short {
    fn from(number: u64) -> Self {
        let fitting = |number: u64| u32::try_from(number).ok().filter(|it| *it < Self::IS_LARGE);
        let in_units = || fitting(number / Self::UNIT).unwrap_or(Self::IS_LARGE - 1) | Self::IS_LARGE;
        Self(fitting(number).unwrap_or_else(in_units))
    }
}

impl From<Short> for u64 {
    fn from(Short(bits): Short) -> Self {
        let number = Self::from(bits & !Short::IS_LARGE);
        if bits & Short::IS_LARGE == 0 { number } else { number * Short::UNIT }
    }
}
