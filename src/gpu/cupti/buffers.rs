//! The buffers into which CUPTI writes its records, the callbacks through which CUPTI requests and returns them, and
//! all calls of CUPTI.
//!
//! ```text
//!            request (launching thread)        complete (any thread)         worker
//!  EMPTY ──▶ FREE ────────────────────▶ GIVEN ───────────────────▶ FULL ──▶ READING ──▶ FREE
//! ```
//!
//! The buffers are in a fixed table, and every step is one exchange of a buffer's state. So the callbacks take no lock,
//! and use the table to recognise the plugin's buffers. A buffer that CUPTI holds is never freed. There is one table
//! per process, because CUPTI's global callbacks carry no user data.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::host::process;
use cupti_sys::Code;
use cupti_sys::Functions;
use cupti_sys::functions::{Subscriber, SubscriberParams};

pub(crate) const BYTES: usize = 4 << 20;
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

pub(crate) struct Pool {
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
pub(crate) struct FullBuffer<'a> {
    buffer: &'a Buffer,
}

static POOL: Pool = Pool::new();

pub(crate) fn pool() -> &'static Pool {
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
    pub(crate) fn open(&self, may_refuse: bool) {
        self.may_refuse.store(may_refuse, Ordering::Relaxed);
        self.is_read.store(true, Ordering::Relaxed);
        while self.count(FREE) < READY_AT_FIRST && self.add(FREE).is_some() {}
    }

    /// Discards the records of buffers that are returned from now on.
    pub(crate) fn close(&self) {
        self.is_read.store(false, Ordering::Relaxed);
    }

    /// Keeps some buffers free, so that launching threads do not have to map memory.
    pub(crate) fn top_up(&self) {
        while self.count(FREE) < READY && self.used() < MOST && self.add(FREE).is_some() {}
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.count(GIVEN)
    }

    /// The number of refused requests since the last call.
    pub(crate) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// The number of returned buffers that were not the plugin's, since the last call.
    pub(crate) fn take_foreign(&self) -> u64 {
        self.foreign.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn take_full(&self) -> Option<FullBuffer<'_>> {
        let buffer = self.used_buffers().iter().find(|buffer| buffer.moves(FULL, READING))?;
        Some(FullBuffer { buffer })
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

impl FullBuffer<'_> {
    pub(crate) fn base(&self) -> *mut u8 {
        self.buffer.base.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let valid = self.buffer.valid.load(Ordering::Relaxed);
        // SAFETY: the buffer has at least that many bytes (`take_back`), and only this thread uses it (READING).
        unsafe { std::slice::from_raw_parts(self.base(), valid) }
    }
}

impl Drop for FullBuffer<'_> {
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

pub(crate) extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
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

pub(crate) extern "C" fn requested_own(
    buffer: *mut *mut u8,
    size: *mut usize,
    records: *mut usize,
    _info: *mut c_void,
) {
    requested(buffer, size, records);
}

pub(crate) extern "C" fn completed(_context: *mut c_void, _stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    guarded(|| {
        if !buffer.is_null() {
            POOL.take_back(buffer, valid);
        }
    });
}

pub(crate) extern "C" fn completed_own(buffer: *mut u8, size: usize, valid: usize, info: *mut c_void) {
    completed(info, 0, buffer, size, valid);
}

// There is one method for each call of CUPTI, over CUPTI's two families of functions. All releases have the global
// family. The subscriber family, from CUDA 13.3 on, serves processes in which several tools use CUPTI. One process
// cannot use both.

#[derive(Clone, Copy, Debug)]
enum Family {
    /// The global functions; the subscription only keeps other tools out.
    Global(Subscriber),
    Own(Subscriber),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Driver,
    Runtime,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    functions: Functions,
    family: Family,
}

// SAFETY: CUPTI allows calls on any thread with the same subscriber; the handle is only passed back to CUPTI.
unsafe impl Send for Calls {}
// SAFETY: as above.
unsafe impl Sync for Calls {}

/// Calls a function, unless the release lacks it or this is a forked child.
macro_rules! call {
    ($function:expr $(, $argument:expr)*) => {
        match $function {
            Some(function) if !process::is_forked() => {
                // SAFETY: `cupti_sys` found the function by name in CUPTI, which stays loaded, and there is a driver.
                // Pointer arguments are NULL or point to variables of the caller.
                Code(unsafe { function($($argument),*) })
            }
            Some(_) => Code::DISABLED,
            None => Code::API_NOT_IMPLEMENTED,
        }
    };
}

macro_rules! by_family {
    ($self:ident, $global:ident, $own:ident $(, $argument:expr)* $(; own: $of_own:expr)?) => {
        match $self.family {
            Family::Global(_) => call!($self.functions.$global $(, $argument)*),
            Family::Own(subscriber) => call!($self.functions.$own, subscriber $(, $argument)* $(, $of_own)?),
        }
    };
}

/// The callback that a subscription requires. CUPTI never calls it, because no callbacks are enabled.
extern "C" fn no_callback(_data: *mut c_void, _domain: c_int, _id: u32, _info: *const c_void) {}

pub(crate) fn version(functions: &Functions) -> Result<u32, Code> {
    let mut version = 0;
    match call!(functions.get_version, &raw mut version) {
        Code::SUCCESS => Ok(version),
        code => Err(code),
    }
}

/// Whether a tool is tracing with CUPTI now; false if the release lacks the function.
pub(crate) fn is_session_running(functions: &Functions) -> bool {
    let mut running = 0;
    call!(functions.is_tracing_session_running, &raw mut running).is_success() && running != 0
}

