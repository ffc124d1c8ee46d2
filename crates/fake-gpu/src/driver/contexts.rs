//! Contexts: one per device, and which is a thread's.

use super::{Handle, INVALID_CONTEXT};
use crate::c_args::Out;
use crate::cuda::{self, OK};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

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

thread_local! {
    /// The devices that were this thread's before something was pushed.
    static BELOW: RefCell<Vec<c_int>> = const { RefCell::new(Vec::new()) };
}

fn push(context: Handle) -> c_int {
    let Some(device) = device_of(context) else {
        return INVALID_CONTEXT;
    };
    BELOW.with_borrow_mut(|below| below.push(cuda::device()));
    cuda::set_device(device)
}

fn pop(out: &Out<Handle>) -> c_int {
    let Some(before) = BELOW.with_borrow_mut(Vec::pop) else {
        return INVALID_CONTEXT;
    };
    out.set(of_device(cuda::device()));
    cuda::set_device(before)
}

super::driver! {
    fn cuCtxCreate(out: Out<Handle>) -> c_int {
        out.set(of_device(cuda::device()));
        OK
    }
    fn cuCtxDestroy(_context: Handle) -> c_int { OK }
    fn cuCtxGetCurrent(out: Out<Handle>) -> c_int {
        out.set(of_device(cuda::device()));
        OK
    }
    fn cuCtxSetCurrent(context: Handle) -> c_int {
        if let Some(device) = device_of(context) {
            cuda::set_device(device);
        }
        OK
    }
    fn cuCtxGetDevice(device: Out<c_int>) -> c_int {
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
