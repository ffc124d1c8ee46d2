//! Writers of definitions: passes records and [`Definition`]s of the whole archive to libotf2's writer, and the mapping
//! tables and clock offsets of one location.

use std::collections::HashMap;
use std::path::PathBuf;
use std::ptr::NonNull;

use crate::definition::{Definition, ReferenceKind};
use crate::error;
use crate::error::{Result, check, check_all, refused};
use crate::records::{
    Attribute, ClockProperties, Comm, Group, InterComm, Location, LocationGroup, MetricClass, MetricMember,
    ParadigmRecord, Parameter, Property, Region, RmaWin, SystemTreeNode,
};
use crate::vocabulary::{
    AttributeRef, CommRef, GroupRef, LocationGroupRef, LocationRef, MappingType, MetricMemberRef, MetricRef, Paradigm,
    ParameterRef, RegionRef, RmaWinRef, StringRef, SystemTreeNodeRef,
};
use crate::write::calls::{Defined, operation, write};
use crate::write::handle::Handle;
use crate::write::sizes::most_bytes;
use otf2_sys as sys;

/// Writes the global definitions.
///
/// References of a kind must be defined in the order 0, 1, 2 and so on, because readers complain otherwise; only
/// location references are arbitrary. A definition must come after those that it refers to. All this is checked, and
/// an error leaves the archive unchanged.
pub struct GlobalDefinitions<'a> {
    handle: &'a mut Handle,
    writer: NonNull<sys::OTF2_GlobalDefWriter>,
    defined: &'a mut Defined,
    interned: &'a mut HashMap<String, StringRef>,
    failed: &'a mut bool,
}

// SAFETY: `writer` is reachable only through this value, which borrows the handle exclusively, and libotf2 allows a
// writer to move between threads that use it one after the other.
unsafe impl Send for GlobalDefinitions<'_> {}

/// The state of an archive's global definitions between two uses of their writer.
#[derive(Default)]
pub(super) struct DefinitionState {
    writer: Option<NonNull<sys::OTF2_GlobalDefWriter>>,
    defined: Defined,
    interned: HashMap<String, StringRef>,
    failed: bool,
}

// SAFETY: the pointer is used only together with the handle of its archive, which `ArchiveWriter` keeps next to it
// and lends out together with it.
unsafe impl Send for DefinitionState {}

impl DefinitionState {
    /// Closes the file and returns the locations; `None` if there is nothing to close.
    pub(super) fn close(&mut self, handle: &mut Handle) -> Result<Option<Vec<u64>>> {
        let Some(writer) = self.writer.take().filter(|_| !self.failed) else {
            return Ok(None);
        };
        let archive = handle.archive()?;
        error::forget();
        // SAFETY: archive and writer are open, and `take` makes this the writer's last use.
        let code = unsafe { sys::OTF2_Archive_CloseGlobalDefWriter(archive, writer.as_ptr()) };
        let result = check_all(code, || format!("close the global definitions of the {}", handle.described()));
        let file = handle.global_definition_file();
        let result = result.and_then(|()| handle.write_full_chunk(&file, 0));
        if result.is_err() {
            handle.note_failure();
        }
        result.map(|()| Some(self.defined.locations()))
    }
}

