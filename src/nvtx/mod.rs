//! The plugin's library as an NVTX injection: NVTX calls of the program, its libraries and NCCL become ranges.
//!
//! ```text
//! InitializeInjectionNvtx2             a binary with NVTX makes its first call; each has its own table of functions
//!   └ functions    push, pop, start, end, mark; names of strings, domains and categories
//!       ├ strings      handles, which are numbers
//!       ├ payload      NCCL's payloads, read by the names in their schemas
//!       └ first_call   the call with which the recording begins
//! InitializeInjectionNvtxExtension     the same for the payload extension
//! ```
//!
//! In a process that does not use NCCL, threads keep their open ranges in memory, and nothing else happens. The call
//! of NCCL's that makes the first communicator begins the recording, if this library will be the profiler plugin, too.

mod begin;
mod first_call;
mod functions;
mod guard;
mod payload;
mod strings;
mod sys;

use std::ffi::c_int;

use crate::abi::guard::SWITCH;
use begin::begin;
use sys::{Callbacks, ExtensionModule, Function, GetExportTable, MODULE_CORE, MODULE_CORE2, MODULE_PAYLOAD};

/// NVTX calls this once for each binary that has NVTX, at its first NVTX call. Returns 1 if it took the functions over.
///
/// # Safety
/// `get_table` is NVTX's, or NULL.
// SAFETY: the name is NVTX's, for exactly this purpose: it is looked up through the handle of the injection.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn InitializeInjectionNvtx2(get_table: GetExportTable) -> c_int {
    let is_taken = SWITCH.run_whole("InitializeInjectionNvtx2", || {
        let Some(get_table) = get_table.filter(|_| !SWITCH.is_off() && begin()) else {
            return false;
        };
        // SAFETY: NVTX's function (contract).
        let callbacks = unsafe { get_table(sys::TABLE_OF_CALLBACKS) }.cast::<Callbacks>();
        // SAFETY: NULL, or NVTX's table, which stays.
        let Some(callbacks) = (unsafe { callbacks.as_ref() }) else {
            return false;
        };
        for (module, functions) in [(MODULE_CORE, functions::CORE), (MODULE_CORE2, functions::CORE2)] {
            // SAFETY: NVTX's own table of callbacks.
            unsafe { take_over(callbacks, module, functions) };
        }
        true
    });
    c_int::from(is_taken == Some(true))
}

/// # Safety
/// `callbacks` is NVTX's, and the functions have the types of the ids in this module.
unsafe fn take_over(callbacks: &Callbacks, module: c_int, functions: &[(usize, Function)]) {
    let (mut table, mut size) = (std::ptr::null_mut(), 0);
    let Some(module_functions) = callbacks.module_functions else {
        return;
    };
    // SAFETY: NVTX's function, with places for its results.
    if unsafe { module_functions(module, &raw mut table, &raw mut size) } == 0 || table.is_null() {
        return;
    }
    for (id, function) in functions {
        if *id >= size as usize {
            continue;
        }
        // SAFETY: the table has `size` entries.
        let entry = unsafe { table.add(*id) };
        // SAFETY: as above.
        let place = unsafe { entry.read() };
        if !place.is_null() {
            // SAFETY: the place of NVTX's pointer to the function with this id.
            unsafe { place.write(*function) };
        }
    }
}

/// NVTX calls this once for each extension of a binary, at its first call. Returns 1 if it took the functions over.
///
/// # Safety
/// `module` is NVTX's, or NULL.
// SAFETY: as for `InitializeInjectionNvtx2`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn InitializeInjectionNvtxExtension(module: *mut ExtensionModule) -> c_int {
    let is_taken = SWITCH.run_whole("InitializeInjectionNvtxExtension", || {
        // SAFETY: NULL, or NVTX's own module (contract).
        let Some(module) = (unsafe { module.as_ref() }) else {
            return false;
        };
        if SWITCH.is_off() || module.module != MODULE_PAYLOAD || module.segment_count == 0 || !begin() {
            return false;
        }
        // SAFETY: NULL, or the first of at least one segment.
        let Some(segment) = (unsafe { module.segments.as_ref() }) else {
            return false;
        };
        for (id, function) in functions::PAYLOAD {
            if *id < segment.count && !segment.functions.is_null() {
                // SAFETY: the segment has `count` places.
                let place = unsafe { segment.functions.add(*id) };
                // SAFETY: as above.
                unsafe { place.write(*function) };
            }
        }
        true
    });
    c_int::from(is_taken == Some(true))
}
