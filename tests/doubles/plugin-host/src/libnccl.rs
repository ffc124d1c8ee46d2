//! What of NCCL a plugin can touch, and in which release: the stand-in for libnccl, or nothing.
//!
//! Without a stand-in the mask and the logger are this program's, and nobody can be asked for a version. With one
//! they lie in a library of their own that exports `ncclGetVersion`, so that a plugin finds the release as it does
//! beside the real libnccl; and closing it takes them away.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_stand_in::Printer;

use crate::constants;
use crate::logger;

const FILE: &str = "libnccl_stand_in.so";

/// The mask and the logger that `init` passes: of the library that is loaded, else NULL.
static LENT_MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
static LENT_LOGGER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// There is no libnccl to be.
#[derive(Debug, thiserror::Error)]
pub enum LibncclError {
    /// The stand-in is not beside this program.
    #[error("there is no {FILE} beside {}: cargo build -p nccl-stand-in makes it", program.display())]
    NotBuilt {
        /// This program.
        program: PathBuf,
    },
    /// It cannot be loaded.
    #[error("cannot load {}: {source}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
}

/// A libnccl that is loaded and lends its mask and logger to every `init` until it is dropped.
#[derive(Debug)]
pub struct Libnccl {
    _library: Library,
}

impl Libnccl {
    /// Loads the stand-in as this release: 22809 is 2.28.9.
    ///
    /// # Errors
    /// When it has not been built.
    pub fn load(release: u32) -> Result<Self, LibncclError> {
        type Begin = unsafe extern "C" fn(c_int, Printer);
        let path = find()?;
        let fail = |source| LibncclError::Load {
            path: path.clone(),
            source,
        };
        // SAFETY: the stand-in runs no code of its own when it is loaded.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(fail)?;
        // SAFETY: the stand-in declares it so.
        let begin = unsafe { library.get::<Begin>(b"ncclStandInBegin\0") }.map_err(fail)?;
        // SAFETY: of the stand-in, which is loaded.
        unsafe { begin(release.cast_signed(), logger::print) };
        // SAFETY: only its address is taken.
        let mask =
            unsafe { library.get::<*mut c_void>(b"ncclProfilerEventMask\0") }.map_err(fail)?;
        // SAFETY: only its address is taken.
        let log = unsafe { library.get::<*mut c_void>(b"ncclDebugLog\0") }.map_err(fail)?;
        LENT_MASK.store(mask.into_raw().cast(), Ordering::Release);
        LENT_LOGGER.store(log.into_raw(), Ordering::Release);
        constants::show();
        Ok(Self { _library: library })
    }
}

impl Drop for Libnccl {
    fn drop(&mut self) {
        LENT_MASK.store(ptr::null_mut(), Ordering::Release);
        LENT_LOGGER.store(ptr::null_mut(), Ordering::Release);
        // What its strings were goes with it.
        constants::hide();
    }
}

/// The mask of the library that is loaded.
#[must_use]
pub(crate) fn mask() -> Option<&'static AtomicI32> {
    let mask = LENT_MASK.load(Ordering::Acquire);
    if mask.is_null() {
        return None;
    }
    // SAFETY: an aligned int of the stand-in that everybody reads and writes atomically. Whoever closes the library
    // has ended the threads that look at it.
    Some(unsafe { AtomicI32::from_ptr(mask) })
}

/// The logger of the library that is loaded.
#[must_use]
pub(crate) fn logger() -> Option<*mut c_void> {
    let log = LENT_LOGGER.load(Ordering::Acquire);
    (!log.is_null()).then_some(log)
}

/// Beside the program, or where Cargo puts the libraries of a test.
fn find() -> Result<PathBuf, LibncclError> {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.with_file_name(FILE);
    let of_tests = program.with_file_name("deps").join(FILE);
    [beside, of_tests]
        .into_iter()
        .find(|path| path.exists())
        .ok_or(LibncclError::NotBuilt { program })
}
