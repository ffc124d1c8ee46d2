//! The local definitions of a location, as owned data.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::ptr;

use otf2_sys as sys;

use super::archive::Archive;
use super::reader::{Reader, callback_table};
use crate::error::{self, Result, check};
use crate::refs::LocationRef;
use crate::vocabulary::MappingType;

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

callback_table!(Callbacks of OTF2_DefReaderCallbacks: OTF2_DefReaderCallbacks_New, OTF2_DefReaderCallbacks_Delete);

impl Callbacks {
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
        to: Option<(&Callbacks, &mut LocalDefinitions)>,
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
        let mut reader = Reader::open(self.anchor_file())?;
        reader.select(&[location])?;
        let callbacks = Callbacks::new()?;
        reader.read_local(location, &self.definition_file(location), Some((&callbacks, &mut found)))?;
        Ok(found)
    }
}
