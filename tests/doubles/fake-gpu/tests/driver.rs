//! What a tool finds that looks for the driver in a process under the stand-in, each scenario in a process of its own.
//! What a profiler makes of it is tested with the plugin (`tests/gpu`).

use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use whole_plugin::scenario::passes;

/// Runs the body in a process under the stand-in with these variables.
fn scenario(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    let stand_in = std::env::current_exe().unwrap().with_file_name("libfakegpu.so");
    passes(name, variables, Some(&stand_in), body);
}

/// The driver, which the process has already, and the runtime that the stand-in preloads.
struct Cuda(Library);

/// Calls a function: name, argument types, arguments.
macro_rules! call {
    ($cuda:expr, $name:literal, ($($ty:ty),*) $(-> $ret:ty)?, $($arg:expr),*) => {{
        // SAFETY: the type is that of the headers.
        let function = unsafe {
            $cuda.0.get::<unsafe extern "C" fn($($ty),*) $(-> $ret)?>($name.as_bytes())
        };
        let function = *function.unwrap();
        // SAFETY: as above, and the arguments live during the call.
        unsafe { function($($arg),*) }
    }};
}

fn driver() -> Result<Cuda, libloading::Error> {
    // SAFETY: mapped already: no constructor runs.
    unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | libc::RTLD_NOLOAD) }.map(Cuda)
}

impl Cuda {
    fn stream(&self) -> usize {
        let mut stream = 0;
        assert_eq!(call!(self, "cuStreamCreate", (*mut usize, u32) -> c_int, &raw mut stream, 1), 0);
        stream
    }

    fn event(&self) -> (c_int, usize) {
        let mut event = 0;
        (call!(self, "cuEventCreate", (*mut usize, u32) -> c_int, &raw mut event, 0), event)
    }

    fn record(&self, event: usize, stream: usize) -> c_int {
        call!(self, "cuEventRecord", (usize, usize) -> c_int, event, stream)
    }

    fn query(&self, event: usize) -> c_int {
        call!(self, "cuEventQuery", (usize) -> c_int, event)
    }

    /// Code and milliseconds.
    fn elapsed(&self, start: usize, end: usize) -> (c_int, f32) {
        let mut ms = -1.0_f32;
        let code = call!(self, "cuEventElapsedTime", (*mut f32, usize, usize) -> c_int, &raw mut ms, start, end);
        (code, ms)
    }

    fn host(&self, stream: usize, function: unsafe extern "C" fn(*mut c_void)) {
        type Function = unsafe extern "C" fn(*mut c_void);
        let code = call!(self, "cudaLaunchHostFunc", (usize, Function, usize) -> c_int, stream, function, 0);
        assert_eq!(code, 0);
    }

    fn begin_capture(&self, stream: usize, mode: c_int) {
        assert_eq!(call!(self, "cudaStreamBeginCapture", (usize, c_int) -> c_int, stream, mode), 0);
    }

    fn end_capture(&self, stream: usize) -> c_int {
        let mut graph = 0;
        call!(self, "cudaStreamEndCapture", (usize, *mut usize) -> c_int, stream, &raw mut graph)
    }

    fn count(&self, name: &std::ffi::CStr) -> u64 {
        call!(self, "fakegpu_count", (*const c_char) -> u64, name.as_ptr())
    }
}

