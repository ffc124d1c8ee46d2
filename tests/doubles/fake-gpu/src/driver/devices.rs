//! Devices.

use crate::cuda::{self, BAD_DEVICE, DRIVER_VERSION, INVALID, OK, exists};
use crate::settings::number;
use c_double::args::Out;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;

/// The devices are parts of larger ones.
fn mig() -> bool {
    static MIG: OnceLock<bool> = OnceLock::new();
    *MIG.get_or_init(|| number("FAKEGPU_MIG") == Some(1))
}

fn name() -> &'static str {
    if mig() {
        "Fake GPU MIG 1g.10gb"
    } else {
        "Fake GPU"
    }
}

/// 16 bytes, the first of which tells the devices apart; a part of a device has another than the whole.
fn uuid(device: c_int, of_part: bool) -> [u8; 16] {
    let mut all = if of_part { [0xfb; 16] } else { [0xfa; 16] };
    all[0] = device as u8 + 1;
    all
}

/// Gives a text, cut to the caller's room, with a NUL in any case.
fn give_text(text: &str, out: &Out<c_char>, len: c_int) -> c_int {
    let Some(room) = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)) else {
        return INVALID;
    };
    let mut bytes: Vec<c_char> = text.bytes().take(room).map(|byte| byte as c_char).collect();
    bytes.push(0);
    out.set_all(&bytes);
    OK
}

super::driver! {
    fn cuInit(_flags: c_uint) -> c_int { OK }
    fn cuDriverGetVersion(version: Out<c_int>) -> c_int {
        version.set(DRIVER_VERSION);
        OK
    }
    fn cuGetErrorString(error: c_int, out: Out<*const c_char>) -> c_int {
        out.set(cuda::error_text(error).as_ptr());
        OK
    }
    fn cuGetErrorName(error: c_int, out: Out<*const c_char>) -> c_int {
        out.set(cuda::error_text(error).as_ptr());
        OK
    }
    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) -> c_int {
        if !exists(ordinal) { return BAD_DEVICE }
        device.set(ordinal);
        OK
    }
    fn cuDeviceGetCount(count: Out<c_int>) -> c_int {
        count.set(cuda::device_count());
        OK
    }
    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) -> c_int {
        if !exists(device) { return BAD_DEVICE }
        value.set(cuda::attribute(attribute, device));
        OK
    }
    fn cuDeviceGetUuid(out: Out<u8>, device: c_int) -> c_int {
        if !exists(device) { return BAD_DEVICE }
        out.set_all(&uuid(device, false));
        OK
    }
    fn cuDeviceGetUuid_v2(out: Out<u8>, device: c_int) -> c_int {
        if !exists(device) { return BAD_DEVICE }
        out.set_all(&uuid(device, mig()));
        OK
    }
    fn cuDeviceGetName(out: Out<c_char>, len: c_int, device: c_int) -> c_int {
        if !exists(device) { return BAD_DEVICE }
        give_text(name(), &out, len)
    }
    fn cuDeviceGetPCIBusId(out: Out<c_char>, len: c_int, device: c_int) -> c_int {
        if !exists(device) { return BAD_DEVICE }
        give_text(&cuda::bus_id(device), &out, len)
    }
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) -> c_int {
        if !exists(device) { return BAD_DEVICE }
        bytes.set(16 << 30);
        OK
    }
}
