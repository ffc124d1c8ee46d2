//! Memory for libotf2's writers: one chunk per buffer, reused.
//!
//! By default libotf2 buffers up to 128 MiB per writer before it writes anything. Here a writer's second request is
//! refused, so that it flushes its only chunk and reuses it. The next writer gets the chunk of a closed one, so that
//! thousands of locations written one after the other touch the same pages.
//!
//! A buffer keeps its chunk until it is closed: if the request after a flush failed, libotf2 could not recover and
//! would write through a NULL pointer.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;

use otf2_sys as sys;

use super::last_chunk::FullChunk;

/// libotf2 may write one byte beyond a full chunk when it appends the two bytes that end a file.
const SLACK_BYTES: usize = 64;
/// Initial value of that byte. libotf2 writes 1.
const UNWRITTEN: u8 = 0xee;
const ALIGNMENT: usize = 64;

/// Chunks that no buffer uses. The archive owns the pool in a box and passes its address to libotf2; only the thread
/// that uses the archive accesses it.
#[derive(Default)]
pub(super) struct ChunkPool {
    free: Vec<Chunk>,
    open: Vec<OpenBuffer>,
    full: Option<FullChunk>,
}

impl ChunkPool {
    /// The last chunk of the file that was just closed, if it was too full for libotf2.
    pub(super) fn take_full(&mut self) -> Option<FullChunk> {
        self.full.take()
    }
}

/// A buffer that libotf2 writes to. Each file type and location has its own.
struct OpenBuffer {
    file_type: sys::OTF2_FileType,
    location: sys::OTF2_LocationRef,
    buffer: *mut Buffer,
}

/// Flushes a buffer whenever its chunk is full. No BufferFlush event is written: it would describe the process that
/// converts a journal, not the traced one.
pub(super) static FLUSH_CALLBACKS: sys::OTF2_FlushCallbacks =
    sys::OTF2_FlushCallbacks { otf2_pre_flush: Some(pre_flush), otf2_post_flush: None };

pub(super) static MEMORY_CALLBACKS: sys::OTF2_MemoryCallbacks =
    sys::OTF2_MemoryCallbacks { otf2_allocate: Some(allocate), otf2_free_all: Some(free_all) };

struct Chunk {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Chunk {
    /// The address of the byte after the chunk.
    fn slack(&self) -> *mut u8 {
        self.memory.as_ptr().wrapping_add(self.size())
    }

    fn size(&self) -> usize {
        self.layout.size() - SLACK_BYTES
    }

    /// Marks the byte after the chunk, so that writing to it can be detected.
    fn mark(&self) {
        // SAFETY: one of the SLACK_BYTES bytes that `new` allocated behind the chunk.
        unsafe { self.slack().write(UNWRITTEN) };
    }

    fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size.checked_add(SLACK_BYTES)?, ALIGNMENT).ok()?;
        // SAFETY: the layout has at least SLACK_BYTES bytes, so its size is not zero.
        let memory = unsafe { alloc(layout) };
        Some(Self { memory: NonNull::new(memory)?, layout })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and released only here.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// Referenced by libotf2's `perBufferData`: the buffer's only chunk.
struct Buffer {
    chunk: Chunk,
    in_use: bool,
    flushed: bool,
}

/// libotf2 requests a chunk for a buffer. The first request succeeds; later ones only after the buffer was flushed.
unsafe extern "C" fn allocate(
    user_data: *mut c_void,
    file_type: sys::OTF2_FileType,
    location: sys::OTF2_LocationRef,
    per_buffer_data: *mut *mut c_void,
    chunk_size: u64,
) -> *mut c_void {
    // SAFETY: libotf2 passes the address of a pointer in its buffer: NULL at first, later what is stored below.
    let slot = unsafe { &mut *per_buffer_data.cast::<*mut Buffer>() };
    // SAFETY: NULL or the `Box` leaked below; libotf2 uses a buffer from only one thread at a time.
    if let Some(buffer) = unsafe { slot.as_mut() } {
        if buffer.in_use {
            return ptr::null_mut();
        }
        buffer.in_use = true;
        buffer.chunk.mark();
        return buffer.chunk.memory.as_ptr().cast();
    }
    let Ok(size) = usize::try_from(chunk_size) else {
        return ptr::null_mut();
    };
    // SAFETY: the archive passes its pool to libotf2, keeps it until libotf2 has closed the archive, and does
    // not access it in the meantime.
    let pool = unsafe { &mut *user_data.cast::<ChunkPool>() };
    let fits = |chunk: &Chunk| chunk.size() == size;
    let chunk = match pool.free.iter().position(fits) {
        Some(index) => pool.free.swap_remove(index),
        None => match Chunk::new(size) {
            Some(chunk) => chunk,
            None => return ptr::null_mut(),
        },
    };
    chunk.mark();
    let memory = chunk.memory.as_ptr().cast();
    let buffer = Box::into_raw(Box::new(Buffer { chunk, in_use: true, flushed: false }));
    pool.open.push(OpenBuffer { file_type, location, buffer });
    *slot = buffer;
    memory
}

/// libotf2 will write a buffer to its file. Declines if the file ends beyond the chunk: see [`super::last_chunk`].
unsafe extern "C" fn pre_flush(
    user_data: *mut c_void,
    file_type: sys::OTF2_FileType,
    location: sys::OTF2_LocationRef,
    _caller_data: *mut c_void,
    final_: bool,
) -> sys::OTF2_FlushType {
    const FLUSH: u8 = 1;
    const NO_FLUSH: u8 = 0;
    const _: () = assert!(sys::OTF2_FLUSH == FLUSH as u32 && sys::OTF2_NO_FLUSH == NO_FLUSH as u32);

    // SAFETY: as in `allocate`.
    let pool = unsafe { &mut *user_data.cast::<ChunkPool>() };
    let is_this = |open: &&OpenBuffer| open.file_type == file_type && open.location == location;
    let Some(open) = pool.open.iter().find(is_this).filter(|_| final_) else {
        return FLUSH;
    };
    // SAFETY: `allocate` made it, and `free_all` removes it from the list before freeing it.
    let buffer = unsafe { &*open.buffer };
    // SAFETY: allocated, and initialised by `mark`; libotf2 may have written to it since.
    let slack = unsafe { buffer.chunk.slack().read() };
    if slack == UNWRITTEN {
        return FLUSH;
    }
    // SAFETY: the chunk is full, so every byte is initialised, and libotf2 writes nothing during this callback.
    let bytes = unsafe { slice::from_raw_parts(buffer.chunk.memory.as_ptr(), buffer.chunk.size()) };
    pool.full = Some(FullChunk { bytes: bytes.to_vec(), is_first: !buffer.flushed });
    NO_FLUSH
}

/// libotf2 has flushed a buffer or is closing it.
unsafe extern "C" fn free_all(
    user_data: *mut c_void,
    _file_type: sys::OTF2_FileType,
    _location: sys::OTF2_LocationRef,
    per_buffer_data: *mut *mut c_void,
    final_: bool,
) {
    // SAFETY: as in `allocate`.
    let slot = unsafe { &mut *per_buffer_data.cast::<*mut Buffer>() };
    if !final_ {
        // SAFETY: as in `allocate`.
        if let Some(buffer) = unsafe { slot.as_mut() } {
            buffer.in_use = false;
            buffer.flushed = true;
        }
        return;
    }
    let buffer = std::mem::replace(slot, ptr::null_mut());
    if buffer.is_null() {
        return;
    }
    // SAFETY: as in `allocate`.
    let pool = unsafe { &mut *user_data.cast::<ChunkPool>() };
    pool.open.retain(|open| open.buffer != buffer);
    // SAFETY: `allocate` made it with `Box::into_raw`; slot and list no longer contain it.
    let buffer = unsafe { Box::from_raw(buffer) };
    pool.free.push(buffer.chunk);
}
