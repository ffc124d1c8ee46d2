//! A table that stores each column contiguously: code that needs two of twelve columns reads only two.

use std::collections::BTreeMap;
use std::ops::Index;

/// Declares a table, its rows, and conversions. `as` names the type that stores a column's values, `=>` the column's.
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident of $row:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty $(as $kept:ty)? $(=> $column:ty)?,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $row { $($(#[$field_doc])* pub $field: $type,)* }

        #[doc = concat!("The columns of [`", stringify!($row), "`].")]
        #[derive(Clone, Debug, Default)]
        pub struct $table {
            $($(#[$field_doc])* pub $field: $crate::read::columns::kept!($type $(as $kept)? $(=> $column)?),)*
        }

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
                $row { $($field: $crate::read::columns::Column::at(&self.$field, at),)* }
            }

            pub fn rows(&self) -> impl Iterator<Item = $row> + '_ {
                (0..self.len()).map(|at| self.row(at))
            }

            /// Reserves memory for rows, because growing columns fragment the heap.
            pub(crate) fn reserve(&mut self, count: usize) {
                $($crate::read::columns::Column::<$type>::reserve(&mut self.$field, count);)*
            }

            pub(crate) fn append(&mut self, other: Self) {
                $($crate::read::columns::Column::<$type>::append(&mut self.$field, &other.$field);)*
            }
        }
    };
}

macro_rules! kept {
    ($type:ty) => {
        Vec<$type>
    };
    ($type:ty as $kept:ty) => {
        Vec<$kept>
    };
    ($type:ty => $column:ty) => {
        $column
    };
}

pub(crate) use {columns, kept};

/// The values of a column, of type `T`.
pub(crate) trait Column<T> {
    fn at(&self, at: usize) -> T;
    fn append(&mut self, other: &Self);
    fn reserve(&mut self, _count: usize) {}
}

impl<T, K: Copy + Into<T>> Column<T> for Vec<K> {
    fn at(&self, at: usize) -> T {
        self[at].into()
    }

    fn append(&mut self, other: &Self) {
        self.extend_from_slice(other);
    }

    fn reserve(&mut self, count: usize) {
        self.reserve_exact(count);
    }
}

/// A column that stores a single value as long as all values are equal. Few jobs use every column.
#[derive(Clone, Debug, Default)]
pub struct ConstantColumn<T> {
    value: T,
    len: usize,
    /// Empty while all are `value`.
    all: Vec<T>,
}

impl<T: Copy + PartialEq> ConstantColumn<T> {
    pub const fn len(&self) -> usize {
        self.len
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|at| &self[at])
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.len == 0 {
            self.value = value;
        } else if self.all.is_empty() && value != self.value {
            self.all = vec![self.value; self.len];
        }
        if !self.all.is_empty() {
            self.all.push(value);
        }
        self.len += 1;
    }
}

impl<T> Index<usize> for ConstantColumn<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        if self.all.is_empty() { &self.value } else { &self.all[at] }
    }
}

impl<T: Copy + PartialEq> Column<T> for ConstantColumn<T> {
    fn at(&self, at: usize) -> T {
        self[at]
    }

    fn append(&mut self, other: &Self) {
        other.iter().for_each(|value| self.push(*value));
    }
}

/// A column that stores four bytes per value as long as nearly all values fit.
#[derive(Clone, Debug)]
pub enum NarrowColumn {
    /// Values, and larger values keyed by row. A `u32::MAX` whose row is not a key means `u64::MAX`, no value.
    Short(Vec<u32>, BTreeMap<usize, u64>),
    Long(Vec<u64>),
}

impl Default for NarrowColumn {
    fn default() -> Self {
        Self::Short(Vec::new(), BTreeMap::new())
    }
}

impl NarrowColumn {
    /// At most one value in this many may need more than four bytes.
    const RARE: usize = 16;

    pub const fn len(&self) -> usize {
        match self {
            Self::Short(all, _) => all.len(),
            Self::Long(all) => all.len(),
        }
    }

    /// The value of a row.
    pub fn get(&self, at: usize) -> u64 {
        match self {
            Self::Short(all, beyond) if all[at] == u32::MAX => beyond.get(&at).copied().unwrap_or(u64::MAX),
            Self::Short(all, _) => all[at].into(),
            Self::Long(all) => all[at],
        }
    }

    pub(crate) fn push(&mut self, value: u64) {
        match self {
            Self::Short(all, beyond) => {
                let short = u32::try_from(value).unwrap_or(u32::MAX);
                if short == u32::MAX && value != u64::MAX {
                    beyond.insert(all.len(), value);
                }
                all.push(short);
                if beyond.len() > Self::RARE + all.len() / Self::RARE {
                    *self = Self::Long((0..all.len()).map(|at| self.get(at)).collect());
                }
            }
            Self::Long(all) => all.push(value),
        }
    }
}

impl Column<u64> for NarrowColumn {
    fn at(&self, at: usize) -> u64 {
        self.get(at)
    }

    fn append(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Short(all, _), Self::Short(others, beyond)) if beyond.is_empty() => all.extend_from_slice(others),
            _ => (0..other.len()).for_each(|at| self.push(other.get(at))),
        }
    }

    fn reserve(&mut self, count: usize) {
        match self {
            Self::Short(all, _) => all.reserve_exact(count),
            Self::Long(all) => all.reserve_exact(count),
        }
    }
}

