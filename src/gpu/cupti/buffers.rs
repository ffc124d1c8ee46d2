//! The memory that CUPTI writes its records into, and the two functions by which it asks for some and gives it back.
//!
//! ```text
//!            request (launching thread)        complete (any thread)         worker
//!  EMPTY ──▶ FREE ────────────────────▶ GIVEN ───────────────────▶ FULL ──▶ READING ──▶ FREE
//! ```
//!
//! A buffer is a place in a fixed table, and every step is one exchange of its state: the callbacks take no lock,
//! search no list that changes, and know by the table which buffers are ours. One that CUPTI has is never freed.
//! There is one table for the process, since CUPTI's global callbacks carry no data of ours.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::calls;

/// Bytes of a buffer.
pub(super) const BYTES: usize = 4 << 20;
/// Buffers that are ready when recording begins. Memory comes with the first use of each page.
const READY_AT_FIRST: usize = 16;
/// The worker keeps at least this many ready.
const READY: usize = 8;
/// Where CUPTI may be refused a buffer, it is refused more than this many: 512 MiB.
const MOST: usize = 128;
/// Where it may not, this is the end: 4 GiB.
const PLACES: usize = 1024;

const EMPTY: u8 = 0;
const FREE: u8 = 1;
const GIVEN: u8 = 2;
const FULL: u8 = 3;
const READING: u8 = 4;
/// Being mapped.
const TAKEN: u8 = 5;

struct Place {
    state: AtomicU8,
    base: AtomicPtr<u8>,
    valid: AtomicUsize,
}

/// The table.
pub(super) struct Pool {
    places: [Place; PLACES],
    /// Places from here on were never used.
    used: AtomicUsize,
    /// Whether this CUPTI can be told that there is no buffer.
    may_refuse: AtomicBool,
    /// Whether what comes back is read.
    is_read: AtomicBool,
    refused: AtomicU64,
    foreign: AtomicU64,
}

/// A buffer that came back, for this thread alone.
pub(super) struct Full<'a> {
    place: &'a Place,
}

static POOL: Pool = Pool::new();

/// The process's buffers.
pub(super) fn pool() -> &'static Pool {
    &POOL
}

impl Pool {
    const fn new() -> Self {
        Self {
            places: [const {
                Place {
                    state: AtomicU8::new(EMPTY),
                    base: AtomicPtr::new(ptr::null_mut()),
                    valid: AtomicUsize::new(0),
                }
            }; PLACES],
            used: AtomicUsize::new(0),
            may_refuse: AtomicBool::new(false),
            is_read: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
        }
    }

    /// Gets ready for a session with a CUPTI that can, or cannot, be refused a buffer.
    pub(super) fn open(&self, may_refuse: bool) {
        self.may_refuse.store(may_refuse, Ordering::Relaxed);
        self.is_read.store(true, Ordering::Relaxed);
        while self.count(FREE) < READY_AT_FIRST && self.add(FREE).is_some() {}
    }

    /// From here on what comes back is emptied unread.
    pub(super) fn close(&self) {
        self.is_read.store(false, Ordering::Relaxed);
    }

    /// Sees to it that some are ready, so that a launching thread need not map one.
    pub(super) fn top_up(&self) {
        while self.count(FREE) < READY && self.used() < MOST && self.add(FREE).is_some() {}
    }

    /// How many CUPTI has.
    pub(super) fn outstanding(&self) -> usize {
        self.count(GIVEN)
    }

    /// How often there was none since this was asked last.
    pub(super) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// How many came back that are not ours, or that we had back already, since this was asked last.
    pub(super) fn take_foreign(&self) -> u64 {
        self.foreign.swap(0, Ordering::Relaxed)
    }

