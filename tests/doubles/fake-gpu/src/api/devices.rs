//! Devices: eight of capability 8.0, at PCI addresses that do not exist.

use super::call::{
    DEVICES, Handle, Outcome, code, context_of, current, device, driver, error_text, existing, give, has_no_context,
    pop, push, runtime, set_context, set_device,
};
use super::launch;
use crate::settings;
use c_double::args::{Out, Text};
use std::ffi::{c_char, c_int, c_uint};

/// Newer than every runtime that the published libraries are built with.
pub(super) const DRIVER_VERSION: c_int = 13040;

pub(super) const CAPABILITY: (c_int, c_int) = (8, 0);

/// 16 bytes; the first is different for each device. A part of a device has another UUID than the whole.
fn uuid(device: c_int, is_part: bool) -> [u8; 16] {
    let mut all = if is_part { [0xfb; 16] } else { [0xfa; 16] };
    all[0] = device as u8 + 1;
    all
}

/// PCI domain that no real machine has, so that the system's own tree is not consulted by mistake.
pub(super) const PCI_DOMAIN: c_int = 0xfa6e;
pub(super) const FIRST_BUS: c_int = 0x10;

pub(super) fn bus_id(device: c_int) -> String {
    format!("{PCI_DOMAIN:04x}:{:02x}:00.0", FIRST_BUS + device)
}

pub(super) fn by_bus_id(id: &str) -> Option<c_int> {
    let bus = id.split(':').nth(1)?;
    existing(c_int::from_str_radix(bus, 16).ok()? - FIRST_BUS).ok()
}

/// `cudaDeviceAttr` and `CUdevice_attribute`, which have the same numbers.
fn attribute(attribute: c_int, device: c_int) -> c_int {
    match attribute {
        1 => 1024,      // MaxThreadsPerBlock
        2..=4 => 1024,  // MaxBlockDim
        5..=7 => 65535, // MaxGridDim
        8 => 48 << 10,  // MaxSharedMemoryPerBlock
        10 => 32,       // WarpSize
        16 => 108,      // MultiProcessorCount
        33 => FIRST_BUS + device,
        34 => 0, // PciDeviceId
        41 => 1, // UnifiedAddressing
        50 => PCI_DOMAIN,
        75 => CAPABILITY.0,
        76 => CAPABILITY.1,
        81 => 164 << 10, // MaxSharedMemoryPerMultiprocessor
        97 => 163 << 10, // MaxSharedMemoryPerBlockOptin
        _ => 0,
    }
}

/// The head of `cudaDeviceProp` that is the same in all versions: name\[256\], uuid\[16\], luid\[8\], mask, sizes, …,
/// major, minor.
fn properties(out: Out<u8>, device: c_int) -> Outcome {
    existing(device)?;
    let mut all = [0; 368];
    let mut put = |offset: usize, bytes: &[u8]| all[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, b"Fake GPU\0");
    put(256, &[device as u8 + 1]);
    put(288, &(16_u64 << 30).to_le_bytes()); // totalGlobalMem
    put(296, &(48_u64 << 10).to_le_bytes()); // sharedMemPerBlock
    put(304, &65536_i32.to_le_bytes()); // regsPerBlock
    put(308, &32_i32.to_le_bytes()); // warpSize
    put(312, &0x7fff_ffff_u64.to_le_bytes()); // memPitch
    put(320, &1024_i32.to_le_bytes()); // maxThreadsPerBlock
    put(360, &CAPABILITY.0.to_le_bytes());
    put(364, &CAPABILITY.1.to_le_bytes());
    out.set_all(&all);
    Ok(())
}

/// Gives a text, cut to the caller's room, with a NUL in any case.
fn give_text(text: &str, out: Out<c_char>, len: c_int) -> Outcome {
    let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)).ok_or(code::INVALID)?;
    let bytes = text.bytes().take(room).chain([0]);
    out.set_all(&bytes.map(|byte| byte as c_char).collect::<Vec<_>>());
    Ok(())
}

