//! The double by itself, each scenario in a process of its own. What a tool makes of it is tested with the plugin
//! (`src/gpu/cupti/tests`).

use cupti_sys::Functions;
use cupti_sys::functions::SubscriberParams;
use cupti_sys::record::{KIND, external, kernel};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use whole_plugin::scenario::{fails, passes};

/// Runs the body in a process of its own with these variables, and with a driver; it ends as it should, or by a fault.
fn scenario(name: &str, variables: &[(&str, &str)], fault: Option<&str>, body: impl FnOnce()) {
    let driver = std::env::current_exe().unwrap().with_file_name("libfakegpu.so");
    match fault {
        Some(why) => fails(name, variables, Some(&driver), why, body),
        None => passes(name, variables, Some(&driver), body),
    }
}

struct Double(Library, Functions);

/// Calls a function; one that the release lacks fails the test.
macro_rules! call {
    ($double:ident, $name:ident $(, $argument:expr)*) => {{
        let function = $double.1.$name.expect(stringify!($name));
        // SAFETY: cupti-sys has the type of the header; the arguments live during the call.
        unsafe { function($($argument),*) }
    }};
}

extern "C" fn no_callback(_: *mut c_void, _: c_int, _: u32, _: *const c_void) {}

/// Two pages for one buffer after the other; none is asked for while one is out.
static BUFFER: [std::sync::atomic::AtomicU64; 1024] = [const { std::sync::atomic::AtomicU64::new(0) }; 1024];
static VALID: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

extern "C" fn request(buffer: *mut *mut u8, len: *mut usize, _records: *mut usize) {
    // SAFETY: the double's place for the answer.
    unsafe { buffer.write(BUFFER.as_ptr().cast_mut().cast()) };
    // SAFETY: as above.
    unsafe { len.write(size_of_val(&BUFFER)) };
}

extern "C" fn refuse(_buffer: *mut *mut u8, _len: *mut usize, _records: *mut usize) {}

extern "C" fn complete(_: *mut c_void, _: u32, _buffer: *mut u8, _len: usize, valid: usize) {
    VALID.store(valid, std::sync::atomic::Ordering::Release);
}

impl Double {
    fn open() -> Double {
        let path = std::env::current_exe().unwrap().with_file_name("libfake_cupti.so");
        // SAFETY: its constructor only reads variables and hides names.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.unwrap();
        let symbol = |name: &CStr| {
            // SAFETY: only the address is taken.
            let found = unsafe { library.get::<*mut c_void>(name.to_bytes()) };
            found.map_or(null_mut(), |symbol| *symbol)
        };
        // SAFETY: the double's functions have the types of the headers, and it stays mapped.
        let functions = unsafe { Functions::find(symbol) };
        Double(library, functions)
    }

    fn control<T: Copy>(&self, name: &CStr) -> T {
        // SAFETY: the callers name the type that the README has.
        *unsafe { self.0.get::<T>(name.to_bytes()) }.unwrap()
    }

    fn subscribe(&self) -> c_int {
        let mut own = null_mut();
        call!(self, subscribe, &raw mut own, no_callback, null_mut())
    }

    fn subscribe_v2(&self, share: bool) -> (c_int, String) {
        let (mut own, mut holder) = (null_mut(), [0_u8; 64]);
        let mut params = SubscriberParams {
            struct_size: size_of::<SubscriberParams>(),
            subscriber_name: c"the test".as_ptr(),
            old_subscriber_name: holder.as_mut_ptr().cast(),
            old_subscriber_size: holder.len(),
            allow_multiple_subscribers: u8::from(share),
            padding: [0; 7],
        };
        let code = call!(self, subscribe_v2, &raw mut own, no_callback, null_mut(), &raw mut params);
        let holder = CStr::from_bytes_until_nul(&holder).unwrap();
        (code, holder.to_str().unwrap().to_owned())
    }

    /// As a tool begins with V1.
    fn begin(&self) {
        assert_eq!(self.subscribe(), 0);
        assert_eq!(call!(self, register_callbacks, request, complete), 0);
        for kind in [4, 10, 39] {
            assert_eq!(call!(self, enable, kind), 0);
        }
    }