macro_rules! typed {
    ($($(#[$doc:meta])* $method:ident($own:ty, $record:ty) $(with $property:ident)?;)*) => {$(
        $(#[$doc])*
        pub fn $method(&mut self, reference: $own, record: &$record) -> Result<()> {
            let properties: &[Property] = typed!(@properties record $($property)?);
            self.define(record.definition(reference), properties)?;
            $(for (name, value) in properties {
                self.put(&Definition::$property { of: reference, name: *name, value: *value })?;
            })?
            Ok(())
        }
    )*};
    (@properties $record:ident) => { &[] };
    (@properties $record:ident $property:ident) => { &$record.properties };
}

impl<'a> GlobalDefinitions<'a> {
    pub(super) fn new(handle: &'a mut Handle, state: &'a mut DefinitionState) -> Result<Self> {
        let operation = || "open the global definitions".to_owned();
        let archive = handle.archive()?;
        if state.failed {
            return Err(refused(operation(), "they could not be written before"));
        }
        let writer = match state.writer {
            Some(writer) => writer,
            None => {
                error::forget();
                // SAFETY: the archive is open, in write mode, primary, and has flush callbacks.
                let writer = unsafe { sys::OTF2_Archive_GetGlobalDefWriter(archive) };
                NonNull::new(writer).ok_or_else(|| error::null(operation()))?
            }
        };
        state.writer = Some(writer);
        let DefinitionState { defined, interned, failed, .. } = state;
        Ok(Self { handle, writer, defined, interned, failed })
    }

    typed! {
        /// Defines an attribute.
        attribute(AttributeRef, Attribute);
        /// Defines a location group, including its properties.
        location_group(LocationGroupRef, LocationGroup) with LocationGroupProperty;
        /// Defines a location, including its properties. The archive then needs the location's event file.
        location(LocationRef, Location) with LocationProperty;
        /// Defines a region.
        region(RegionRef, Region);
        /// Defines a group. Depending on its type, its members are references to defined things, or indices into its
        /// paradigm's group of communicating locations.
        group(GroupRef, Group);
        /// Defines a communicator, without flags. Its group must be one for communicators.
        comm(CommRef, Comm);
        /// Defines an intercommunicator, whose groups must be ones for communicators.
        inter_comm(CommRef, InterComm);
        /// Defines a window of remote memory access, without flags.
        rma_win(RmaWinRef, RmaWin);
        /// Defines one value of metric classes, of type `U64`, `I64` or `F64`.
        metric_member(MetricMemberRef, MetricMember);
        /// Defines a metric class with 1 to 255 members.
        metric_class(MetricRef, MetricClass);
        /// Defines a parameter.
        parameter(ParameterRef, Parameter);
    }

    /// Defines the clock. Must be called once.
    pub fn clock_properties(&mut self, clock: &ClockProperties) -> Result<()> {
        let ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp } = *clock;
        let clock = Definition::ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp };
        self.define(clock, &[])
    }

    /// The reference of a text: the one that an earlier call for it returned, or a new one. Other strings may be defined
    /// with [`Self::string`] before and between, from the next free number on.
    pub fn intern(&mut self, text: &str) -> Result<StringRef> {
        if let Some(&known) = self.interned.get(text) {
            return Ok(known);
        }
        let next = u32::try_from(self.defined.next(ReferenceKind::String)).unwrap_or(u32::MAX);
        let reference = StringRef::new(next);
        self.string(reference, text)?;
        self.interned.insert(text.to_owned(), reference);
        Ok(reference)
    }

    /// Defines a string.
    pub fn string(&mut self, reference: StringRef, text: &str) -> Result<()> {
        self.define(Definition::String { this: reference, text: text.as_bytes().to_vec() }, &[])
    }

    /// Defines a node of the system tree, including its domains and properties.
    pub fn system_tree_node(&mut self, of: SystemTreeNodeRef, node: &SystemTreeNode) -> Result<()> {
        self.define(node.definition(of), &node.properties)?;
        for domain in &node.domains {
            self.put(&Definition::SystemTreeNodeDomain { of, domain: domain.raw() })?;
        }
        for (name, value) in &node.properties {
            self.put(&Definition::SystemTreeNodeProperty { of, name: *name, value: *value })?;
        }
        Ok(())
    }

    /// Defines a paradigm's name, class and properties. At most once per paradigm.
    pub fn paradigm(&mut self, paradigm: Paradigm, record: &ParadigmRecord) -> Result<()> {
        let values = record.properties.iter().map(|(_, value)| *value);
        self.defined.values(&format!("define the paradigm {paradigm:?}"), values)?;
        let paradigm = paradigm.raw();
        self.define(Definition::Paradigm { paradigm, name: record.name, class: record.class.raw() }, &[])?;
        for (property, value) in &record.properties {
            self.put(&Definition::ParadigmProperty { paradigm, property: property.raw(), value: *value })?;
        }
        Ok(())
    }

    /// Writes a definition without interpretation. Only its size is checked. The other functions refuse references that
    /// are not dense or refer to definitions written with this one.
    pub fn verbatim(&mut self, definition: &Definition) -> Result<()> {
        self.fits(definition)?;
        self.defined.note_location(definition);
        self.put(definition)
    }

    fn define(&mut self, mut definition: Definition, properties: &[Property]) -> Result<()> {
        self.fits(&definition)?;
        self.defined.define(&mut definition, properties)?;
        self.put(&definition)
    }

    /// Checks the size: a definition must fit into one chunk, and libotf2 counts list elements in one byte.
    fn fits(&self, definition: &Definition) -> Result<()> {
        let refuse = |reason| Err(refused(operation(definition), reason));
        if *self.failed {
            return refuse("the definitions could not be written before".to_owned());
        }
        let elements = match definition {
            Definition::String { text, .. } if text.contains(&0) => {
                return refuse("a NUL byte cannot be in a name or text".to_owned());
            }
            Definition::MetricClass { members, .. } => members.len(),
            Definition::CartTopology { dimensions, .. } => dimensions.len(),
            Definition::CartCoordinate { coordinates, .. } => coordinates.len(),
            Definition::IoParadigm { properties, .. } => properties.len(),
            _ => 0,
        };
        let (bytes, limit) = (most_bytes(definition), self.handle.chunks().definitions);
        if bytes > limit {
            return refuse(format!("it takes up to {bytes} bytes, a chunk of the archive has {limit}"));
        }
        if elements > usize::from(u8::MAX) {
            return refuse(format!("it has {elements} elements, OTF2 counts at most 255"));
        }
        Ok(())
    }

    /// Writes a definition that [`Self::fits`] accepts, so that a failure is a failure of the file.
    fn put(&mut self, definition: &Definition) -> Result<()> {
        let writer = self.writer.as_ptr();
        let result = check(write(writer, definition)?, || operation(definition));
        if result.is_err() {
            *self.failed = true;
            self.handle.give_up();
        }
        result
    }
}

