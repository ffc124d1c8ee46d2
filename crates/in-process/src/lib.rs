//! What this project's shared libraries, the plugin and the TensorFlow library, need in a host process: panics are
//! caught and reported in one line, the two libraries find each other among the loaded objects, and messages go to
//! stderr.

use std::any::Any;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Once;
use std::{fmt, mem, ptr};

use journal::writing;
use parking_lot::Mutex;

static LAST: Mutex<String> = Mutex::new(String::new());

/// A caught panic: its message and location. The payload is never dropped, because dropping it could panic again.
pub struct Panic(ManuallyDrop<Box<dyn Any + Send>>);

/// Runs code that is called from outside or must not end its thread, and stops panics there.
///
/// Allocates nothing unless the code panics. The caller must not use state that the panic left half-updated.
#[inline]
pub fn catch<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| Panic(ManuallyDrop::new(payload)))
}

impl fmt::Display for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.downcast_ref::<&str>().copied();
        let words = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str));
        formatter.write_str(words.unwrap_or("a panic without words"))?;
        formatter.write_str(&location())
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Keeps Rust's panic message off the host's stderr. Only the first call has an effect.
///
/// The hook belongs to the Rust runtime linked into this library, not to a Rust runtime in the host program. A program
/// that links the plugin statically has only one runtime and keeps its own hook.
pub fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !is_shared_library() {
            return;
        }
        std::panic::set_hook(Box::new(|info| {
            let location = info.location().map(ToString::to_string);
            if let (Some(location), Some(mut last)) = (location, LAST.try_lock()) {
                *last = format!(" (at {location})");
            }
        }));
    });
}

/// The location of the last panic as a sentence suffix; empty if unknown.
pub fn location() -> String {
    let last = LAST.try_lock();
    last.map_or_else(String::new, |last| last.clone())
}

/// Whether this code is in a different object from the program itself.
fn is_shared_library() -> bool {
    // SAFETY: reads one word of the auxiliary vector, or returns 0 if the entry is absent.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    #[expect(clippy::cast_possible_truncation, reason = "an address: pointers have 64 bits")]
    let program = Object::from_address(headers as usize);
    let ours = Object::from_address((&raw const LAST).addr());
    program.zip(ours).is_some_and(|(program, ours)| program.base != ours.base)
}

// The interface between the plugin and the TensorFlow library. Host programs load the two libraries in any order, and
// each works without the other. So neither links the other: each looks up the other's function when it needs it, in the
// libraries already loaded. If a function's argument changes, the function gets a new name, so that different versions
// cannot misread each other.
//
// | function | in | called |
// |---|---|---|
// | `nccl_otf2_recorded_v1` | `libnccl-profiler-otf2.so` | when a profile begins or ends, for what is being recorded |
// | `nccl_otf2_session_ends_v1` | `libnccl-otf2-tensorflow.so` | when a session ends, before its journal is removed |

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
pub fn notify_tensorflow(recorded: &Recorded) {
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

/// A loaded object: the program or a library.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub base: usize,
    path: *const libc::c_char,
}

impl Object {
    /// The object that contains `address`; `None` if no object does, or if the object has no path.
    pub fn from_address(address: usize) -> Option<Self> {
        if address == 0 {
            return None;
        }
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr only compares the address, and fills the structure if it knows the object.
        let found = unsafe { libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr()) };
        // SAFETY: zeroed pointers are valid values, whether or not dladdr filled them.
        let info = unsafe { info.assume_init() };
        (found != 0 && !info.dli_fname.is_null()).then(|| Self { base: info.dli_fbase.addr(), path: info.dli_fname })
    }

    /// The object of a symbol of the library with this name or path, if loaded: that library, or one that it needs.
    pub fn from_symbol(library: &CStr, symbol: &CStr) -> Option<Self> {
        // SAFETY: a C string; with RTLD_NOLOAD nothing is loaded, so no constructor runs.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: a handle from dlopen; the name is a C string.
        let symbol = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        let object = Self::from_address(symbol.addr());
        // SAFETY: releases the reference that dlopen took above.
        let _ = unsafe { libc::dlclose(handle) };
        object
    }

    /// The path as the dynamic linker stores it, valid while the object is loaded.
    pub const fn path(&self) -> *const libc::c_char {
        self.path
    }

    /// The file name, without its directory. The object must still be loaded.
    pub fn file_name(&self) -> String {
        // SAFETY: the path is not NULL (`from_address`), so it is the dynamic linker's string, which lives as long as
        // the object is loaded. Callers call this right after they have found a symbol in the object.
        let path = unsafe { CStr::from_ptr(self.path) };
        let path = path.to_string_lossy();
        path.rsplit('/').next().unwrap_or(&path).to_owned()
    }
}

// Everything that this project's libraries print on the host's standard error goes through `print_line`.

/// The kernel writes at most this many bytes to a pipe as a whole, or none of them.
const MOST_BYTES: usize = libc::PIPE_BUF;

/// The open file behind standard error; opening it gives a descriptor with flags of its own.
const STDERR: &str = "/proc/self/fd/2";

/// Writes one line to stderr. Callbacks may call this. A line that cannot be written at once is lost.
pub fn print_line(message: &str) {
    let mut line = line(message);
    line.truncate(line.floor_char_boundary(MOST_BYTES - 1));
    line.push('\n');
    writing::guarded(|| write_at_once(line.as_bytes()));
}

/// Never waits for a reader: for none of a socket, a pipe, or a terminal that is stopped.
fn write_at_once(line: &[u8]) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer lives during the call and has the length passed.
    let sent = unsafe { libc::send(libc::STDERR_FILENO, line.as_ptr().cast(), line.len(), flags) };
    if sent >= 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
        return;
    }
    // The flag O_NONBLOCK of descriptor 2 is also the program's, and that of other processes.
    let is_pipe = std::fs::metadata(STDERR).is_ok_and(|is| is.file_type().is_fifo());
    if is_pipe || std::io::stderr().is_terminal() {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        if let Ok(mut stderr) = File::options().write(true).custom_flags(flags).open(STDERR) {
            let _lost = stderr.write(line);
            return;
        }
    }
    let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which is writable.
    let is_known = unsafe { libc::poll(&raw mut ready, 1, 0) } == 1;
    if is_known && ready.revents == libc::POLLOUT {
        // SAFETY: the buffer lives during the call and has the length passed.
        let _lost = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}

/// Formats one line without NULs, whatever characters names and files from outside contain.
pub fn line(message: &str) -> String {
    format!("nccl-otf2: {}", nccl_events::visible(message))
}

#[cfg(test)]
mod tests {
    mod panics {
        use std::panic::panic_any;

        use crate::*;

        #[test]
        fn the_words_of_a_panic_are_found() {
            let words = |body: fn()| catch(body).expect_err("panics").to_string();
            assert!(words(|| panic!("number {}", std::hint::black_box(3))).starts_with("number 3"));
            assert!(words(|| panic!("fixed")).starts_with("fixed"));
            assert!(words(|| panic_any(5_u8)).starts_with("a panic without words"));
        }

        struct PanicsWhenDropped;

        impl Drop for PanicsWhenDropped {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }

        #[test]
        fn a_payload_that_panics_when_dropped_is_not_dropped() {
            let caught = catch(|| drop(catch(|| panic_any(PanicsWhenDropped))));
            assert!(caught.is_ok());
        }
    }

    mod plugin_interface {
        use crate::*;

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
}
