//! Stands before the C library's `recv`, `send`, `accept` and `sched_yield`, with which NCCL polls without a pause, by
//! more threads than there are cores.

use libc::{c_int, c_void, sockaddr, socklen_t, ssize_t};
use std::cell::Cell;
use std::io::{Error, ErrorKind};
use std::ptr::{null, null_mut};

/// After so many calls in a row that found no data, a thread sleeps before each further one.
const PATIENCE: u32 = 16;
const SLEEP_US: u32 = 50;

/// A thread that has moved no data during so many sleeps is in a job that hangs: it sleeps longer.
const LONG: u32 = 1000;
const LONG_SLEEP_US: u32 = 2000;

/// NCCL's proxy threads call `sched_yield` while they have no work. Every eighth call sleeps instead, so that idle
/// threads leave the cores to the others.
const YIELDS: u32 = 8;

thread_local! {
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
    static YIELDED: Cell<u32> = const { Cell::new(0) };
    /// Since this thread last moved data.
    static SLEPT: Cell<u32> = const { Cell::new(0) };
}

fn sleep() {
    let slept = SLEPT.get();
    SLEPT.set(slept.saturating_add(1));
    let us = if slept < LONG { SLEEP_US } else { LONG_SLEEP_US };
    // SAFETY: takes a number and no pointer.
    unsafe { libc::usleep(us) };
}

fn note_moved(bytes: ssize_t) {
    if bytes > 0 {
        SLEPT.set(0);
    }
}

#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    let yielded = YIELDED.get().wrapping_add(1);
    YIELDED.set(yielded);
    if yielded.is_multiple_of(YIELDS) {
        sleep();
    } else {
        // SAFETY: the system call takes no arguments.
        let _never_fails = unsafe { libc::syscall(libc::SYS_sched_yield) };
    }
    0
}

/// Sleeps before a call if those before it found nothing.
fn patiently(call: impl FnOnce() -> ssize_t) -> ssize_t {
    let in_vain = IN_VAIN.get();
    if in_vain >= PATIENCE {
        sleep();
    }
    let result = call();
    let found_nothing = result < 0 && Error::last_os_error().kind() == ErrorKind::WouldBlock;
    IN_VAIN.set(if found_nothing { in_vain.saturating_add(1) } else { 0 });
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(socket: c_int, buffer: *mut c_void, bytes: usize, flags: c_int) -> ssize_t {
    let received = patiently(|| {
        // SAFETY: the caller of `recv` passes a buffer with room for `bytes`; without an address, this is `recv`.
        unsafe { libc::recvfrom(socket, buffer, bytes, flags, null_mut(), null_mut()) }
    });
    note_moved(received);
    received
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    let accepted = patiently(|| {
        // SAFETY: the caller of `accept` passes room for an address; without flags, this is `accept`.
        let accepted = unsafe { libc::accept4(socket, address, length, 0) };
        ssize_t::try_from(accepted).unwrap_or(-1)
    });
    c_int::try_from(accepted).unwrap_or(-1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(socket: c_int, buffer: *const c_void, bytes: usize, flags: c_int) -> ssize_t {
    // SAFETY: the caller of `send` passes a buffer of `bytes`; without an address, this is `send`.
    let sent = unsafe { libc::sendto(socket, buffer, bytes, flags, null(), 0) };
    note_moved(sent);
    sent
}
