//! An open archive in write mode, and how it is closed.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::{fs, ptr};

use crate::error;
use crate::error::{Result, c_string, check, check_all, refused};
use crate::vocabulary::LocationRef;
use crate::write::chunks::{ChunkPool, FLUSH_CALLBACKS, MEMORY_CALLBACKS, NEVER_PRIMARY};
use otf2_sys as sys;

/// The smallest chunk, in bytes.
pub const LEAST_CHUNK_BYTES: u64 = sys::OTF2_CHUNK_SIZE_MIN;

/// The size of an event chunk, in bytes. Readers fill a whole chunk for each file that they open, however short.
pub const EVENT_CHUNK_BYTES: u64 = LEAST_CHUNK_BYTES;

/// The sizes of an archive's chunks, in bytes: from 256 KiB to 16 MiB. The anchor states one for all files of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkBytes {
    /// The size for event files.
    pub events: u64,
    /// The size for definition files: the limit on the size of a single definition.
    pub definitions: u64,
}

impl Default for ChunkBytes {
    /// The smallest chunks.
    fn default() -> Self {
        Self { events: EVENT_CHUNK_BYTES, definitions: LEAST_CHUNK_BYTES }
    }
}

/// The header declares libotf2's constants as `int`; its functions take bytes.
const WRITE: u8 = 0;
const POSIX: u8 = 1;
const UNCOMPRESSED: u8 = 1;
const _: () = assert!(
    sys::OTF2_FILEMODE_WRITE == WRITE as u32
        && sys::OTF2_SUBSTRATE_POSIX == POSIX as u32
        && sys::OTF2_COMPRESSION_NONE == UNCOMPRESSED as u32
);

const INCOMPLETE: &str = "a file of the archive could not be written before";

pub(super) enum Role {
    /// Writes the anchor and the global definitions, and creates the directories.
    Primary,
    /// Writes event files only.
    NeverPrimary,
}

/// An `OTF2_Archive*` in write mode with its memory. Closed when dropped.
pub(super) struct Handle {
    /// `None` once the archive is closed or given up.
    archive: Option<NonNull<sys::OTF2_Archive>>,
    /// From `Box::into_raw`. Stays a raw pointer, because libotf2 has a copy of it.
    pool: NonNull<ChunkPool>,
    directory: PathBuf,
    name: String,
    chunks: ChunkBytes,
    given_up: bool,
    /// Whether a file of the archive is incomplete.
    failed: bool,
}

// SAFETY: `archive` and `pool` are reachable only through this handle (libotf2 keeps no archive in global or
// thread-local state), and all methods that use them take `&mut self`; the other fields are `Send`.
unsafe impl Send for Handle {}

