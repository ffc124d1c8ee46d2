//! The attributes of one event: kept in a list, or passed to libotf2 directly.

use std::ptr::NonNull;

use otf2_sys as sys;

use crate::error::{self, Error, Result, check, refused};
use crate::refs::AttributeRef;
use crate::value::AttributeValue;

/// Attributes for an event: a reusable list. Each attribute has one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    entries: Vec<(AttributeRef, AttributeValue)>,
    /// Bit n: attribute n has a value. Higher numbers are searched for in `entries`.
    has: u128,
}

impl Attributes {
    /// No attributes.
    pub const NONE: &'static Self = &Self::new();

    /// An empty list.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), has: 0 }
    }

    /// Clears the list but keeps its memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.has = 0;
    }

    /// The attributes in the order in which they were added.
    pub fn entries(&self) -> &[(AttributeRef, AttributeValue)] {
        &self.entries
    }

    /// Adds a value; an error if the attribute already has one.
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

    /// Whether an attribute without a bit in `has` can be added.
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

/// Attributes for a writer's next event, which consumes them. The faster way for attributes that are added one by one;
/// [`Attributes`] suit attributes that several events have in common.
#[derive(Debug)]
pub struct NextAttributes {
    list: NonNull<sys::OTF2_AttributeList>,
}

// SAFETY: the list is reachable only through this value, and libotf2 keeps none of it elsewhere.
unsafe impl Send for NextAttributes {}

impl NextAttributes {
    /// `None` if there is no memory.
    pub(super) fn new() -> Option<Self> {
        error::forget();
        // SAFETY: takes no arguments, returns a list or NULL.
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
        // SAFETY: the list is alive and nothing else uses it; `add` passes a value with its type.
        let code = unsafe { sys::OTF2_AttributeList_AddAttribute(list, attribute, attribute_type, value) };
        check(code, || format!("add attribute {attribute}"))
    }

    /// The list for libotf2, which clears it after writing an event.
    pub(super) fn as_ptr(&mut self) -> *mut sys::OTF2_AttributeList {
        self.list.as_ptr()
    }

    pub(super) fn clear(&mut self) {
        // SAFETY: the list is alive and nothing else uses it.
        unsafe { sys::OTF2_AttributeList_RemoveAllAttributes(self.list.as_ptr()) };
    }
}

impl Drop for NextAttributes {
    fn drop(&mut self) {
        // SAFETY: made in `new` and used only by this value.
        unsafe { sys::OTF2_AttributeList_Delete(self.list.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_value() {
        // Numbers with a bit in `has`, and larger ones.
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
