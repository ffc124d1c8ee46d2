//! Calls of libotf2's functions that write global definitions.

use otf2_sys as sys;

use super::defined::operation;
use crate::definition::{Definition, Field as _, plain_definitions};
use crate::error::{Result, c_string, refused};

/// Writes a definition that [`super::definitions`] has checked. Returns libotf2's code.
pub(super) fn write(to: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Result<sys::OTF2_ErrorCode> {
    match (write_plain(to, definition), definition) {
        (Some(code), _) => Ok(code),
        (None, Definition::String { this, text }) => {
            let text = c_string(text, || operation(definition))?;
            // SAFETY: the writer is open; libotf2 copies the NUL-terminated string.
            Ok(unsafe { sys::OTF2_GlobalDefWriter_WriteString(to, this.get(), text.as_ptr()) })
        }
        (None, Definition::IoParadigm { .. }) => write_io_paradigm(to, definition),
        (None, _) => write_list(to, definition),
    }
}

macro_rules! write_plain {
    ($($kind:ident $(($this:ident: $own:ty))? by $set:ident, $write:ident
        { $($field:ident: $type:ty),* $(; $value:ident)? })*) => {
        /// Writes a definition without lists; `None` for other definitions.
        fn write_plain(writer: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Option<sys::OTF2_ErrorCode> {
            Some(match definition {
                $(Definition::$kind { $($this,)? $($field,)* $($value,)? } => {
                    // SAFETY: the writer is open and takes numbers; a value is passed with its type.
                    unsafe {
                        sys::$write(
                            writer,
                            $($this.to_raw(),)?
                            $($field.to_raw(),)*
                            $($value.attribute_type().raw(), $value.to_raw(),)?
                        )
                    }
                })*
                _ => return None,
            })
        }
    };
}

plain_definitions!(write_plain);

/// A list as two arguments of a call: length and pointer.
macro_rules! list {
    ($elements:expr) => {
        (u8::try_from($elements.len()).unwrap_or(u8::MAX), $elements.as_ptr())
    };
}

fn write_list(to: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Result<sys::OTF2_ErrorCode> {
    Ok(match definition {
        Definition::Group { this, name, group_type, paradigm, flags, members } => {
            let (this, name, kind) = (this.get(), name.get(), *group_type);
            let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
            let members = members.as_ptr();
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteGroup(to, this, name, kind, *paradigm, *flags, count, members) }
        }
        Definition::MetricClass { this, members, occurrence, recorder_kind } => {
            let members: Vec<u32> = members.iter().map(|member| member.get()).collect();
            let (count, members) = list!(members);
            let (this, kind) = (this.get(), *recorder_kind);
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteMetricClass(to, this, count, members, *occurrence, kind) }
        }
        Definition::CartTopology { this, name, comm, dimensions } => {
            let dimensions: Vec<u32> = dimensions.iter().map(|it| it.get()).collect();
            let (count, dimensions) = list!(dimensions);
            let (this, name, comm) = (this.get(), name.get(), comm.get());
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteCartTopology(to, this, name, comm, count, dimensions) }
        }
        Definition::CartCoordinate { topology, rank, coordinates } => {
            let (count, coordinates) = list!(coordinates);
            let topology = topology.get();
            // SAFETY: the writer is open and takes numbers; the array has `count` elements.
            unsafe { sys::OTF2_GlobalDefWriter_WriteCartCoordinate(to, topology, *rank, count, coordinates) }
        }
        other => return Err(refused(operation(other), "it has no list")),
    })
}

fn write_io_paradigm(to: *mut sys::OTF2_GlobalDefWriter, definition: &Definition) -> Result<sys::OTF2_ErrorCode> {
    let Definition::IoParadigm { this, identification, name, class, flags, properties } = definition else {
        return Err(refused(operation(definition), "it has no list"));
    };
    let kinds: Vec<u8> = properties.iter().map(|(kind, _)| *kind).collect();
    let types: Vec<u8> = properties.iter().map(|(_, value)| value.attribute_type().raw()).collect();
    let values: Vec<_> = properties.iter().map(|(_, value)| value.to_raw()).collect();
    let (count, kinds) = list!(kinds);
    let (this, identification, name) = (this.get(), identification.get(), name.get());
    let (types, values) = (types.as_ptr(), values.as_ptr());
    // SAFETY: the writer is open and takes numbers; the arrays have `count` elements.
    let code = unsafe {
        sys::OTF2_GlobalDefWriter_WriteIoParadigm(
            to,
            this,
            identification,
            name,
            *class,
            *flags,
            count,
            kinds,
            types,
            values,
        )
    };
    Ok(code)
}
