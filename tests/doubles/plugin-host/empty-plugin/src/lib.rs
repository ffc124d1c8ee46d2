//! A profiler plugin that asks for everything and does nothing: what calling a profiler costs at least.
//!
//! It exports all seven versions. The functions look at none of their arguments but those that they must
//! write, so that one set serves all versions: in the C calling convention of x86-64 and aarch64 a function may
//! ignore arguments that its caller passes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

const SUCCESS: c_int = 0;
/// What every context and every handle is: not NULL, or NCCL would leave out what belongs to it.
const SOMETHING: *mut c_void = ptr::without_provenance_mut(1);
const NAME: &CStr = c"empty";

/// A table of NCCL's interface; the functions' types differ from version to version in pointed-to types only,
/// and `init` in its arguments.
#[repr(C)]
pub struct Table<Init> {
    name: *const c_char,
    init: Init,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int,
    stop: extern "C" fn(*mut c_void) -> c_int,
    state: extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int,
    finalize: extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: `name` points to a static string, the rest are functions without state.
unsafe impl<Init: Sync> Sync for Table<Init> {}

type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
type InitV5 = unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_int) -> c_int;

const fn table<Init>(init: Init) -> Table<Init> {
    Table {
        name: NAME.as_ptr(),
        init,
        start,
        stop,
        state,
        finalize,
    }
}

macro_rules! tables {
    ($($name:ident: $kind:ty = $init:expr;)*) => {$(
        /// NCCL finds it by this name.
        #[unsafe(no_mangle)]

        pub static $name: Table<$kind> = table($init);
    )*};
}

tables! {
    ncclProfiler_v1: InitV1 = init_v1::<0x3f>;
    ncclProfiler_v2: InitV1 = init_v1::<0x3f>;
    ncclProfiler_v3: InitV1 = init_v1::<0xff>;
    ncclProfiler_v4: InitV1 = init_v1::<0xff>;
    ncclProfiler_v5: InitV5 = init_v5::<0xfff>;
    ncclProfiler_v6: InitV5 = init_v5::<0x7fff>;
    ncclProfiler_v7: InitV5 = init_v5::<0xffff>;
}

/// v1 to v4: the mask is the second argument.
unsafe extern "C" fn init_v1<const MASK: c_int>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    if !context.is_null() {
        // SAFETY: NCCL passes where the context goes.
        unsafe { context.write(SOMETHING) };
    }
    if !mask.is_null() {
        // SAFETY: NCCL passes its mask.
        unsafe { mask.write(MASK) };
    }
    SUCCESS
}

/// v5 to v7: the mask is the third argument.
unsafe extern "C" fn init_v5<const MASK: c_int>(
    context: *mut *mut c_void,
    _comm_id: u64,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: this function's own arguments.
    unsafe { init_v1::<MASK>(context, mask) }
}

unsafe extern "C" fn start(
    _context: *mut c_void,
    handle: *mut *mut c_void,
    _descriptor: *mut c_void,
) -> c_int {
    if !handle.is_null() {
        // SAFETY: NCCL passes where the handle goes.
        unsafe { handle.write(SOMETHING) };
    }
    SUCCESS
}

extern "C" fn stop(_handle: *mut c_void) -> c_int {
    SUCCESS
}

extern "C" fn state(_handle: *mut c_void, _state: c_int, _args: *mut c_void) -> c_int {
    SUCCESS
}

extern "C" fn finalize(_context: *mut c_void) -> c_int {
    SUCCESS
}
