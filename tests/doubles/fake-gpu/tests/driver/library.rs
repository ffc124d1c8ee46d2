//! The library, devices and contexts.

use crate::rig::{Cuda, call, dlerror, driver_is_mapped, scenario};
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

const NAMES: [&str; 33] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxGetDevice",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDeviceGetUuid_v2",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuEventDestroy_v2",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamGetCtx",
    "cuStreamGetId",
    "cuStreamIsCapturing",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v3",
    "cuThreadExchangeStreamCaptureMode",
];

#[test]
fn it_is_found_where_a_tool_looks() {
    scenario("library::it_is_found_where_a_tool_looks", &[], || {
        let cuda = Cuda::driver();
        for name in NAMES {
            assert!(cuda.has(name), "{name}");
        }
        assert_eq!(call!(cuda, "cuInit", (u32) -> i32, 0), 0);
    });
}

#[test]
fn it_can_be_absent() {
    scenario(
        "library::it_can_be_absent",
        &[("FAKEGPU_DRIVER", "absent")],
        || {
            assert!(!driver_is_mapped());
            assert!(dlerror().contains("libcuda.so.1"));
        },
    );
}

#[test]
fn it_can_be_a_stub() {
    scenario(
        "library::it_can_be_a_stub",
        &[("FAKEGPU_DRIVER", "stub")],
        || {
            let cuda = Cuda::driver();
            assert_eq!(call!(cuda, "cuInit", (u32) -> i32, 0), 34);
            assert_eq!(cuda.event(0).0, 34);
        },
    );
}

fn text_of(cuda: &Cuda, which: &str, device: i32, len: i32) -> (i32, String) {
    let mut text = [1 as c_char; 64];
    let at = text.as_mut_ptr();
    let code = match which {
        "name" => call!(cuda, "cuDeviceGetName", (*mut c_char, i32, i32) -> i32, at, len, device),
        _ => call!(cuda, "cuDeviceGetPCIBusId", (*mut c_char, i32, i32) -> i32, at, len, device),
    };
    if code != 0 {
        return (code, String::new());
    }
    // SAFETY: the call has written a text with a NUL into the array.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    (code, text.to_string_lossy().into_owned())
}

fn uuids(cuda: &Cuda, device: i32) -> ([u8; 16], [u8; 16]) {
    let (mut whole, mut part) = ([0_u8; 16], [0_u8; 16]);
    let code = call!(cuda, "cuDeviceGetUuid", (*mut u8, i32) -> i32, whole.as_mut_ptr(), device);
    assert_eq!(code, 0);
    let code = call!(cuda, "cuDeviceGetUuid_v2", (*mut u8, i32) -> i32, part.as_mut_ptr(), device);
    assert_eq!(code, 0);
    (whole, part)
}

#[test]
fn devices_say_who_they_are() {
    let name = "library::devices_say_who_they_are";
    scenario(name, &[("FAKEGPU_DEVICES", "3")], || {
        let cuda = Cuda::driver();
        let mut count = 0;
        assert_eq!(
            call!(cuda, "cuDeviceGetCount", (*mut i32) -> i32, &raw mut count),
            0
        );
        assert_eq!(count, 3);
        assert_eq!(text_of(&cuda, "name", 1, 64), (0, "Fake GPU".to_owned()));
        assert_eq!(
            text_of(&cuda, "name", 1, 5),
            (0, "Fake".to_owned()),
            "cut to the room there is"
        );
        assert_eq!(text_of(&cuda, "bus", 2, 64), (0, "fa6e:12:00.0".to_owned()));
        assert_eq!(text_of(&cuda, "name", 3, 64).0, 101);
        let (first, same) = uuids(&cuda, 0);
        assert_eq!(first, same);
        assert_ne!(first, uuids(&cuda, 1).0);
    });
    scenario(name, &[("FAKEGPU_MIG", "1")], || {
        let cuda = Cuda::driver();
        let (whole, part) = uuids(&cuda, 0);
        assert_ne!(whole, part);
        assert!(text_of(&cuda, "name", 0, 64).1.contains("MIG"));
    });
}

#[test]
fn a_pushed_context_is_the_threads_until_it_is_popped() {
    scenario(
        "library::a_pushed_context_is_the_threads_until_it_is_popped",
        &[],
        || {
            let cuda = Cuda::driver();
            let device = || {
                let mut device = -1;
                assert_eq!(
                    call!(cuda, "cuCtxGetDevice", (*mut i32) -> i32, &raw mut device),
                    0
                );
                device
            };
            let mut context = 0_usize;
            let code = call!(cuda, "cuDevicePrimaryCtxRetain", (*mut usize, i32) -> i32, &raw mut context, 5);
            assert_eq!((code, device()), (0, 0));
            assert_eq!(
                call!(cuda, "cuCtxPushCurrent_v2", (usize) -> i32, context),
                0
            );
            assert_eq!(device(), 5);
            let mut popped = 0_usize;
            assert_eq!(
                call!(cuda, "cuCtxPopCurrent_v2", (*mut usize) -> i32, &raw mut popped),
                0
            );
            assert_eq!((popped, device()), (context, 0));
            assert_eq!(
                call!(cuda, "cuCtxPopCurrent_v2", (*mut usize) -> i32, &raw mut popped),
                201
            );
            assert_eq!(call!(cuda, "cuCtxPushCurrent_v2", (usize) -> i32, 77), 201);
        },
    );
}

