//! Writers of an archive (anchor, global definitions, and local definitions for its event files) and of a part (the
//! event files of one process only).

use std::path::{Path, PathBuf};

use crate::error::{Result, c_string, check, refused};
use crate::event::{Checksums, PROPERTY};
use crate::vocabulary::LocationRef;
use crate::write::definitions::{DefinitionState, GlobalDefinitions, LocalDefWriter};
use crate::write::events::EventWriter;
use crate::write::handle::{ChunkBytes, Handle, Role};
use otf2_sys as sys;

/// Writes an archive: `directory/name.otf2` and the files that belong to it.
///
/// An archive cannot be read before it is closed: the anchor, which is written last, contains the chunk sizes and the
/// numbers of locations and definitions. The locations of the archive are those that
/// [`GlobalDefinitions::location`] defined. Each of them needs an event file: written by this writer
/// ([`ArchiveWriter::event_writer`]), written by a part and moved to [`ArchiveWriter::event_file`], or
/// empty ([`crate::write_stub_events`]).
pub struct ArchiveWriter {
    handle: Handle,
    definitions: DefinitionState,
}

macro_rules! texts {
    ($($(#[$doc:meta])* $method:ident: $what:literal, $set:ident;)*) => {$(
        $(#[$doc])*
        pub fn $method(&mut self, text: &str) -> Result<()> {
            let operation = || concat!("set the ", $what).to_owned();
            let text = c_string(text.as_bytes(), operation)?;
            let archive = self.handle.archive()?;
            // SAFETY: the archive is open; libotf2 copies the NUL-terminated string.
            check(unsafe { sys::$set(archive, text.as_ptr()) }, operation)
        }
    )*};
}

impl ArchiveWriter {
    /// Creates `directory`, whose parent must exist, and `directory/name/`.
    /// Never overwrites an existing archive.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        Self::create_with_chunks(directory, name, ChunkBytes::default())
    }

    /// Like [`Self::create`], with chunks of other sizes: those of another program's files, or such that hold
    /// [large definitions](crate::LargestDefinition).
    pub fn create_with_chunks(directory: &Path, name: &str, chunks: ChunkBytes) -> Result<Self> {
        let handle = Handle::open(directory, name, &Role::Primary, chunks)?;
        Ok(Self { handle, definitions: DefinitionState::default() })
    }

    texts! {
        /// Sets the name and version of the program that wrote the archive.
        set_creator: "creator", OTF2_Archive_SetCreator;
        /// Sets the name of the machine on which the trace was recorded.
        set_machine_name: "machine name", OTF2_Archive_SetMachineName;
        /// Sets the description of the trace, for users.
        set_description: "description", OTF2_Archive_SetDescription;
    }

    /// Sets a trace file property. OTF2 converts names to upper case.
    /// A name is two or more words of `A-Z a-z 0-9 _` joined by `::`, such as `NCCL_OTF2::DROPPED`; no value is empty.
    pub fn set_property(&mut self, name: &str, value: &str) -> Result<()> {
        let operation = || format!("set the property {name:?}");
        if !is_property_name(name) {
            let rule = "a name is two or more words of A-Z a-z 0-9 _ joined by ::";
            return Err(refused(operation(), rule));
        }
        if value.is_empty() {
            return Err(refused(operation(), "the value is empty, OTF2 has no empty properties"));
        }
        let c_name = c_string(name.as_bytes(), operation)?;
        let c_value = c_string(value.as_bytes(), operation)?;
        let archive = self.handle.archive()?;
        // SAFETY: the archive is open; libotf2 copies the NUL-terminated strings.
        let code = unsafe { sys::OTF2_Archive_SetProperty(archive, c_name.as_ptr(), c_value.as_ptr(), true) };
        check(code, operation)
    }

    /// The writer of the global definitions. Another call returns it again; it continues where it stopped.
    pub fn definitions(&mut self) -> Result<GlobalDefinitions<'_>> {
        GlobalDefinitions::new(&mut self.handle, &mut self.definitions)
    }

    /// The writer of one location's event file. Only one exists at a time, so that one chunk of memory is enough.
    pub fn event_writer(&mut self, location: LocationRef) -> Result<EventWriter<'_>> {
        EventWriter::new(&mut self.handle, location)
    }

    /// The writer of one location's local definitions: mapping tables and clock offsets.
    pub fn local_definitions(&mut self, location: LocationRef) -> Result<LocalDefWriter<'_>> {
        LocalDefWriter::new(&mut self.handle, location)
    }

    /// The sizes of the archive's chunks.
    pub fn chunks(&self) -> ChunkBytes {
        self.handle.chunks()
    }

    /// The path for a location's event file.
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.handle.event_file(location)
    }

    /// The path of a location's local definitions.
    pub fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.handle.definition_file(location)
    }

    /// The path of the archive's anchor.
    pub fn anchor_file(&self) -> PathBuf {
        self.handle.anchor_file()
    }

    /// Writes everything not yet written, the anchor last.
    /// Returns any error of the archive's files, including earlier ones: then the archive must not be used.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        let definitions = self.definitions.close(&mut self.handle);
        let definitions =
            definitions.and_then(|locations| locations.map_or(Ok(()), |locations| self.set_checksums(&locations)));
        let archive = self.handle.close();
        definitions.and(archive)
    }

    fn set_checksums(&mut self, locations: &[u64]) -> Result<()> {
        let checksums = Checksums::read(&self.anchor_file(), locations.iter().copied())?;
        self.set_property(PROPERTY, &checksums.to_string())
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        // A caller that needs the error calls `close`.
        drop(self.finish());
    }
}

/// Writes only the files of locations, for a process that shares an archive with processes it does not know.
///
/// Writes no anchor and no global definitions, and never waits for another process. An [`ArchiveWriter`]
/// creates an archive from the event files of many parts, with mapping tables from each part's own references
/// to the archive's. Event files contain no location id, so they may be renamed.
pub struct PartWriter {
    handle: Handle,
}

impl PartWriter {
    /// Files go to `directory/name/<location>.evt` and `.def`. Creates missing directories.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        Self::create_with_chunks(directory, name, ChunkBytes::default())
    }

    /// Like [`Self::create`], with chunks of other sizes. A file that is smaller than a chunk is the same with all
    /// sizes.
    pub fn create_with_chunks(directory: &Path, name: &str, chunks: ChunkBytes) -> Result<Self> {
        let handle = Handle::open(directory, name, &Role::NeverPrimary, chunks)?;
        Ok(Self { handle })
    }

    /// The writer of one location's local definitions.
    pub fn local_definitions(&mut self, location: LocationRef) -> Result<LocalDefWriter<'_>> {
        LocalDefWriter::new(&mut self.handle, location)
    }

    /// The path of a location's local definitions.
    pub fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.handle.definition_file(location)
    }

    /// The writer of one location's event file; replaces an existing file. Only one exists at a time, so that one
    /// chunk of memory is enough.
    pub fn event_writer(&mut self, location: LocationRef) -> Result<EventWriter<'_>> {
        EventWriter::new(&mut self.handle, location)
    }

    /// The path of a location's event file.
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.handle.event_file(location)
    }

    /// Closes the part.
    pub fn close(mut self) -> Result<()> {
        self.handle.close()
    }
}

fn is_property_name(name: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    name.contains("::") && name.split("::").all(is_word)
}
