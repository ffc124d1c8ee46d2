//! Wrong use, which must not pass unseen.

use crate::decode::By;
use crate::rig::{self, CompleteV1, Cupti, RequestV1, call, dies, scenario};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

#[test]
fn null_for_a_buffer_is_fatal_before_12_9() {
    let name = "misuse::null_for_a_buffer_is_fatal_before_12_9";
    dies(
        name,
        &[("FAKECUPTI_API", "26")],
        libc::SIGABRT,
        "NULL for a buffer",
        || {
            *rig::BUFFER_LEN.lock() = 0;
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.launch(652, "k", 0, (1, 2));
        },
    );
}

/// The double, once more, from within a callback.
fn again() -> Cupti {
    Cupti::open_at(&rig::library())
}

unsafe extern "C" fn flushing(_: *mut c_void, _: u32, _: *mut u8, _: usize, _: usize) {
    again().flush(0);
}

unsafe extern "C" fn crooked(start: *mut *mut u8, len: *mut usize, max_records: *mut usize) {
    // SAFETY: the same places.
    unsafe { rig::request(start, len, max_records) };
    // SAFETY: written by the call above.
    let own = unsafe { start.read() };
    // SAFETY: the place for the answer.
    unsafe { start.write(own.wrapping_add(4)) };
}

unsafe extern "C" fn small(start: *mut *mut u8, len: *mut usize, max_records: *mut usize) {
    // SAFETY: the same places.
    unsafe { rig::request(start, len, max_records) };
    // SAFETY: the place for the answer.
    unsafe { len.write(16) };
}

unsafe extern "C" fn dirty(start: *mut *mut u8, len: *mut usize, max_records: *mut usize) {
    // SAFETY: the same places.
    unsafe { rig::request(start, len, max_records) };
    // SAFETY: written by the call above.
    let own = unsafe { start.read() };
    // SAFETY: the buffer has more than one byte.
    unsafe { own.write(1) };
}

fn begin_with(request: RequestV1, complete: CompleteV1) -> Cupti {
    let cupti = Cupti::open();
    cupti.begin_v1();
    let code = call!(cupti, "cuptiActivityRegisterCallbacks", (RequestV1, CompleteV1) -> i32, request, complete);
    assert_eq!(code, 0);
    cupti
}

#[test]
fn a_flush_from_a_callback_is_fatal() {
    let name = "misuse::a_flush_from_a_callback_is_fatal";
    dies(
        name,
        &[],
        libc::SIGABRT,
        "cuptiActivityFlushAll from within",
        || {
            let cupti = begin_with(rig::request, flushing);
            cupti.launch(652, "k", 0, (1, 2));
            cupti.drain();
            cupti.flush(1);
        },
    );
}

#[test]
fn a_crooked_buffer_is_fatal() {
    dies(
        "misuse::a_crooked_buffer_is_fatal",
        &[],
        libc::SIGABRT,
        "no multiple of 8",
        || {
            begin_with(crooked, rig::complete).launch(652, "k", 0, (1, 2));
        },
    );
}

#[test]
fn a_buffer_without_room_is_fatal() {
    dies(
        "misuse::a_buffer_without_room_is_fatal",
        &[],
        libc::SIGABRT,
        "a buffer of 16 bytes",
        || {
            begin_with(small, rig::complete).launch(652, "k", 0, (1, 2));
        },
    );
}

#[test]
fn a_buffer_that_is_dirty_against_the_promise_is_fatal() {
    let name = "misuse::a_buffer_that_is_dirty_against_the_promise_is_fatal";
    dies(name, &[], libc::SIGABRT, "not zeroed", || {
        let cupti = begin_with(dirty, rig::complete);
        let (mut len, mut on) = (1_usize, 1_u8);
        call!(cupti, "cuptiActivitySetAttribute", (u32, *mut usize, *mut u8) -> i32,
              5, &raw mut len, &raw mut on);
        cupti.launch(652, "k", 0, (1, 2));
    });
}

#[test]
fn the_end_of_all_tools_is_fatal() {
    dies(
        "misuse::the_end_of_all_tools_is_fatal",
        &[],
        libc::SIGABRT,
        "cuptiFinalize",
        || {
            let cupti = Cupti::open();
            call!(cupti, "cuptiFinalize", () -> i32,);
        },
    );
}

#[test]
fn a_call_in_a_forked_child_is_fatal() {
    scenario("misuse::a_call_in_a_forked_child_is_fatal", &[], || {
        let cupti = Cupti::open();
        cupti.begin_v1();
        // SAFETY: the child calls only the double, which ends it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            cupti.push(By::V1, 5, 1);
            // SAFETY: the child must not go on as a second test.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child of the line above; there is a place for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(waited, child);
        assert!(libc::WIFSIGNALED(status), "{status}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGABRT);
    });
}

#[test]
fn wrong_use_can_be_counted_instead() {
    scenario(
        "misuse::wrong_use_can_be_counted_instead",
        &[("FAKECUPTI_STRICT", "0")],
        || {
            let cupti = Cupti::open();
            call!(cupti, "cuptiFinalize", () -> i32,);
            assert_eq!(cupti.count("misuses"), 1);
            assert_eq!(cupti.count("no such thing"), u64::MAX);
        },
    );
}

#[test]
fn a_misspelt_variable_is_fatal() {
    let name = "misuse::a_misspelt_variable_is_fatal";
    dies(
        name,
        &[("FAKECUPTI_SPLITT", "1")],
        libc::SIGABRT,
        "FAKECUPTI_SPLITT",
        || {
            // SAFETY: only its constructor runs, which is what is looked at.
            let _ = unsafe { Library::new(rig::library()) };
        },
    );
}

#[test]
fn a_call_from_a_host_callback_is_fatal() {
    let name = "misuse::a_call_from_a_host_callback_is_fatal";
    dies(name, &[], libc::SIGABRT, "within a host callback", || {
        // A stand-in for a GPU that is always in one.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, library) = (folder.join("callback.c"), folder.join("libcallback.so"));
        std::fs::write(&source, "int fakegpu_in_host_callback(void) { return 1; }").unwrap();
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let compiled = Command::new(compiler)
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source)
            .status();
        assert!(compiled.unwrap().success());
        // SAFETY: it has no constructor.
        let library = unsafe { Library::open(Some(&library), RTLD_NOW | RTLD_GLOBAL) };
        let _library = library.unwrap();
        Cupti::open().subscribe();
    });
}
