//! From libotf2's callbacks to [`Definition`]s.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use otf2_sys as sys;

use super::Definition;
use super::definition::plain_definitions;
use super::field::Field;
use crate::error::{Result, check, refused};
use crate::read::{DefinitionCallbacks, array, operation, read_into};
use crate::{
    AttributeRef, AttributeValue, CallingContextRef, CallpathRef, CallsiteRef, CartDimensionRef,
    CartTopologyRef, CommRef, GroupRef, InterruptGeneratorRef, IoFileRef, IoHandleRef,
    IoParadigmRef, LocationGroupRef, LocationRef, MetricMemberRef, MetricRef, ParameterRef,
    RegionRef, RmaWinRef, SourceCodeLocationRef, StringRef, SystemTreeNodeRef,
};

const SUCCESS: sys::OTF2_CallbackCode = sys::OTF2_CALLBACK_SUCCESS;

/// What libotf2 gives to the callbacks.
#[derive(Default)]
struct Inbox {
    definitions: Vec<Definition>,
    unknown: u64,
}

/// Reads all global definitions.
///
/// # Errors
///
/// When there is one that this crate does not know: a newer OTF2 has it, and passing on the others would lose it.
pub(crate) fn read(anchor: &Path) -> Result<Vec<Definition>> {
    let callbacks = DefinitionCallbacks::with(register)?;
    let mut inbox = Inbox::default();
    // SAFETY: these callbacks take an `Inbox`.
    let count = unsafe { read_into(anchor, &callbacks, &mut inbox) }?;
    let known = u64::try_from(inbox.definitions.len()).unwrap_or(u64::MAX);
    if inbox.unknown > 0 || known != count {
        let reason = format!(
            "{} of its {count} definitions are of kinds that OTF2 3.0 does not have; they would be lost",
            count.saturating_sub(known)
        );
        return Err(refused(operation(anchor), reason));
    }
    Ok(inbox.definitions)
}

