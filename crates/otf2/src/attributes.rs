//! The attributes of one event.

use std::fmt;

use otf2_sys as sys;

use crate::error::{Error, Result, refused};
use crate::{AttributeRef, AttributeValue, StringRef};

/// Attributes for an event: a list to fill, write, clear and fill again. An attribute has one value.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    entries: Vec<Entry>,
    /// Bit n: attribute n has a value. Those with higher numbers are looked for.
    has: u128,
}

impl Attributes {
    /// No attributes.
    pub const NONE: &'static Self = &Self::new();

    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            has: 0,
        }
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.has = 0;
    }

    /// What is in the list, in the order it was added.
    #[must_use]
    pub fn entries(&self) -> Vec<(AttributeRef, AttributeValue)> {
        self.entries.iter().map(Entry::shown).collect()
    }

    /// The same as libotf2 takes it.
    #[inline]
    pub(crate) fn raw_entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// When the attribute is undefined or has a value already.
    #[inline]
    pub fn add(&mut self, attribute: AttributeRef, value: AttributeValue) -> Result<()> {
        // Here and not in `push`: all of it is known where it is called.
        let bit = 1_u128.checked_shl(attribute.get()).unwrap_or(0);
        if self.push(bit, Entry::new(attribute, value)) {
            Ok(())
        } else {
            Err(cannot_be_added(attribute))
        }
    }

    /// Adds what has this bit, if it can be.
    fn push(&mut self, bit: u128, entry: Entry) -> bool {
        let can_be = self.has & bit == 0 && (bit != 0 || self.is_free(entry.attribute));
        if can_be {
            self.has |= bit;
            self.entries.push(entry);
        }
        can_be
    }

    /// Whether an attribute without a bit can be added.
    #[cold]
    fn is_free(&self, attribute: sys::OTF2_AttributeRef) -> bool {
        let mut listed = self.entries.iter().map(|entry| entry.attribute);
        AttributeRef::new(attribute).is_defined() && !listed.any(|listed| listed == attribute)
    }

    /// Adds an 8-bit unsigned value.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_u8(&mut self, attribute: AttributeRef, value: u8) -> Result<()> {
        self.add(attribute, AttributeValue::U8(value))
    }

    /// Adds a 32-bit unsigned value.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_u32(&mut self, attribute: AttributeRef, value: u32) -> Result<()> {
        self.add(attribute, AttributeValue::U32(value))
    }

    /// Adds a 32-bit signed value.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_i32(&mut self, attribute: AttributeRef, value: i32) -> Result<()> {
        self.add(attribute, AttributeValue::I32(value))
    }

    /// Adds a 64-bit unsigned value.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_u64(&mut self, attribute: AttributeRef, value: u64) -> Result<()> {
        self.add(attribute, AttributeValue::U64(value))
    }

    /// Adds a 64-bit signed value.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_i64(&mut self, attribute: AttributeRef, value: i64) -> Result<()> {
        self.add(attribute, AttributeValue::I64(value))
    }

    /// Adds a 64-bit floating point value.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_f64(&mut self, attribute: AttributeRef, value: f64) -> Result<()> {
        self.add(attribute, AttributeValue::F64(value))
    }

    /// Adds a string of the archive.
    ///
    /// # Errors
    ///
    /// As [`Attributes::add`].
    pub fn add_string(&mut self, attribute: AttributeRef, value: StringRef) -> Result<()> {
        self.add(attribute, AttributeValue::String(value))
    }
}

/// An attribute with its value, as libotf2 takes it: what type it has is known where it is added, and would have to be found
/// out again where it is written.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) attribute: sys::OTF2_AttributeRef,
    pub(crate) attribute_type: sys::OTF2_Type,
    pub(crate) value: sys::OTF2_AttributeValue,
}

impl Entry {
    #[inline]
    pub(crate) fn new(attribute: AttributeRef, value: AttributeValue) -> Self {
        Self {
            attribute: attribute.get(),
            attribute_type: value.attribute_type().raw(),
            value: value.to_raw(),
        }
    }

    fn shown(&self) -> (AttributeRef, AttributeValue) {
        let value = AttributeValue::from_raw(self.attribute_type, self.value);
        (AttributeRef::new(self.attribute), value)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(formatter)
    }
}

#[cold]
fn cannot_be_added(attribute: AttributeRef) -> Error {
    let reason = if attribute.is_defined() {
        format!("{attribute:?} has a value already")
    } else {
        "the attribute reference is UNDEFINED".to_owned()
    };
    refused("add an attribute", reason)
}

impl<const N: usize> TryFrom<[(AttributeRef, AttributeValue); N]> for Attributes {
    type Error = Error;

    fn try_from(entries: [(AttributeRef, AttributeValue); N]) -> Result<Self> {
        let mut attributes = Self::new();
        for (attribute, value) in entries {
            attributes.add(attribute, value)?;
        }
        Ok(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_value() {
        // Below and above the numbers that have a bit.
        for number in [1, 127, 128, 1 << 20] {
            has_one_value(AttributeRef::new(number));
        }
    }

    fn has_one_value(attribute: AttributeRef) {
        let mut attributes = Attributes::new();
        attributes
            .add_u64(attribute, 1)
            .expect("the first value is accepted");
        attributes
            .add_u8(attribute, 2)
            .expect_err("the second value is refused");
        attributes
            .add_u8(AttributeRef::UNDEFINED, 2)
            .expect_err("an undefined attribute is refused");
        assert_eq!(attributes.entries(), [(attribute, AttributeValue::U64(1))]);
        attributes.clear();
        attributes
            .add_u8(attribute, 2)
            .expect("an empty list has no value");
    }
}
