//! Stands before the C library's `recv` and `sched_yield`, with which NCCL polls without a pause, by more threads than
//! there are cores.

use libc::{c_int, c_void, ssize_t};
use std::cell::Cell;
use std::io::{Error, ErrorKind};
use std::ptr::null_mut;

/// After so many calls in a row that found no data, a thread sleeps before each further one.
const PATIENCE: u32 = 16;
const SLEEP_US: u32 = 50;

/// NCCL's proxy threads call `sched_yield` while they have no work. Every eighth call sleeps instead, so that idle
/// threads leave the cores to the others.
const YIELDS: u32 = 8;

thread_local! {
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
    static YIELDED: Cell<u32> = const { Cell::new(0) };
}

#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    let yielded = YIELDED.get().wrapping_add(1);
    YIELDED.set(yielded);
    if yielded.is_multiple_of(YIELDS) {
        // SAFETY: takes a number and no pointer.
        unsafe { libc::usleep(SLEEP_US) };
    } else {
        // SAFETY: the system call takes no arguments.
        let _never_fails = unsafe { libc::syscall(libc::SYS_sched_yield) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(socket: c_int, buffer: *mut c_void, bytes: usize, flags: c_int) -> ssize_t {
    let in_vain = IN_VAIN.get();
    if in_vain >= PATIENCE {
        // SAFETY: takes a number and no pointer.
        unsafe { libc::usleep(SLEEP_US) };
    }
    // SAFETY: the caller of `recv` passes a buffer with room for `bytes`; without an address, this is `recv`.
    let received = unsafe { libc::recvfrom(socket, buffer, bytes, flags, null_mut(), null_mut()) };
    let found_nothing = received < 0 && Error::last_os_error().kind() == ErrorKind::WouldBlock;
    IN_VAIN.set(if found_nothing { in_vain.saturating_add(1) } else { 0 });
    received
}