    fn launch(&self, start: u64, end: u64) -> u32 {
        type Launch = unsafe extern "C" fn(u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32;
        let launch: Launch = self.control(c"fake_cupti_launch");
        // SAFETY: the type is that of the README.
        unsafe { launch(652, 2, 3, 13, c"kernel".as_ptr(), 0, start, end) }
    }
}

#[test]
fn whoever_comes_first_excludes_the_other_family() {
    let name = "whoever_comes_first_excludes_the_other_family";
    scenario(name, &[("FAKECUPTI_API", "130301")], None, || {
        let double = Double::open();
        assert_eq!(double.subscribe_v2(true).0, 0);
        assert_eq!((double.subscribe(), call!(double, enable, 10)), (39, 14));
        assert_eq!(double.subscribe_v2(true).0, 0, "others are allowed");
        assert_eq!(double.subscribe_v2(false), (39, "CUPTI for the test".to_owned()));
    });
    scenario(name, &[("FAKECUPTI_API", "130202")], None, || {
        let double = Double::open();
        assert_eq!((double.subscribe_v2(true).0, call!(double, enable, 10)), (0, 0));
    });
}

#[test]
fn a_launch_makes_records_of_id_call_and_kernel() {
    for (level, kernel_len) in [("18", 208), ("130001", 216), ("130301", 232), ("140000", 320)] {
        let variables = [("FAKECUPTI_API", level)];
        scenario("a_launch_makes_records_of_id_call_and_kernel", &variables, None, || {
            let double = Double::open();
            double.begin();
            assert_eq!(call!(double, push, 5, 4711), 0);
            let correlation = double.launch(1_000, 2_000);
            let mut last = 0;
            assert_eq!((call!(double, pop, 5, &raw mut last), last), (0, 4711));
            assert_eq!(call!(double, pop, 5, &raw mut last), 18, "nothing is left");
            assert_eq!(call!(double, flush_all, 0), 0);
            let valid = VALID.load(std::sync::atomic::Ordering::Acquire);
            // SAFETY: the double has given the buffer back with so many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(BUFFER.as_ptr().cast::<u8>(), valid) };
            assert_eq!(valid, 24 + 40 + kernel_len);
            assert_eq!(KIND.of(bytes), Some(39));
            assert_eq!(external::EXTERNAL.of(bytes), Some(4711));
            assert_eq!(external::CORRELATION.of(bytes), Some(correlation));
            let record = &bytes[64..];
            assert_eq!((KIND.of(record), kernel::DEVICE.of(record)), (Some(10), Some(2)));
            assert_eq!((kernel::START.of(record), kernel::END.of(record)), (Some(1_000), Some(2_000)));
            assert_eq!(kernel::CORRELATION.of(record), Some(correlation));
            let mut at = null_mut();
            for expected in [0, 0, 0, 12] {
                let buffer = BUFFER.as_ptr().cast_mut().cast();
                assert_eq!(call!(double, get_next_record, buffer, valid, &raw mut at), expected);
            }
        });
    }
}

#[test]
fn wrong_use_ends_the_process() {
    let name = "wrong_use_ends_the_process";
    let level = [("FAKECUPTI_API", "26")];
    scenario(name, &[("FAKECUPTI_API", "24")], Some("NULL for a buffer"), || {
        let double = Double::open();
        double.begin();
        call!(double, register_callbacks, refuse, complete);
        double.launch(0, 0);
    });
    scenario(name, &[("FAKECUPTI_LATE", "1")], Some("no variable FAKECUPTI_LATE"), || {
        Double::open();
    });
    scenario(name, &[("FAKEGPU_DRIVER", "absent")], Some("without libcuda"), || {
        Double::open().subscribe();
    });
    scenario(name, &level, Some("in a forked child"), || {
        let double = Double::open();
        // SAFETY: the child only calls the double, which ends it.
        if unsafe { libc::fork() } == 0 {
            double.subscribe();
        }
        let mut status = 0;
        // SAFETY: waits for the child just made and writes one int.
        unsafe { libc::wait(&raw mut status) };
        assert!(!libc::WIFSIGNALED(status), "as it is to be");
    });
}