pub(crate) const fn has_own_family(functions: &Functions) -> bool {
    functions.subscribe_v2.is_some()
        && functions.register_callbacks_v2.is_some()
        && functions.enable_v2.is_some()
        && functions.disable_v2.is_some()
        && functions.enable_driver_api_v2.is_some()
        && functions.push_v2.is_some()
        && functions.pop_v2.is_some()
        && functions.get_next_record_v2.is_some()
        && functions.get_timestamp_v2.is_some()
}

impl Calls {
    /// Subscribes as one of several tools. An error names the tool that holds CUPTI, if CUPTI reports it.
    pub(crate) fn subscribe_own(functions: Functions) -> Result<Self, (Code, String)> {
        let mut subscriber: Subscriber = ptr::null_mut();
        let mut holder = [0_u8; cupti_sys::functions::OLD_SUBSCRIBER_NAME_BYTES + 64];
        let mut params = SubscriberParams {
            struct_size: size_of::<SubscriberParams>(),
            subscriber_name: c"nccl-otf2".as_ptr(),
            old_subscriber_name: holder.as_mut_ptr().cast(),
            old_subscriber_size: holder.len() - 1,
            allow_multiple_subscribers: 1,
            padding: [0; 7],
        };
        let code = call!(functions.subscribe_v2, &raw mut subscriber, no_callback, ptr::null_mut(), &raw mut params);
        if code.is_success() {
            return Ok(Self { functions, family: Family::Own(subscriber) });
        }
        let name: Vec<u8> = holder.into_iter().take_while(|byte| *byte != 0).collect();
        Err((code, String::from_utf8_lossy(&name).into_owned()))
    }

    pub(crate) fn subscribe_global(functions: Functions) -> Result<Self, Code> {
        let mut subscriber: Subscriber = ptr::null_mut();
        match call!(functions.subscribe, &raw mut subscriber, no_callback, ptr::null_mut()) {
            Code::SUCCESS => Ok(Self { functions, family: Family::Global(subscriber) }),
            code => Err(code),
        }
    }

    /// Whether other tools in the process can use CUPTI at the same time.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.family, Family::Own(_))
    }

    pub(crate) fn unsubscribe(&self) -> Code {
        let (Family::Global(subscriber) | Family::Own(subscriber)) = self.family;
        call!(self.functions.unsubscribe, subscriber)
    }

    pub(crate) fn register_buffers(&self) -> Code {
        match self.family {
            Family::Global(_) => call!(self.functions.register_callbacks, requested, completed),
            Family::Own(subscriber) => {
                call!(self.functions.register_callbacks_v2, subscriber, requested_own, completed_own)
            }
        }
    }

    pub(crate) fn set_attribute_u8(&self, attribute: u32, mut value: u8) -> Code {
        let mut size = size_of::<u8>();
        let value = (&raw mut value).cast();
        by_family!(self, set_attribute, set_attribute_v2, attribute, &raw mut size, value)
    }

    pub(crate) fn enable(&self, kind: u32) -> Code {
        by_family!(self, enable, enable_v2, kind; own: ptr::null_mut())
    }

    pub(crate) fn disable(&self, kind: u32) -> Code {
        by_family!(self, disable, disable_v2, kind; own: ptr::null_mut())
    }

    pub(crate) fn function(&self, api: Api, cbid: u32, on: bool) -> Code {
        let on = u8::from(on);
        match api {
            Api::Driver => by_family!(self, enable_driver_api, enable_driver_api_v2, cbid, on),
            Api::Runtime => by_family!(self, enable_runtime_api, enable_runtime_api_v2, cbid, on),
        }
    }

    /// Pushes an id, with which CUPTI tags this thread's following calls.
    #[inline]
    pub(crate) fn push(&self, kind: u32, id: u64) -> Code {
        by_family!(self, push, push_v2, kind, id)
    }

    #[inline]
    pub(crate) fn pop(&self, kind: u32) -> Result<u64, Code> {
        let mut last = 0;
        match by_family!(self, pop, pop_v2, kind, &raw mut last) {
            Code::SUCCESS => Ok(last),
            code => Err(code),
        }
    }

    /// Blocks until CUPTI has returned its buffers. Must not be called from a callback or with a lock held.
    pub(crate) fn flush(&self, flag: u32) -> Code {
        call!(self.functions.flush_all, flag)
    }

    /// The record after `record`, or the first record if `record` is NULL.
    ///
    /// # Safety
    /// CUPTI returned `buffer` with `valid` bytes, nothing else accesses it, and `record` points into it or is NULL.
    pub(crate) unsafe fn next_record(&self, buffer: *mut u8, valid: usize, record: *mut u8) -> Result<*mut u8, Code> {
        let mut record = record;
        match by_family!(self, get_next_record, get_next_record_v2, buffer, valid, &raw mut record) {
            Code::SUCCESS => Ok(record),
            code => Err(code),
        }
    }

    /// The number of records that CUPTI dropped since the last call.
    pub(crate) fn dropped(&self) -> Result<u64, Code> {
        let mut dropped: usize = 0;
        let code = by_family!(self, get_dropped, get_dropped_v2, ptr::null_mut(), 0, &raw mut dropped);
        if code.is_success() { Ok(u64::try_from(dropped).unwrap_or(u64::MAX)) } else { Err(code) }
    }

    /// The current time on the clock of the records.
    pub(crate) fn timestamp_ns(&self) -> Option<u64> {
        let mut timestamp = 0;
        let code = by_family!(self, get_timestamp, get_timestamp_v2, &raw mut timestamp);
        (code.is_success() && timestamp != 0).then_some(timestamp)
    }
}

#[cfg(test)]
mod tests;
