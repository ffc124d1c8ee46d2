//! Event files without an archive: the part of one process.

use std::path::{Path, PathBuf};

use super::events::EventWriter;
use super::handle::{DEFINITIONS_CHUNK_BYTES, Handle, Role};
use crate::error::Result;
use crate::refs::LocationRef;

/// Writes event files only, for a process that shares an archive with others it does not know.
///
/// It writes no anchor and no global definitions, and never waits for anybody; an [`crate::ArchiveWriter`]
/// makes an archive of the event files of many parts, with mapping tables from the part's own references to
/// the archive's. Event files carry no location id, so they may be renamed.
pub struct PartWriter {
    handle: Handle,
}

impl PartWriter {
    /// Event files go to `directory/name/<location>.evt`; the directories are made when they are not there.
    ///
    /// # Errors
    ///
    /// When `name` is not a plain file name or the directories cannot be made.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        let role = &Role::NeverPrimary;
        let handle = Handle::open(directory, name, role, DEFINITIONS_CHUNK_BYTES)?;
        Ok(Self { handle })
    }

    /// The writer of one location's event file; an older file of that name is replaced. There is one at a
    /// time, so that memory is one chunk.
    ///
    /// # Errors
    ///
    /// When the location is undefined or memory is short.
    pub fn event_writer(&mut self, location: LocationRef) -> Result<EventWriter<'_>> {
        EventWriter::new(&mut self.handle, location)
    }

    /// Where the events of a location go.
    #[must_use]
    pub fn event_file(&self, location: LocationRef) -> PathBuf {
        self.handle.event_file(location)
    }

    /// Closes the part.
    ///
    /// # Errors
    ///
    /// When a file could not be written, now or before.
    pub fn close(mut self) -> Result<()> {
        self.handle.close()
    }
}