/// Registers one callback: its arguments are the C ones, its body makes the definition.
macro_rules! callback {
    ($table:ident, $set:ident, |$($name:ident: $argument:ty),*| $definition:expr) => {{
        unsafe extern "C" fn callback(
            user_data: *mut c_void,
            $($name: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            // SAFETY: `read` registers the inbox, and nothing else uses it while libotf2 runs.
            let inbox = unsafe { &mut *user_data.cast::<Inbox>() };
            inbox.definitions.push($definition);
            SUCCESS
        }
        // SAFETY: the table is alive, and the callback has the type that the header gives it.
        let code = unsafe { sys::$set($table, Some(callback)) };
        check(code, || "register a definition callback".to_owned())?;
    }};
}

macro_rules! register_plain {
    ($($kind:ident by $set:ident, $write:ident { $($field:ident: $type:ty),* $(; $value:ident)? })*) => {
        fn register_plain(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
            $(register_plain!(@one table, $set, $kind { $($field: $type),* } $($value)?);)*
            Ok(())
        }
    };
    (@one $table:ident, $set:ident, $kind:ident { $($field:ident: $type:ty),* }) => {
        callback!($table, $set, |$($field: <$type as Field>::Raw),*| Definition::$kind {
            $($field: <$type as Field>::from_raw($field),)*
        });
    };
    (@one $table:ident, $set:ident, $kind:ident { $($field:ident: $type:ty),* } $value:ident) => {
        callback!(
            $table, $set,
            |$($field: <$type as Field>::Raw,)* value_type: u8, value: sys::OTF2_AttributeValue| Definition::$kind {
                $($field: <$type as Field>::from_raw($field),)*
                $value: AttributeValue::from_raw(value_type, value),
            }
        );
    };
}

plain_definitions!(register_plain);

fn register(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    register_plain(table)?;
    register_lists(table)?;
    unsafe extern "C" fn unknown(user_data: *mut c_void) -> sys::OTF2_CallbackCode {
        // SAFETY: `read` registers the inbox, and nothing else uses it while libotf2 runs.
        let inbox = unsafe { &mut *user_data.cast::<Inbox>() };
        inbox.unknown += 1;
        SUCCESS
    }
    // SAFETY: the table is alive, and the callback has the type that the header gives it.
    let code =
        unsafe { sys::OTF2_GlobalDefReaderCallbacks_SetUnknownCallback(table, Some(unknown)) };
    check(code, || "register a definition callback".to_owned())
}

/// Those with texts and lists.
fn register_lists(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    callback!(
        table,
        OTF2_GlobalDefReaderCallbacks_SetStringCallback,
        |this: u32, text: *const c_char| {
            Definition::String {
                this: StringRef::new(this),
                text: bytes(text),
            }
        }
    );
    callback!(
        table,
        OTF2_GlobalDefReaderCallbacks_SetGroupCallback,
        |this: u32,
         name: u32,
         group_type: u8,
         paradigm: u8,
         flags: u32,
         count: u32,
         members: *const u64| {
            Definition::Group {
                this: GroupRef::new(this),
                name: StringRef::new(name),
                group_type,
                paradigm,
                flags,
                // SAFETY: libotf2 passes an array of `count` members.
                members: unsafe { array(members, usize::try_from(count).unwrap_or(0)) },
            }
        }
    );
    callback!(
        table,
        OTF2_GlobalDefReaderCallbacks_SetMetricClassCallback,
        |this: u32, count: u8, members: *const u32, occurrence: u8, recorder_kind: u8| {
            // SAFETY: libotf2 passes an array of `count` members.
            let members = unsafe { array(members, usize::from(count)) };
            Definition::MetricClass {
                this: MetricRef::new(this),
                members: members.into_iter().map(MetricMemberRef::new).collect(),
                occurrence,
                recorder_kind,
            }
        }
    );
    callback!(
        table,
        OTF2_GlobalDefReaderCallbacks_SetCartTopologyCallback,
        |this: u32, name: u32, comm: u32, count: u8, dimensions: *const u32| {
            // SAFETY: libotf2 passes an array of `count` dimensions.
            let dimensions = unsafe { array(dimensions, usize::from(count)) };
            Definition::CartTopology {
                this: CartTopologyRef::new(this),
                name: StringRef::new(name),
                comm: CommRef::new(comm),
                dimensions: dimensions.into_iter().map(CartDimensionRef::new).collect(),
            }
        }
    );
    callback!(
        table,
        OTF2_GlobalDefReaderCallbacks_SetCartCoordinateCallback,
        |topology: u32, rank: u32, count: u8, coordinates: *const u32| {
            Definition::CartCoordinate {
                topology: CartTopologyRef::new(topology),
                rank,
                // SAFETY: libotf2 passes an array of `count` coordinates.
                coordinates: unsafe { array(coordinates, usize::from(count)) },
            }
        }
    );
    callback!(
        table,
        OTF2_GlobalDefReaderCallbacks_SetIoParadigmCallback,
        |this: u8,
         identification: u32,
         name: u32,
         class: u8,
         flags: u32,
         count: u8,
         properties: *const u8,
         types: *const u8,
         values: *const sys::OTF2_AttributeValue| {
            let count = usize::from(count);
            // SAFETY: libotf2 passes arrays of `count` elements.
            let properties = unsafe { array(properties, count) };
            // SAFETY: as above.
            let types = unsafe { array(types, count) };
            // SAFETY: as above.
            let values = unsafe { array(values, count) };
            let values = types
                .into_iter()
                .zip(values)
                .map(|(value_type, value)| AttributeValue::from_raw(value_type, value));
            Definition::IoParadigm {
                this: IoParadigmRef::new(this),
                identification: StringRef::new(identification),
                name: StringRef::new(name),
                class,
                flags,
                properties: properties.into_iter().zip(values).collect(),
            }
        }
    );
    Ok(())
}

/// A C string as it is: not every archive is in UTF-8.
fn bytes(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: not NULL, and libotf2's strings are NUL-terminated and alive in a callback.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}
