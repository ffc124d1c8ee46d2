//! Reading archives.

mod definition_callbacks;
mod definitions;
mod event;
mod event_callbacks;
mod event_file;
mod event_loop;
mod local_definitions;
mod other_definitions;
mod other_events;
mod reader;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use otf2_sys as sys;

use crate::LocationRef;
use crate::error::{Result, check};
use crate::verbatim::{self, Definition};

pub use definitions::Definitions;
pub use event::{Event, EventKind};
pub use event_file::check_event_file;
pub use local_definitions::{ClockOffset, LocalDefinitions, MappingTable};

pub(crate) use definition_callbacks::DefinitionCallbacks;
pub(crate) use definitions::{operation, read_into};
pub(crate) use event_callbacks::array;
pub(crate) use reader::Reader;

/// An archive to read.
#[derive(Debug, Clone)]
pub struct Archive {
    anchor: PathBuf,
    creator: String,
    machine_name: String,
    description: String,
    version: (u8, u8, u8),
    trace_id: u64,
    event_chunk_bytes: u64,
    definitions_chunk_bytes: u64,
    number_of_locations: u64,
    number_of_global_definitions: u64,
    number_of_snapshots: u32,
    number_of_thumbnails: u32,
    properties: Vec<(String, String)>,
}

impl Archive {
    /// Opens the archive that this anchor file (`….otf2`) describes.
    ///
    /// # Errors
    ///
    /// When there is no such file, or it is not an anchor that this libotf2 can read.
    pub fn open(anchor: &Path) -> Result<Self> {
        let mut reader = Reader::open(anchor)?;
        let operation = || format!("read the anchor {}", anchor.display());
        let mut version = (0, 0, 0);
        let (mut event_chunk_bytes, mut definitions_chunk_bytes) = (0, 0);
        let (mut number_of_locations, mut number_of_global_definitions, mut trace_id) = (0, 0, 0);
        let pointer = reader.as_ptr();
        // SAFETY: an open reader and three places to write to.
        let code = unsafe {
            sys::OTF2_Reader_GetVersion(
                pointer,
                &raw mut version.0,
                &raw mut version.1,
                &raw mut version.2,
            )
        };
        check(code, operation)?;
        // SAFETY: an open reader and two places to write to.
        let code = unsafe {
            sys::OTF2_Reader_GetChunkSize(
                pointer,
                &raw mut event_chunk_bytes,
                &raw mut definitions_chunk_bytes,
            )
        };
        check(code, operation)?;
        // SAFETY: an open reader and a place to write to.
        let code =
            unsafe { sys::OTF2_Reader_GetNumberOfLocations(pointer, &raw mut number_of_locations) };
        check(code, operation)?;
        // SAFETY: an open reader and a place to write to.
        let code = unsafe {
            sys::OTF2_Reader_GetNumberOfGlobalDefinitions(
                pointer,
                &raw mut number_of_global_definitions,
            )
        };
        check(code, operation)?;
        // SAFETY: an open reader and a place to write to.
        let code = unsafe { sys::OTF2_Reader_GetTraceId(pointer, &raw mut trace_id) };
        check(code, operation)?;
        let (mut number_of_snapshots, mut number_of_thumbnails) = (0, 0);
        // SAFETY: an open reader and a place to write to.
        let code =
            unsafe { sys::OTF2_Reader_GetNumberOfSnapshots(pointer, &raw mut number_of_snapshots) };
        check(code, operation)?;
        // SAFETY: an open reader and a place to write to.
        let code = unsafe {
            sys::OTF2_Reader_GetNumberOfThumbnails(pointer, &raw mut number_of_thumbnails)
        };
        check(code, operation)?;
        Ok(Self {
            anchor: anchor.to_owned(),
            creator: reader.string("creator", sys::OTF2_Reader_GetCreator)?,
            machine_name: reader.string("machine name", sys::OTF2_Reader_GetMachineName)?,
            description: reader.string("description", sys::OTF2_Reader_GetDescription)?,
            version,
            trace_id,
            event_chunk_bytes,
            definitions_chunk_bytes,
            number_of_locations,
            number_of_global_definitions,
            number_of_snapshots,
            number_of_thumbnails,
            properties: reader.properties()?,
        })
    }

