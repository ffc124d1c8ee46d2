//! The global definitions of an archive, and the local definitions of its locations: converts the arguments of
//! libotf2's callbacks to [`Definition`]s and [`LocalDefinitions`].

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr;

use crate::definition::{Definition, Field, plain_definitions};
use crate::error;
use crate::error::{Error, Result, check, refused};
use crate::read::archive::{Archive, Reader, array, callback_table, check_definition_file};
use crate::records::Definitions;
use crate::vocabulary::{AttributeValue, LocationRef, MappingType, *};
use otf2_sys as sys;

impl Archive {
    /// Reads the global definitions.
    pub fn definitions(&self) -> Result<Definitions> {
        let mut found = Definitions::default();
        let records = self.each_definition(&mut |definition| match definition {
            Some(definition) => found.add(definition),
            None => *found.others.entry("Unknown").or_default() += 1,
        })?;
        found.records = records;
        let mut events = found.locations.values().map(|location| location.number_of_events);
        if events.try_fold(0, u64::checked_add).is_none() {
            let path = self.anchor_file().with_extension("def");
            let reason = "promises more events than can be counted".to_owned();
            return Err(Error::Damaged { path, reason });
        }
        Ok(found)
    }

    /// Reads the global definitions without interpretation: every kind, in file order.
    /// Kinds that OTF2 3.0 does not have are an error, because a copy would lose them.
    pub fn verbatim_definitions(&self) -> Result<Vec<Definition>> {
        let mut found = Vec::new();
        let count = self.each_definition(&mut |definition| found.extend(definition))?;
        let known = u64::try_from(found.len()).unwrap_or(u64::MAX);
        if known != count {
            let reason = format!(
                "{} of its {count} definitions are of kinds that OTF2 3.0 does not have; they would be lost",
                count.saturating_sub(known)
            );
            return Err(refused(self.reading_definitions(), reason));
        }
        Ok(found)
    }

    fn reading_definitions(&self) -> String {
        let file = self.anchor_file().with_extension("def");
        format!("read the definitions {}", file.display())
    }

    /// Calls `each` for every global definition, with `None` for kinds unknown to libotf2. Returns their number.
    fn each_definition(&self, mut each: DefinitionCallback<'_>) -> Result<u64> {
        let callbacks = Callbacks::new()?;
        let file = self.anchor_file().with_extension("def");
        // Every chunk contains at least one definition.
        let most_chunks = self.number_of_global_definitions().saturating_add(1);
        let chunk_bytes = self.definitions_chunk_bytes();
        check_definition_file(&file, most_chunks.saturating_mul(chunk_bytes), chunk_bytes)?;
        let mut reader = self.reader()?;
        let operation = || self.reading_definitions();
        let pointer = reader.as_ptr();
        error::forget();
        // SAFETY: the reader is open.
        let definitions = unsafe { sys::OTF2_Reader_GetGlobalDefReader(pointer) };
        if definitions.is_null() {
            return Err(error::null(operation()));
        }
        let (table, user_data) = (callbacks.as_ptr(), ptr::from_mut(&mut each).cast());
        // SAFETY: both readers are open; libotf2 copies the table, whose callbacks expect a `DefinitionCallback`;
        // `each` is used only through this pointer until the reading is done.
        let code = unsafe { sys::OTF2_Reader_RegisterGlobalDefCallbacks(pointer, definitions, table, user_data) };
        check(code, operation)?;
        let mut count = 0;
        // SAFETY: both readers are open; the callbacks' user data outlives the call.
        let code = unsafe { sys::OTF2_Reader_ReadAllGlobalDefinitions(pointer, definitions, &raw mut count) };
        check(code, operation).map_err(|error| error::damaged(&file, "cannot be read", &error))?;
        Ok(count)
    }
}

/// The user data of the callbacks is a pointer to this.
type DefinitionCallback<'a> = &'a mut dyn FnMut(Option<Definition>);

