//! TensorFlow's C interface (`pluggable_profiler.h`, version 0.0.1).
//!
//! The first field of every struct holds the struct's size in TensorFlow. A struct smaller than the known version is
//! not written to; extra fields of a larger struct are left unchanged.

use std::ffi::{c_char, c_int, c_void};

use crate::profile;
use in_process::{Recorded, SessionEndsFunction};

use journal::uninterrupted::NotCancelled;

/// `TF_Status`: TensorFlow sets it to success, and this library leaves it so.
type Status = *mut c_void;
type Switch = unsafe extern "C" fn(*const Profiler, Status);
/// `collect_data_xspace`: profiler, buffer, size, status.
type Collect = unsafe extern "C" fn(*const Profiler, *mut u8, *mut usize, Status);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Profiler {
    pub struct_size: usize,
    pub ext: *mut c_void,
    pub device_type: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProfilerFunctions {
    pub struct_size: usize,
    pub ext: *mut c_void,
    pub start: Option<Switch>,
    pub stop: Option<Switch>,
    pub collect_data_xspace: Option<Collect>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    pub struct_size: usize,
    pub ext: *mut c_void,
    pub major_version: c_int,
    pub minor_version: c_int,
    pub patch_version: c_int,
    pub profiler: *mut Profiler,
    pub profiler_fns: *mut ProfilerFunctions,
    pub destroy_profiler: Option<unsafe extern "C" fn(*mut Profiler)>,
    pub destroy_profiler_fns: Option<unsafe extern "C" fn(*mut ProfilerFunctions)>,
}

const _: () = assert!(size_of::<Profiler>() == 24);
const _: () = assert!(size_of::<ProfilerFunctions>() == 40);
const _: () = assert!(size_of::<Registration>() == 64);

/// The interface's major version; a different one is an incompatible interface.
const MAJOR_VERSION: c_int = 0;

/// Registers the profiler with TensorFlow. TensorFlow calls this when it loads the library as a plugin.
///
/// # Safety
/// `registration` is NULL or points to `struct_size` bytes; the same holds for its two struct pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_InitProfiler(registration: *mut Registration, _status: Status) {
    guarded(|| {
        in_process::silence();
        // SAFETY: the same contract.
        unsafe { register(registration) };
    });
}

/// # Safety
/// As for [`TF_InitProfiler`].
unsafe fn register(registration: *mut Registration) {
    // SAFETY: NULL, or a struct that begins with its size (contract).
    if !unsafe { is_large_enough::<Registration>(registration.cast()) } {
        return;
    }
    // SAFETY: the struct's size shows that all fields are there.
    let mut filled = unsafe { registration.read() };
    let (profiler, functions) = (filled.profiler, filled.profiler_fns);
    // SAFETY: NULL, or a struct that begins with its size (contract).
    let has_profiler = unsafe { is_large_enough::<Profiler>(profiler.cast()) };
    // SAFETY: as above.
    let has_functions = unsafe { is_large_enough::<ProfilerFunctions>(functions.cast()) };
    if filled.major_version != MAJOR_VERSION || !has_profiler || !has_functions {
        return;
    }
    // SAFETY: the struct's size shows that all fields are there.
    let known = unsafe { profiler.read() };
    let known = Profiler { struct_size: size_of::<Profiler>(), device_type: c"NCCL".as_ptr(), ..known };
    // SAFETY: as above; only known fields are written.
    unsafe { profiler.write(known) };
    // SAFETY: the struct's size shows that all fields are there.
    let known = unsafe { functions.read() };
    let known = ProfilerFunctions {
        struct_size: size_of::<ProfilerFunctions>(),
        start: Some(start),
        stop: Some(stop),
        collect_data_xspace: Some(collect_data_xspace),
        ..known
    };
    // SAFETY: as above; only known fields are written.
    unsafe { functions.write(known) };
    filled.struct_size = size_of::<Registration>();
    filled.destroy_profiler = Some(destroy_profiler);
    filled.destroy_profiler_fns = Some(destroy_profiler_fns);
    // SAFETY: as above; only known fields are written.
    unsafe { registration.write(filled) };
}

