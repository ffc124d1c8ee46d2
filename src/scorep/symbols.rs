//! Score-P's functions, found by name. Declared as in Score-P 7.1, 8.4 and 9.0, where the declarations agree.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use in_process::Object;

#[repr(C)]
#[derive(Debug)]
pub(super) struct Location {
    opaque: [u8; 0],
}

/// The address of a symbol in the global scope.
///
/// Uses no library's handle: Score-P's variables are copied into the program, and the library's own are unused.
pub(super) fn find(name: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: a NUL-terminated name; RTLD_DEFAULT loads nothing.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    ptr::NonNull::new(found)
}

pub(super) fn library_of(name: &CStr) -> Option<String> {
    let symbol = find(name)?;
    // Score-P's libraries are never unloaded.
    Some(Object::of(symbol.addr().get())?.file_name())
}

macro_rules! functions {
    ($(
        $(#[$about:meta])*
        $table:ident {
            $($field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)+
        }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl $table {
            /// Finds all functions, or returns the name of the first missing one.
            pub(super) fn find() -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let found = find($symbol).ok_or($symbol.to_str().unwrap_or("?"))?;
                        // SAFETY: Score-P declares the function of this name with this type (checked for 7.1, 8.4 and
                        // 9.0; functions that differ in 7.1 are used only if a function of 8.0 exists).
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(found.as_ptr())
                        }
                    },)+
                })
            }
        }
    )+};
}

functions! {
    /// For calls, operations and attributes: Score-P 8.0 and later.
    Internal {
        enter = c"SCOREP_EnterRegion"(u32);
        exit = c"SCOREP_ExitRegion"(u32);
        location_enter = c"SCOREP_Location_EnterRegion"(*mut Location, u64, u32);
        location_exit = c"SCOREP_Location_ExitRegion"(*mut Location, u64, u32);
        add_attribute = c"SCOREP_AddAttribute"(u32, *const c_void);
        location_add_attribute = c"SCOREP_Location_AddAttribute"(*mut Location, u32, *const c_void);
        new_source_file = c"SCOREP_Definitions_NewSourceFile"(*const c_char) -> u32;
        new_region = c"SCOREP_Definitions_NewRegion"(*const c_char, *const c_char, u32, u32, u32, c_int, c_int) -> u32;
        new_attribute = c"SCOREP_Definitions_NewAttribute"(*const c_char, *const c_char, c_int) -> u32;
        new_string = c"SCOREP_Definitions_NewString"(*const c_char) -> u32;
        new_location_group = c"SCOREP_Definitions_NewLocationGroup"(*const c_char, u32, c_int, u32) -> u32;
        node = c"SCOREP_GetSystemTreeNodeHandleForSharedMemory"() -> u32;
        process = c"SCOREP_GetProcessLocationGroup"() -> u32;
        current_location = c"SCOREP_Location_GetCurrentCPULocation"() -> *mut Location;
        last_timestamp = c"SCOREP_Location_GetLastTimestamp"(*mut Location) -> u64;
        new_location = c"SCOREP_Location_CreateNonCPULocation"(*mut Location, c_int, c_int, *const c_char, u32) -> *mut Location;
    }

    /// For calls: the user adapter, unchanged since 7.1.
    User {
        begin = c"SCOREP_User_RegionBegin"(*mut *mut c_void, *mut *const c_char, *mut u32, *const c_char, u32, *const c_char, u32);
        end = c"SCOREP_User_RegionEnd"(*mut c_void);
    }

    /// Returns NULL on a thread that Score-P does not know. Missing without a thread model.
    Threads {
        private_data = c"scorep_thread_get_private_data"() -> *mut c_void;
    }

    Inside {
        depth = c"scorep_get_in_measurement"() -> *mut c_int;
    }

    /// Whether Score-P's recording is on; the user can switch it off.
    Recording {
        is_enabled = c"SCOREP_RecordingEnabled"() -> bool;
    }

    Outputs {
        tracing = c"SCOREP_IsTracingEnabled"() -> bool;
        profiling = c"SCOREP_IsProfilingEnabled"() -> bool;
    }

    Epoch {
        begin = c"SCOREP_GetBeginEpoch"() -> u64;
    }

    /// Whether the user's filter excludes a region, given by file, name and mangled name.
    Filter {
        excludes = c"SCOREP_Filtering_Match"(*const c_char, *const c_char, *const c_char) -> bool;
    }

    Metrics {
        new = c"SCOREP_Definitions_NewMetric"(*const c_char, *const c_char, c_int, c_int, c_int, c_int, i64, *const c_char, c_int, u32) -> u32;
        new_sampling_set = c"SCOREP_Definitions_NewSamplingSet"(u8, *const u32, c_int, c_int) -> u32;
        trigger = c"SCOREP_TriggerCounterUint64"(u32, u64);
    }

    /// Registers one function to be called before the end of the measurement.
    AtExit {
        register = c"SCOREP_RegisterExitCallback"(extern "C" fn() -> c_int);
    }
}
