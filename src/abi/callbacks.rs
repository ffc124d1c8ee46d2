//! The only boundary between NCCL and the plugin: the exported tables, the functions in them, and the guard around
//! each. Each function makes one call into the guard, returns success, and accepts NULL pointers. The function that the
//! TensorFlow library calls is here, too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};

use crate::abi::chained::Communicator;
use crate::abi::versions::pointer;
use crate::abi::{
    Descriptor, Interface, StateArguments, chained, ncclDebugLogger_t, ncclProfilerEventState_t, ncclResult_t,
    ncclSuccess,
};
use crate::host::process;
use crate::session::InitReply;
use crate::{abi, record, session};
use in_process::{Panic, Recorded, RecordedFunction};
use journal::uninterrupted::{not_cancelled, uninterrupted};
use nccl_events::ids::EventId;
use nccl_events::{Body, CommInit, Kind, Name, Start, State, StateArgs, Table, event, state};

/// `init` of v1 to v3, which does not describe the communicator.
pub(super) unsafe extern "C" fn init_v1<D: Interface>(context: *mut *mut c_void, mask: *mut c_int) -> ncclResult_t {
    let comm =
        CommInit { table: D::TABLE, comm_id: 0, name: Name::NONE, nodes: 0, ranks: 0, rank: -1, nccl_version: 0 };
    let raw = Communicator { id: 0, name: ptr::null(), nodes: 0, ranks: 0, rank: -1, logger: None };
    // SAFETY: NCCL's own pointers, passed on unchanged.
    unsafe { init(context, mask, &raw, comm) }
}

pub(super) unsafe extern "C" fn init_v4<D: Interface>(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    comm_hash: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: ncclDebugLogger_t,
) -> ncclResult_t {
    // SAFETY: NCCL's own arguments, in the order of v5.
    unsafe { init_v5::<D>(context, comm_hash, mask, name, nodes, ranks, rank, logger) }
}

/// `init` of v5 to v7: the arguments of v4, reordered.
pub(super) unsafe extern "C" fn init_v5<D: Interface>(
    context: *mut *mut c_void,
    comm_id: u64,
    mask: *mut c_int,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: ncclDebugLogger_t,
) -> ncclResult_t {
    let comm = CommInit {
        table: D::TABLE,
        comm_id,
        // SAFETY: NCCL passes NULL or the communicator's name, which lives as long as the communicator.
        name: unsafe { Name::from_ptr(name) },
        nodes,
        ranks,
        rank,
        nccl_version: 0,
    };
    let raw = Communicator { id: comm_id, name, nodes, ranks, rank, logger };
    // SAFETY: NCCL's own pointers, passed on unchanged.
    unsafe { init(context, mask, &raw, comm) }
}

/// Always succeeds, with a context of the plugin's own. In most releases a failing `init` makes NCCL crash or unload a
/// plugin that is in use (2.23–2.27 call through NULL at the last destroy, ≥ 2.30.3 count down twice).
///
/// # Safety
/// `context` is NULL or writable, `mask` is NULL or an int of libnccl, and `raw` has NCCL's other arguments.
unsafe fn init(
    context: *mut *mut c_void,
    mask: *mut c_int,
    raw: &Communicator,
    mut comm: CommInit<'_>,
) -> ncclResult_t {
    let reply = SWITCH.run_whole("init", || {
        process::remember_mask(mask);
        process::remember_logger(raw.logger);
        process::add_communicator();
        let logger = raw.logger.map_or(ptr::null(), |logger| logger as *const c_void);
        process::find_nccl_version([mask.cast_const().cast(), logger]);
        comm.nccl_version = process::nccl_version();
        chained::begin(comm.table);
        let Some(chain) = chained::loaded_chain() else {
            return uninterrupted(|| session::init(&comm));
        };
        SWITCH.begin_chain();
        // SAFETY: the contract. This precedes the session, which records how each plugin answered.
        let contexts = unsafe { chain.init(comm.table, raw) };
        let reply = uninterrupted(|| session::init(&comm));
        chain.keep(reply.context.get(), &contexts);
        reply
    });
    let reply = reply.unwrap_or(InitReply { context: nccl_events::ids::ContextId::NONE, mask: 0 });
    let events = process::unite_mask(if SWITCH.is_off() { 0 } else { reply.mask });
    if !mask.is_null() {
        // SAFETY: not NULL, so it is NCCL's int (contract). NCCL reads it with plain loads of an aligned int.
        let mask = unsafe { AtomicI32::from_ptr(mask) };
        mask.store(events.cast_signed(), Ordering::Relaxed);
    }
    if !context.is_null() {
        let handle = match reply.context.get() {
            0 => stand_in_context(),
            number => number,
        };
        // SAFETY: not NULL, so it is where NCCL wants the context (contract).
        unsafe { context.write(pointer(handle)) };
    }
    ncclSuccess
}