/// Writes the local definition file of a location.
///
/// Readers apply mapping tables to the references in the location's events, and clock offsets to its times. They
/// interpolate linearly between two offsets, and extrapolate with the slope of the two nearest ones. A single offset
/// has no effect: write two or more.
pub struct LocalDefWriter<'a> {
    handle: &'a mut Handle,
    archive: *mut sys::OTF2_Archive,
    writer: Option<NonNull<sys::OTF2_DefWriter>>,
    location: LocationRef,
    last_offset_time: Option<u64>,
    mapped: Vec<MappingType>,
}

// SAFETY: `archive` and `writer` are reachable only through this value, which borrows the handle exclusively, and
// libotf2 allows a writer to move between threads that use it one after the other.
unsafe impl Send for LocalDefWriter<'_> {}

/// Frees an identifier map when dropped.
struct IdMap(NonNull<sys::OTF2_IdMap>);

impl Drop for IdMap {
    fn drop(&mut self) {
        // SAFETY: made by libotf2 and freed only here; mapping tables are copies.
        unsafe { sys::OTF2_IdMap_Free(self.0.as_ptr()) };
    }
}

impl<'a> LocalDefWriter<'a> {
    pub(super) fn new(handle: &'a mut Handle, location: LocationRef) -> Result<Self> {
        let operation = || format!("open the local definitions of {location:?}");
        if !location.is_defined() {
            return Err(refused(operation(), "the location reference is UNDEFINED"));
        }
        let archive = handle.archive()?;
        error::forget();
        // SAFETY: the archive is open, in write mode, and has flush callbacks.
        let writer = unsafe { sys::OTF2_Archive_GetDefWriter(archive, location.get()) };
        let writer = NonNull::new(writer).ok_or_else(|| error::null(operation()))?;
        let mapped = Vec::new();
        Ok(Self { handle, archive, writer: Some(writer), location, last_offset_time: None, mapped })
    }

    /// Local reference `i` stands for global reference `globals[i]`. An identity mapping is not written.
    /// Only one table per type is allowed, at most as large as a definitions chunk.
    pub fn mapping_table_dense(&mut self, mapping: MappingType, globals: &[u32]) -> Result<()> {
        self.first_of_its_type(mapping)?;
        if globals.iter().zip(0..).all(|(global, local)| *global == local) {
            return Ok(());
        }
        let length = u64::try_from(globals.len()).unwrap_or(u64::MAX);
        error::forget();
        // SAFETY: the array has `length` elements; libotf2 copies them.
        let map = unsafe { sys::OTF2_IdMap_CreateFromUint32Array(length, globals.as_ptr(), true) };
        let map = NonNull::new(map).ok_or_else(|| error::null(self.operation(mapping)))?;
        self.write(mapping, &IdMap(map))
    }

