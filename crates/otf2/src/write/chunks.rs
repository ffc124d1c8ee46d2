//! Memory for libotf2's writers, one chunk per buffer, and what else libotf2 asks of a writing program: answers about
//! other writers, and the last chunk of a file where libotf2 would write past it.
//!
//! By default libotf2 buffers up to 128 MiB per writer before it writes anything. Here a writer's second request is
//! refused, so that it flushes its only chunk and reuses it. The next writer gets the chunk of a closed one, so that
//! thousands of locations written one after the other touch the same pages. A buffer keeps its chunk until it is
//! closed: if the request after a flush failed, libotf2 could not recover and would write through a NULL pointer.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::ptr::NonNull;
use std::{fs, ptr, slice};

use crate::error::{Result, io};
use crate::event::{BYTE_ORDER, END, END_OF_CHUNK, HEADER_MARK};
use crate::vocabulary::AttributeType;
use otf2_sys as sys;

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

/// libotf2 will write a buffer to its file. Declines if the file ends beyond the chunk: see [`FullChunk`].
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

/// The answers of an archive that is never the primary one: it writes only event files, no anchor and no global
/// definitions, and does not wait for others. libotf2 aborts on an unset callback, so all of them are set.
pub(super) static NEVER_PRIMARY: sys::OTF2_CollectiveCallbacks = sys::OTF2_CollectiveCallbacks {
    otf2_release: None,
    otf2_get_size: Some(two),
    otf2_get_rank: Some(one),
    otf2_create_local_comm: Some(create_local_comm),
    otf2_free_local_comm: Some(free_local_comm),
    otf2_barrier: Some(barrier),
    otf2_bcast: Some(broadcast_of_zeros),
    otf2_gather: Some(gather),
    otf2_gatherv: Some(gatherv),
    otf2_scatter: Some(scatter),
    otf2_scatterv: Some(scatterv),
};

const SUCCESS: sys::OTF2_CallbackCode = sys::OTF2_CALLBACK_SUCCESS;
/// Answer to calls that only other file substrates make.
const REFUSED: sys::OTF2_CallbackCode = sys::OTF2_CALLBACK_ERROR;

unsafe extern "C" fn two(
    _: *mut c_void,
    _: *mut sys::OTF2_CollectiveContext,
    size: *mut u32,
) -> sys::OTF2_CallbackCode {
    // SAFETY: libotf2 passes the address of a local variable.
    unsafe { size.write(2) };
    SUCCESS
}

unsafe extern "C" fn one(
    _: *mut c_void,
    _: *mut sys::OTF2_CollectiveContext,
    rank: *mut u32,
) -> sys::OTF2_CallbackCode {
    // SAFETY: libotf2 passes the address of a local variable.
    unsafe { rank.write(1) };
    SUCCESS
}

unsafe extern "C" fn barrier(_: *mut c_void, _: *mut sys::OTF2_CollectiveContext) -> sys::OTF2_CallbackCode {
    SUCCESS
}

/// The primary, which does not exist, broadcasts its status; zero means success.
unsafe extern "C" fn broadcast_of_zeros(
    _: *mut c_void,
    _: *mut sys::OTF2_CollectiveContext,
    data: *mut c_void,
    number_of_elements: u32,
    element_type: sys::OTF2_Type,
    _root: u32,
) -> sys::OTF2_CallbackCode {
    let size = match AttributeType::from_raw(element_type) {
        AttributeType::U8 | AttributeType::I8 => 1,
        AttributeType::U16 | AttributeType::I16 => 2,
        AttributeType::U32 | AttributeType::I32 | AttributeType::F32 => 4,
        AttributeType::U64 | AttributeType::I64 | AttributeType::F64 => 8,
        _ => return REFUSED,
    };
    let Ok(length) = usize::try_from(number_of_elements) else {
        return REFUSED;
    };
    // SAFETY: libotf2 passes a buffer of this many elements of this type.
    unsafe { ptr::write_bytes(data.cast::<u8>(), 0, length.saturating_mul(size)) };
    SUCCESS
}

/// Functions that only other file substrates call.
macro_rules! refuse {
    ($($name:ident($($argument:ty),*);)*) => {$(
        unsafe extern "C" fn $name(
            _: *mut c_void,
            $(_: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            REFUSED
        }
    )*};
}

type Context = *mut sys::OTF2_CollectiveContext;

refuse! {
    create_local_comm(*mut Context, Context, u32, u32, u32, u32, u32, u32);
    free_local_comm(Context);
    gather(Context, *const c_void, *mut c_void, u32, sys::OTF2_Type, u32);
    gatherv(Context, *const c_void, u32, *mut c_void, *const u32, sys::OTF2_Type, u32);
    scatter(Context, *const c_void, *mut c_void, u32, sys::OTF2_Type, u32);
    scatterv(Context, *const c_void, *const u32, *mut c_void, u32, sys::OTF2_Type, u32);
}

// libotf2 writes no last chunk for an event file without events, and a wrong one for a file whose last chunk is full.
//
// A writer of libotf2 keeps one byte of a chunk free, but ends a file with two bytes. If the last record leaves only
// that byte, the second goes beyond the chunk, and the flush that follows clears what it takes for the rest of the
// chunk: nearly the whole address space. The process crashes. The probability is one in a million, and there are
// millions of files. So `pre_flush` declines in this case, libotf2 closes the file without its last chunk, and
// `FullChunk` writes the chunk, with its end in a second chunk.

/// A chunk that libotf2 was not allowed to flush.
pub(super) struct FullChunk {
    /// The complete chunk. Its last byte is the first of the two that end a file.
    pub(super) bytes: Vec<u8>,
    /// Whether the file has no chunks yet, in which case libotf2 has not opened it.
    pub(super) is_first: bool,
}

/// Place of the last event's number in a chunk header.
const LAST_EVENT: std::ops::Range<usize> = 10..18;

impl FullChunk {
    /// Writes the chunk and the end to the file that libotf2 has closed. `events` counts all events of the file.
    pub(super) fn append_to(mut self, path: &Path, events: u64) -> Result<()> {
        if let Some(last_event) = self.bytes.get_mut(LAST_EVENT) {
            last_event.copy_from_slice(&events.to_ne_bytes());
        }
        if let Some(end) = self.bytes.last_mut() {
            *end = END_OF_CHUNK;
        }
        self.bytes.extend_from_slice(&last_chunk(events));
        let failed = |source| io("write the last chunk of", path, source);
        let mut file = if self.is_first {
            File::create(path).map_err(failed)?
        } else {
            File::options().append(true).open(path).map_err(failed)?
        };
        file.write_all(&self.bytes).map_err(failed)
    }
}

/// A chunk without events that ends a file with this many events; definitions do not count as events.
///
/// | bytes | meaning |
/// |---|---|
/// | `03` | chunk header |
/// | `42` or `23` | the following numbers are little- or big-endian |
/// | u64 | number of the chunk's first event: one more than the events of the file |
/// | u64 | number of its last event: one less than the first, so the chunk has none |
/// | `02` | end of file |
/// | `01` | end of buffer |
fn last_chunk(events: u64) -> [u8; 20] {
    let [a, b, c, d, e, f, g, h] = (events + 1).to_ne_bytes();
    let [i, j, k, l, m, n, o, p] = events.to_ne_bytes();
    [HEADER_MARK, BYTE_ORDER, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, END[0], END[1]]
}

/// Writes an event file without events. Readers fail on a location without an event file.
pub fn write_stub_events(path: &Path) -> Result<()> {
    fs::write(path, last_chunk(0)).map_err(|source| io("write the event file", path, source))
}
