//! What a libnccl lends the plugin: version, mask and logger, of one that only we have loaded.
//!
//! The tables' state belongs to a process, so each test runs in a process of its own: this program again.

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::ptr;

use recorder::abi::{sys, tables};
use recorder::host::{logger, mask, version};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::{compiler, root, text};

const LIBRARY: &str = "TEST_LIBNCCL";

/// Runs `test` of this program again, with a libnccl of this version; gives its stderr.
fn in_own_process(test: &str, nccl_version: u32) -> String {
    let scratch = Scratch::new();
    let library = scratch.path().join("libnccl.so.2");
    let mut compiler = compiler(&["-std=c11", "-shared", "-fPIC"]);
    compiler.arg(format!("-DVERSION={nccl_version}")).arg("-o").arg(&library);
    let _silent = text(compiler.arg(root().join("tests/abi/libnccl.c")));
    let mut again = scratch.command(std::env::current_exe().expect("a test has a path"));
    again.args(["--exact", &format!("library::{test}"), "--nocapture"]).env(LIBRARY, &library);
    run(&mut again).with_code(0).stderr
}

/// The libnccl of this process, as Python loads it: into a local scope.
struct Libnccl(*mut c_void);

impl Libnccl {
    fn loaded() -> Option<Self> {
        let path = std::env::var(LIBRARY).ok()?;
        let path = CString::new(path).expect("a path");
        // SAFETY: loads the library that this test has made.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null());
        Some(Self(handle))
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is of dlopen.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    }

    fn int(&self, name: &CStr) -> c_int {
        // SAFETY: libnccl.c has ints of the names that are asked for.
        unsafe { self.symbol(name).cast::<c_int>().read() }
    }

    fn last_line(&self) -> String {
        // SAFETY: the logger of libnccl.c ends the line with NUL.
        let line = unsafe { CStr::from_ptr(self.symbol(c"last_line").cast::<c_char>()) };
        line.to_string_lossy().into_owned()
    }

    /// `init` of v5 with this library's mask and logger; gives the context.
    fn init(&self) -> *mut c_void {
        type Logger = unsafe extern "C" fn(sys::ncclDebugLogLevel, c_ulong, *const c_char, c_int, *const c_char, ...);
        // SAFETY: libnccl.c declares it so.
        let logger = unsafe { std::mem::transmute::<*mut c_void, Logger>(self.symbol(c"logger")) };
        let init = tables::ncclProfiler_v5.table.init.expect("in the table");
        let mut context = ptr::null_mut();
        // SAFETY: as NCCL calls it.
        let result = unsafe {
            init(&raw mut context, 0xc0ffee, self.symbol(c"mask").cast(), ptr::null(), 1, 1, 0, Some(logger))
        };
        assert_eq!(result, sys::ncclSuccess);
        assert!(!context.is_null());
        context
    }
}

fn finalize(context: *mut c_void) {
    let finalize = tables::ncclProfiler_v5.table.finalize.expect("in the table");
    // SAFETY: as NCCL calls it.
    assert_eq!(unsafe { finalize(context) }, sys::ncclSuccess);
}

#[test]
fn the_version_is_that_of_the_library_which_calls() {
    let Some(nccl) = Libnccl::loaded() else {
        in_own_process("the_version_is_that_of_the_library_which_calls", 22_809);
        in_own_process("the_version_is_that_of_the_library_which_calls", 23_203);
        return;
    };
    let get_version = nccl.symbol(c"ncclGetVersion");
    assert_eq!(version::current(), 0);
    let context = nccl.init();
    let mut expected: c_int = 0;
    // SAFETY: libnccl.c declares it so.
    let get_version =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(get_version) };
    // SAFETY: writes one int.
    unsafe { get_version(&raw mut expected) };
    assert_eq!(version::current(), u32::try_from(expected).expect("positive"));
    assert!([22_809, 23_203].contains(&version::current()));
    finalize(context);
}

#[test]
fn the_mask_is_written_and_can_be_changed_while_a_communicator_lives() {
    let Some(nccl) = Libnccl::loaded() else {
        in_own_process("the_mask_is_written_and_can_be_changed_while_a_communicator_lives", 22_809);
        return;
    };
    assert!(!mask::set_mask(1));
    let first = nccl.init();
    assert_ne!(nccl.int(c"mask"), -1);
    let second = nccl.init();
    assert_ne!(first, second);
    assert!(mask::set_mask(0x123));
    assert_eq!(nccl.int(c"mask"), 0x123);
    finalize(first);
    assert!(mask::set_mask(0x456));
    assert_eq!(nccl.int(c"mask"), 0x456);
    finalize(second);
    assert!(!mask::set_mask(0));
    assert_eq!(nccl.int(c"mask"), 0x456);
}

#[test]
fn messages_go_to_nccls_log_while_a_communicator_lives() {
    let Some(nccl) = Libnccl::loaded() else {
        let stderr = in_own_process("messages_go_to_nccls_log_while_a_communicator_lives", 22_809);
        assert!(stderr.contains("nccl-otf2: a warning\n"), "{stderr}");
        assert!(stderr.contains("nccl-otf2: a late warning\n"), "{stderr}");
        assert!(!stderr.contains("100%"), "information is only for NCCL's log: {stderr}");
        return;
    };
    logger::info("100% too early");
    let context = nccl.init();
    let before = nccl.int(c"lines");
    logger::info("100%s of %n with\0NUL");
    assert_eq!(nccl.int(c"lines"), before + 1);
    assert_eq!(nccl.last_line(), "nccl-otf2: 100%s of %n with\\u{0}NUL");
    assert_eq!(nccl.int(c"last_level"), sys::NCCL_LOG_INFO.cast_signed());
    logger::warn("a warning");
    assert_eq!(nccl.last_line(), "nccl-otf2: a warning");
    // A WARN would become ncclGetLastError.
    assert_eq!(nccl.int(c"last_level"), sys::NCCL_LOG_INFO.cast_signed());
    finalize(context);
    let after = nccl.int(c"lines");
    logger::info("100% too late");
    logger::warn("a late warning");
    assert_eq!(nccl.int(c"lines"), after);
}