runtime! {
    fn cudaGetDeviceCount(count: Out<c_int>) { give(count, DEVICES) }
    fn cudaGetDevice(own: Out<c_int>) { give(own, device()) }
    fn cudaSetDevice(device: c_int) { set_device(device) }
    fn cudaInitDevice(_device: c_int, _flags: c_uint, _more: c_uint) { Ok(()) }
    fn cudaSetDeviceFlags(_flags: c_uint) { Ok(()) }
    fn cudaGetDeviceFlags(flags: Out<c_uint>) { give(flags, 0) }
    fn cudaDeviceSynchronize() {
        crate::stream::sync_device(device());
        launch::health()
    }
    fn cudaDeviceReset() { Ok(()) }
    fn cudaDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) {
        give(value, attribute(which, device))
    }
    fn cudaDeviceGetLimit(value: Out<usize>, _limit: c_int) { give(value, 1024) }
    fn cudaDeviceSetLimit(_limit: c_int, _value: usize) { Ok(()) }
    fn cudaDeviceGetPCIBusId(text: Out<c_char>, len: c_int, device: c_int) {
        give_text(&bus_id(existing(device)?), text, len)
    }
    fn cudaDeviceGetByPCIBusId(device: Out<c_int>, id: Text) {
        give(device, by_bus_id(&id.get()).ok_or(code::INVALID)?)
    }
    fn cudaGetDeviceProperties(out: Out<u8>, device: c_int) { properties(out, device) }
    fn cudaGetDeviceProperties_v2(out: Out<u8>, device: c_int) { properties(out, device) }
    fn cudaDeviceCanAccessPeer(can: Out<c_int>, _a: c_int, _b: c_int) { give(can, 0) }
    fn cudaDeviceEnablePeerAccess(_peer: c_int, _flags: c_uint) { Ok(()) }
    fn cudaDeviceDisablePeerAccess(_peer: c_int) { Ok(()) }
    fn cudaDeviceGetStreamPriorityRange(low: Out<c_int>, high: Out<c_int>) {
        low.set(0);
        give(high, -5)
    }
    fn cudaDeviceFlushGPUDirectRDMAWrites(_target: c_int, _scope: c_int) { Ok(()) }
}

driver! {
    fn cuInit(_flags: c_uint) { Ok(()) }
    fn cuDriverGetVersion(version: Out<c_int>) { give(version, DRIVER_VERSION) }
    fn cuGetErrorString(error: c_int, out: Out<*const c_char>) { give(out, error_text(error).as_ptr()) }
    fn cuGetErrorName(error: c_int, out: Out<*const c_char>) { give(out, error_text(error).as_ptr()) }
    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) { give(device, existing(ordinal)?) }
    fn cuDeviceGetCount(count: Out<c_int>) { give(count, DEVICES) }
    fn cuDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) {
        give(value, attribute(which, existing(device)?))
    }
    fn cuDeviceGetUuid(out: Out<[u8; 16]>, device: c_int) { give(out, uuid(existing(device)?, false)) }
    fn cuDeviceGetUuid_v2(out: Out<[u8; 16]>, device: c_int) { give(out, uuid(existing(device)?, settings::get().mig)) }
    fn cuDeviceGetName(out: Out<c_char>, len: c_int, device: c_int) {
        existing(device)?;
        give_text(if settings::get().mig { "Fake GPU MIG 1g.10gb" } else { "Fake GPU" }, out, len)
    }
    fn cuCtxCreate(out: Out<Handle>) { give(out, context_of(device())) }
    fn cuCtxDestroy(_context: Handle) { Ok(()) }
    fn cuCtxGetCurrent(out: Out<Handle>) { give(out, current()) }
    fn cuCtxSetCurrent(context: Handle) { set_context(context) }
    fn cuCtxGetDevice(out: Out<c_int>) {
        if has_no_context() { Err(code::INVALID_CONTEXT) } else { give(out, device()) }
    }
    fn cuCtxPushCurrent_v2(context: Handle) { push(context) }
    fn cuCtxPopCurrent_v2(out: Out<Handle>) { pop(out) }
    fn cuDevicePrimaryCtxRetain(out: Out<Handle>, device: c_int) { give(out, context_of(existing(device)?)) }
    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) { Ok(()) }
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        existing(device)?;
        flags.set(0);
        give(active, 1)
    }
}
