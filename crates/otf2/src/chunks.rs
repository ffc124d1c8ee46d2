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

use otf2_sys as sys;

/// libotf2 may write one byte past a full chunk when it appends the two bytes that end a file.
const SLACK_BYTES: usize = 64;
const ALIGNMENT: usize = 64;

/// Chunks that no buffer uses. Boxed by the archive that owns it and handed to libotf2 as a pointer; only the
/// thread that drives the archive gets here.
#[derive(Default)]
pub(crate) struct ChunkPool {
    free: Vec<Chunk>,
}

pub(crate) static MEMORY_CALLBACKS: sys::OTF2_MemoryCallbacks = sys::OTF2_MemoryCallbacks {
    otf2_allocate: Some(allocate),
    otf2_free_all: Some(free_all),
};

struct Chunk {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Chunk {
    fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size.checked_add(SLACK_BYTES)?, ALIGNMENT).ok()?;
        // SAFETY: the layout has at least SLACK_BYTES bytes, so its size is not zero.
        let memory = unsafe { alloc(layout) };
        Some(Self {
            memory: NonNull::new(memory)?,
            layout,
        })
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
}

/// libotf2 wants a chunk for a buffer: the first request gets one, the next ones do until the buffer says
/// that it has flushed.
unsafe extern "C" fn allocate(
    user_data: *mut c_void,
    _file_type: sys::OTF2_FileType,
    _location: sys::OTF2_LocationRef,
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
        return buffer.chunk.memory.as_ptr().cast();
    }
    let Ok(size) = usize::try_from(chunk_size) else {
        return ptr::null_mut();
    };
    // SAFETY: the archive passes its pool to libotf2, keeps it until libotf2 has closed the archive, and does
    // not touch it meanwhile.
    let pool = unsafe { &mut *user_data.cast::<ChunkPool>() };
    let fits = |chunk: &Chunk| chunk.layout.size() == size.saturating_add(SLACK_BYTES);
    let chunk = match pool.free.iter().position(fits) {
        Some(index) => pool.free.swap_remove(index),
        None => match Chunk::new(size) {
            Some(chunk) => chunk,
            None => return ptr::null_mut(),
        },
    };
    let memory = chunk.memory.as_ptr().cast();
    *slot = Box::into_raw(Box::new(Buffer {
        chunk,
        in_use: true,
    }));
    memory
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
        }
        return;
    }
    let buffer = std::mem::replace(slot, ptr::null_mut());
    if buffer.is_null() {
        return;
    }
    // SAFETY: `allocate` made it with `Box::into_raw`, and the slot that held it is NULL now.
    let buffer = unsafe { Box::from_raw(buffer) };
    // SAFETY: as in `allocate`.
    let pool = unsafe { &mut *user_data.cast::<ChunkPool>() };
    pool.free.push(buffer.chunk);
}
