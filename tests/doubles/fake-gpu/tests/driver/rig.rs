//! A small tool that looks for the driver as a real one would, each scenario in a process of its own with the stand-in
//! preloaded.

use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::process::Command;

/// Says to a child which scenario it is to run.
const INNER: &str = "DRIVER_SCENARIO";

/// The stand-in, where building a package's tests puts it.
fn stand_in() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.with_file_name("libfakegpu.so")
}

/// Runs the body in a process under the stand-in with these variables; what it wrote.
pub(crate) fn scenario(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> String {
    let own = format!("{name} {variables:?}");
    if let Ok(inner) = std::env::var(INNER) {
        // A test with several scenarios: the child was started for one.
        if inner == own {
            body();
        }
        return String::new();
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args([name, "--exact", "--nocapture"]);
    command.env(INNER, own).env("LD_PRELOAD", stand_in());
    command.envs(variables.iter().copied());
    let output = command.output().expect("the test runs again");
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&both).into_owned();
    assert!(output.status.success(), "{variables:?}: {text}");
    assert!(
        text.contains("1 passed"),
        "no test is called {name}: {text}"
    );
    text
}

/// The driver, or the process with the runtime that the stand-in preloads.
pub(crate) struct Cuda(Library);

/// What `dlopen` says, by the way that a careful tool goes: only what is mapped already.
pub(crate) fn driver_is_mapped() -> bool {
    // SAFETY: a constant name; nothing is mapped that is not yet.
    let handle =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    !handle.is_null()
}

/// The text of the last failure.
pub(crate) fn dlerror() -> String {
    // SAFETY: takes nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not NULL, so a text that lives until the next call.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Cuda {
    pub(crate) fn driver() -> Cuda {
        assert!(driver_is_mapped(), "{}", dlerror());
        // SAFETY: mapped already: no constructor runs.
        let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | libc::RTLD_NOLOAD) };
        Cuda(library.expect("it is mapped"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        // SAFETY: only the presence of the name is looked at.
        unsafe { self.0.get::<*const c_void>(name.as_bytes()) }.is_ok()
    }

    /// A function of the type that CUDA's headers give it.
    pub(crate) fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the callers below name the type of the function.
        let symbol = unsafe { self.0.get::<T>(name.as_bytes()) };
        *symbol.unwrap_or_else(|_| panic!("there is no {name}"))
    }
}

/// Calls a function: name, argument types, arguments.
macro_rules! call {
    ($cuda:expr, $name:literal, ($($ty:ty),*) $(-> $ret:ty)?, $($arg:expr),* $(,)?) => {{
        let function = $cuda.function::<unsafe extern "C" fn($($ty),*) $(-> $ret)?>($name);
        // SAFETY: the types are those of the headers, and the arguments live during the call.
        unsafe { function($($arg),*) }
    }};
}
pub(crate) use call;

pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

impl Cuda {
    pub(crate) fn stream(&self) -> usize {
        let mut stream = 0_usize;
        assert_eq!(
            call!(self, "cuStreamCreate", (*mut usize, u32) -> i32, &raw mut stream, 1),
            0
        );
        stream
    }

    pub(crate) fn event(&self, flags: u32) -> (i32, usize) {
        let mut event = 0_usize;
        let code = call!(self, "cuEventCreate", (*mut usize, u32) -> i32, &raw mut event, flags);
        (code, event)
    }

    pub(crate) fn record(&self, event: usize, stream: usize) -> i32 {
        call!(self, "cuEventRecord", (usize, usize) -> i32, event, stream)
    }

    pub(crate) fn query(&self, event: usize) -> i32 {
        call!(self, "cuEventQuery", (usize) -> i32, event)
    }

    /// Code and milliseconds.
    pub(crate) fn elapsed(&self, start: usize, end: usize) -> (i32, f32) {
        let mut milliseconds = -1.0_f32;
        let code = call!(self, "cuEventElapsedTime", (*mut f32, usize, usize) -> i32,
                         &raw mut milliseconds, start, end);
        (code, milliseconds)
    }

    pub(crate) fn synchronize(&self, stream: usize) {
        assert_eq!(
            call!(self, "cuStreamSynchronize", (usize) -> i32, stream),
            0
        );
    }

    /// Queues a host function.
    pub(crate) fn host(&self, stream: usize, function: HostFunction) {
        let code = call!(self, "cudaLaunchHostFunc", (usize, HostFunction, *mut c_void) -> i32,
                         stream, function, std::ptr::null_mut());
        assert_eq!(code, 0);
    }

    /// Begins a capture: 0 global, 1 of this thread, 2 relaxed.
    pub(crate) fn begin_capture(&self, stream: usize, mode: i32) {
        assert_eq!(
            call!(self, "cudaStreamBeginCapture", (usize, i32) -> i32, stream, mode),
            0
        );
    }

    pub(crate) fn end_capture(&self, stream: usize) -> i32 {
        let mut graph = 0_usize;
        call!(self, "cudaStreamEndCapture", (usize, *mut usize) -> i32, stream, &raw mut graph)
    }

    pub(crate) fn capture_status(&self, stream: usize) -> i32 {
        let mut status = -1;
        let code =
            call!(self, "cuStreamIsCapturing", (usize, *mut i32) -> i32, stream, &raw mut status);
        assert_eq!(code, 0);
        status
    }

    /// Exchanges the calling thread's mode; what it was.
    pub(crate) fn exchange_mode(&self, mode: i32) -> i32 {
        let mut mode = mode;
        let code =
            call!(self, "cuThreadExchangeStreamCaptureMode", (*mut i32) -> i32, &raw mut mode);
        assert_eq!(code, 0);
        mode
    }

    pub(crate) fn count(&self, name: &CStr) -> u64 {
        call!(self, "fakegpu_count", (*const std::ffi::c_char) -> u64, name.as_ptr())
    }
}
