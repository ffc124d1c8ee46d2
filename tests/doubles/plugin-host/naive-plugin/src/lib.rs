//! A profiler plugin with a mistake of one's choice: `NAIVE=<fault>` in the environment, see `fault.rs`.
//!
//! Without a fault it survives what the robust plugin survives; with one the same callbacks make it crash, or what it
//! says is wrong. So the tests know that their callbacks are as dangerous as they say. What it counted it writes to
//! standard error at each finalize: `naive: <kind in hexadecimal> = <events>`, `naive: rank <rank> = <events>` and others.
//!
//! What a member's offset is comes from the interface's layout tables, as in the plugin beside this one.

mod fault;
mod page;
mod record;

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::{env, fs, mem, ptr};

use fault::{Fault, is};
use record::{Described, KERNEL_CH, P2P, RECORD, is_known};

type Logger = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// NCCL's logger, of the first init; 0 before.
static LOGGER: AtomicUsize = AtomicUsize::new(0);
/// The last communicator's name, if the fault is to keep it.
static NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

const SYSTEM_ERROR: c_int = 2;
const KERNEL_CH_STOP: c_int = 22;

/// Reads a field.
///
/// # Safety
/// `descriptor` points to a descriptor with a field of this type at this offset.
unsafe fn field<T: Copy>(descriptor: *const u8, offset: usize) -> T {
    let place = descriptor.wrapping_add(offset).cast::<T>();
    // SAFETY: this function's contract; the value may lie anywhere.
    unsafe { place.read_unaligned() }
}

macro_rules! get {
    ($descriptor:expr, $kind:ty, $offset:expr) => {{
        // SAFETY: the offset is that of the interface's layout for this version and kind of event.
        unsafe { field::<$kind>($descriptor, $offset) }
    }};
}

fn described<const VERSION: u8>(context: *mut c_void, descriptor: *const u8) -> Described {
    let kind = if VERSION <= 4 {
        u64::from(get!(descriptor, u8, 0))
    } else {
        get!(descriptor, u64, 0)
    };
    // ProxyOp's pid comes before its channel.
    let channel = if kind == KERNEL_CH { 24 } else { 28 };
    let timed = kind == KERNEL_CH && VERSION >= 4;
    Described {
        kind,
        context: context.addr() as u64,
        parent: get!(descriptor, u64, 8),
        rank: u64::from(get!(descriptor, u32, 16)),
        channel: get!(descriptor, u8, channel),
        channels: if kind == P2P && VERSION >= 4 {
            get!(descriptor, u8, 60)
        } else {
            0
        },
        gpu_ns: if timed { get!(descriptor, u64, 32) } else { 0 },
    }
}

unsafe extern "C" fn start<const VERSION: u8>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const u8,
) -> c_int {
    if handle.is_null() || descriptor.is_null() {
        if !handle.is_null() {
            // SAFETY: NCCL passes where the handle goes.
            unsafe { handle.write(ptr::null_mut()) };
        }
        return 0;
    }
    let new = described::<VERSION>(context, descriptor);
    if is(Fault::LateHandle) && !is_known(new.kind) {
        return 0;
    }
    if is(Fault::ReadVersion7) && VERSION == 7 && new.kind == 2 {
        let variant = get!(descriptor, *const c_char, 112);
        if !variant.is_null() {
            // SAFETY: nobody upholds it: that version 7's member is there is the belief that the fault has.
            let _length = unsafe { CStr::from_ptr(variant) }.to_bytes().len();
        }
    }
    let event = RECORD.lock().start(&new);
    let event = ptr::without_provenance_mut(usize::try_from(event).expect("64 bits"));
    // SAFETY: NCCL passes where the handle goes.
    unsafe { handle.write(event) };
    0
}

/// What it says to NCCL's log when nobody is left to hear it.
fn log_if_late(over: bool) {
    let logger = LOGGER.load(Ordering::Relaxed);
    if !over || logger == 0 || !is(Fault::LogLate) {
        return;
    }
    let logger = ptr::with_exposed_provenance::<c_void>(logger);
    // SAFETY: the function that init got, of this type.
    let logger = unsafe { mem::transmute::<*const c_void, Logger>(logger) };
    // SAFETY: NCCL's logger takes a format; whether it is still there is what the fault does not ask.
    unsafe { logger(3, 0, c"naive".as_ptr(), 0, c"%s".as_ptr(), c"late".as_ptr()) };
}

unsafe extern "C" fn stop(handle: *mut c_void) -> c_int {
    let mut record = RECORD.lock();
    record.stop(handle.addr() as u64);
    let over = record.is_over();
    drop(record);
    log_if_late(over);
    0
}