#[test]
fn a_stream_knows_its_number_and_context() {
    scenario(
        "library::a_stream_knows_its_number_and_context",
        &[],
        || {
            let cuda = Cuda::driver();
            let (first, second) = (cuda.stream(), cuda.stream());
            let id = |stream: usize| {
                let mut id = 0_u64;
                (
                    call!(cuda, "cuStreamGetId", (usize, *mut u64) -> i32, stream, &raw mut id),
                    id,
                )
            };
            assert_eq!((id(first).0, id(second).0), (0, 0));
            assert_ne!(id(first).1, id(second).1);
            let (mut of_stream, mut current) = (0_usize, 1_usize);
            assert_eq!(
                call!(cuda, "cuStreamGetCtx", (usize, *mut usize) -> i32, first, &raw mut of_stream),
                0
            );
            assert_eq!(
                call!(cuda, "cuCtxGetCurrent", (*mut usize) -> i32, &raw mut current),
                0
            );
            assert_eq!(of_stream, current);
            cuda.begin_capture(first, 2);
            assert_eq!(id(first).0, 900, "not while it captures");
        },
    );
}

unsafe extern "C" fn calls_the_driver(_: *mut c_void) {
    let cuda = Cuda::driver();
    let mut device = 0;
    assert_eq!(
        call!(cuda, "cuCtxGetDevice", (*mut i32) -> i32, &raw mut device),
        800
    );
    assert_eq!(call!(cuda, "fakegpu_in_host_callback", () -> i32,), 1);
}

#[test]
fn a_host_callback_may_not_call_the_driver() {
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver-report");
    // There is none the first time.
    let _ = std::fs::remove_file(&report);
    let variables = [("FAKEGPU_REPORT", report.to_str().unwrap())];
    let text = scenario(
        "library::a_host_callback_may_not_call_the_driver",
        &variables,
        || {
            let cuda = Cuda::driver();
            let stream = cuda.stream();
            cuda.host(stream, calls_the_driver);
            cuda.synchronize(stream);
            assert_eq!(cuda.count(c"in_host_callback"), 1);
            assert_eq!(call!(cuda, "fakegpu_in_host_callback", () -> i32,), 0);
        },
    );
    if !text.is_empty() {
        assert!(
            text.contains("cuCtxGetDevice is called from within a host callback"),
            "{text}"
        );
        let report = std::fs::read_to_string(&report).unwrap();
        assert!(report.contains(" in_host_callback 1\n"), "{report}");
        assert!(report.contains(" cuStreamCreate 1\n"), "{report}");
    }
}

#[test]
fn it_can_lack_functions() {
    let variables = [
        (
            "FAKEGPU_DRIVER_LACKS",
            "cuDeviceGetUuid_v2,cuEventElapsedTime",
        ),
        ("FAKEGPU_DRIVER_VERSION", "11040"),
    ];
    scenario("library::it_can_lack_functions", &variables, || {
        let cuda = Cuda::driver();
        assert!(!cuda.has("cuDeviceGetUuid_v2") && !cuda.has("cuEventElapsedTime"));
        assert!(cuda.has("cuDeviceGetUuid") && cuda.has("cuEventElapsedTime_v2"));
        let mut version = 0;
        assert_eq!(
            call!(cuda, "cuDriverGetVersion", (*mut i32) -> i32, &raw mut version),
            0
        );
        assert_eq!(version, 11040);
    });
}

#[test]
fn a_thread_can_be_without_a_context() {
    let variables = [("FAKEGPU_CONTEXTS", "own")];
    scenario(
        "library::a_thread_can_be_without_a_context",
        &variables,
        || {
            let cuda = Cuda::driver();
            let current = || {
                let mut context = 7_usize;
                assert_eq!(
                    call!(cuda, "cuCtxGetCurrent", (*mut usize) -> i32, &raw mut context),
                    0
                );
                context
            };
            assert_eq!((current(), cuda.event(0).0), (0, 201));
            let (mut context, mut device) = (0_usize, -1);
            assert_eq!(
                call!(cuda, "cuCtxGetDevice", (*mut i32) -> i32, &raw mut device),
                201
            );
            assert_eq!(
                call!(cuda, "cuDevicePrimaryCtxRetain", (*mut usize, i32) -> i32, &raw mut context, 2),
                0
            );
            assert_eq!(
                call!(cuda, "cuCtxPushCurrent_v2", (usize) -> i32, context),
                0
            );
            assert_eq!((current(), cuda.event(0).0), (context, 0));
            let mut popped = 0_usize;
            assert_eq!(
                call!(cuda, "cuCtxPopCurrent_v2", (*mut usize) -> i32, &raw mut popped),
                0
            );
            assert_eq!((popped, current(), cuda.event(0).0), (context, 0, 201));
            assert_eq!(cuda.count(c"without_context"), 2);
            // The runtime gives a thread the context of the device that it chooses.
            assert_eq!(call!(cuda, "cudaSetDevice", (i32) -> i32, 2), 0);
            assert_eq!((current(), cuda.event(0).0), (context, 0));
        },
    );
}
