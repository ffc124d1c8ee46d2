//! The process around the plugin: what libnccl provides while a communicator lives (logger, mask, version), exit, fork
//! and signals, and the names of NCCL's dumps. Callbacks use [`ThreadCell`], a value of a thread whose use a signal
//! handler may leave, and read flags. The rest runs in `init` and `finalize`, at exit, and on the plugin's own threads.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, CString, c_int, c_void};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::{io, mem, ptr};

use crate::host::threads;
use in_process::Object;
use journal::part::Dump;
use journal::part::environment::JobEnvironment;
use journal::uninterrupted::uninterrupted;
use journal::{part, writing};

// A signal handler of the program may interrupt a callback that uses a value of its thread. The handler can make
// callbacks itself, and it can leave with `siglongjmp`: then the interrupted callback never ends its use of the value.

/// Whether a callback that was using a value of this thread has been abandoned. If a signal handler is running, it has
/// only been interrupted.
#[cold]
#[inline(never)]
pub(super) fn was_left() -> bool {
    !uninterrupted(is_in_handler)
}

/// Whether a signal handler is running, or may be. The unwinder marks the frame that a signal interrupted. At a
/// function without unwind tables it stops early, and nobody knows what lies beyond; at the end of the stack the
/// address is 0.
fn is_in_handler() -> bool {
    let mut frames = Frames { is_interrupted: false, last: 1 };
    // SAFETY: the unwinder calls `look` with frames of this thread, and with `frames`, which outlives the call.
    unsafe { _Unwind_Backtrace(look, (&raw mut frames).cast()) };
    frames.is_interrupted || frames.last != 0
}

struct Frames {
    /// Whether a signal has interrupted one of them.
    is_interrupted: bool,
    /// The address in the last one.
    last: usize,
}

const CONTINUE: c_int = 0;
/// `_URC_NORMAL_STOP`.
const STOP: c_int = 4;

/// # Safety
/// `context` is the unwinder's, and `frames` a [`Frames`].
unsafe extern "C" fn look(context: *mut c_void, frames: *mut c_void) -> c_int {
    let mut is_interrupted = 0;
    // SAFETY: the unwinder passes its own context (contract); the place is writable.
    let address = unsafe { _Unwind_GetIPInfo(context, &raw mut is_interrupted) };
    // SAFETY: `is_in_handler` passes its own `Frames`, and does not touch it meanwhile (contract).
    let frames = unsafe { &mut *frames.cast::<Frames>() };
    frames.last = address;
    frames.is_interrupted |= is_interrupted != 0;
    if frames.is_interrupted { STOP } else { CONTINUE }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(look: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void)
    -> c_int;
    /// Stores whether the frame was interrupted by a signal.
    fn _Unwind_GetIPInfo(context: *mut c_void, is_interrupted: *mut c_int) -> usize;
}

/// A value of one thread, used in one place at a time, as in a `RefCell`.
#[derive(Default)]
pub(crate) struct ThreadCell<T> {
    is_used: Cell<bool>,
    value: UnsafeCell<T>,
}

impl<T> ThreadCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { is_used: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `action` with the value, unless this is the handler of a signal that came during its use. A use that was
    /// left can have left half a value: `new` replaces it, and it is not dropped.
    #[inline]
    pub(crate) fn with<R>(&self, new: impl FnOnce() -> T, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_used.replace(true) {
            if !was_left() {
                return None;
            }
            // SAFETY: the value is of this thread, and its use was left.
            unsafe { self.value.get().write(new()) };
        }
        // SAFETY: the value is of this thread, and no other place uses it, as was just seen.
        let done = action(unsafe { &mut *self.value.get() });
        // After a panic nothing uses the value again, because recording is off then.
        self.is_used.set(false);
        Some(done)
    }
}

/// A signal with which a user requests a snapshot, or switches recording off and on.
pub(crate) struct Request {
    came: AtomicBool,
    previous: OnceLock<libc::sigaction>,
    once: Once,
    handler: Handler,
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

pub(crate) static DUMP: Request = Request::new(dump_signal);
pub(crate) static TOGGLE: Request = Request::new(toggle_signal);

extern "C" fn dump_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    DUMP.handle(signal, info, context);
}

extern "C" fn toggle_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    TOGGLE.handle(signal, info, context);
}

impl Request {
    const fn new(handler: Handler) -> Self {
        Self { came: AtomicBool::new(false), previous: OnceLock::new(), once: Once::new(), handler }
    }

