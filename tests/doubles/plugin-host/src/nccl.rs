//! What of NCCL a plugin can touch, and in which release: the mask and the logger.
//!
//! Without the stand-in for libnccl both are this program's, and nobody can be asked for a version. With it they lie
//! in a library of their own that exports `ncclGetVersion`, so that a plugin finds the release as it does beside the
//! real libnccl; and closing it takes them away.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use anyhow::Context as _;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_stand_in::Printer;

use crate::strings;

const FILE: &str = "libnccl_stand_in.so";

/// The activation mask while there is no libnccl to have one.
static MASK: AtomicI32 = AtomicI32::new(0);
/// In the library that is loaded, else NULL.
static LENT_MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
static LENT_LOGGER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

static LATE_LINES: AtomicU64 = AtomicU64::new(0);
static LIVE_COMMUNICATORS: AtomicU64 = AtomicU64::new(0);

/// Which NCCL calls the plugin.
#[derive(clap::Args)]
pub(crate) struct NcclArguments {
    /// Be this NCCL: a libnccl that says this version lends the mask and the logger (22809 is 2.28.9)
    #[arg(long, value_name = "VERSION")]
    nccl: Option<u32>,

    /// The libnccl's file: a copy of the stand-in under another name, such as librccl.so.1
    #[arg(long, value_name = "FILE", requires = "nccl")]
    libnccl: Option<PathBuf>,
}

impl NcclArguments {
    pub(crate) fn load(&self) -> anyhow::Result<Option<Libnccl>> {
        self.nccl.map(|release| Libnccl::load(release, self.libnccl.as_deref())).transpose()
    }
}

/// A libnccl that is loaded and lends its mask and logger to every `init` until it is dropped.
pub(crate) struct Libnccl {
    _library: Library,
}

impl Libnccl {
    /// Loads the stand-in as this release: 22809 is 2.28.9.
    fn load(release: u32, file: Option<&Path>) -> anyhow::Result<Self> {
        type Begin = unsafe extern "C" fn(c_int, Printer);
        // Beside the program, or where Cargo puts the libraries of a test.
        let program = std::env::current_exe()?;
        let beside = [program.with_file_name(FILE), program.with_file_name("deps").join(FILE)];
        let mut places = file.map(Path::to_owned).into_iter().chain(beside);
        let path = places.find(|path| path.exists()).with_context(|| {
            format!("there is no {FILE} beside {}: cargo build -p nccl-stand-in makes it", program.display())
        })?;
        let path = std::path::absolute(path)?;
        // SAFETY: the stand-in runs no code of its own when it is loaded.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: the stand-in declares it so.
        let begin = unsafe { library.get::<Begin>(b"ncclStandInBegin\0") }?;
        // SAFETY: of the stand-in, which is loaded.
        unsafe { begin(release.cast_signed(), print) };
        // SAFETY: only its address is taken.
        let mask = unsafe { library.get::<*mut c_void>(b"ncclProfilerEventMask\0") }?;
        // SAFETY: only its address is taken.
        let log = unsafe { library.get::<*mut c_void>(b"ncclDebugLog\0") }?;
        LENT_MASK.store(mask.into_raw().cast(), Ordering::Release);
        LENT_LOGGER.store(log.into_raw(), Ordering::Release);
        strings::show();
        Ok(Self { _library: library })
    }
}

impl Drop for Libnccl {
    fn drop(&mut self) {
        LENT_MASK.store(ptr::null_mut(), Ordering::Release);
        LENT_LOGGER.store(ptr::null_mut(), Ordering::Release);
        // What its strings were goes with it.
        strings::hide();
    }
}

/// NCCL's activation mask: one per process, shared by all communicators, never reset.
pub(crate) fn mask() -> &'static AtomicI32 {
    let lent = LENT_MASK.load(Ordering::Acquire);
    if lent.is_null() {
        return &MASK;
    }
    // SAFETY: an aligned int of the stand-in that everybody reads and writes atomically. Whoever closes the library
    // has ended the threads that look at it.
    unsafe { AtomicI32::from_ptr(lent) }
}

pub(crate) fn mask_now() -> u32 {
    mask().load(Ordering::Relaxed).cast_unsigned()
}

/// The logger as `init` takes it. There it is variadic; on x86-64 and aarch64 Linux a variadic call passes its first
/// integer arguments in the registers of a plain call, and `log` has six, which fit.
pub(crate) fn logger() -> *const c_void {
    let lent = LENT_LOGGER.load(Ordering::Acquire);
    if lent.is_null() { log as *const c_void } else { lent }
}

/// A communicator exists: from before its init to after its finalize the logger may be called.
pub(crate) fn communicator_begins() {
    LIVE_COMMUNICATORS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn communicator_ends() {
    let one_less = |live: u64| live.checked_sub(1);
    let _none = LIVE_COMMUNICATORS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
}

/// How many lines were logged without a communicator, when libnccl may be gone.
pub(crate) fn late_lines() -> u64 {
    LATE_LINES.load(Ordering::Relaxed)
}

/// The logger of this program, for plugins that find no libnccl.
unsafe extern "C" fn log(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    argument: *const c_char,
) {
    // SAFETY: the strings are the plugin's, unchanged.
    unsafe { print(level, format, argument) };
}

/// Prints the plugin's line. Rust cannot define a variadic function, so the only format that is filled in is `%s`; of
/// others the format itself is printed.
unsafe extern "C" fn print(level: c_int, format: *const c_char, argument: *const c_char) {
    let late = LIVE_COMMUNICATORS.load(Ordering::Relaxed) == 0;
    LATE_LINES.fetch_add(late.into(), Ordering::Relaxed);
    if format.is_null() {
        return;
    }
    // SAFETY: not NULL, so a C string: the plugin keeps to the interface.
    let format = unsafe { CStr::from_ptr(format) };
    let takes_string = format.to_bytes().starts_with(b"%s") && !argument.is_null();
    let text = if takes_string {
        // SAFETY: the format's first directive takes a C string, which is therefore the first argument.
        unsafe { CStr::from_ptr(argument) }
    } else {
        format
    };
    let level = match level {
        2 => "WARN",
        3 => "INFO",
        _ => "LOG",
    };
    let late = if late { " (without a communicator!)" } else { "" };
    eprintln!("NCCL {level} {}{late}", text.to_string_lossy());
}
