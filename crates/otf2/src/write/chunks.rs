//! The memory of libotf2's writers: one chunk per buffer, reused.
//!
//! Without this libotf2 keeps up to 128 MiB per writer before it writes anything. Here a writer's second
//! request is refused, so it flushes its one chunk and goes on with the same memory. Chunks of closed writers
//! go to the next one, so thousands of locations written one after the other touch the same pages.
//!
//! The chunk that a buffer has stays its own until the buffer is closed: libotf2 has no way back when the
//! request after a flush fails, it would write through a NULL pointer.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;

use otf2_sys as sys;

use super::last_chunk::FullChunk;

/// libotf2 may write one byte past a full chunk when it appends the two bytes that end a file.
const SLACK_BYTES: usize = 64;
/// What that byte has until then. libotf2 writes 1 there.
const UNWRITTEN: u8 = 0xee;
const ALIGNMENT: usize = 64;

/// Chunks that no buffer uses. Boxed by the archive that owns it and handed to libotf2 as a pointer; only the
/// thread that drives the archive gets here.
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

/// A buffer that libotf2 writes to. There is one for a file type and location.
struct OpenBuffer {
    file_type: sys::OTF2_FileType,
    location: sys::OTF2_LocationRef,
    buffer: *mut Buffer,
}

/// Buffers are flushed whenever their chunk is full, and no BufferFlush event is written: it would only say
/// what the process that converts a journal did, not what the traced one did.
pub(super) static FLUSH_CALLBACKS: sys::OTF2_FlushCallbacks =
    sys::OTF2_FlushCallbacks { otf2_pre_flush: Some(pre_flush), otf2_post_flush: None };

pub(super) static MEMORY_CALLBACKS: sys::OTF2_MemoryCallbacks =
    sys::OTF2_MemoryCallbacks { otf2_allocate: Some(allocate), otf2_free_all: Some(free_all) };

struct Chunk {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Chunk {
    /// The byte after the chunk.
    fn slack(&self) -> *mut u8 {
        self.memory.as_ptr().wrapping_add(self.size())
    }

    fn size(&self) -> usize {
        self.layout.size() - SLACK_BYTES
    }

    /// Marks the byte after the chunk, so that writing it is noticed.
    fn mark(&self) {
        // SAFETY: one of the SLACK_BYTES bytes that `new` allocated after the chunk.
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

/// What `perBufferData` points to: the buffer's one chunk.
struct Buffer {
    chunk: Chunk,
    in_use: bool,
    flushed: bool,
}

/// libotf2 wants a chunk for a buffer: the first request gets one, the next ones do until the buffer says
/// that it has flushed.
unsafe extern "C" fn allocate(
    user_data: *mut c_void,
    file_type: sys::OTF2_FileType,
    location: sys::OTF2_LocationRef,
    per_buffer_data: *mut *mut c_void,
    chunk_size: u64,
) -> *mut c_void {
    // SAFETY: libotf2 passes the address of a pointer of its buffer, NULL at first, then what is stored below.
    let slot = unsafe { &mut *per_buffer_data.cast::<*mut Buffer>() };
    // SAFETY: NULL or the `Box` leaked below; libotf2 uses a buffer from one thread at a time.
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
    // not touch it meanwhile.
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

/// libotf2 wants to write a buffer to its file. Declined for the end of a file that went past its chunk: see
/// [`super::last_chunk`].
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
    // SAFETY: `allocate` made it, and `free_all` takes it from the list before it frees it.
    let buffer = unsafe { &*open.buffer };
    // SAFETY: allocated and written by `mark`, perhaps by libotf2 since.
    let slack = unsafe { buffer.chunk.slack().read() };
    if slack == UNWRITTEN {
        return FLUSH;
    }
    // SAFETY: the chunk is full, so every byte is initialized; libotf2 is not running.
    let bytes = unsafe { slice::from_raw_parts(buffer.chunk.memory.as_ptr(), buffer.chunk.size()) };
    pool.full = Some(FullChunk { bytes: bytes.to_vec(), is_first: !buffer.flushed });
    NO_FLUSH
}

/// libotf2 has flushed a buffer, or closes it.
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
    // SAFETY: `allocate` made it with `Box::into_raw`, and slot and list forgot it above.
    let buffer = unsafe { Box::from_raw(buffer) };
    pool.free.push(buffer.chunk);
}
