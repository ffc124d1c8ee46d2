//! The functions in the tables. Each makes one call into the guard, returns success, and accepts NULL pointers.

use nccl_events::event;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::record;
use crate::session::{self, InitReply};
use journal::uninterrupted::uninterrupted;
use nccl_events::ids::EventId;
use nccl_events::{Body, CommInit, Kind, Name, Start, State, StateArgs, state};

use super::chained::{self, Communicator};
use super::guard::SWITCH;
use super::shapes::pointer;
use super::sys::{ncclDebugLogger_t, ncclProfilerEventState_t, ncclResult_t, ncclSuccess};
use super::{Descriptor, Interface, StateArguments};
use crate::host::{live, logger, mask, version};

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
        mask::remember(mask);
        logger::remember(raw.logger);
        live::enter();
        let logger = raw.logger.map_or(ptr::null(), |logger| logger as *const c_void);
        version::learn([mask.cast_const().cast(), logger]);
        comm.nccl_version = version::current();
        chained::begin(comm.table);
        let Some(chain) = chained::chain() else {
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
    let events = mask::united(if SWITCH.is_off() { 0 } else { reply.mask });
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
    let (Some(chain), Some(descriptor)) = (chained::chain(), NonNull::new(descriptor)) else {
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
    if let Some(chain) = chained::chain() {
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
    if let Some(chain) = chained::chain() {
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
                if let Some(chain) = chained::chain() {
                    chain.finalize(D::TABLE, context);
                }
                session::finalize(context);
            });
        }
        // After the session's end, which still logs through NCCL.
        live::leave();
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
