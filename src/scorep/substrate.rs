//! The plugin as a substrate plugin of Score-P (`SCOREP_SUBSTRATE_PLUGINS=nccl_otf2`), which is the same library under
//! another name, so that the process has only one copy; and Score-P's functions, found by name.
//!
//! Score-P reports to a substrate plugin the experiment directory, the rank, and the end of the program while the
//! directory still has its name. Events do not take this path: `bridge` forwards them.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use in_process::Object;
use journal::uninterrupted::not_cancelled;
use parking_lot::Mutex;

/// The version of the interface, the same in 7.1, 8.4 and 9.0.
const VERSION: u32 = 3;
/// The number of slots reserved for functions of later versions.
const UNDECLARED: usize = 99;
const PROGRAM_END: usize = 64;
const NEEDS_DIRECTORY: c_int = 0;

type Unused = Option<unsafe extern "C" fn()>;

#[repr(C)]
#[derive(Debug)]
pub struct SubstratePluginInfo {
    plugin_version: u32,
    /// `init` and `assign_id`.
    unused_first: [Unused; 2],
    init_mpp: Option<extern "C" fn()>,
    /// `finalize` to `new_definition_handle`.
    unused: [Unused; 10],
    get_event_functions: Option<unsafe extern "C" fn(c_int, *mut *mut EventFunction) -> usize>,
    set_callbacks: Option<unsafe extern "C" fn(*const Callbacks, usize)>,
    get_requirement: Option<extern "C" fn(c_int) -> bool>,
    dump_manifest: Option<unsafe extern "C" fn(*mut libc::FILE, *const c_char, *const c_char)>,
    undeclared: [Unused; UNDECLARED],
}

const _: () = assert!(size_of::<SubstratePluginInfo>() == 8 * (1 + 17 + UNDECLARED));

type EventFunction = Option<extern "C" fn(*mut c_void, u64, c_int, u32)>;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    experiment_directory: Option<unsafe extern "C" fn() -> *const c_char>,
    size: Option<unsafe extern "C" fn() -> c_int>,
    rank: Option<unsafe extern "C" fn() -> c_int>,
}

#[derive(Clone, Debug, Default)]
struct Experiment {
    directory: Option<PathBuf>,
    rank: Option<u32>,
    size: Option<u32>,
}

static CALLBACKS: Mutex<Option<Callbacks>> = Mutex::new(None);
static EXPERIMENT: Mutex<Option<Experiment>> = Mutex::new(None);
static ACTIVE: AtomicBool = AtomicBool::new(false);

pub(super) fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

/// The default location of the archive: inside the experiment directory.
pub(crate) fn archive_directory() -> Option<PathBuf> {
    let experiment = EXPERIMENT.lock();
    let directory = experiment.as_ref()?.directory.as_ref()?;
    Some(directory.join("nccl-otf2"))
}

pub(crate) fn directory_around(archive: &Path) -> Option<&Path> {
    let is_inside = archive_directory().is_some_and(|inside| inside == archive);
    archive.parent().filter(|_| is_inside)
}