/// Passes on a definition.
///
/// # Safety
///
/// `user_data` is the pointer that `each_definition` registered.
unsafe fn pass_on(user_data: *mut c_void, definition: Option<Definition>) -> sys::OTF2_CallbackCode {
    // SAFETY: the caller guarantees the type, and nothing else uses the value while libotf2 runs.
    let each = unsafe { &mut *user_data.cast::<DefinitionCallback<'_>>() };
    each(definition);
    sys::OTF2_CALLBACK_SUCCESS
}

callback_table!(Callbacks of OTF2_GlobalDefReaderCallbacks:
    OTF2_GlobalDefReaderCallbacks_New, OTF2_GlobalDefReaderCallbacks_Delete);

impl Callbacks {
    fn new() -> Result<Self> {
        let callbacks = Self::empty()?;
        register_plain(callbacks.as_ptr())?;
        register_texts(callbacks.as_ptr())?;
        register_lists(callbacks.as_ptr())?;
        Ok(callbacks)
    }
}

/// Registers a callback with these C arguments. The body converts them to a definition.
macro_rules! callback {
    ($table:ident, $set:ident($($name:ident: $argument:ty),*) $definition:expr) => {{
        unsafe extern "C" fn callback(user_data: *mut c_void, $($name: $argument,)*) -> sys::OTF2_CallbackCode {
            let definition = $definition;
            // SAFETY: libotf2 passes the user data that `each_definition` registered.
            unsafe { pass_on(user_data, definition) }
        }
        // SAFETY: the table is alive, and the callback has the type declared in the header.
        let code = unsafe { sys::$set($table, Some(callback)) };
        check(code, || "register a definition callback".to_owned())?;
    }};
}

macro_rules! register_plain {
    ($($kind:ident $(($this:ident: $own:ty))? by $set:ident, $write:ident
        { $($field:ident: $type:ty),* $(; $value:ident)? })*) => {
        fn register_plain(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
            $(register_plain!(@one table, $set, $kind { $($this: $own,)? $($field: $type,)* } $($value)?);)*
            Ok(())
        }
    };
    (@one $table:ident, $set:ident, $kind:ident { $($field:ident: $type:ty,)* }) => {
        callback! { $table, $set($($field: <$type as Field>::Raw),*) Some(Definition::$kind {
            $($field: <$type as Field>::from_raw($field),)*
        }) }
    };
    (@one $table:ident, $set:ident, $kind:ident { $($field:ident: $type:ty,)* } $value:ident) => {
        callback! {
            $table,
            $set($($field: <$type as Field>::Raw,)* value_type: u8, value: sys::OTF2_AttributeValue)
            Some(Definition::$kind {
                $($field: <$type as Field>::from_raw($field),)*
                $value: AttributeValue::from_raw(value_type, value),
            })
        }
    };
}

plain_definitions!(register_plain);

fn register_texts(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetUnknownCallback() None }
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetStringCallback(this: u32, text: *const c_char) {
        let this = StringRef::new(this);
        Some(Definition::String { this, text: bytes(text) })
    } }
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetGroupCallback(
        this: u32, name: u32, group_type: u8, paradigm: u8, flags: u32, count: u32, members: *const u64
    ) {
        let (this, name) = (GroupRef::new(this), StringRef::new(name));
        // SAFETY: libotf2 passes an array of `count` members.
        let members = unsafe { array(members, usize::try_from(count).unwrap_or(0)) };
        Some(Definition::Group { this, name, group_type, paradigm, flags, members })
    } }
    Ok(())
}