/// A column for values that differ little from their neighbours, such as event ids of a thread: four bytes per value.
#[derive(Clone, Debug, Default)]
pub struct DeltaColumn {
    /// The first value of each block, or where the block begins in `far`.
    blocks: Vec<u64>,
    /// By how much values differ from the first of their block, plus [`DeltaColumn::MIDDLE`]; all 0 for a block in
    /// `far`.
    offsets: Vec<u32>,
    far: Vec<u64>,
}

impl DeltaColumn {
    const BLOCK: usize = 16;
    const MIDDLE: u32 = 1 << 31;

    pub const fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The value of a row.
    pub fn get(&self, at: usize) -> u64 {
        let (block, offset) = (self.blocks[at / Self::BLOCK], self.offsets[at]);
        if self.is_far(at) {
            self.far[usize::try_from(block).unwrap_or(usize::MAX) + at % Self::BLOCK]
        } else {
            block.wrapping_add(offset.into()).wrapping_sub(Self::MIDDLE.into())
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map(|at| self.get(at))
    }

    fn is_far(&self, at: usize) -> bool {
        self.offsets[at - at % Self::BLOCK] == 0
    }

    pub(crate) fn push(&mut self, value: u64) {
        let at = self.len();
        if at.is_multiple_of(Self::BLOCK) {
            self.blocks.push(value);
            self.offsets.push(Self::MIDDLE);
            return;
        }
        let block = self.blocks[at / Self::BLOCK];
        let offset = u32::try_from(value.wrapping_sub(block).wrapping_add(Self::MIDDLE.into()));
        match offset {
            Ok(offset) if !self.is_far(at) => return self.offsets.push(offset),
            _ if self.is_far(at) => {}
            _ => {
                let first = at - at % Self::BLOCK;
                let values: Vec<u64> = (first..at).map(|at| self.get(at)).collect();
                self.blocks[at / Self::BLOCK] = self.far.len() as u64;
                self.offsets[first..].fill(0);
                self.far.extend(values);
            }
        }
        self.far.push(value);
        self.offsets.push(0);
    }
}

impl Column<u64> for DeltaColumn {
    fn at(&self, at: usize) -> u64 {
        self.get(at)
    }

    fn append(&mut self, other: &Self) {
        other.iter().for_each(|value| self.push(value));
    }

    fn reserve(&mut self, count: usize) {
        self.blocks.reserve_exact(count / Self::BLOCK + 1);
        self.offsets.reserve_exact(count);
    }
}

/// A number in four bytes: exact below 2³¹ (two seconds in ns), beyond that to 2¹⁶ (66 µs), up to 2⁴⁷ (39 hours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortNumber(u32);

impl ShortNumber {
    const IS_LARGE: u32 = 1 << 31;
    const UNIT: u64 = 1 << 16;
}

impl From<u64> for ShortNumber {
    fn from(number: u64) -> Self {
        let fitting = |number: u64| u32::try_from(number).ok().filter(|narrow| *narrow < Self::IS_LARGE);
        let in_units = || fitting(number / Self::UNIT).unwrap_or(Self::IS_LARGE - 1) | Self::IS_LARGE;
        Self(fitting(number).unwrap_or_else(in_units))
    }
}

impl From<ShortNumber> for u64 {
    fn from(ShortNumber(bits): ShortNumber) -> Self {
        let number = Self::from(bits & !ShortNumber::IS_LARGE);
        if bits & ShortNumber::IS_LARGE == 0 { number } else { number * ShortNumber::UNIT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_give_back_what_they_were_given() {
        let values = [7, 7, u64::MAX, 0xffff_fffe, 0xffff_ffff, 1 << 40];
        let values = [&values[..], &[1 << 50; 40]].concat();
        for count in 0..=values.len() {
            let (mut same, mut narrow, mut near) =
                (ConstantColumn::default(), NarrowColumn::default(), DeltaColumn::default());
            values[..count].iter().for_each(|value| near.push(*value));
            near.append(&near.clone());
            values[..count].iter().for_each(|value| same.push(*value));
            values[..count].iter().for_each(|value| narrow.push(*value));
            let (twice, again) = ((same.clone(), same), (narrow.clone(), narrow));
            let (mut same, mut narrow) = (twice.0, again.0);
            same.append(&twice.1);
            narrow.append(&again.1);
            let wanted = [&values[..count], &values[..count]].concat();
            assert_eq!(same.iter().copied().collect::<Vec<u64>>(), wanted);
            assert_eq!(near.iter().collect::<Vec<u64>>(), wanted);
            assert_eq!((0..narrow.len()).map(|at| narrow.get(at)).collect::<Vec<u64>>(), wanted);
        }
    }

    #[test]
    fn a_short_number_is_exact_for_two_seconds_and_then_to_66_microseconds() {
        let kept = |ns: u64| u64::from(ShortNumber::from(ns));
        assert_eq!([kept((1 << 31) - 1), kept(u64::MAX)], [(1 << 31) - 1, ((1 << 31) - 1) << 16]);
        let long_ns = (1 << 31) + 65_535;
        assert!((long_ns - 65_535..=long_ns).contains(&kept(long_ns)));
    }
}