    /// The anchor file.
    #[must_use]
    pub fn anchor_file(&self) -> &Path {
        &self.anchor
    }

    /// Which program wrote the archive.
    #[must_use]
    pub fn creator(&self) -> &str {
        &self.creator
    }

    /// The machine the trace is from.
    #[must_use]
    pub fn machine_name(&self) -> &str {
        &self.machine_name
    }

    /// What the trace is, for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The version of libotf2 that wrote the archive.
    #[must_use]
    pub fn version(&self) -> (u8, u8, u8) {
        self.version
    }

    /// A number made when the archive was written, to tell archives apart.
    #[must_use]
    pub fn trace_id(&self) -> u64 {
        self.trace_id
    }

    /// The size of an event chunk. All event files of the archive have this one.
    #[must_use]
    pub fn event_chunk_bytes(&self) -> u64 {
        self.event_chunk_bytes
    }

    /// The size of a definitions chunk.
    #[must_use]
    pub fn definitions_chunk_bytes(&self) -> u64 {
        self.definitions_chunk_bytes
    }

    /// How many locations the anchor counts.
    #[must_use]
    pub fn number_of_locations(&self) -> u64 {
        self.number_of_locations
    }

    /// How many global definitions the anchor counts.
    #[must_use]
    pub fn number_of_global_definitions(&self) -> u64 {
        self.number_of_global_definitions
    }

    /// How many snapshots the anchor counts: states of all locations at one time.
    #[must_use]
    pub fn number_of_snapshots(&self) -> u32 {
        self.number_of_snapshots
    }

    /// How many thumbnails the anchor counts: small pictures of the trace.
    #[must_use]
    pub fn number_of_thumbnails(&self) -> u32 {
        self.number_of_thumbnails
    }

    /// The trace file properties, sorted by name. OTF2 has the names in upper case.
    #[must_use]
    pub fn properties(&self) -> &[(String, String)] {
        &self.properties
    }

    /// The value of a trace file property; upper and lower case are the same.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties
            .iter()
            .find(|(present, _)| present.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Where the events of a location are.
    #[must_use]
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.anchor
            .with_extension("")
            .join(format!("{}.evt", location.get()))
    }

    /// Where the local definitions of a location are.
    #[must_use]
    pub fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.anchor
            .with_extension("")
            .join(format!("{}.def", location.get()))
    }

    /// Reads the global definitions.
    ///
    /// # Errors
    ///
    /// When the file of the global definitions is missing or damaged.
    pub fn definitions(&self) -> Result<Definitions> {
        definitions::read(&self.anchor)
    }

    /// Reads the global definitions as they are: every kind, in the order of the file.
    ///
    /// # Errors
    ///
    /// As for [`Archive::definitions`]; also when there are kinds of definitions that OTF2 3.0 does not have.
    pub fn verbatim_definitions(&self) -> Result<Vec<Definition>> {
        verbatim::read(&self.anchor)
    }

    /// Reads the local definitions of a location: its mapping tables and clock offsets. Without a file there are none.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn local_definitions(&self, location: LocationRef) -> Result<LocalDefinitions> {
        local_definitions::read(self, location)
    }

    /// Calls `each` for every event of these locations, in the order of their corrected times.
    ///
    /// Clock offsets are applied, and references are those of the global definitions. Equal times are given in
    /// the order of location ids. Memory is two chunks per location. Returns how many events were given.
    ///
    /// # Errors
    ///
    /// When an event file is missing, cut short (its process was killed while writing) or has other chunks
    /// than the anchor says; libotf2 would read such a file for ever, or in part.
    pub fn for_each_event(
        &self,
        locations: &[LocationRef],
        each: impl FnMut(LocationRef, Event) -> ControlFlow<()>,
    ) -> Result<u64> {
        event_loop::read(self, locations, each)
    }
}