pub(super) unsafe extern "C" fn start_event<D: Interface>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *mut D,
) -> ncclResult_t {
    let body = move || {
        let Some(descriptor) = NonNull::new(descriptor) else {
            return EventId::NONE;
        };
        // SAFETY: NCCL found this function in the table of the version that the descriptor has.
        unsafe { record_start(context, descriptor) }
    };
    // SAFETY: NCCL's own arguments.
    let chained = move || unsafe { start_chained::<D>(context, descriptor) };
    // SAFETY: NCCL passes NULL or the place for the handle.
    unsafe { SWITCH.start(handle, body, chained) };
    ncclSuccess
}

/// # Safety
/// As [`Descriptor::read`].
#[inline(always)]
unsafe fn record_start<D: Descriptor>(context: *mut c_void, descriptor: NonNull<D>) -> EventId {
    let mut start = Start { context: number(context), parent: 0, rank: -1, body: Body::Group(event::Group {}) };
    // SAFETY: this function's contract; the result does not outlive this callback.
    unsafe { D::read(descriptor, &mut start) };
    record::start(&start)
}

/// `startEvent` with chained plugins. Out of line, to keep the callback short without them.
///
/// # Safety
/// As for `startEvent` of this table.
#[cold]
unsafe fn start_chained<D: Interface>(context: *mut c_void, descriptor: *mut D) -> EventId {
    let (Some(chain), Some(descriptor)) = (chained::loaded_chain(), NonNull::new(descriptor)) else {
        return EventId::NONE;
    };
    // SAFETY: NCCL found the callback in the table of the version that the descriptor has.
    let mut own = || unsafe { record_start(context, descriptor) };
    // SAFETY: as above.
    unsafe { chain.start(D::TABLE, number(context), descriptor.cast(), &mut own) }
}

pub(super) unsafe extern "C" fn stop_event(handle: *mut c_void) -> ncclResult_t {
    let event = number(handle);
    SWITCH.recording("stopEvent", move || record::stop(event), move || stop_chained(event));
    ncclSuccess
}

#[cold]
fn stop_chained(event: u64) {
    record::stop(EventId::from_raw(event).own().get());
    if let Some(chain) = chained::loaded_chain() {
        chain.stop(event);
    }
}

pub(super) unsafe extern "C" fn record_event_state<D: Interface>(
    handle: *mut c_void,
    state: ncclProfilerEventState_t,
    arguments: *mut D::Arguments,
) -> ncclResult_t {
    let event = number(handle);
    // SAFETY: NCCL found this function in a table whose versions have these arguments.
    let body = move || unsafe { record_state::<D>(event, state, arguments) };
    // SAFETY: as above.
    let chained = move || unsafe { state_chained::<D>(event, state, arguments) };
    SWITCH.recording("recordEventState", body, chained);
    ncclSuccess
}

/// # Safety
/// The arguments are NULL or meet the contract of [`StateArguments::read`].
#[inline(always)]
unsafe fn record_state<D: Interface>(event: u64, state: u32, arguments: *mut D::Arguments) {
    // RCCL's v6 uses this number for another state with other arguments.
    let has_phases = const { event::has(D::TABLE, Kind::KernelPhase) };
    let is_known = has_phases || state != state::KERNEL_PHASE_STOP;
    let args = NonNull::new(arguments).filter(|_| is_known).map_or(StateArgs::None, |arguments| {
        // SAFETY: this function's contract.
        unsafe { D::Arguments::read(arguments, state) }
    });
    record::state(&State { event, state, args });
}

/// `recordEventState` with chained plugins.
///
/// # Safety
/// As for `recordEventState` of this table.
#[cold]
unsafe fn state_chained<D: Interface>(event: u64, state: ncclProfilerEventState_t, arguments: *mut D::Arguments) {
    let own = EventId::from_raw(event).own().get();
    // SAFETY: NCCL found the callback in a table whose versions have these arguments.
    unsafe { record_state::<D>(own, state, arguments) };
    if let Some(chain) = chained::loaded_chain() {
        // SAFETY: as above.
        unsafe { chain.state(D::TABLE, event, state, arguments.cast()) };
    }
}

pub(super) unsafe extern "C" fn finalize<D: Interface>(context: *mut c_void) -> ncclResult_t {
    // Releases up to 2.27 finalize a communicator that failed before the plugin's `init`, with a NULL context.
    if !context.is_null() {
        let context = number(context);
        if !is_stand_in(context) {
            SWITCH.run_whole("finalize", || {
                if let Some(chain) = chained::loaded_chain() {
                    chain.finalize(D::TABLE, context);
                }
                session::finalize(context);
            });
        }
        // After the session's end, which still logs through NCCL.
        process::remove_communicator();
    }
    ncclSuccess
}