fn register_lists(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetMetricClassCallback(
        this: u32, count: u8, members: *const u32, occurrence: u8, recorder_kind: u8
    ) {
        let this = MetricRef::new(this);
        // SAFETY: libotf2 passes an array of `count` members.
        let members = unsafe { array(members, usize::from(count)) };
        let members = members.into_iter().map(MetricMemberRef::new).collect();
        Some(Definition::MetricClass { this, members, occurrence, recorder_kind })
    } }
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetCartTopologyCallback(
        this: u32, name: u32, comm: u32, count: u8, dimensions: *const u32
    ) {
        let (this, name, comm) = (CartTopologyRef::new(this), StringRef::new(name), CommRef::new(comm));
        // SAFETY: libotf2 passes an array of `count` dimensions.
        let dimensions = unsafe { array(dimensions, usize::from(count)) };
        let dimensions = dimensions.into_iter().map(CartDimensionRef::new).collect();
        Some(Definition::CartTopology { this, name, comm, dimensions })
    } }
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetCartCoordinateCallback(
        topology: u32, rank: u32, count: u8, coordinates: *const u32
    ) {
        let topology = CartTopologyRef::new(topology);
        // SAFETY: libotf2 passes an array of `count` coordinates.
        let coordinates = unsafe { array(coordinates, usize::from(count)) };
        Some(Definition::CartCoordinate { topology, rank, coordinates })
    } }
    callback! { table, OTF2_GlobalDefReaderCallbacks_SetIoParadigmCallback(
        this: u8, identification: u32, name: u32, class: u8, flags: u32, count: u8, properties: *const u8,
        types: *const u8, values: *const sys::OTF2_AttributeValue
    ) {
        let (this, name) = (IoParadigmRef::new(this), StringRef::new(name));
        let identification = StringRef::new(identification);
        let count = usize::from(count);
        // SAFETY: libotf2 passes arrays of `count` elements.
        let properties = unsafe { array(properties, count) };
        // SAFETY: as above.
        let types = unsafe { array(types, count) };
        // SAFETY: as above.
        let values = unsafe { array(values, count) };
        let values = types.into_iter().zip(values).map(|(kind, value)| AttributeValue::from_raw(kind, value));
        let properties = properties.into_iter().zip(values).collect();
        Some(Definition::IoParadigm { this, identification, name, class, flags, properties })
    } }
    Ok(())
}

/// The bytes of a C string: not every archive is in UTF-8.
fn bytes(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: not NULL; libotf2's strings are NUL-terminated and alive during a callback.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

/// How far a location's clock is behind the archive's at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOffset {
    /// The time in the event file, before correction.
    pub time: u64,
    /// Ticks that readers add at that time.
    pub offset: i64,
    /// Standard deviation of the offset, in ticks.
    pub standard_deviation: f64,
}

/// The contents of a location's local definition file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalDefinitions {
    /// Clock offsets, in file order.
    pub clock_offsets: Vec<ClockOffset>,
    /// Translations of local references, by kind.
    pub mapping_tables: BTreeMap<MappingType, MappingTable>,
}

/// Translations of local references of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingTable {
    /// Global references by local ones.
    pub pairs: BTreeMap<u64, u64>,
    /// Whether the local references are exactly those from 0 to the last of the pairs. If not, a local reference
    /// that is in no pair equals the global one.
    pub is_complete: bool,
}

callback_table!(LocalCallbacks of OTF2_DefReaderCallbacks: OTF2_DefReaderCallbacks_New, OTF2_DefReaderCallbacks_Delete);

impl LocalCallbacks {
    fn new() -> Result<Self> {
        let operation = || "register a callback for local definitions".to_owned();
        let callbacks = Self::empty()?;
        let table = callbacks.as_ptr();
        // SAFETY: the table is alive, and the callback has the type declared in the header.
        let code = unsafe { sys::OTF2_DefReaderCallbacks_SetMappingTableCallback(table, Some(mapping_table)) };
        check(code, operation)?;
        // SAFETY: the table is alive, and the callback has the type declared in the header.
        let code = unsafe { sys::OTF2_DefReaderCallbacks_SetClockOffsetCallback(table, Some(clock_offset)) };
        check(code, operation)?;
        Ok(callbacks)
    }
}

unsafe extern "C" fn clock_offset(
    user_data: *mut c_void,
    time: u64,
    offset: i64,
    standard_deviation: f64,
) -> sys::OTF2_CallbackCode {
    // SAFETY: `read` registers the definitions that it fills; nothing else uses them while libotf2 runs.
    let found = unsafe { &mut *user_data.cast::<LocalDefinitions>() };
    found.clock_offsets.push(ClockOffset { time, offset, standard_deviation });
    sys::OTF2_CALLBACK_SUCCESS
}