    pub(crate) fn take(&self) -> bool {
        // Usually a plain load is enough: the maintenance thread polls often.
        self.came.load(Ordering::Relaxed) && self.came.swap(false, Ordering::Relaxed)
    }

    /// Installs the handler. Only the first call has an effect.
    ///
    /// The handler stays installed: a signal sent just after the last communicator's end would end the program.
    pub(crate) fn install(&'static self, signal: c_int) {
        self.once.call_once(|| {
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: only reads the installed action; `before` is writable.
            if unsafe { libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) } != 0 {
                return;
            }
            // SAFETY: all zeroes are a valid value, and the call succeeded.
            let before = unsafe { before.assume_init() };
            // Stored before the handler is installed, because the handler reads it.
            let before = self.previous.get_or_init(|| before);
            let mut ours = *before;
            ours.sa_sigaction = self.handler as *const () as usize;
            // On the alternative stack, if there is one: Go and Java require this of handlers.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: the handler's library stays mapped (`-z nodelete`); it does only what signal handlers may do.
            let _failed = unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) };
        });
    }

    /// The handler: sets a flag, then calls the program's own handler.
    fn handle(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        self.came.store(true, Ordering::Relaxed);
        let Some(before) = self.previous.get() else {
            return;
        };
        let handler = before.sa_sigaction;
        if [libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
            return;
        }
        let handler = ptr::with_exposed_provenance::<()>(handler);
        if before.sa_flags & libc::SA_SIGINFO == 0 {
            // SAFETY: the program installed a handler of this kind, and the handler is neither SIG_DFL nor SIG_IGN.
            let handler = unsafe { mem::transmute::<*const (), extern "C" fn(c_int)>(handler) };
            handler(signal);
        } else {
            // SAFETY: the program installed a handler of this kind (SA_SIGINFO).
            let handler = unsafe { mem::transmute::<*const (), Handler>(handler) };
            handler(signal, info, context);
        }
    }
}

// Which NCCL calls: the plugin asks the library that contains the mask or the logger, because a program can have
// several copies of libnccl, and Python loads libnccl into a local scope.

static NCCL_VERSION: AtomicU32 = AtomicU32::new(0);
static IS_RCCL: AtomicBool = AtomicBool::new(false);
static NOTED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The version of the calling NCCL, as `ncclGetVersion` returns it (22809 is 2.28.9); 0 if unknown.
#[inline]
pub(crate) fn nccl_version() -> u32 {
    NCCL_VERSION.load(Ordering::Relaxed)
}

pub(crate) fn is_rccl() -> bool {
    IS_RCCL.load(Ordering::Relaxed)
}

/// Asks the libraries that contain `addresses`; the first answer counts.
pub(crate) fn find_nccl_version(addresses: [*const c_void; 2]) {
    let mut callers = addresses.into_iter().filter_map(|address| Object::from_address(address.addr()));
    IS_RCCL.store(callers.any(|caller| caller.file_name().contains("librccl")), Ordering::Relaxed);
    if let Some(version) = addresses.into_iter().find_map(ask) {
        NCCL_VERSION.store(version, Ordering::Relaxed);
    }
}

/// Notes an address in libnccl, for [`learn_from_noted`].
pub(crate) fn note(address: *const c_void) {
    NOTED.store(address.cast_mut(), Ordering::Relaxed);
}

/// As [`find_nccl_version`], before NCCL calls the plugin.
pub(crate) fn learn_from_noted() {
    find_nccl_version([NOTED.load(Ordering::Relaxed), ptr::null()]);
}

