//! Contexts: one per device, and which is a thread's.

use super::{Handle, INVALID_CONTEXT};
use crate::cuda::{self, OK};
use crate::settings::choice;
use c_double::args::Out;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};
use std::sync::OnceLock;

/// Handles of the contexts, one per device, start here.
const FIRST_CONTEXT: usize = 0x1000;

/// The context of a device.
pub(super) fn of_device(device: c_int) -> Handle {
    std::ptr::without_provenance_mut(FIRST_CONTEXT + device as usize)
}

fn device_of(context: Handle) -> Option<c_int> {
    let device = context.addr().checked_sub(FIRST_CONTEXT)? as c_int;
    cuda::exists(device).then_some(device)
}

/// A thread has a context only once it was given one, as with a real driver. Else, all have the first device's.
fn strict() -> bool {
    static STRICT: OnceLock<bool> = OnceLock::new();
    *STRICT.get_or_init(|| {
        let words = [("given", false), ("own", true)];
        choice("FAKEGPU_CONTEXTS", &words).unwrap_or(false)
    })
}

/// The calling thread has no context.
pub(super) fn is_without() -> bool {
    strict() && !cuda::is_chosen()
}

fn current() -> Handle {
    if is_without() {
        return std::ptr::null_mut();
    }
    of_device(cuda::device())
}

thread_local! {
    /// The contexts that were this thread's before something was pushed.
    static BELOW: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn set(context: Handle) -> c_int {
    if context.is_null() {
        cuda::unchoose();
        return OK;
    }
    device_of(context).map_or(INVALID_CONTEXT, cuda::set_device)
}

fn push(context: Handle) -> c_int {
    let before = current();
    let code = set(context);
    if code == OK {
        BELOW.with_borrow_mut(|below| below.push(before));
    }
    code
}

fn pop(out: &Out<Handle>) -> c_int {
    let Some(before) = BELOW.with_borrow_mut(Vec::pop) else {
        return INVALID_CONTEXT;
    };
    out.set(current());
    set(before)
}

super::driver! {
    fn cuCtxCreate(out: Out<Handle>) -> c_int {
        out.set(of_device(cuda::device()));
        OK
    }
    fn cuCtxDestroy(_context: Handle) -> c_int { OK }
    fn cuCtxGetCurrent(out: Out<Handle>) -> c_int {
        out.set(current());
        OK
    }
    fn cuCtxSetCurrent(context: Handle) -> c_int { set(context) }
    fn cuCtxGetDevice(device: Out<c_int>) -> c_int {
        if is_without() { return INVALID_CONTEXT }
        device.set(cuda::device());
        OK
    }
    fn cuCtxPushCurrent(context: Handle) -> c_int { push(context) }
    fn cuCtxPushCurrent_v2(context: Handle) -> c_int { push(context) }
    fn cuCtxPopCurrent(out: Out<Handle>) -> c_int { pop(&out) }
    fn cuCtxPopCurrent_v2(out: Out<Handle>) -> c_int { pop(&out) }
    fn cuDevicePrimaryCtxRetain(out: Out<Handle>, device: c_int) -> c_int {
        if !cuda::exists(device) { return cuda::BAD_DEVICE }
        out.set(of_device(device));
        OK
    }
    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> c_int { OK }
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) -> c_int {
        if !cuda::exists(device) { return cuda::BAD_DEVICE }
        flags.set(0);
        active.set(1);
        OK
    }
}