static GO: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn until_go(_: *mut c_void) {
    // From within a host callback nobody may call the driver.
    let mut device = 0;
    let code = call!(driver().unwrap(), "cuCtxGetDevice", (*mut c_int) -> c_int, &raw mut device);
    assert_eq!(code, 800);
    while !GO.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_event_is_done_when_its_stream_has_come_to_it() {
    // A tenth faster than the host.
    let variables = [("FAKEGPU_CLOCK_PPM", "100000")];
    scenario("an_event_is_done_when_its_stream_has_come_to_it", &variables, || {
        let cuda = driver().unwrap();
        let (stream, before, after) = (cuda.stream(), cuda.event().1, cuda.event().1);
        assert_eq!(cuda.query(before), 0, "never recorded");
        assert_eq!(cuda.record(before, stream), 0);
        let began = Instant::now();
        cuda.host(stream, until_go);
        assert_eq!(cuda.record(after, stream), 0);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((cuda.query(before), cuda.query(after)), (0, 600));
        assert_eq!(cuda.elapsed(before, after).0, 600);
        GO.store(true, Ordering::Release);
        assert_eq!(call!(cuda, "cudaStreamSynchronize", (usize) -> c_int, stream), 0);
        let longest = began.elapsed().as_secs_f32() * 1100.0 + 1.0;
        let (code, ms) = cuda.elapsed(before, after);
        assert!(code == 0 && (109.0..longest).contains(&ms), "{ms} ms, at most {longest}");
        assert!(cuda.elapsed(after, before).1 < -109.0, "backwards it is negative");
        assert_eq!(cuda.count(c"in_host_callback"), 1);
        // An event belongs to the device of its thread.
        assert_eq!(call!(cuda, "cudaSetDevice", (c_int) -> c_int, 1), 0);
        assert_eq!(cuda.record(after, cuda.stream()), 400);
    });
}

/// The code that a thread gets that queries an event during a capture, and the code of the capture's end.
fn asked_meanwhile(mode_of_capture: c_int, mode_of_thread: c_int) -> (c_int, c_int) {
    let cuda = driver().unwrap();
    let (stream, event) = (cuda.stream(), cuda.event().1);
    cuda.begin_capture(stream, mode_of_capture);
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut mode = mode_of_thread;
            call!(cuda, "cuThreadExchangeStreamCaptureMode", (*mut c_int) -> c_int, &raw mut mode);
            assert_eq!(mode, 0, "every thread begins so");
            cuda.query(event)
        });
        asking.join().unwrap()
    });
    (asked, cuda.end_capture(stream))
}

#[test]
fn a_capture_is_spoiled_by_what_it_forbids() {
    let name = "a_capture_is_spoiled_by_what_it_forbids";
    const GLOBAL: c_int = 0;
    const RELAXED: c_int = 2;
    scenario(name, &[], || {
        assert_eq!(asked_meanwhile(GLOBAL, GLOBAL), (900, 901));
        assert_eq!(asked_meanwhile(GLOBAL, RELAXED), (0, 0));
        assert_eq!(asked_meanwhile(RELAXED, GLOBAL), (0, 0));
        let cuda = driver().unwrap();
        let (stream, event) = (cuda.stream(), cuda.event().1);
        cuda.begin_capture(stream, RELAXED);
        assert_eq!((cuda.record(event, stream), cuda.query(event)), (0, 907));
        assert_eq!((cuda.count(c"recorded_in_capture"), cuda.end_capture(stream)), (1, 0));
    });
}

#[test]
fn a_thread_has_the_context_that_it_was_given() {
    let variables = [("FAKEGPU_CONTEXTS", "own")];
    scenario("a_thread_has_the_context_that_it_was_given", &variables, || {
        let cuda = driver().unwrap();
        let current = || {
            let mut context = 7;
            assert_eq!(call!(cuda, "cuCtxGetCurrent", (*mut usize) -> c_int, &raw mut context), 0);
            context
        };
        assert_eq!((current(), cuda.event().0), (0, 201));
        let (mut context, mut popped) = (0, 0);
        call!(cuda, "cuDevicePrimaryCtxRetain", (*mut usize, c_int) -> c_int, &raw mut context, 2);
        assert_eq!(call!(cuda, "cuCtxPushCurrent_v2", (usize) -> c_int, context), 0);
        assert_eq!((current(), cuda.event().0), (context, 0));
        assert_eq!(call!(cuda, "cuCtxPopCurrent_v2", (*mut usize) -> c_int, &raw mut popped), 0);
        assert_eq!((popped, current()), (context, 0));
        // The runtime gives a thread the context of the device that it chooses.
        assert_eq!(call!(cuda, "cudaSetDevice", (c_int) -> c_int, 2), 0);
        assert_eq!(current(), context);
    });
}