impl Handle {
    pub(super) fn open(directory: &Path, name: &str, role: &Role, chunks: ChunkBytes) -> Result<Self> {
        error::listen();
        let operation = || format!("create the archive {}", directory.join(name).display());
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return Err(refused(operation(), "the archive name must be a plain file name"));
        }
        for bytes in [chunks.events, chunks.definitions] {
            if !(sys::OTF2_CHUNK_SIZE_MIN..=sys::OTF2_CHUNK_SIZE_MAX).contains(&bytes) {
                return Err(refused(operation(), format!("chunks of {bytes} bytes")));
            }
        }
        let c_directory = c_string(directory.as_os_str().as_bytes(), operation)?;
        let c_name = c_string(name.as_bytes(), operation)?;
        if matches!(role, Role::NeverPrimary) {
            // libotf2 creates the directories only for a primary archive.
            let events = directory.join(name);
            fs::create_dir_all(&events).map_err(|source| error::io("create the directory", &events, source))?;
        }
        // SAFETY: two NUL-terminated strings, and constants from the header.
        let archive = unsafe {
            sys::OTF2_Archive_Open(
                c_directory.as_ptr(),
                c_name.as_ptr(),
                WRITE,
                chunks.events,
                chunks.definitions,
                POSIX,
                UNCOMPRESSED,
            )
        };
        let archive = NonNull::new(archive).ok_or_else(|| error::null(operation()))?;
        let pool = Box::into_raw(Box::<ChunkPool>::default());
        // SAFETY: `Box::into_raw` never returns NULL.
        let pool = unsafe { NonNull::new_unchecked(pool) };
        let mut handle = Self {
            archive: Some(archive),
            pool,
            directory: directory.to_owned(),
            name: name.to_owned(),
            chunks,
            given_up: false,
            failed: false,
        };
        if let Err(error) = handle.set_callbacks(archive, role) {
            // Closing would write an anchor, or abort for lack of callbacks: leak the archive instead.
            handle.give_up();
            return Err(error);
        }
        Ok(handle)
    }

    fn set_callbacks(&mut self, archive: NonNull<sys::OTF2_Archive>, role: &Role) -> Result<()> {
        let operation = || format!("create the archive {}", self.directory.join(&self.name).display());
        let archive = archive.as_ptr();
        let pool = self.pool.as_ptr().cast();
        // SAFETY: the archive is open; the callbacks are static and the pool outlives the archive.
        let code = unsafe { sys::OTF2_Archive_SetFlushCallbacks(archive, &raw const FLUSH_CALLBACKS, pool) };
        check(code, operation)?;
        // SAFETY: the archive is open; the callbacks are static and the pool outlives the archive.
        let code = unsafe { sys::OTF2_Archive_SetMemoryCallbacks(archive, &raw const MEMORY_CALLBACKS, pool) };
        check(code, operation)?;
        let code = match role {
            // SAFETY: the archive is open and has no collective callbacks yet.
            Role::Primary => unsafe { sys::OTF2_Archive_SetSerialCollectiveCallbacks(archive) },
            // SAFETY: as above; the callbacks are static and use no contexts.
            Role::NeverPrimary => unsafe {
                sys::OTF2_Archive_SetCollectiveCallbacks(
                    archive,
                    &raw const NEVER_PRIMARY,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            },
        };
        check(code, operation)
    }

    pub(super) fn archive(&mut self) -> Result<*mut sys::OTF2_Archive> {
        match self.archive {
            Some(archive) => Ok(archive.as_ptr()),
            None => Err(refused(self.described(), "the archive is closed")),
        }
    }

    pub(super) fn chunks(&self) -> ChunkBytes {
        self.chunks
    }

    pub(super) fn described(&self) -> String {
        format!("archive {}", self.directory.join(&self.name).display())
    }

    pub(super) fn anchor_file(&self) -> PathBuf {
        self.directory.join(format!("{}.otf2", self.name))
    }

    pub(super) fn global_definition_file(&self) -> PathBuf {
        self.directory.join(format!("{}.def", self.name))
    }

    pub(super) fn event_file(&self, location: LocationRef) -> PathBuf {
        self.directory.join(&self.name).join(format!("{}.evt", location.get()))
    }

    pub(super) fn definition_file(&self, location: LocationRef) -> PathBuf {
        self.directory.join(&self.name).join(format!("{}.def", location.get()))
    }

    /// Called after a write failed inside libotf2: libotf2 has freed a buffer, and would use and free it again when
    /// closing the file, which kills the process. So the archive is never closed, but leaked.
    pub(super) fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Writes the end of the file that libotf2 has just closed, if the last chunk was too full for libotf2.
    pub(super) fn write_full_chunk(&mut self, file: &Path, events: u64) -> Result<()> {
        // SAFETY: made in `open`, and freed in `close` after the last use of the archive; libotf2 accesses it only
        // inside its functions, none of which is running.
        let pool = unsafe { self.pool.as_mut() };
        match pool.take_full() {
            Some(chunk) => chunk.append_to(file, events),
            None => Ok(()),
        }
    }

    /// Notes that a file of the archive could not be written completely.
    pub(super) fn note_failure(&mut self) {
        self.failed = true;
    }

    pub(super) fn close(&mut self) -> Result<()> {
        if self.given_up {
            self.archive = None;
            return Err(refused(self.described(), INCOMPLETE));
        }
        let Some(archive) = self.archive.take() else {
            return Ok(());
        };
        error::forget();
        // SAFETY: the archive is open, its writers, which borrow this handle, are closed; `take` makes it the last use.
        let code = unsafe { sys::OTF2_Archive_Close(archive.as_ptr()) };
        // SAFETY: made by `Box::into_raw` in `open`; libotf2 has closed the archive and no longer has the pointer.
        drop(unsafe { Box::from_raw(self.pool.as_ptr()) });
        check_all(code, || format!("close the {}", self.described()))?;
        if self.failed {
            return Err(refused(self.described(), INCOMPLETE));
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A caller that needs the error calls `close`.
        drop(self.close());
    }
}
