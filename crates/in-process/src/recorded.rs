//! The interface between the plugin and the TensorFlow library.
//!
//! Host programs load the two libraries in any order, and each works without the other. So neither links the other:
//! each looks up the other's function when it needs it, in the libraries already loaded. If a function's argument
//! changes, the function gets a new name, so that different versions cannot misread each other.
//!
//! | function | in | called |
//! |---|---|---|
//! | `nccl_otf2_recorded_v1` | `libnccl-profiler-otf2.so` | when a profile begins or ends, for what is being recorded |
//! | `nccl_otf2_session_ends_v1` | `libnccl-otf2-tensorflow.so` | when a session ends, before its journal is removed |

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// The system's `PATH_MAX`, including the NUL.
const MOST_PATH_BYTES: usize = 4096;

#[repr(C)]
#[derive(Clone, Debug)]
pub struct Recorded {
    pub journal_bytes: u64,
    /// This process's part of the job's directory: a NUL-terminated path.
    part: [u8; MOST_PATH_BYTES],
}

/// `nccl_otf2_recorded_v1`: fills its argument and returns 1; returns 0 if nothing is recorded.
pub type RecordedFunction = unsafe extern "C" fn(*mut Recorded) -> c_int;
pub type SessionEndsFunction = unsafe extern "C" fn(*const Recorded);

impl Recorded {
    /// `None` if the path is too long for a system call.
    pub fn new(part: &Path, journal_bytes: u64) -> Option<Self> {
        let path = part.as_os_str().as_bytes();
        let mut bytes = [0; MOST_PATH_BYTES];
        let (place, _nul) = bytes.split_at_mut_checked(path.len()).filter(|(_, rest)| !rest.is_empty())?;
        place.copy_from_slice(path);
        Some(Self { journal_bytes, part: bytes })
    }

    pub fn part(&self) -> PathBuf {
        OsStr::from_bytes(self.part.split(|byte| *byte == 0).next().unwrap_or_default()).into()
    }
}

/// Asks the plugin what it is recording. `None` if this process has no plugin, or if the plugin records nothing.
pub fn ask_plugin() -> Result<Option<Recorded>, String> {
    const PLUGIN: &CStr = c"libnccl-profiler-otf2.so";
    let Some(plugin) = loaded(PLUGIN) else {
        return Ok(None);
    };
    let Some(function) = symbol(plugin, c"nccl_otf2_recorded_v1") else {
        return Err("the libnccl-profiler-otf2.so in this process is of another version".to_owned());
    };
    // SAFETY: the plugin's function of this name has this type.
    let function = unsafe { mem::transmute::<NonNull<c_void>, RecordedFunction>(function) };
    let mut recorded = Recorded { journal_bytes: 0, part: [0; MOST_PATH_BYTES] };
    // SAFETY: the argument is a local variable, and the plugin stays loaded (`-z nodelete`).
    let is_recording = unsafe { function(&raw mut recorded) };
    Ok((is_recording != 0).then_some(recorded))
}

/// Makes the TensorFlow library, if it is in this process, read what a session recorded.
pub fn tell_tensorflow(recorded: &Recorded) {
    const LIBRARY: &CStr = c"libnccl-otf2-tensorflow.so";
    let Some(function) = loaded(LIBRARY).and_then(|library| symbol(library, c"nccl_otf2_session_ends_v1")) else {
        return;
    };
    // SAFETY: that library's function of this name has this type.
    let function = unsafe { mem::transmute::<NonNull<c_void>, SessionEndsFunction>(function) };
    // SAFETY: the argument lives during the call, and the library stays loaded (`-z nodelete`).
    unsafe { function(recorded) };
}

/// Finds a loaded library by its soname, wherever its file is. Never loads it.
fn loaded(soname: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a C string. Nothing is loaded, so no constructor runs. Both libraries stay loaded; no handle is closed.
    NonNull::new(unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) })
}

fn symbol(library: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the handle comes from `loaded`, which does not close it; the name is a C string.
    NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_arrives_as_it_was() {
        let longest = "x".repeat(MOST_PATH_BYTES - 1);
        for path in ["/job/parts/host-7-1", "", "/caf\u{e9}", &longest] {
            let recorded = Recorded::new(Path::new(path), 7).expect("short enough");
            assert_eq!((recorded.part().as_path(), recorded.journal_bytes), (Path::new(path), 7));
        }
        assert!(Recorded::new(Path::new(&"x".repeat(MOST_PATH_BYTES)), 7).is_none());
    }
}