/// The largest contexts, used if the session gave none. A real context would reach them only as the 2^36th.
const STAND_INS: u64 = 1 << 20;
static STAND_IN: AtomicU64 = AtomicU64::new(0);

/// Returns a context that is not NULL and not in use: up to 2.27 a NULL context turns up later, and from 2.31 on NCCL
/// drops the events of all communicators with the same context when one of them ends.
pub(super) fn stand_in_context() -> u64 {
    u64::MAX - STAND_IN.fetch_add(1, Ordering::Relaxed) % STAND_INS
}

pub(super) const fn is_stand_in(context: u64) -> bool {
    context > u64::MAX - STAND_INS
}

#[inline]
fn number(handle: *mut c_void) -> u64 {
    handle.addr() as u64
}

// A panic must neither unwind into NCCL nor abort the job. The guard turns it into success with a NULL handle, switches
// recording off for the process, and reports it once. The guard allocates nothing unless something panics.

/// All that a callback reads of the process, side by side in `.data.hot`: the job's own work evicts it from the caches.
// SAFETY: of this and the other statics there: linkers place `.data.hot` in `.data`, which is writable.
#[unsafe(link_section = ".data.hot")]
pub(crate) static SWITCH: Switch = Switch::new(stop_recording);

/// Stops all recording; NCCL then calls as little as possible.
fn stop_recording() {
    record::disable();
    chained::disable();
    process::set_mask(0);
}

/// Turns recording off for good: after a panic the recorder's state cannot be trusted.
pub(crate) struct Switch {
    /// One byte holds both states, so that a process without chained plugins need not look for them in each callback.
    state: AtomicU8,
    stop: fn(),
}

const ALONE: u8 = 0;
const CHAINED: u8 = 1;
const OFF: u8 = 2;

impl Switch {
    const fn new(stop: fn()) -> Self {
        Self { state: AtomicU8::new(ALONE), stop }
    }

    /// Whether an internal error has switched recording off for the rest of this process.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OFF
    }

    /// From now on the callbacks of events also serve chained plugins.
    pub(super) fn begin_chain(&self) {
        let _off_or_begun = self.state.compare_exchange(ALONE, CHAINED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Runs `startEvent`, unless recording is off, and writes the handle in every case. A process with chained plugins
    /// runs `chained` instead of `body`.
    ///
    /// # Safety
    /// `handle` is NULL or writable.
    #[inline]
    pub(super) unsafe fn start(
        &self,
        handle: *mut *mut c_void,
        body: impl FnOnce() -> EventId,
        chained: impl FnOnce() -> EventId,
    ) {
        let Some(handle) = NonNull::new(handle) else {
            return;
        };
        // First, because some callers stop whatever their uninitialised variable holds (ProxyCtrl, in all releases),
        // and a child can start on another thread at once.
        // SAFETY: not NULL, so writable (contract).
        unsafe { handle.write(ptr::null_mut()) };
        if let Some(event) = self.recording("startEvent", body, chained) {
            // SAFETY: as above.
            unsafe { handle.write(pointer(event.get())) };
        }
    }

    /// Runs an event's callback, unless recording is off. `chained` is as in [`Self::start`].
    #[inline]
    pub(super) fn recording<R>(
        &self,
        callback: &'static str,
        body: impl FnOnce() -> R,
        chained: impl FnOnce() -> R,
    ) -> Option<R> {
        if self.state.load(Ordering::Relaxed) == ALONE {
            self.run(callback, body)
        } else {
            self.chained(callback, chained)
        }
    }

    #[cold]
    #[inline(never)]
    fn chained<R>(&self, callback: &'static str, chained: impl FnOnce() -> R) -> Option<R> {
        if self.is_off() { None } else { self.run_whole(callback, chained) }
    }

    /// Runs `init`, `finalize` or what calls other libraries, even if recording is off: earlier records are still
    /// written. The thread is not cancelled meanwhile: cancellation unwinds, and ends a program that catches it.
    pub(crate) fn run_whole<R>(&self, callback: &'static str, body: impl FnOnce() -> R) -> Option<R> {
        not_cancelled(|| self.run(callback, body))
    }

    /// Runs a callback or a function of NVTX's. What reaches a cancellation point in there switches cancellation off
    /// itself (`journal::uninterrupted`).
    #[inline]
    pub(crate) fn run<R>(&self, callback: &'static str, body: impl FnOnce() -> R) -> Option<R> {
        // State that a panic left half-updated is not used again, because everything is off then.
        match in_process::catch(body) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.turn_off(callback, &panic);
                None
            }
        }
    }

    /// Stops the recording and reports why, once. Only to stderr: NCCL's logger asks CUDA for the device, which a
    /// callback on CUDA's own thread must not do.
    #[cold]
    fn turn_off(&self, callback: &'static str, panic: &Panic) {
        if self.state.swap(OFF, Ordering::Relaxed) == OFF {
            return;
        }
        let _said = in_process::catch(|| {
            (self.stop)();
            not_cancelled(|| {
                in_process::print_line(&format!(
                    "internal error in {callback}: {panic}; this process records no more events, the job continues"
                ));
            });
        });
    }
}