unsafe extern "C" fn state(handle: *mut c_void, number: c_int, args: *const u8) -> c_int {
    let gpu_ns = (number == KERNEL_CH_STOP && !args.is_null()).then(|| get!(args, u64, 0));
    RECORD.lock().state(handle.addr() as u64, gpu_ns);
    0
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    let mut record = RECORD.lock();
    record.finalize(context.addr() as u64);
    record.print();
    drop(record);
    let name = NAME.load(Ordering::Relaxed);
    if !name.is_null() {
        // SAFETY: nobody upholds it: that the name lives on is the belief that the fault has.
        let bytes = unsafe { CStr::from_ptr(name) };
        eprintln!("naive: name = {}", bytes.to_string_lossy());
    }
    0
}

struct Communicator {
    name: *const c_char,
    ranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
}

fn begin(
    context: *mut *mut c_void,
    mask: *mut c_int,
    all: c_int,
    communicator: &Communicator,
) -> c_int {
    let folder = env::var_os("NCCL_OTF2_DIR");
    if is(Fault::FailInit) && folder.is_none_or(|folder| fs::create_dir_all(folder).is_err()) {
        return SYSTEM_ERROR;
    }
    if let Some(logger) = communicator.logger {
        LOGGER.store(logger as usize, Ordering::Relaxed);
    }
    if !communicator.name.is_null() {
        // SAFETY: NCCL passes a C string.
        let name = unsafe { CStr::from_ptr(communicator.name) };
        if is(Fault::KeepName) {
            NAME.store(communicator.name.cast_mut(), Ordering::Relaxed);
        } else {
            eprintln!("naive: name = {}", name.to_string_lossy());
        }
    }
    let rank = u64::from(communicator.rank.cast_unsigned());
    if !context.is_null() {
        let new = RECORD.lock().init(rank);
        let new = ptr::without_provenance_mut(usize::try_from(new).expect("64 bits"));
        // SAFETY: NCCL passes where the context goes.
        unsafe { context.write(new) };
    }
    if !mask.is_null() {
        let alone = communicator.ranks == 1;
        let wanted = if is(Fault::MaskPerInit) && alone {
            0
        } else {
            all
        };
        // SAFETY: NCCL passes its mask.
        unsafe { mask.write(wanted) };
    }
    0
}

unsafe extern "C" fn init_v1<const MASK: c_int>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    let nobody = Communicator {
        name: ptr::null(),
        ranks: 0,
        rank: 0,
        logger: None,
    };
    begin(context, mask, MASK, &nobody)
}

unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    _id: u64,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
) -> c_int {
    begin(
        context,
        mask,
        0xff,
        &Communicator {
            name,
            ranks,
            rank,
            logger,
        },
    )
}

unsafe extern "C" fn init_v5<const MASK: c_int>(
    context: *mut *mut c_void,
    _id: u64,
    mask: *mut c_int,
    name: *const c_char,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
) -> c_int {
    begin(
        context,
        mask,
        MASK,
        &Communicator {
            name,
            ranks,
            rank,
            logger,
        },
    )
}

/// A function table; `init` differs from version to version, the others in what their pointers point to.
#[repr(C)]
pub struct Table<Init> {
    name: *const c_char,
    init: Init,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const u8) -> c_int,
    stop: unsafe extern "C" fn(*mut c_void) -> c_int,
    state: unsafe extern "C" fn(*mut c_void, c_int, *const u8) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: `name` points to a static string, the rest are functions.
unsafe impl<Init: Sync> Sync for Table<Init> {}

type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
type InitV4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Option<Logger>,
) -> c_int;
type InitV5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Option<Logger>,
) -> c_int;

macro_rules! tables {
    ($($name:ident, $version:literal: $kind:ty = $init:expr;)*) => {$(
        /// NCCL finds it by this name.
        #[unsafe(no_mangle)]
        pub static $name: Table<$kind> = Table {
            name: c"naive".as_ptr(),
            init: $init,
            start: start::<$version>,
            stop,
            state,
            finalize,
        };
    )*};
}

tables! {
    ncclProfiler_v1, 1: InitV1 = init_v1::<0x1f>;
    ncclProfiler_v2, 2: InitV1 = init_v1::<0x1f>;
    ncclProfiler_v3, 3: InitV1 = init_v1::<0xff>;
    ncclProfiler_v4, 4: InitV4 = init_v4;
    ncclProfiler_v5, 5: InitV5 = init_v5::<0xfff>;
    ncclProfiler_v6, 6: InitV5 = init_v5::<0x7fff>;
    ncclProfiler_v7, 7: InitV5 = init_v5::<0xffff>;
}