/// Rank and number of ranks. `None` for one rank: Score-P without MPI reports that in every process of a job.
pub(crate) fn rank_and_size() -> Option<(u32, u32)> {
    let experiment = EXPERIMENT.lock();
    let experiment = experiment.as_ref()?;
    let (rank, size) = (experiment.rank?, experiment.size?);
    (size > 1).then_some((rank, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn SCOREP_SubstratePlugin_nccl_otf2_get_info() -> SubstratePluginInfo {
    SubstratePluginInfo {
        plugin_version: VERSION,
        unused_first: [None; 2],
        init_mpp: Some(init_mpp),
        unused: [None; 10],
        get_event_functions: Some(get_event_functions),
        set_callbacks: Some(set_callbacks),
        get_requirement: Some(get_requirement),
        dump_manifest: Some(dump_manifest),
        undeclared: [None; UNDECLARED],
    }
}

/// Score-P calls this before all other functions.
///
/// # Safety
/// `callbacks` points to `size` bytes.
unsafe extern "C" fn set_callbacks(callbacks: *const Callbacks, size: usize) {
    if callbacks.is_null() || size < size_of::<Callbacks>() {
        return;
    }
    // SAFETY: not NULL and large enough (contract).
    let callbacks = unsafe { callbacks.read() };
    *CALLBACKS.lock() = Some(callbacks);
    ACTIVE.store(true, Ordering::Release);
}

/// Score-P calls this when ranks are known; without MPI at the start.
extern "C" fn init_mpp() {
    let Some(callbacks) = *CALLBACKS.lock() else {
        return;
    };
    let directory = callbacks.experiment_directory.map_or(ptr::null(), |ask| {
        // SAFETY: Score-P allows this call from here on.
        unsafe { ask() }
    });
    let directory = (!directory.is_null()).then(|| {
        // SAFETY: not NULL, so it is the directory's name, which Score-P keeps.
        let name = unsafe { CStr::from_ptr(directory) };
        PathBuf::from(OsStr::from_bytes(name.to_bytes()))
    });
    let number = |ask: Option<unsafe extern "C" fn() -> c_int>| {
        ask.and_then(|ask| {
            // SAFETY: as above.
            let number = unsafe { ask() };
            u32::try_from(number).ok()
        })
    };
    *EXPERIMENT.lock() = Some(Experiment {
        directory: directory.and_then(|directory| std::path::absolute(directory).ok()),
        rank: number(callbacks.rank),
        size: number(callbacks.size),
    });
}

/// Selects the events that the plugin gets, in both recording modes: only the end of the program.
///
/// # Safety
/// `functions` is NULL or points to a variable for a list's address.
unsafe extern "C" fn get_event_functions(_mode: c_int, functions: *mut *mut EventFunction) -> usize {
    const LENGTH: usize = PROGRAM_END + 1;
    if functions.is_null() {
        return 0;
    }
    // Allocated with C's allocator, because Score-P may free the list.
    // SAFETY: allocates zeroed memory, which is a list without functions.
    let list: *mut EventFunction = unsafe { libc::calloc(LENGTH, size_of::<EventFunction>()) }.cast();
    if list.is_null() {
        return 0;
    }
    // SAFETY: the list is one entry longer than this index.
    let last = unsafe { list.add(PROGRAM_END) };
    // SAFETY: the entry is inside the list.
    unsafe { last.write(Some(program_end)) };
    // SAFETY: not NULL, so it points to Score-P's variable (contract).
    unsafe { functions.write(list) };
    LENGTH
}

static AT_PROGRAM_END: OnceLock<fn()> = OnceLock::new();

/// Calls `action` when Score-P reports the end of the program. Only the first call has an effect.
pub(crate) fn at_program_end(action: fn()) {
    AT_PROGRAM_END.get_or_init(|| action);
}

/// The archive's entry in `MANIFEST.md` of the experiment directory, in the columns of Score-P's own entries.
const MANIFEST: &CStr = c"\
        * `nccl-otf2/`          NCCL's own archive (nccl-otf2 info): traces.otf2, and
                                in parts/ what each process recorded.
";

/// Score-P calls this when it makes the experiment directory, and when it ends; only in the first process of a job.
///
/// # Safety
/// `manifest` is NULL or a writable stream.
unsafe extern "C" fn dump_manifest(manifest: *mut libc::FILE, _source: *const c_char, _target: *const c_char) {
    // If the variable is set, the archive is elsewhere.
    if manifest.is_null() || std::env::var_os("NCCL_OTF2_DIR").is_some() {
        return;
    }
    // SAFETY: a NUL-terminated text and a writable stream (contract).
    let _written = unsafe { libc::fputs(MANIFEST.as_ptr(), manifest) };
}

extern "C" fn get_requirement(flag: c_int) -> bool {
    flag == NEEDS_DIRECTORY
}

/// The program ends: Score-P still accepts events, and the directory still has its name.
extern "C" fn program_end(_location: *mut c_void, _ticks: u64, _status: c_int, _region: u32) {
    // A panic must not reach Score-P.
    let _caught = in_process::catch(|| {
        not_cancelled(|| {
            if let Some(end) = AT_PROGRAM_END.get() {
                end();
            }
        })
    });
}

// Score-P's functions are declared as in Score-P 7.1, 8.4 and 9.0, where the declarations agree.

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
    Some(Object::from_address(symbol.addr().get())?.file_name())
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
