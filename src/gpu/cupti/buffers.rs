//! The buffers into which CUPTI writes its records, and the callbacks through which CUPTI requests and returns them.
//!
//! ```text
//!            request (launching thread)        complete (any thread)         worker
//!  EMPTY ──▶ FREE ────────────────────▶ GIVEN ───────────────────▶ FULL ──▶ READING ──▶ FREE
//! ```
//!
//! The buffers are in a fixed table, and every step is one exchange of a buffer's state. So the callbacks take no lock,
//! and use the table to recognise the plugin's buffers. A buffer that CUPTI holds is never freed. There is one table
//! per process, because CUPTI's global callbacks carry no user data.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::host::process;

pub(super) const BYTES: usize = 4 << 20;
/// The number of buffers when recording begins. A page uses memory only once it is touched.
const READY_AT_FIRST: usize = 16;
/// The number of free buffers that the worker keeps.
const READY: usize = 8;
/// The limit if CUPTI accepts a refused request for a buffer: 512 MiB.
const MOST: usize = 128;
/// The limit if CUPTI does not accept a refusal: 4 GiB.
const HARD_LIMIT: usize = 1024;

const EMPTY: u8 = 0;
const FREE: u8 = 1;
const GIVEN: u8 = 2;
const FULL: u8 = 3;
const READING: u8 = 4;
/// A thread is mapping the buffer, or changing its state.
const TAKEN: u8 = 5;

struct Buffer {
    state: AtomicU8,
    base: AtomicPtr<u8>,
    valid: AtomicUsize,
}

pub(super) struct Pool {
    buffers: [Buffer; HARD_LIMIT],
    /// Buffers from this index on have never been used.
    used: AtomicUsize,
    /// Whether this CUPTI accepts a refused request.
    may_refuse: AtomicBool,
    is_read: AtomicBool,
    refused: AtomicU64,
    foreign: AtomicU64,
}

/// A returned buffer, owned by this thread.
pub(super) struct Full<'a> {
    buffer: &'a Buffer,
}

static POOL: Pool = Pool::new();

pub(super) fn pool() -> &'static Pool {
    &POOL
}

impl Pool {
    const fn new() -> Self {
        Self {
            buffers: [const {
                Buffer {
                    state: AtomicU8::new(EMPTY),
                    base: AtomicPtr::new(ptr::null_mut()),
                    valid: AtomicUsize::new(0),
                }
            }; HARD_LIMIT],
            used: AtomicUsize::new(0),
            may_refuse: AtomicBool::new(false),
            is_read: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
        }
    }

    /// Prepares for a session. `may_refuse`: whether this CUPTI accepts a refused request for a buffer.
    pub(super) fn open(&self, may_refuse: bool) {
        self.may_refuse.store(may_refuse, Ordering::Relaxed);
        self.is_read.store(true, Ordering::Relaxed);
        while self.count(FREE) < READY_AT_FIRST && self.add(FREE).is_some() {}
    }

    /// Discards the records of buffers that are returned from now on.
    pub(super) fn close(&self) {
        self.is_read.store(false, Ordering::Relaxed);
    }

    /// Keeps some buffers free, so that launching threads do not have to map memory.
    pub(super) fn top_up(&self) {
        while self.count(FREE) < READY && self.used() < MOST && self.add(FREE).is_some() {}
    }

    pub(super) fn outstanding(&self) -> usize {
        self.count(GIVEN)
    }

    /// The number of refused requests since the last call.
    pub(super) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// The number of returned buffers that were not the plugin's, since the last call.
    pub(super) fn take_foreign(&self) -> u64 {
        self.foreign.swap(0, Ordering::Relaxed)
    }

