//! An archive: anchor, global definitions, and local definitions for its event files. Or event files alone: the part of
//! one process.

use std::path::{Path, PathBuf};

use otf2_sys as sys;

use super::definitions::{DefinitionState, GlobalDefinitions};
use super::events::EventWriter;
use super::handle::{DEFINITIONS_CHUNK_BYTES, Handle, Role};
use super::local::LocalDefWriter;
use crate::checksums::{Checksums, PROPERTY};
use crate::error::{Result, c_string, check, refused};
use crate::refs::LocationRef;

/// Writes an archive, `directory/name.otf2` and what belongs to it.
///
/// Nothing in the archive can be read before it is closed: the anchor is written last, and says with which
/// chunk sizes and how many locations and definitions there are. The locations of the archive are those that
/// [`GlobalDefinitions::location`] defined; each of them needs an event file, which this writer makes
/// ([`ArchiveWriter::event_writer`]), or a part made and somebody moves to [`ArchiveWriter::event_file`], or
/// which is empty ([`crate::write_stub_events`]).
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
    /// Makes `directory` (its parent must be there) and `directory/name/`.
    /// An archive that is there is not written over.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        Self::create_with_chunks(directory, name, DEFINITIONS_CHUNK_BYTES)
    }

    /// Sets another size of definitions chunks, to match local definition files that another program wrote.
    /// From 256 KiB to 16 MiB.
    pub fn create_with_chunks(directory: &Path, name: &str, definitions_chunk_bytes: u64) -> Result<Self> {
        if !(sys::OTF2_CHUNK_SIZE_MIN..=sys::OTF2_CHUNK_SIZE_MAX).contains(&definitions_chunk_bytes) {
            let reason = format!("definitions chunks of {definitions_chunk_bytes} bytes");
            return Err(refused("create an archive", reason));
        }
        let handle = Handle::open(directory, name, &Role::Primary, definitions_chunk_bytes)?;
        Ok(Self { handle, definitions: DefinitionState::default() })
    }

    texts! {
        /// Says which program wrote the archive, with its version.
        set_creator: "creator", OTF2_Archive_SetCreator;
        /// Names the machine the trace is from.
        set_machine_name: "machine name", OTF2_Archive_SetMachineName;
        /// Describes the trace for people.
        set_description: "description", OTF2_Archive_SetDescription;
    }

    /// Sets a trace file property. OTF2 keeps names in upper case and compares them so.
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

    /// The writer of the global definitions. It can be taken again, and continues where it was.
    pub fn definitions(&mut self) -> Result<GlobalDefinitions<'_>> {
        GlobalDefinitions::new(&mut self.handle, &mut self.definitions)
    }

    /// The writer of one location's event file. There is one at a time, so that memory is one chunk.
    pub fn event_writer(&mut self, location: LocationRef) -> Result<EventWriter<'_>> {
        EventWriter::new(&mut self.handle, location)
    }

    /// The writer of one location's local definitions: mapping tables and clock offsets.
    pub fn local_definitions(&mut self, location: LocationRef) -> Result<LocalDefWriter<'_>> {
        LocalDefWriter::new(&mut self.handle, location)
    }

    /// Where the events of a location belong.
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.handle.event_file(location)
    }

    /// Where the local definitions of a location are.
    pub fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.handle.definition_file(location)
    }

    /// The file that makes it an archive.
    pub fn anchor_file(&self) -> PathBuf {
        self.handle.anchor_file()
    }

    /// Writes what is not written yet, the anchor last.
    /// An error of any of its files, now or before, is returned: then the archive is not to be used.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        let definitions = self.definitions.close(&mut self.handle);
        let definitions = definitions.and_then(|locations| locations.map_or(Ok(()), |it| self.set_checksums(&it)));
        let archive = self.handle.close();
        definitions.and(archive)
    }

    fn set_checksums(&mut self, locations: &[u64]) -> Result<()> {
        let checksums = Checksums::of(&self.anchor_file(), locations.iter().copied())?;
        self.set_property(PROPERTY, &checksums.to_string())
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        // A caller that needs the error calls `close`.
        drop(self.finish());
    }
}

/// Writes event files only, for a process that shares an archive with others it does not know.
///
/// It writes no anchor and no global definitions, and never waits for anybody; an [`ArchiveWriter`]
/// makes an archive of the event files of many parts, with mapping tables from the part's own references to
/// the archive's. Event files carry no location id, so they may be renamed.
pub struct PartWriter {
    handle: Handle,
}

impl PartWriter {
    /// Event files go to `directory/name/<location>.evt`; the directories are made when they are not there.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        let role = &Role::NeverPrimary;
        let handle = Handle::open(directory, name, role, DEFINITIONS_CHUNK_BYTES)?;
        Ok(Self { handle })
    }

    /// The writer of one location's event file; an older file of that name is replaced. There is one at a
    /// time, so that memory is one chunk.
    pub fn event_writer(&mut self, location: LocationRef) -> Result<EventWriter<'_>> {
        EventWriter::new(&mut self.handle, location)
    }

    /// Where the events of a location go.
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