unsafe extern "C" fn mapping_table(
    user_data: *mut c_void,
    mapping: sys::OTF2_MappingType,
    map: *const sys::OTF2_IdMap,
) -> sys::OTF2_CallbackCode {
    // SAFETY: `read` registers the definitions that it fills; nothing else uses them while libotf2 runs.
    let found = unsafe { &mut *user_data.cast::<LocalDefinitions>() };
    let table = found.mapping_tables.entry(MappingType::from_raw(mapping)).or_default();
    let mut mode = 0;
    // SAFETY: libotf2 passes a map that is alive; `mode` is a local variable.
    let code = unsafe { sys::OTF2_IdMap_GetMode(map, &raw mut mode) };
    table.is_complete = code == sys::OTF2_SUCCESS && u32::from(mode) == sys::OTF2_ID_MAP_DENSE;
    let pairs = ptr::from_mut(&mut table.pairs);
    // SAFETY: libotf2 passes a map that is alive, and passes the table to the callback only until it returns.
    let code = unsafe { sys::OTF2_IdMap_Traverse(map, Some(pair), pairs.cast()) };
    match code {
        sys::OTF2_SUCCESS => sys::OTF2_CALLBACK_SUCCESS,
        _ => sys::OTF2_CALLBACK_INTERRUPT,
    }
}

unsafe extern "C" fn pair(local: u64, global: u64, user_data: *mut c_void) {
    // SAFETY: `mapping_table` passes this table, which nothing else uses while libotf2 runs.
    let table = unsafe { &mut *user_data.cast::<BTreeMap<u64, u64>>() };
    table.insert(local, global);
}

impl Reader {
    /// Selects locations, so that their local definitions can be read.
    pub(super) fn select(&mut self, locations: &[LocationRef]) -> Result<()> {
        for location in locations {
            // SAFETY: the reader is open.
            let code = unsafe { sys::OTF2_Reader_SelectLocation(self.as_ptr(), location.get()) };
            check(code, || format!("select {location:?}"))?;
        }
        // SAFETY: the reader is open.
        let code = unsafe { sys::OTF2_Reader_OpenDefFiles(self.as_ptr()) };
        check(code, || "open the local definition files".to_owned())
    }

    /// Reads the local definitions of a selected location, with callbacks that fill the definitions in `to`.
    pub(super) fn read_local(
        &mut self,
        location: LocationRef,
        file: &Path,
        to: Option<(&LocalCallbacks, &mut LocalDefinitions)>,
    ) -> Result<()> {
        let operation = || format!("read {}", file.display());
        let pointer = self.as_ptr();
        error::forget();
        // SAFETY: the reader is open and the location is selected.
        let definitions = unsafe { sys::OTF2_Reader_GetDefReader(pointer, location.get()) };
        if definitions.is_null() {
            return Err(error::null(operation()));
        }
        if let Some((callbacks, found)) = to {
            let (callbacks, found) = (callbacks.as_ptr(), ptr::from_mut(found).cast());
            // SAFETY: both readers are open, libotf2 copies the table, and `found` is used only through this
            // pointer until the reading is done.
            let code = unsafe { sys::OTF2_Reader_RegisterDefCallbacks(pointer, definitions, callbacks, found) };
            check(code, operation)?;
        }
        let mut count = 0;
        // SAFETY: both readers are open; the callbacks' user data outlives the call.
        let code = unsafe { sys::OTF2_Reader_ReadAllLocalDefinitions(pointer, definitions, &raw mut count) };
        let result = check(code, operation);
        // SAFETY: both readers are open, and this one is not used afterwards.
        let code = unsafe { sys::OTF2_Reader_CloseDefReader(pointer, definitions) };
        result.and(check(code, operation))
    }
}

impl Archive {
    /// Reads the mapping tables and clock offsets of a location; empty if it has no local definition file.
    pub fn local_definitions(&self, location: LocationRef) -> Result<LocalDefinitions> {
        let mut found = LocalDefinitions::default();
        if !self.has_local_definitions(location)? {
            return Ok(found);
        }
        let mut reader = self.reader()?;
        reader.select(&[location])?;
        let callbacks = LocalCallbacks::new()?;
        reader.read_local(location, &self.definition_file(location), Some((&callbacks, &mut found)))?;
        Ok(found)
    }
}
