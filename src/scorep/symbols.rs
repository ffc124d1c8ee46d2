//! Score-P's functions, found by name. Their declarations are those of Score-P 7.1, 8.4 and 9.0 where they agree.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::guard::Location;

/// Where a symbol of this name is, among all that the program and its libraries show.
///
/// Never through a handle of a library: variables of Score-P are copied into the program, and a library's own copy
/// is dead.
pub(super) fn find(name: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: a name with a NUL; RTLD_DEFAULT loads nothing.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    ptr::NonNull::new(found)
}

/// The file of the library that a symbol is in.
pub(super) fn library_of(name: &CStr) -> Option<String> {
    let symbol = find(name)?;
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address, and fills the structure when it knows the object.
    let known = unsafe { libc::dladdr(symbol.as_ptr(), found.as_mut_ptr()) } != 0;
    // SAFETY: zeroed pointers are valid values, whether or not dladdr filled them.
    let found = unsafe { found.assume_init() };
    if !known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: not NULL, so dladdr set it to a string that lives as long as the object is loaded: Score-P's are not unloaded.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = path.to_string_lossy();
    Some(path.rsplit('/').next().unwrap_or(&path).to_owned())
}

macro_rules! functions {
    (
        $(#[$about:meta])*
        $table:ident {
            $($field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl $table {
            /// All of them, or the name of the first that is not there.
            pub(super) fn find() -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let found = find($symbol).ok_or($symbol.to_str().unwrap_or("?"))?;
                        // SAFETY: Score-P declares the function of this name so (checked for 7.1, 8.4 and 9.0; those
                        // that differ in 7.1 are only looked for where a function of 8.0 is there).
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
    };
}

functions! {
    /// What calls, operations and attributes need: Score-P 8.0 and later.
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
}

functions! {
    /// What calls need: the user adapter, the same since 7.1.
    User {
        begin = c"SCOREP_User_RegionBegin"(*mut *mut c_void, *mut *const c_char, *mut u32, *const c_char, u32, *const c_char, u32);
        end = c"SCOREP_User_RegionEnd"(*mut c_void);
    }
}

functions! {
    /// Which threads Score-P knows: NULL on one that it does not. Not there without a thread model.
    Threads {
        private_data = c"scorep_thread_get_private_data"() -> *mut c_void;
    }
}

functions! {
    /// How deep the calling thread is inside Score-P.
    Inside {
        depth = c"scorep_get_in_measurement"() -> *mut c_int;
    }
}

functions! {
    /// Whether the user has not switched recording off.
    Recording {
        is_enabled = c"SCOREP_RecordingEnabled"() -> bool;
    }
}

functions! {
    /// One call before the end of the measurement.
    AtExit {
        register = c"SCOREP_RegisterExitCallback"(extern "C" fn() -> c_int);
    }
}
