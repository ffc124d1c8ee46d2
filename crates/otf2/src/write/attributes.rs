//! The attributes of one event: in a list to keep, or given to libotf2 straight away.

use std::ptr::NonNull;

use otf2_sys as sys;

use crate::error::{self, Error, Result, check, refused};
use crate::refs::AttributeRef;
use crate::value::AttributeValue;

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
    pub const fn new() -> Self {
        Self { entries: Vec::new(), has: 0 }
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.has = 0;
    }

    /// What is in the list, in the order it was added.
    pub fn entries(&self) -> &[(AttributeRef, AttributeValue)] {
        &self.entries
    }

    /// Adds a value; an attribute has one.
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

/// Attributes for the next event of a writer, which takes them. Where they are known one by one this is the short way;
/// [`Attributes`] are for those that several events have.
#[derive(Debug)]
pub struct NextAttributes {
    list: NonNull<sys::OTF2_AttributeList>,
}

// SAFETY: the list is reachable through this value only, and libotf2 keeps nothing of it elsewhere.
unsafe impl Send for NextAttributes {}

impl NextAttributes {
    /// `None` without memory.
    pub(super) fn new() -> Option<Self> {
        error::forget();
        // SAFETY: takes nothing, returns a list or NULL.
        let list = unsafe { sys::OTF2_AttributeList_New() };
        Some(Self { list: NonNull::new(list)? })
    }

    /// Adds a value; an attribute has one.
    // Callers know the type of the value, so inlining removes the conversion's branches.
    #[inline(always)]
    pub fn add(&mut self, attribute: AttributeRef, value: AttributeValue) -> Result<()> {
        if !attribute.is_defined() {
            return Err(refused("add an attribute", "the reference is UNDEFINED"));
        }
        let attribute_type = value.attribute_type().raw();
        self.add_raw(attribute.get(), attribute_type, value.to_raw())
    }

    fn add_raw(
        &mut self,
        attribute: sys::OTF2_AttributeRef,
        attribute_type: sys::OTF2_Type,
        value: sys::OTF2_AttributeValue,
    ) -> Result<()> {
        let list = self.list.as_ptr();
        // SAFETY: the list is alive and nobody else uses it; `add` gives the value with the type that goes with it.
        let code = unsafe { sys::OTF2_AttributeList_AddAttribute(list, attribute, attribute_type, value) };
        check(code, || format!("add attribute {attribute}"))
    }

    /// For libotf2, which empties it when it has written an event.
    pub(super) fn as_ptr(&mut self) -> *mut sys::OTF2_AttributeList {
        self.list.as_ptr()
    }

    pub(super) fn clear(&mut self) {
        // SAFETY: the list is alive and nobody else uses it.
        unsafe { sys::OTF2_AttributeList_RemoveAllAttributes(self.list.as_ptr()) };
    }
}

impl Drop for NextAttributes {
    fn drop(&mut self) {
        // SAFETY: made in `new`, used only by this value.
        unsafe { sys::OTF2_AttributeList_Delete(self.list.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_value() {
        // Below and above the numbers that have a bit.
        for attribute in [1, 127, 128, 1 << 20].map(AttributeRef::new) {
            let mut attributes = Attributes::new();
            attributes.add(attribute, AttributeValue::U64(1)).expect("the first value is accepted");
            attributes.add(attribute, AttributeValue::U8(2)).expect_err("the second value is refused");
            attributes.add(AttributeRef::UNDEFINED, AttributeValue::U8(2)).expect_err("undefined");
            assert_eq!(attributes.entries(), [(attribute, AttributeValue::U64(1))]);
            attributes.clear();
            attributes.add(attribute, AttributeValue::U8(2)).expect("an empty list has no value");
        }
    }
}