fn ask(address: *const c_void) -> Option<u32> {
    let home = Object::from_address(address.addr())?;
    // SAFETY: the path is a string of the dynamic linker, valid while the object is loaded, and the object is loaded
    // because it is calling the plugin. With RTLD_NOLOAD nothing is loaded and no constructor runs.
    let handle = unsafe { libc::dlopen(home.path(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    // A program with NCCL linked in has no handle of its own; its symbols are in the global scope.
    let scope = if handle.is_null() { libc::RTLD_DEFAULT } else { handle };
    // SAFETY: the scope is a handle from dlopen or RTLD_DEFAULT; the name is a C string.
    let symbol = unsafe { libc::dlsym(scope, GET_VERSION.as_ptr()) };
    let version =
        Object::from_address(symbol.addr()).filter(|object| object.base == home.base).and_then(|_| call(symbol));
    if !handle.is_null() {
        // SAFETY: releases the reference that dlopen took above.
        let _ = unsafe { libc::dlclose(handle) };
    }
    version
}

const GET_VERSION: &CStr = c"ncclGetVersion";

fn call(symbol: *mut c_void) -> Option<u32> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: a symbol of this name in the calling library is NCCL's function, which has had this type since 2.4.
    let get_version: GetVersion = unsafe { mem::transmute::<*mut c_void, GetVersion>(symbol) };
    let mut version: c_int = 0;
    // SAFETY: writes one int into a variable that lives during the call.
    let result = unsafe { get_version(&raw mut version) };
    u32::try_from(version).ok().filter(|&version| result == 0 && version > 0)
}

/// Runs `action` as if this NCCL were calling. One call at a time, because the version is process-wide.
#[cfg(test)]
pub(crate) fn pretend<R>(version: u32, action: impl FnOnce() -> R) -> R {
    static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    NCCL_VERSION.store(version, Ordering::Relaxed);
    let result = action();
    NCCL_VERSION.store(0, Ordering::Relaxed);
    result
}

static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from the recording process: it has none of the plugin's or CUPTI's threads, and must
/// not touch what it shares with its parent.
#[inline]
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Marks every forked child, and calls `action` in it before `fork` returns. Only the first call has an effect.
pub(crate) fn watch_forks(action: fn()) {
    static ACTION: OnceLock<fn()> = OnceLock::new();
    extern "C" fn in_child() {
        IS_FORKED.store(true, Ordering::Relaxed);
        if let Some(action) = ACTION.get() {
            action();
        }
    }
    ACTION.get_or_init(|| {
        let handler: unsafe extern "C" fn() = in_child;
        // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`). It only stores
        // atomics, which is allowed between fork and exec.
        let _failed = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
        action
    });
}

/// Starts one of the plugin's own threads, which receives none of the program's signals.
pub(crate) fn spawn(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    if !threads::is_there() {
        return Err(ErrorKind::OutOfMemory.into());
    }
    let builder = Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    journal::host::without_signals(|| builder.spawn(body))
}

static AT_EXIT: OnceLock<extern "C" fn()> = OnceLock::new();

/// Calls `action` when the process exits normally. Only the first call has an effect.
pub(crate) fn at_exit(action: extern "C" fn()) {
    AT_EXIT.get_or_init(|| register_at_exit(action));
}

/// Registers the action of [`at_exit`] again, so that it runs before the exit handlers that were registered since. The
/// action does nothing when it runs for the second time.
pub(crate) fn at_exit_again() {
    let _registered = AT_EXIT.get().copied().map(register_at_exit);
}

fn register_at_exit(action: extern "C" fn()) -> extern "C" fn() {
    // SAFETY: the handler is a function of this library, which stays mapped (`-z nodelete`), and catches panics.
    let _failed = unsafe { libc::atexit(action) };
    action
}

pub(crate) type ThreadKey = libc::pthread_t;

/// Tells the calling thread from all others that run.
pub(crate) fn this_thread() -> ThreadKey {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::pthread_self() }
}

/// The calling thread's name as the system knows it (at most 15 bytes).
pub(crate) fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer, which has 16.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..length).unwrap_or(&[])).into_owned()
}

pub(crate) fn random_bits() -> u16 {
    let mut bytes = [0_u8; 2];
    // SAFETY: the buffer has room for the two bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == 2 {
        return u16::from_ne_bytes(bytes);
    }
    // Early in boot, or without getrandom in the kernel: time and process id distinguish the processes of a job.
    let mixed = (journal::clock::realtime_ns() ^ u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 48).unwrap_or(1)
}

// The plugin's messages go to NCCL's log beside its own (`NCCL_DEBUG`, `NCCL_DEBUG_FILE`), warnings also to stderr.
// Only `init`, `finalize` and the plugin's own threads may log: NCCL's logger takes a lock and asks CUDA for the
// device, so start, stop and state callbacks must not call it. Up to v3 NCCL passes no logger.

static LOGGER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static PASSES_LOGGER: AtomicBool = AtomicBool::new(false);

pub(crate) type Logger = unsafe extern "C" fn(
    std::ffi::c_uint,
    std::ffi::c_ulong,
    *const std::ffi::c_char,
    c_int,
    *const std::ffi::c_char,
    ...
);

/// NCCL's numbers (`nccl_common.h`).
const LOG_INFO: std::ffi::c_uint = 3;
const INIT: std::ffi::c_ulong = 1;
const PROFILE: std::ffi::c_ulong = 0x4000;
/// PROFILE is the plugin's subsystem. INIT is in NCCL's default set, so `NCCL_DEBUG=INFO` alone shows its lines.
const FLAGS: std::ffi::c_ulong = INIT | PROFILE;

