//! The attributes of one event.

use crate::error::{Error, Result, refused};
use crate::{AttributeRef, AttributeValue, StringRef};

/// Attributes for an event: a list to fill, write, clear and fill again. An attribute has one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    entries: Vec<(AttributeRef, AttributeValue)>,
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
    pub fn entries(&self) -> &[(AttributeRef, AttributeValue)] {
        &self.entries
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// When the attribute is undefined or has a value already.
    #[inline]
    pub fn add(&mut self, attribute: AttributeRef, value: AttributeValue) -> Result<()> {
        let bit = 1_u128.checked_shl(attribute.get()).unwrap_or(0);
        if self.has & bit != 0 || bit == 0 && !self.is_free(attribute) {
            return Err(cannot_be_added(attribute));
        }
        self.has |= bit;
        self.entries.push((attribute, value));
        Ok(())
    }

    /// Whether an attribute without a bit can be added.
    fn is_free(&self, attribute: AttributeRef) -> bool {
        let mut listed = self.entries.iter().map(|(listed, _)| *listed);
        attribute.is_defined() && !listed.any(|listed| listed == attribute)
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
