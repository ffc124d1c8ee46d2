//! Wrong use of the double, each in a process of its own. That its records are those of a release is tested with the
//! plugin (`src/gpu/cupti/tests`).

use c_double::Player;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use whole_plugin::scenario::fails;

fn path() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libfake_cupti.so")
}

/// Calls a function of the double.
macro_rules! call {
    ($name:ident, ($($type:ty),*), $($argument:expr),*) => {{
        // SAFETY: its constructor only reads variables and hides names.
        let library = unsafe { Library::open(Some(path()), RTLD_NOW | RTLD_LOCAL) }.unwrap();
        // SAFETY: the type is that of the header.
        let function = *unsafe { library.get::<extern "C" fn($($type),*) -> c_int>(stringify!($name).as_bytes()) }.unwrap();
        let _stays = library.into_raw();
        function($($argument),*)
    }};
}

type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// Gives no buffer.
extern "C" fn refuse(_buffer: *mut *mut u8, _len: *mut usize, _records: *mut usize) {}

extern "C" fn complete(_: *mut c_void, _: u32, _buffer: *mut u8, _len: usize, _valid: usize) {}

fn subscribe() -> c_int {
    let mut own: *mut c_void = null_mut();
    call!(cuptiSubscribe, (*mut *mut c_void, *mut c_void, *mut c_void), &raw mut own, null_mut(), null_mut())
}

#[test]
fn wrong_use_ends_the_process() {
    let name = "wrong_use_ends_the_process";
    let driver = std::env::current_exe().unwrap().with_file_name("libfakegpu.so");
    let scenario = |variable, fault, body: fn()| fails(name, &[variable], Some(&driver), fault, body);
    scenario(("FAKECUPTI_API", "24"), "NULL for a buffer", || {
        assert_eq!(subscribe(), 0);
        assert_eq!(call!(cuptiActivityRegisterCallbacks, (Request, Complete), refuse, complete), 0);
        assert_eq!(call!(cuptiActivityEnable, (u32), 10), 0);
        Player::load(&path()).unwrap().launch(0, 7, c"kernel", [0, 0]);
    });
    scenario(("FAKECUPTI_LATE", "1"), "no variable FAKECUPTI_LATE", || {
        subscribe();
    });
    scenario(("FAKEGPU_DRIVER", "absent"), "without libcuda", || {
        subscribe();
    });
    scenario(("FAKECUPTI_API", "26"), "in a forked child", || {
        assert_eq!(subscribe(), 0);
        // SAFETY: the child only calls the double, which ends it.
        if unsafe { libc::fork() } == 0 {
            subscribe();
        }
        let mut status = 0;
        // SAFETY: waits for the child just made and writes one int.
        unsafe { libc::wait(&raw mut status) };
        assert!(!libc::WIFSIGNALED(status), "as it is to be");
    });
}