    /// The first reference of a pair is local, the second global. Local references without a pair stand for themselves.
    pub fn mapping_table_sparse(&mut self, mapping: MappingType, pairs: &[(u64, u64)]) -> Result<()> {
        self.first_of_its_type(mapping)?;
        let mut sorted: Vec<(u64, u64)> = pairs.to_vec();
        // libotf2 inserts by shifting, so only ascending order is fast.
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|two| matches!(two, [(a, _), (b, _)] if a == b)) {
            return Err(refused(self.operation(mapping), format!("two entries for one: {twice:?}")));
        }
        if sorted.iter().all(|(local, global)| local == global) {
            return Ok(());
        }
        let length = u64::try_from(sorted.len()).unwrap_or(u64::MAX);
        error::forget();
        // SAFETY: takes numbers and checks them.
        let map = unsafe { sys::OTF2_IdMap_Create(SPARSE, length) };
        let map = IdMap(NonNull::new(map).ok_or_else(|| error::null(self.operation(mapping)))?);
        for (local, global) in sorted {
            // SAFETY: the map is alive and nothing else uses it.
            let code = unsafe { sys::OTF2_IdMap_AddIdPair(map.0.as_ptr(), local, global) };
            check(code, || self.operation(mapping))?;
        }
        self.write(mapping, &map)
    }

    fn first_of_its_type(&mut self, mapping: MappingType) -> Result<()> {
        if matches!(mapping, MappingType::Unknown(_)) {
            return Err(refused(self.operation(mapping), "not a mapping type of OTF2 3.0"));
        }
        if self.mapped.contains(&mapping) {
            return Err(refused(self.operation(mapping), "there is a table of this type already"));
        }
        self.mapped.push(mapping);
        Ok(())
    }

    fn write(&mut self, mapping: MappingType, map: &IdMap) -> Result<()> {
        let Some(writer) = self.writer else {
            return Err(refused(self.operation(mapping), "the file could not be written before"));
        };
        // SAFETY: writer and map are alive, and nothing else uses them.
        let code = unsafe { sys::OTF2_DefWriter_WriteMappingTable(writer.as_ptr(), mapping.raw(), map.0.as_ptr()) };
        let result = check(code, || self.operation(mapping));
        self.remember(result)
    }

    /// At this local time (before correction) the location's clock is `offset` ticks behind the archive's: readers
    /// add the offset. Times must increase.
    pub fn clock_offset(&mut self, time: u64, offset: i64, standard_deviation: f64) -> Result<()> {
        let operation = format!("write a clock offset at {time} for {:?}", self.location);
        if let Some(last) = self.last_offset_time.filter(|last| time <= *last) {
            return Err(refused(operation, format!("the offset before is at {last}")));
        }
        if !(standard_deviation >= 0.0 && standard_deviation.is_finite()) {
            return Err(refused(operation, "the standard deviation must be a number from 0 on"));
        }
        let Some(writer) = self.writer else {
            return Err(refused(operation, "the file could not be written before"));
        };
        // SAFETY: the writer is alive and nothing else uses it.
        let code = unsafe { sys::OTF2_DefWriter_WriteClockOffset(writer.as_ptr(), time, offset, standard_deviation) };
        let result = check(code, || operation);
        self.remember(result)?;
        self.last_offset_time = Some(time);
        Ok(())
    }

    /// Gives up after an error: `Handle::give_up` explains why a failed writer must not be used again.
    fn remember(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.writer = None;
            self.handle.give_up();
        }
        result
    }

    /// Closes the file.
    pub fn close(mut self) -> Result<()> {
        if let Err(error) = self.finish() {
            self.handle.note_failure();
            return Err(error);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let operation = || format!("close {}", self.file().display());
        let Some(writer) = self.writer else {
            return Err(refused(operation(), "a definition could not be written before"));
        };
        error::forget();
        // SAFETY: archive and writer are open; the writer is cleared below and not used again.
        let code = unsafe { sys::OTF2_Archive_CloseDefWriter(self.archive, writer.as_ptr()) };
        let result = check_all(code, operation);
        self.writer = None;
        let file = self.file();
        result.and_then(|()| self.handle.write_full_chunk(&file, 0))
    }

    fn file(&self) -> PathBuf {
        self.handle.definition_file(self.location)
    }

    fn operation(&self, mapping: MappingType) -> String {
        format!("write the {mapping:?} mapping table of {:?}", self.location)
    }
}

const SPARSE: u8 = 1;
const _: () = assert!(sys::OTF2_ID_MAP_SPARSE == SPARSE as u32);

impl Drop for LocalDefWriter<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() && self.finish().is_err() {
            // A caller that needs the error calls `close`; the archive is still marked as incomplete.
            self.handle.note_failure();
        }
    }
}