    pub(super) fn take_full(&self) -> Option<Full<'_>> {
        let buffer = self.used_buffers().iter().find(|buffer| buffer.moves(FULL, READING))?;
        Some(Full { buffer })
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Acquire).min(HARD_LIMIT)
    }

    fn used_buffers(&self) -> &[Buffer] {
        self.buffers.get(..self.used()).unwrap_or(&self.buffers)
    }

    fn count(&self, state: u8) -> usize {
        let is = |buffer: &&Buffer| buffer.state.load(Ordering::Relaxed) == state;
        self.used_buffers().iter().filter(is).count()
    }

    fn add(&self, state: u8) -> Option<*mut u8> {
        // First retry an entry reserved earlier, when the system had no memory.
        let retry = self.used_buffers().iter().find(|buffer| buffer.moves(EMPTY, TAKEN));
        let buffer = match retry {
            Some(buffer) => buffer,
            None => {
                let next = |used| (used < HARD_LIMIT).then_some(used + 1);
                let index = self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()?;
                let buffer = self.buffers.get(index)?;
                if !buffer.moves(EMPTY, TAKEN) {
                    return None;
                }
                buffer
            }
        };
        let base = map();
        buffer.base.store(base, Ordering::Release);
        let state = if base.is_null() { EMPTY } else { state };
        buffer.state.store(state, Ordering::Release);
        (!base.is_null()).then_some(base)
    }

    /// Returns a clean buffer for CUPTI, or NULL. Runs on a thread of the program, inside a CUDA call.
    fn give(&self) -> *mut u8 {
        if let Some(buffer) = self.used_buffers().iter().find(|buffer| buffer.moves(FREE, GIVEN)) {
            return buffer.base.load(Ordering::Acquire);
        }
        // The worker keeps buffers free, so this is a burst of new threads. Mapping needs a system call but no lock.
        let may_refuse = self.may_refuse.load(Ordering::Relaxed);
        if !(may_refuse && self.used() >= MOST)
            && let Some(base) = self.add(GIVEN)
        {
            return base;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        ptr::null_mut()
    }

    fn take_back(&self, base: *mut u8, valid: usize) {
        let ours = |buffer: &&Buffer| ptr::eq(buffer.base.load(Ordering::Acquire), base);
        let buffer = self.used_buffers().iter().find(ours);
        let Some(buffer) = buffer.filter(|buffer| buffer.moves(GIVEN, TAKEN)) else {
            // Another tool's buffer: the process has one pair of callbacks. The plugin must not read or free it.
            self.foreign.fetch_add(1, Ordering::Relaxed);
            return;
        };
        buffer.valid.store(valid.min(BYTES), Ordering::Relaxed);
        if self.is_read.load(Ordering::Relaxed) {
            buffer.state.store(FULL, Ordering::Release);
        } else {
            buffer.clean();
        }
    }
}

impl Buffer {
    fn moves(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn clean(&self) {
        let base = self.base.load(Ordering::Acquire);
        // Cheaper than writing zeroes: pages that the next use does not reach take no memory.
        // SAFETY: pages of the plugin's own mapping, which is never unmapped; nothing uses them in this state.
        let emptied = unsafe { libc::madvise(base.cast(), BYTES, libc::MADV_DONTNEED) } == 0;
        if !emptied {
            // SAFETY: the mapping has this many bytes, and nothing uses them in this state.
            unsafe { ptr::write_bytes(base, 0, BYTES) };
        }
        self.state.store(FREE, Ordering::Release);
    }
}

impl Full<'_> {
    pub(super) fn base(&self) -> *mut u8 {
        self.buffer.base.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let valid = self.buffer.valid.load(Ordering::Relaxed);
        // SAFETY: the buffer has at least that many bytes (`take_back`), and only this thread uses it (READING).
        unsafe { std::slice::from_raw_parts(self.base(), valid) }
    }
}

impl Drop for Full<'_> {
    fn drop(&mut self) {
        self.buffer.clean();
    }
}

/// Maps zeroed memory, aligned to a page; NULL if the system has none.
fn map() -> *mut u8 {
    // SAFETY: a new anonymous mapping at an address that the system chooses.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED { ptr::null_mut() } else { base.cast() }
}

/// Runs a callback. A panic must not reach CUPTI.
fn guarded(callback: impl FnOnce()) {
    if !process::is_forked() {
        // After a panic the buffer is never used again.
        let _panicked = in_process::catch(callback);
    }
}

pub(super) extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    guarded(|| {
        if buffer.is_null() || size.is_null() || records.is_null() {
            return;
        }
        let base = POOL.give();
        // SAFETY: CUPTI's variable, which is not NULL.
        unsafe { buffer.write(base) };
        let bytes = if base.is_null() { 0 } else { BYTES };
        // SAFETY: CUPTI's variable, which is not NULL.
        unsafe { size.write(bytes) };
        // 0 means as many records as fit.
        // SAFETY: CUPTI's variable, which is not NULL.
        unsafe { records.write(0) };
    });
}

pub(super) extern "C" fn requested_own(
    buffer: *mut *mut u8,
    size: *mut usize,
    records: *mut usize,
    _info: *mut c_void,
) {
    requested(buffer, size, records);
}

pub(super) extern "C" fn completed(_context: *mut c_void, _stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    guarded(|| {
        if !buffer.is_null() {
            POOL.take_back(buffer, valid);
        }
    });
}

pub(super) extern "C" fn completed_own(buffer: *mut u8, size: usize, valid: usize, info: *mut c_void) {
    completed(info, 0, buffer, size, valid);
}

#[cfg(test)]
mod tests;