/// Remembers NCCL's logger; ignores `None` (v1–v3).
pub(crate) fn remember_logger(logger: Option<Logger>) {
    if let Some(logger) = logger {
        LOGGER.store(logger as *mut (), Ordering::Release);
        PASSES_LOGGER.store(true, Ordering::Relaxed);
    }
}

/// Forgets NCCL's logger. For exit handlers, which may run after libnccl's own destructors.
pub(crate) fn forget_logger() {
    LOGGER.store(ptr::null_mut(), Ordering::Release);
}

/// Whether this NCCL passes a logger at all (v4 and later); if not, [`info`] writes nothing.
pub(crate) fn passes_logger() -> bool {
    PASSES_LOGGER.load(Ordering::Relaxed)
}

/// Writes a line that every user must read, to stderr and to NCCL's log.
///
/// In NCCL's log the line is INFO, because a WARN would become the text of `ncclGetLastError`.
pub(crate) fn warn(message: &str) {
    in_process::print_line(message);
    info(message);
}

/// Writes a line for users who request it (`NCCL_DEBUG=INFO`).
pub(crate) fn info(message: &str) {
    let logger = LOGGER.load(Ordering::Acquire);
    if logger.is_null() || !has_communicators() {
        return;
    }
    // SAFETY: the pointer is not NULL, and `remember` stored it from a function of exactly this type.
    let logger: Logger = unsafe { mem::transmute::<*mut (), Logger>(logger) };
    let Ok(line) = CString::new(in_process::line(message)) else {
        return;
    };
    // SAFETY: libnccl is loaded while a communicator lives. The format takes one string; NCCL keeps none of the
    // pointers. File and line are printed only for WARN.
    writing::guarded(|| unsafe {
        logger(LOG_INFO, FLAGS, c"nccl-otf2".as_ptr(), 0, c"%s".as_ptr(), line.as_ptr());
    });
}

// `nccl-otf2 run` puts the names of NCCL's dumps into the environment of each process.

/// Gives the dumps the name of this process, before NCCL knows the topology. One process of each host writes them: as
/// the rank of the job, which it has in the communicator of all. Where the launcher names no rank it stays 0.
pub(crate) fn name_dumps(part: &str, environment: &JobEnvironment) {
    let is_chosen = environment.local_rank.unwrap_or(0) == 0;
    for dump in Dump::ALL {
        let is_ours = rename_dump(dump, part::key(part), 0);
        if is_ours && (environment.rank.is_some() || !is_chosen) {
            let rank = part::rank(environment.rank.filter(|_| is_chosen));
            rewrite_variable(dump.rank_variable(), |_| Some(rank));
        }
    }
}

/// The next communicator's dumps have names of their own.
pub(crate) fn number_dumps(part: &str, communicators: u32) {
    for dump in Dump::ALL {
        rename_dump(dump, part::key(part), communicators);
    }
}

/// The path of a dump that the user asked for; empty if there is none.
pub(crate) fn dump_of_user(dump: Dump) -> String {
    let path = std::env::var(dump.variable()).unwrap_or_default();
    if path.is_empty() || dump.renamed(&path, 0, 0).is_some() {
        String::new()
    } else {
        std::path::absolute(&path).map_or(path, |path| path.display().to_string())
    }
}

/// Returns whether the variable had such a name.
fn rename_dump(dump: Dump, key: u64, number: u32) -> bool {
    rewrite_variable(dump.variable(), |path| dump.renamed(path, key, number))
}

/// Writes another value of the same length over that of a variable. `setenv` would move the environment away from
/// under other threads that read it.
fn rewrite_variable(variable: &str, edit: impl FnOnce(&str) -> Option<String>) -> bool {
    let Ok(variable) = CString::new(variable) else {
        return false;
    };
    // SAFETY: a string; what it returns stays until somebody unsets the variable, which nobody does with NCCL's.
    let place = unsafe { libc::getenv(variable.as_ptr()) };
    if place.is_null() {
        return false;
    }
    // SAFETY: the environment's strings end with a NUL.
    let value = unsafe { CStr::from_ptr(place) }.to_str().ok().map(str::to_owned);
    let Some((value, edited)) = value.and_then(|value| edit(&value).map(|edited| (value, edited))) else {
        return false;
    };
    if value.len() != edited.len() {
        return false;
    }
    for (at, byte) in edited.bytes().enumerate() {
        // SAFETY: `at` is less than the length of the value, which was compared above.
        let place = unsafe { place.add(at) };
        // SAFETY: only `nccl-otf2 run` sets such a value, before `execve`, which puts it into writable memory. A thread
        // that reads it meanwhile sees the old or the new digit: the terminating NUL stays.
        unsafe { place.cast::<u8>().write_volatile(byte) };
    }
    true
}