/// Whether the pointer is not NULL and the struct has all the fields of `T`.
///
/// # Safety
/// `size` is NULL or points to a struct's first field, its size.
unsafe fn is_large_enough<T>(size: *const usize) -> bool {
    // SAFETY: not NULL, so it points to the size (contract).
    !size.is_null() && unsafe { size.read() } >= size_of::<T>()
}

/// # Safety
/// `profiler` is NULL or the registration's profiler.
unsafe extern "C" fn start(profiler: *const Profiler, _status: Status) {
    guarded(|| {
        // SAFETY: the contract.
        unsafe { fault(profiler) };
        profile::start();
    });
}

/// # Safety
/// As for [`start`].
unsafe extern "C" fn stop(profiler: *const Profiler, _status: Status) {
    guarded(|| {
        // SAFETY: the contract.
        unsafe { fault(profiler) };
        profile::stop();
    });
}

/// TensorFlow calls this with a NULL buffer for the size, then with a buffer for the bytes.
///
/// # Safety
/// `size` is NULL or points to a number. `buffer` is NULL or has that many bytes. `profiler` is as for [`start`].
unsafe extern "C" fn collect_data_xspace(
    profiler: *const Profiler,
    buffer: *mut u8,
    size: *mut usize,
    _status: Status,
) {
    if size.is_null() {
        return;
    }
    let written = guarded(|| {
        // SAFETY: the contract.
        unsafe { fault(profiler) };
        if buffer.is_null() {
            return profile::bytes();
        }
        // SAFETY: not NULL, so it points to a number (contract).
        let capacity = unsafe { size.read() };
        // SAFETY: the buffer has that many bytes (contract), and TensorFlow has initialised them.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, capacity) };
        profile::take(buffer)
    });
    // Also after a panic, because TensorFlow's variable is not initialised before the first call.
    // SAFETY: as above.
    unsafe { size.write(written.unwrap_or(0)) };
}

/// Injects a fault, in debug builds only, if the profiler's extension is the magic number.
///
/// # Safety
/// As for [`start`].
unsafe fn fault(profiler: *const Profiler) {
    const MAGIC: usize = 0xfa17;
    if cfg!(debug_assertions) && !profiler.is_null() {
        // SAFETY: not NULL, so it is the registration's profiler (contract), which has all fields.
        let ext = unsafe { (*profiler).ext };
        assert!(ext.addr() != MAGIC, "planted");
    }
}

// Nothing was allocated for the profiler or its functions.
unsafe extern "C" fn destroy_profiler(_profiler: *mut Profiler) {}
unsafe extern "C" fn destroy_profiler_fns(_functions: *mut ProfilerFunctions) {}

/// The plugin ends a session; the journal may be removed after this returns. Called inside NCCL's last `finalize`.
///
/// # Safety
/// `recorded` is NULL or readable.
// SAFETY: the name belongs to this project, and the plugin looks it up through this library's handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nccl_otf2_session_ends_v1(recorded: *const Recorded) {
    // SAFETY: NULL or readable (contract).
    if let Some(recorded) = unsafe { recorded.as_ref() } {
        guarded(|| profile::session_ends(recorded));
    }
}

const _: SessionEndsFunction = nccl_otf2_session_ends_v1;

/// Runs a callback and catches panics, which must not reach TensorFlow or NCCL. The thread is not cancelled meanwhile.
fn guarded<R>(body: impl FnOnce() -> R) -> Option<R> {
    let _until_the_end = NotCancelled::new();
    match in_process::catch(body) {
        Ok(result) => Some(result),
        Err(panic) => {
            let _said = in_process::catch(|| {
                in_process::say(&format!(
                    "internal error in TensorFlow's profile: {panic}; the profile lacks NCCL, recording continues"
                ));
            });
            None
        }
    }
}
