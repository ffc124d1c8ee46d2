//! The attributes of the event that is written next.

use std::ptr::NonNull;

use otf2_sys as sys;

use crate::error::{self, Result, check, refused};
use crate::{AttributeRef, AttributeValue};

/// Attributes for the next event of a writer, which takes them. Where they are known one by one this is the short way;
/// [`Attributes`](crate::Attributes) are for those that several events have.
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
        Some(Self {
            list: NonNull::new(list)?,
        })
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// When the attribute is undefined or has a value already, or without memory.
    // Where it is called the type of the value is known, and what is made of it need not be worked out.
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
        let code =
            unsafe { sys::OTF2_AttributeList_AddAttribute(list, attribute, attribute_type, value) };
        check(code, || format!("add attribute {attribute}"))
    }

    /// For libotf2, which empties it when it has written an event.
    pub(super) fn as_ptr(&mut self) -> *mut sys::OTF2_AttributeList {
        self.list.as_ptr()
    }

    /// Forgets what was added.
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
