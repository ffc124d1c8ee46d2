//! Devices: eight of capability 8.0 unless the variables say otherwise, at PCI addresses that do not exist.

use super::{BAD_DEVICE, INVALID, OK, api, fail, launch};
use c_double::args::{Out, Text};
use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::OnceLock;

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    /// It was chosen, not only the first by default.
    static CHOSEN: Cell<bool> = const { Cell::new(false) };
}

fn from_env(name: &str, default: c_int) -> c_int {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

/// The calling thread's device.
pub(crate) fn device() -> c_int {
    DEVICE.get()
}

/// Makes a device the calling thread's.
pub(crate) fn set_device(device: c_int) -> c_int {
    if !exists(device) {
        return fail(BAD_DEVICE);
    }
    DEVICE.set(device);
    CHOSEN.set(true);
    OK
}

/// Whether the calling thread has chosen its device.
pub(crate) fn is_chosen() -> bool {
    CHOSEN.get()
}

/// Forgets the choice.
pub(crate) fn unchoose() {
    DEVICE.set(0);
    CHOSEN.set(false);
}

pub(crate) fn device_count() -> c_int {
    static COUNT: OnceLock<c_int> = OnceLock::new();
    *COUNT.get_or_init(|| from_env("FAKEGPU_DEVICES", 8))
}

/// Whether there is a device of this number.
pub(crate) fn exists(device: c_int) -> bool {
    (0..device_count()).contains(&device)
}

/// Compute capability of the devices.
pub(crate) fn capability() -> (c_int, c_int) {
    static CAPABILITY: OnceLock<c_int> = OnceLock::new();
    let sm = *CAPABILITY.get_or_init(|| from_env("FAKEGPU_SM", 80));
    (sm / 10, sm % 10)
}

/// PCI domain that no real machine has, so that the system's own tree is not consulted by mistake.
pub(crate) const PCI_DOMAIN: c_int = 0xfa6e;
/// PCI bus of the first device.
pub(crate) const FIRST_BUS: c_int = 0x10;

/// PCI address of a device.
pub(crate) fn bus_id(device: c_int) -> String {
    format!("{PCI_DOMAIN:04x}:{:02x}:00.0", FIRST_BUS + device)
}

/// The device at a PCI address.
pub(crate) fn bus_id_to_device(id: &str) -> Option<c_int> {
    let bus = id.split(':').nth(1)?;
    let device = c_int::from_str_radix(bus, 16).ok()? - FIRST_BUS;
    exists(device).then_some(device)
}

/// `cudaDeviceAttr` and `CUdevice_attribute`, which have the same numbers.
pub(crate) fn attribute(attribute: c_int, device: c_int) -> c_int {
    let (major, minor) = capability();
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
        75 => major,
        76 => minor,
        81 => 164 << 10, // MaxSharedMemoryPerMultiprocessor
        97 => 163 << 10, // MaxSharedMemoryPerBlockOptin
        _ => 0,
    }
}

/// Length of the head of `cudaDeviceProp` that is the same in all versions.
const PROPERTIES_LEN: usize = 368;

/// name\[256\], uuid\[16\], luid\[8\], mask, totalGlobalMem, …, major, minor.
fn properties(device: c_int) -> [u8; PROPERTIES_LEN] {
    let mut all = [0; PROPERTIES_LEN];
    let mut put =
        |offset: usize, bytes: &[u8]| all[offset..offset + bytes.len()].copy_from_slice(bytes);
    let (major, minor) = capability();
    put(0, b"Fake GPU\0");
    put(256, &[device as u8 + 1]);
    put(288, &(16_u64 << 30).to_le_bytes()); // totalGlobalMem
    put(296, &(48_u64 << 10).to_le_bytes()); // sharedMemPerBlock
    put(304, &65536_i32.to_le_bytes()); // regsPerBlock
    put(308, &32_i32.to_le_bytes()); // warpSize
    put(312, &0x7fff_ffff_u64.to_le_bytes()); // memPitch
    put(320, &1024_i32.to_le_bytes()); // maxThreadsPerBlock
    put(360, &major.to_le_bytes());
    put(364, &minor.to_le_bytes());
    all
}

