//! Describes the devices that communicators use.

use super::backend::Output;
use super::driver::{Attribute, Driver};
use journal::clock::ticks;
use nccl_events::Name;
use nccl_events::gpu::{Device, GpuRecord};

#[derive(Debug, Default)]
pub(super) struct Devices {
    described: Vec<u32>,
}

impl Devices {
    /// Records a communicator's device, and describes the device if it is new.
    pub(super) fn note(&mut self, driver: &Driver, communicator: u64, ordinal: u32, out: &mut dyn Output) {
        if !self.described.contains(&ordinal) {
            self.described.push(ordinal);
            describe(driver, ordinal, out);
        }
        let record = GpuRecord::DeviceOfCommunicator { ordinal };
        out.record(ticks(), communicator, &record);
    }
}

/// Records the driver's description of a device. Unknown values are zero.
fn describe(driver: &Driver, ordinal: u32, out: &mut dyn Output) {
    let name = driver.device_name(ordinal).unwrap_or_default();
    let has_mig_name = name.to_string_lossy().contains(" MIG ");
    let whole = driver.device_uuid(ordinal);
    let instance = driver.instance_uuid(ordinal);
    // Only the newer function returns UUIDs of MIG instances.
    let is_instance = matches!((&whole, &instance), (Ok(whole), Ok(instance)) if whole != instance);
    let number = |attribute| driver.attribute(attribute, ordinal).unwrap_or(0);
    let small = |attribute| u16::try_from(number(attribute)).unwrap_or(0);
    let byte = |attribute| u8::try_from(number(attribute)).unwrap_or(0);
    let device = Device {
        ordinal,
        is_mig: is_instance || has_mig_name,
        uuid: instance.or(whole).unwrap_or_default(),
        pci_domain: number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
        pci_bus: byte(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
        pci_device: byte(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
        driver_version: driver.version().unwrap_or(0),
        compute_capability: [
            small(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            small(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ],
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        name: Name::from_cstr(&name),
    };
    out.record(ticks(), 0, &GpuRecord::Device(device));
}
