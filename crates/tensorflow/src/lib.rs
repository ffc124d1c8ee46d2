//! TensorFlow's pluggable profiler: reports NCCL's operations during a profile.
//!
//! ```text
//! TF_InitProfiler and the functions that it registers: TensorFlow's C types
//!   └ a profile, from start to stop, and the bytes that TensorFlow then asks for
//!       └ this process's journal between start and stop, exported as an archive, then as an XSpace
//! ```
//!
//! The plugin, another library in the same process, records; this library asks the plugin for the journal
//! (`in_process::Recorded`) and reads it. During a profile nothing happens here: NCCL's events go to the journal, as
//! always. TensorFlow never gets an error: data that is unavailable becomes an empty XSpace and a line on stderr.

use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use archive::{WriteOptions, unify, write_part};
use in_process::{Recorded, SessionEndsFunction, ask_plugin};
use journal::clock::ticks;
use journal::part::{JOURNAL, PARTS, PROCESS, part_name};
use journal::uninterrupted::NotCancelled;
use journal::{clock, host, writing};
use parking_lot::{Mutex, MutexGuard};
use rayon::ThreadPoolBuilder;

// TensorFlow's C interface (`pluggable_profiler.h`, version 0.0.1).
//
// The first field of every struct holds the struct's size in TensorFlow. A struct smaller than the known version is
// not written to; extra fields of a larger struct are left unchanged.

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
        begin_profile();
    });
}

/// # Safety
/// As for [`start`].
unsafe extern "C" fn stop(profiler: *const Profiler, _status: Status) {
    guarded(|| {
        // SAFETY: the contract.
        unsafe { fault(profiler) };
        end_profile();
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
            return bytes();
        }
        // SAFETY: not NULL, so it points to a number (contract).
        let capacity = unsafe { size.read() };
        // SAFETY: the buffer has that many bytes (contract), and TensorFlow has initialised them.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, capacity) };
        take(buffer)
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
        guarded(|| session_ends(recorded));
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
                in_process::print_line(&format!(
                    "internal error in TensorFlow's profile: {panic}; the profile lacks NCCL, recording continues"
                ));
            });
            None
        }
    }
}

/// The largest journal that is read inside the job: reading takes about three times as much memory.
const LIMIT_BYTES: u64 = 512 << 20;
/// How long to wait for another thread that makes planes. In a forked child that thread does not exist.
const PATIENCE: Duration = Duration::from_secs(90);

static PROFILE: Mutex<Profile> = Mutex::new(Profile { begin: None, recorded: None, xspace: Vec::new() });

/// A profile from start to stop, and its bytes.
struct Profile {
    begin: Option<Begin>,
    /// The part being recorded when the profile began, and the size of its journal then.
    recorded: Option<(PathBuf, u64)>,
    xspace: Vec<u8>,
}

/// Begins a profile and discards what is left of the previous one.
pub(crate) fn begin_profile() {
    clock::select();
    // A plugin error is reported once, at the end.
    let recorded = ask_plugin().ok().flatten().map(|recorded| (recorded.part(), recorded.journal_bytes));
    if let Some(mut profile) = lock() {
        profile.xspace = Vec::new();
        profile.recorded = recorded;
        profile.begin = Some(Begin { ticks: ticks(), realtime_ns: clock::realtime_ns() });
    }
}

pub(crate) fn end_profile() {
    if let Some(mut profile) = lock() {
        match ask_plugin() {
            Ok(Some(recorded)) => profile.add(&recorded),
            Err(reason) if profile.begin.is_some() => warn_missing(&reason),
            Ok(None) | Err(_) => {}
        }
        profile.begin = None;
    }
}

pub(crate) fn bytes() -> usize {
    lock().map_or(0, |profile| profile.xspace.len())
}

/// Moves the bytes to a buffer, if it is large enough; returns the number of bytes.
pub(crate) fn take(buffer: &mut [u8]) -> usize {
    let Some(mut profile) = lock() else {
        return 0;
    };
    let bytes = profile.xspace.len();
    if let Some(place) = buffer.get_mut(..bytes) {
        place.copy_from_slice(&profile.xspace);
        profile.xspace = Vec::new();
    }
    bytes
}

/// Reads a session that ends, because its journal may be removed with it.
pub(crate) fn session_ends(recorded: &Recorded) {
    if let Some(mut profile) = lock() {
        profile.add(recorded);
    }
}

impl Profile {
    fn add(&mut self, recorded: &Recorded) {
        let Some(begin) = &self.begin else {
            return;
        };
        let part = recorded.part();
        let before = self.recorded.as_ref().filter(|(before, _)| *before == part);
        let grown = recorded.journal_bytes.saturating_sub(before.map_or(0, |(_, bytes)| *bytes));
        if grown > LIMIT_BYTES {
            warn_missing(&format!(
                "{} MiB were recorded meanwhile, more than {} MiB; profile fewer steps, or use `nccl-otf2 export \
                 --format xplane` after the job",
                grown >> 20,
                LIMIT_BYTES >> 20
            ));
            return;
        }
        // Serialized XSpaces concatenate.
        match writing::guarded(|| planes(&part, begin)) {
            Ok(planes) => self.xspace.extend(planes),
            Err(reason) => warn_missing(&format!("{reason}; recording continues")),
        }
    }
}

fn warn_missing(reason: &str) {
    in_process::print_line(&format!("TensorFlow's profile lacks NCCL: {reason}"));
}

fn lock() -> Option<MutexGuard<'static, Profile>> {
    PROFILE.try_lock_for(PATIENCE)
}

const DEADLINE: Duration = Duration::from_secs(60);
/// The most cores taken from the job during the export.
const THREADS: usize = 4;

pub(crate) struct Begin {
    pub(crate) ticks: u64,
    pub(crate) realtime_ns: u64,
}

/// The planes of a session since a profile began; empty without events. The journal is only read: it becomes an archive
/// in a temporary directory, which is exported like any other archive.
pub(crate) fn planes(part: &Path, begin: &Begin) -> Result<Vec<u8>, String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    // The pool's threads have ended when this returns, and receive none of the program's signals.
    let made = ThreadPoolBuilder::new()
        .num_threads(cores.min(THREADS))
        .build_scoped(|thread| host::without_signals(|| thread.run()), |pool| pool.install(|| exported(part, begin)));
    made.map_err(|error| error.to_string())?
}

fn exported(part: &Path, begin: &Begin) -> Result<Vec<u8>, String> {
    let end_ns = clock::realtime_ns();
    let mut builder = tempfile::Builder::new();
    let scratch = builder.prefix("nccl-otf2-").permissions(Permissions::from_mode(0o700)).tempdir();
    let scratch = scratch.map_err(|error| format!("{}: {error} (TMPDIR)", std::env::temp_dir().display()))?;
    let copy = scratch.path().join(PARTS).join(part_name(part));
    refer(part, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let options = WriteOptions {
        deadline: Instant::now().checked_add(DEADLINE),
        provisional: true,
        since_ticks: begin.ticks,
        ..WriteOptions::default()
    };
    write_part(&copy, &options, &()).map_err(|error| error.to_string())?;
    let archive = unify(scratch.path(), &()).map_err(|error| error.to_string())?;
    exports::xplane::planes(&archive.anchor, begin.realtime_ns, end_ns).map_err(|error| error.to_string())
}

fn refer(part: &Path, copy: &Path) -> std::io::Result<()> {
    host::directories(copy)?;
    symlink(fs::canonicalize(part.join(JOURNAL))?, copy.join(JOURNAL))?;
    host::write(&copy.join(PROCESS), &fs::read(part.join(PROCESS))?)
}