    /// A buffer that came back.
    pub(super) fn take_full(&self) -> Option<Full<'_>> {
        let place = self
            .used_places()
            .iter()
            .find(|place| place.moves(FULL, READING))?;
        Some(Full { place })
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Acquire).min(PLACES)
    }

    fn used_places(&self) -> &[Place] {
        self.places.get(..self.used()).unwrap_or(&self.places)
    }

    fn count(&self, state: u8) -> usize {
        let is = |place: &&Place| place.state.load(Ordering::Relaxed) == state;
        self.used_places().iter().filter(is).count()
    }

    /// Maps one more buffer, which is then in `state`.
    fn add(&self, state: u8) -> Option<*mut u8> {
        // A place that was reserved when the system had no memory comes before a new one.
        let retry = self
            .used_places()
            .iter()
            .find(|place| place.moves(EMPTY, TAKEN));
        let place = match retry {
            Some(place) => place,
            None => {
                let next = |used| (used < PLACES).then_some(used + 1);
                let index = self
                    .used
                    .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next)
                    .ok()?;
                let place = self.places.get(index)?;
                if !place.moves(EMPTY, TAKEN) {
                    return None;
                }
                place
            }
        };
        let base = map();
        place.base.store(base, Ordering::Release);
        let state = if base.is_null() { EMPTY } else { state };
        place.state.store(state, Ordering::Release);
        (!base.is_null()).then_some(base)
    }

    /// A clean buffer for CUPTI, or NULL. On an application's thread, inside of a CUDA call.
    fn give(&self) -> *mut u8 {
        if let Some(place) = self
            .used_places()
            .iter()
            .find(|place| place.moves(FREE, GIVEN))
        {
            return place.base.load(Ordering::Acquire);
        }
        // The worker keeps some ready, so this is a burst of new threads: one system call, no lock of ours.
        let may_refuse = self.may_refuse.load(Ordering::Relaxed);
        if !(may_refuse && self.used() >= MOST)
            && let Some(base) = self.add(GIVEN)
        {
            return base;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        ptr::null_mut()
    }

    /// A buffer comes back. On any thread.
    fn take_back(&self, base: *mut u8, valid: usize) {
        let ours = |place: &&Place| ptr::eq(place.base.load(Ordering::Acquire), base);
        let place = self.used_places().iter().find(ours);
        let Some(place) = place.filter(|place| place.moves(GIVEN, TAKEN)) else {
            // Another tool's, which our callback got since there is one pair of callbacks in the process: its memory
            // is not ours to read, and not ours to free.
            self.foreign.fetch_add(1, Ordering::Relaxed);
            return;
        };
        place.valid.store(valid.min(BYTES), Ordering::Relaxed);
        if self.is_read.load(Ordering::Relaxed) {
            place.state.store(FULL, Ordering::Release);
        } else {
            place.clean();
        }
    }
}

impl Place {
    fn moves(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Makes all bytes zero and the buffer free.
    fn clean(&self) {
        let base = self.base.load(Ordering::Acquire);
        // Not by writing zeros: this leaves the pages that the next use does not reach unused.
        // SAFETY: pages of a mapping of ours that is never unmapped; nobody uses them in this state.
        let emptied = unsafe { libc::madvise(base.cast(), BYTES, libc::MADV_DONTNEED) } == 0;
        if !emptied {
            // SAFETY: the mapping has this many bytes, and nobody uses them in this state.
            unsafe { ptr::write_bytes(base, 0, BYTES) };
        }
        self.state.store(FREE, Ordering::Release);
    }
}

impl Full<'_> {
    /// Where it begins.
    pub(super) fn base(&self) -> *mut u8 {
        self.place.base.load(Ordering::Acquire)
    }

    /// The bytes that have records.
    pub(super) fn bytes(&self) -> &[u8] {
        let valid = self.place.valid.load(Ordering::Relaxed);
        // SAFETY: CUPTI gave the buffer back, which has at least that many bytes; this thread alone has it (READING).
        unsafe { std::slice::from_raw_parts(self.base(), valid) }
    }
}

impl Drop for Full<'_> {
    fn drop(&mut self) {
        self.place.clean();
    }
}

/// Memory of zeros, aligned to a page; NULL when the system has none.
fn map() -> *mut u8 {
    // SAFETY: a new mapping, of no file, where the system likes.
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
    if base == libc::MAP_FAILED {
        ptr::null_mut()
    } else {
        base.cast()
    }
}

/// Runs a callback; a panic in it must not reach CUPTI.
fn guarded(callback: impl FnOnce()) {
    if !calls::is_dead() {
        // What a panic left half-done is a buffer that is out of use.
        let _panicked = catch_unwind(AssertUnwindSafe(callback));
    }
}

fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    guarded(|| {
        if buffer.is_null() || size.is_null() || records.is_null() {
            return;
        }
        let base = POOL.give();
        // SAFETY: CUPTI's variable, not NULL.
        unsafe { buffer.write(base) };
        let bytes = if base.is_null() { 0 } else { BYTES };
        // SAFETY: CUPTI's variable, not NULL.
        unsafe { size.write(bytes) };
        // As many as go in.
        // SAFETY: CUPTI's variable, not NULL.
        unsafe { records.write(0) };
    });
}

fn complete(buffer: *mut u8, valid: usize) {
    guarded(|| {
        if !buffer.is_null() {
            POOL.take_back(buffer, valid);
        }
    });
}

pub(super) extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    request(buffer, size, records);
}

pub(super) extern "C" fn requested_own(
    buffer: *mut *mut u8,
    size: *mut usize,
    records: *mut usize,
    _info: *mut c_void,
) {
    request(buffer, size, records);
}

pub(super) extern "C" fn completed(
    _context: *mut c_void,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    complete(buffer, valid);
}

pub(super) extern "C" fn completed_own(
    buffer: *mut u8,
    _size: usize,
    valid: usize,
    _info: *mut c_void,
) {
    complete(buffer, valid);
}

#[cfg(test)]
mod tests;
