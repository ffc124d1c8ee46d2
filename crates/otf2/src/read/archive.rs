//! An archive to read, and the contents of its anchor.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use otf2_sys as sys;
use regular_files::MOST_MANIFEST_BYTES;

use super::definition_file::check_definition_file;
use super::reader::Reader;
use crate::checksums::{Checksums, PROPERTY, check_presence};
use crate::error::{Result, check};
use crate::records::Definitions;
use crate::refs::LocationRef;

/// The extensions of the files of an archive, as libotf2 names them.
pub const FILE_EXTENSIONS: [&str; 5] = ["otf2", "def", "evt", "snap", "marker"];

/// An archive to read.
#[derive(Debug, Clone)]
pub struct Archive {
    anchor: PathBuf,
    creator: String,
    machine_name: String,
    description: String,
    version: (u8, u8, u8),
    event_chunk_bytes: u64,
    definitions_chunk_bytes: u64,
    number_of_locations: u64,
    number_of_global_definitions: u64,
    number_of_snapshots: u32,
    number_of_thumbnails: u32,
    properties: Vec<(String, String)>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $method:ident(&$this:ident) -> $type:ty { $value:expr })*) => {$(
        $(#[$doc])*
        pub fn $method(&$this) -> $type {
            $value
        }
    )*};
}

impl Archive {
    /// Opens the archive that this anchor file (`….otf2`) describes.
    pub fn open(anchor: &Path) -> Result<Self> {
        let mut reader = Reader::open(anchor)?;
        let operation = || format!("read the anchor {}", anchor.display());
        let pointer = reader.as_ptr();
        /// Calls a reader function that stores numbers.
        macro_rules! get {
            ($get:ident($($number:expr),*)) => {{
                // SAFETY: the reader is open, and the pointers refer to local variables.
                let code = unsafe { sys::$get(pointer, $(&raw mut $number),*) };
                check(code, operation)?;
            }};
        }
        let mut version = (0, 0, 0);
        get!(OTF2_Reader_GetVersion(version.0, version.1, version.2));
        let (mut event_chunk_bytes, mut definitions_chunk_bytes) = (0, 0);
        get!(OTF2_Reader_GetChunkSize(event_chunk_bytes, definitions_chunk_bytes));
        let (mut number_of_locations, mut number_of_global_definitions) = (0, 0);
        get!(OTF2_Reader_GetNumberOfLocations(number_of_locations));
        get!(OTF2_Reader_GetNumberOfGlobalDefinitions(number_of_global_definitions));
        let (mut number_of_snapshots, mut number_of_thumbnails) = (0, 0);
        get!(OTF2_Reader_GetNumberOfSnapshots(number_of_snapshots));
        get!(OTF2_Reader_GetNumberOfThumbnails(number_of_thumbnails));
        Ok(Self {
            anchor: anchor.to_owned(),
            creator: reader.string("creator", sys::OTF2_Reader_GetCreator)?,
            machine_name: reader.string("machine name", sys::OTF2_Reader_GetMachineName)?,
            description: reader.string("description", sys::OTF2_Reader_GetDescription)?,
            version,
            event_chunk_bytes,
            definitions_chunk_bytes,
            number_of_locations,
            number_of_global_definitions,
            number_of_snapshots,
            number_of_thumbnails,
            properties: reader.properties()?,
        })
    }

    getters! {
        /// The anchor file.
        anchor_file(&self) -> &Path { &self.anchor }
        /// The program that wrote the archive.
        creator(&self) -> &str { &self.creator }
        /// The machine on which the trace was recorded.
        machine_name(&self) -> &str { &self.machine_name }
        /// A description of the trace, for users.
        description(&self) -> &str { &self.description }
        /// The version of libotf2 that wrote the archive.
        version(&self) -> (u8, u8, u8) { self.version }
        /// The size of an event chunk in bytes, the same in all event files of the archive.
        event_chunk_bytes(&self) -> u64 { self.event_chunk_bytes }
        /// The size of a definitions chunk in bytes.
        definitions_chunk_bytes(&self) -> u64 { self.definitions_chunk_bytes }
        /// The anchor's number of locations.
        number_of_locations(&self) -> u64 { self.number_of_locations }
        /// The anchor's number of global definitions.
        number_of_global_definitions(&self) -> u64 { self.number_of_global_definitions }
        /// The anchor's number of snapshots: states of all locations at one time.
        number_of_snapshots(&self) -> u32 { self.number_of_snapshots }
        /// The anchor's number of thumbnails: small pictures of the trace.
        number_of_thumbnails(&self) -> u32 { self.number_of_thumbnails }
        /// The trace file properties, sorted by name. OTF2 stores the names in upper case.
        properties(&self) -> &[(String, String)] { &self.properties }
    }

    /// The value of a trace file property; ignores case.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(present, _)| present.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The path of a location's event file.
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.anchor.with_extension("").join(format!("{}.evt", location.get()))
    }

    /// Whether a location has local definitions; an error if their file is incomplete.
    pub fn has_local_definitions(&self, location: LocationRef) -> Result<bool> {
        let file = self.definition_file(location);
        match file.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            _ => check_definition_file(&file, MOST_MANIFEST_BYTES, self.definitions_chunk_bytes).map(|()| true),
        }
    }

    /// Checks that no definitions are missing, and that they match the archive's checksums if it has any.
    pub fn check_definitions(&self, definitions: &Definitions) -> Result<()> {
        let locations = definitions.locations.iter();
        let with_events = locations.clone().filter(|(_, it)| it.number_of_events > 0).map(|(it, _)| it.get());
        check_presence(&self.anchor, with_events)?;
        match self.property(PROPERTY) {
            Some(written) => {
                let found = Checksums::of(&self.anchor, locations.clone().map(|(location, _)| location.get()))?;
                found.compare(&self.anchor, written).map_err(|differs| {
                    // The checksum covers all local definitions: name a file that is broken by itself, if there is one.
                    let mut broken = locations.filter_map(|(location, _)| self.has_local_definitions(*location).err());
                    broken.next().unwrap_or(differs)
                })
            }
            None => Ok(()),
        }
    }

    /// The path of a location's local definitions.
    pub fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.anchor.with_extension("").join(format!("{}.def", location.get()))
    }
}