// NCCL looks for the exported tables with `dlsym`, newest first, and uses the first that it finds. Each table lies in
// 128 zeroed bytes: forks of NCCL with more members in v7 read NULL, not the neighbour's memory.

/// The plugin's name in NCCL's log lines.
pub const NAME: &CStr = c"OTF2";

#[repr(C)]
pub struct Padded<T> {
    pub table: T,
    tail: [usize; 10],
}

// SAFETY: immutable: a pointer to a static string, and pointers to functions that any thread may call.
unsafe impl<T> Sync for Padded<T> {}

const _: () = assert!(size_of::<Padded<abi::ncclProfiler_v7_t>>() == 128);

macro_rules! tables {
    ($($version:ident $name:ident: $table:ident, $init:ident, $descriptor:ident, $arguments:ident;)*) => {
        $(
            #[doc = concat!("The table `", stringify!($name), "`.")]
            // SAFETY: the name is NCCL's, for exactly this purpose: no other library of a process defines it globally,
            // and NCCL looks it up through this library's handle.
            #[unsafe(no_mangle)]
            pub static $name: Padded<abi::$table> = Padded {
                table: abi::$table {
                    name: NAME.as_ptr(),
                    init: Some($init::<abi::$descriptor>),
                    startEvent: Some(start_event::<abi::$descriptor>),
                    stopEvent: Some(stop_event),
                    recordEventState: Some(record_event_state::<abi::$descriptor>),
                    finalize: Some(finalize::<abi::$descriptor>),
                },
                tail: [0; 10],
            };

            impl Interface for abi::$descriptor {
                const TABLE: Table = Table::$version;
                type Arguments = abi::$arguments;
            }
        )*

        // Every version is exported.
        const _: () = match Table::NEWEST {
            $(Table::$version => (),)*
        };
    };
}

tables! {
    V1 ncclProfiler_v1: ncclProfiler_v1_t, init_v1, ncclProfilerEventDescr_v1_t, ncclProfilerEventStateArgs_v1_t;
    V2 ncclProfiler_v2: ncclProfiler_v2_t, init_v1, ncclProfilerEventDescr_v2_t, ncclProfilerEventStateArgs_v2_t;
    V3 ncclProfiler_v3: ncclProfiler_v3_t, init_v1, ncclProfilerEventDescr_v3_t, ncclProfilerEventStateArgs_v3_t;
    V4 ncclProfiler_v4: ncclProfiler_v4_t, init_v4, ncclProfilerEventDescr_v4_t, ncclProfilerEventStateArgs_v4_t;
    V5 ncclProfiler_v5: ncclProfiler_v5_t, init_v5, ncclProfilerEventDescr_v5_t, ncclProfilerEventStateArgs_v5_t;
    V6 ncclProfiler_v6: ncclProfiler_v6_t, init_v5, ncclProfilerEventDescr_v6_t, ncclProfilerEventStateArgs_v6_t;
    V7 ncclProfiler_v7: ncclProfiler_v7_t, init_v5, ncclProfilerEventDescr_v7_t, ncclProfilerEventStateArgs_v7_t;
}

const _: RecordedFunction = nccl_otf2_recorded_v1;

/// Reports what is being recorded, to the TensorFlow library (`in_process::Recorded`).
///
/// # Safety
/// `recorded` is NULL or writable.
// SAFETY: the name belongs to this project, and the other library looks it up through this library's handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nccl_otf2_recorded_v1(recorded: *mut Recorded) -> c_int {
    let now = SWITCH.run_whole("nccl_otf2_recorded_v1", session::recorded).flatten();
    let (Some(place), Some(now)) = (NonNull::new(recorded), now) else {
        return 0;
    };
    // SAFETY: not NULL, so writable (contract).
    unsafe { place.write(now) };
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A callback as NCCL sees it: a panic that escapes aborts the process.
    extern "C" fn callback(switch: &Switch) -> bool {
        switch.run("the test", || panic!("planted")).unwrap_or(false)
    }

    #[test]
    fn a_panic_while_stopping_is_caught_too() {
        let switch = Switch::new(|| panic!("while stopping"));
        assert!(!callback(&switch));
        assert!(switch.is_off());
    }
}