fn give_properties(out: &Out<u8>, device: c_int) -> c_int {
    if !exists(device) {
        return fail(BAD_DEVICE);
    }
    out.set_all(&properties(device));
    OK
}

api! {
    fn cudaGetDeviceCount(count: Out<c_int>) -> c_int {
        count.set(device_count());
        OK
    }
    fn cudaGetDevice(own: Out<c_int>) -> c_int {
        own.set(device());
        OK
    }
    fn cudaSetDevice(device: c_int) -> c_int { set_device(device) }
    fn cudaInitDevice(_device: c_int, _flags: c_uint, _more: c_uint) -> c_int { OK }
    fn cudaSetDeviceFlags(_flags: c_uint) -> c_int { OK }
    fn cudaGetDeviceFlags(flags: Out<c_uint>) -> c_int {
        flags.set(0);
        OK
    }
    fn cudaDeviceSynchronize() -> c_int {
        crate::stream::sync_device(device());
        launch::health()
    }
    fn cudaDeviceReset() -> c_int { OK }
    fn cudaDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) -> c_int {
        value.set(attribute(which, device));
        OK
    }
    fn cudaDeviceGetLimit(value: Out<usize>, _limit: c_int) -> c_int {
        value.set(1024);
        OK
    }
    fn cudaDeviceSetLimit(_limit: c_int, _value: usize) -> c_int { OK }
    fn cudaDeviceGetPCIBusId(text: Out<c_char>, len: c_int, device: c_int) -> c_int {
        if !exists(device) {
            return fail(BAD_DEVICE);
        }
        let id = CString::new(bus_id(device)).unwrap_or_default();
        let id: Vec<c_char> = id.as_bytes_with_nul().iter().map(|b| *b as c_char).collect();
        if id.len() > usize::try_from(len).unwrap_or(0) {
            return fail(INVALID);
        }
        text.set_all(&id);
        OK
    }
    fn cudaDeviceGetByPCIBusId(device: Out<c_int>, id: Text) -> c_int {
        let Some(found) = bus_id_to_device(&id.get()) else { return fail(INVALID) };
        device.set(found);
        OK
    }
    fn cudaGetDeviceProperties(out: Out<u8>, device: c_int) -> c_int { give_properties(&out, device) }
    fn cudaGetDeviceProperties_v2(out: Out<u8>, device: c_int) -> c_int { give_properties(&out, device) }
    fn cudaDeviceCanAccessPeer(can: Out<c_int>, _a: c_int, _b: c_int) -> c_int {
        can.set(0);
        OK
    }
    fn cudaDeviceEnablePeerAccess(_peer: c_int, _flags: c_uint) -> c_int { OK }
    fn cudaDeviceDisablePeerAccess(_peer: c_int) -> c_int { OK }
    fn cudaDeviceGetStreamPriorityRange(low: Out<c_int>, high: Out<c_int>) -> c_int {
        low.set(0);
        high.set(-5);
        OK
    }
    fn cudaDeviceFlushGPUDirectRDMAWrites(_target: c_int, _scope: c_int) -> c_int { OK }
    fn cudaThreadExchangeStreamCaptureMode(mode: Out<c_int>) -> c_int {
        crate::capture::exchange_mode(mode);
        OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_address() {
        for device in 0..device_count() {
            assert_eq!(bus_id_to_device(&bus_id(device)), Some(device));
            assert_eq!(
                bus_id_to_device(&format!("0000{}", bus_id(device))),
                Some(device)
            );
        }
        assert_eq!(bus_id_to_device(&bus_id(device_count())), None);
        assert_eq!(bus_id_to_device("nonsense"), None);
    }
}
