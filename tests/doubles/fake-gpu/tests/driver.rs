//! What the stand-in's driver refuses a tool, and counts, each scenario in a process of its own: tests of the plugin
//! (`tests/gpu`) rely on it. That times and ends of events are right is tested there.

use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{c_char, c_int, c_void};
use whole_plugin::scenario::passes;

fn scenario(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    let stand_in = std::env::current_exe().unwrap().with_file_name("libfakegpu.so");
    passes(name, variables, Some(&stand_in), body);
}

/// Calls a function of the driver, which the process has already: name, argument types, arguments.
macro_rules! call {
    ($name:literal, ($($ty:ty),*) $(-> $ret:ty)?, $($arg:expr),*) => {{
        // SAFETY: mapped already: no constructor runs.
        let driver = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | libc::RTLD_NOLOAD) }.unwrap();
        // SAFETY: the type is that of the headers.
        let function = *unsafe { driver.get::<unsafe extern "C" fn($($ty),*) $(-> $ret)?>($name.as_bytes()) }.unwrap();
        // SAFETY: as above, and the arguments live during the call.
        unsafe { function($($arg),*) }
    }};
}

/// The code of a call that makes something, and what it made.
macro_rules! made {
    ($name:literal $(, $ty:ty: $arg:expr)*) => {{
        let mut made = 0_usize;
        (call!($name, (*mut usize $(, $ty)*) -> c_int, &raw mut made $(, $arg)*), made)
    }};
}

fn query(event: usize) -> c_int {
    call!("cuEventQuery", (usize) -> c_int, event)
}

fn record(event: usize, stream: usize) -> c_int {
    call!("cuEventRecord", (usize, usize) -> c_int, event, stream)
}

fn count(name: &std::ffi::CStr) -> u64 {
    call!("fakegpu_count", (*const c_char) -> u64, name.as_ptr())
}

unsafe extern "C" fn from_within(_: *mut c_void) {
    assert_eq!(made!("cuCtxGetCurrent").0, 800);
}

#[test]
fn host_callbacks_and_other_devices_are_refused() {
    scenario("host_callbacks_and_other_devices_are_refused", &[], || {
        let (stream, event) = (made!("cuStreamCreate", u32: 1).1, made!("cuEventCreate", u32: 0).1);
        type Function = unsafe extern "C" fn(*mut c_void);
        assert_eq!(call!("cudaLaunchHostFunc", (usize, Function, usize) -> c_int, stream, from_within, 0), 0);
        assert_eq!(record(event, stream), 0);
        assert_eq!(call!("cudaStreamSynchronize", (usize) -> c_int, stream), 0);
        assert_eq!((query(event), count(c"in_host_callback")), (0, 1));
        // An event belongs to the device of its thread.
        assert_eq!(call!("cudaSetDevice", (c_int) -> c_int, 1), 0);
        assert_eq!(record(event, made!("cuStreamCreate", u32: 1).1), 400);
    });
}

const GLOBAL: c_int = 0;
const RELAXED: c_int = 2;

fn begin_capture(mode: c_int) -> (usize, usize) {
    let (stream, event) = (made!("cuStreamCreate", u32: 1).1, made!("cuEventCreate", u32: 0).1);
    assert_eq!(call!("cudaStreamBeginCapture", (usize, c_int) -> c_int, stream, mode), 0);
    (stream, event)
}

fn end_capture(stream: usize) -> c_int {
    let mut graph = 0_usize;
    call!("cudaStreamEndCapture", (usize, *mut usize) -> c_int, stream, &raw mut graph)
}

#[test]
fn a_capture_is_spoiled_by_what_it_forbids() {
    scenario("a_capture_is_spoiled_by_what_it_forbids", &[], || {
        for (of_capture, of_thread, codes) in
            [(GLOBAL, GLOBAL, (900, 901)), (GLOBAL, RELAXED, (0, 0)), (RELAXED, GLOBAL, (0, 0))]
        {
            let (stream, event) = begin_capture(of_capture);
            let ask = || {
                let mut mode = of_thread;
                call!("cuThreadExchangeStreamCaptureMode", (*mut c_int) -> c_int, &raw mut mode);
                assert_eq!(mode, GLOBAL, "every thread begins so");
                query(event)
            };
            let asked = std::thread::scope(|scope| scope.spawn(ask).join().unwrap());
            assert_eq!((asked, end_capture(stream)), codes);
        }
        let (stream, event) = begin_capture(RELAXED);
        assert_eq!((record(event, stream), query(event)), (0, 907));
        assert_eq!((count(c"recorded_in_capture"), end_capture(stream)), (1, 0));
    });
}

#[test]
fn a_thread_has_the_context_that_it_was_given() {
    scenario("a_thread_has_the_context_that_it_was_given", &[("FAKEGPU_CONTEXTS", "own")], || {
        let current = || made!("cuCtxGetCurrent").1;
        assert_eq!((current(), made!("cuEventCreate", u32: 0).0), (0, 201));
        let context = made!("cuDevicePrimaryCtxRetain", c_int: 2).1;
        assert_eq!(call!("cuCtxPushCurrent_v2", (usize) -> c_int, context), 0);
        assert_eq!((current(), made!("cuEventCreate", u32: 0).0), (context, 0));
        assert_eq!((made!("cuCtxPopCurrent_v2"), current()), ((0, context), 0));
        // The runtime gives a thread the context of the device that it chooses.
        assert_eq!(call!("cudaSetDevice", (c_int) -> c_int, 2), 0);
        assert_eq!(current(), context);
    });
}