// NCCL's activation mask is one `int` of libnccl, shared by all communicators of the process. Every `init` gets the
// mask's address and writes the mask. NCCL reads it again later: in 2.23–2.25 for each group, in 2.26 and 2.27 for each
// operation, from 2.28 on for each API call. So a later store takes effect for operations that begin after it. Captured
// graphs keep the mask from their capture.

static MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
static OWN_EVENTS: AtomicU32 = AtomicU32::new(0);
static CHAINED_EVENTS: AtomicU32 = AtomicU32::new(0);
static IS_MASK_SHARED: AtomicBool = AtomicBool::new(false);

/// Remembers the mask's address; ignores NULL.
pub(crate) fn remember_mask(mask: *mut c_int) {
    if !mask.is_null() {
        MASK.store(mask, Ordering::Release);
    }
}

/// Chained plugins exist, or may: NCCL will call for events that this plugin did not ask for.
pub(crate) fn share_mask() {
    IS_MASK_SHARED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_mask_shared() -> bool {
    IS_MASK_SHARED.load(Ordering::Relaxed)
}

/// Adds the events that chained plugins ask for. The mask never shrinks while communicators live (see `control`).
pub(crate) fn add_chained_events(events: u32) {
    if events & !CHAINED_EVENTS.fetch_or(events, Ordering::Relaxed) != 0 {
        set_mask(OWN_EVENTS.load(Ordering::Relaxed));
    }
}

pub(crate) fn chained_events() -> u32 {
    CHAINED_EVENTS.load(Ordering::Relaxed)
}

pub(crate) fn forget_chained_events() {
    CHAINED_EVENTS.store(0, Ordering::Relaxed);
}

/// The events for which NCCL must call if this plugin asks for `events`.
pub(crate) fn unite_mask(events: u32) -> u32 {
    OWN_EVENTS.store(events, Ordering::Relaxed);
    events | CHAINED_EVENTS.load(Ordering::Relaxed)
}

/// Sets the events that this plugin asks for, for all communicators. Leaves NCCL's mask alone if no communicator lives.
pub(crate) fn set_mask(events: u32) {
    let events = unite_mask(events);
    let mask = MASK.load(Ordering::Acquire);
    if mask.is_null() || !has_communicators() {
        return;
    }
    // SAFETY: NCCL passed this address to an `init`: it is a variable of libnccl, which is loaded while a communicator
    // lives. NCCL reads the mask with plain loads of an aligned int, which a relaxed store cannot tear.
    let mask = unsafe { AtomicI32::from_ptr(mask) };
    mask.store(events.cast_signed(), Ordering::Relaxed);
}

// While at least one communicator is between `init` and `finalize`, libnccl is mapped, and its mask and logger may be
// used. After the last `finalize` the program may unload libnccl, and at exit libnccl's destructors may have run.

static COMMUNICATORS: AtomicUsize = AtomicUsize::new(0);

/// A communicator begins. Its mask and logger have been stored already.
pub(crate) fn add_communicator() {
    COMMUNICATORS.fetch_add(1, Ordering::Release);
}

/// A communicator ends. Surplus calls are ignored.
pub(crate) fn remove_communicator() {
    let _ = COMMUNICATORS.fetch_update(Ordering::Release, Ordering::Relaxed, |count| count.checked_sub(1));
}

pub(crate) fn has_communicators() -> bool {
    COMMUNICATORS.load(Ordering::Acquire) > 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use super::*;

    static PROGRAM_SAW: AtomicI32 = AtomicI32::new(0);

    extern "C" fn program_handler(signal: c_int) {
        PROGRAM_SAW.store(signal, Ordering::Relaxed);
    }

    #[test]
    fn the_programs_own_handler_is_called_too() {
        let signal = libc::SIGRTMIN() + 3;
        let handler = program_handler as *const () as usize;
        // SAFETY: the handler only stores a number.
        unsafe { libc::signal(signal, handler) };
        DUMP.install(signal);
        assert!(!DUMP.take());
        // SAFETY: raises a signal on this thread; both of its handlers are installed.
        unsafe { libc::raise(signal) };
        assert!(DUMP.take());
        assert!(!DUMP.take(), "once");
        assert_eq!(PROGRAM_SAW.load(Ordering::Relaxed), signal);
    }
}
