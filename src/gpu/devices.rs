//! What the driver says of the devices that communicators use.

use super::driver::{Attribute, CudaContext, Driver, Refusal};
use super::way::Output;
use journal::clock::ticks;
use nccl_events::Name;
use nccl_events::gpu::{Device, GpuRecord};

/// Where a communicator's rank works: what was current when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// CUDA's context.
    pub(super) context: CudaContext,
    /// The device, by ordinal.
    pub(super) ordinal: u32,
}

impl Place {
    /// On the thread that makes the communicator: NCCL has set its device there.
    pub(super) fn current(driver: &Driver) -> Result<Self, Refusal> {
        let context = driver.current()?;
        if context.0 == 0 {
            return Err(Refusal(201));
        }
        let ordinal = driver.current_device()?;
        Ok(Self { context, ordinal })
    }
}

/// The devices that were described already.
#[derive(Debug, Default)]
pub(super) struct Devices {
    described: Vec<u32>,
}

impl Devices {
    /// Records which device a communicator uses, and what that is.
    pub(super) fn note(
        &mut self,
        driver: &Driver,
        communicator: u64,
        ordinal: u32,
        out: &mut dyn Output,
    ) {
        if !self.described.contains(&ordinal) {
            self.described.push(ordinal);
            describe(driver, ordinal, out);
        }
        let record = GpuRecord::DeviceOfCommunicator { ordinal };
        out.record(ticks(), communicator, &record);
    }
}

/// Records what the driver says of a device. What it does not say stays zero.
fn describe(driver: &Driver, ordinal: u32, out: &mut dyn Output) {
    let name = driver.device_name(ordinal).unwrap_or_default();
    let is_named_so = name.to_string_lossy().contains(" MIG ");
    let whole = driver.device_uuid(ordinal);
    let instance = driver.instance_uuid(ordinal);
    // Only the newer function knows of instances.
    let is_instance = matches!((&whole, &instance), (Ok(whole), Ok(instance)) if whole != instance);
    let number = |attribute| driver.attribute(attribute, ordinal).unwrap_or(0);
    let small = |attribute| u16::try_from(number(attribute)).unwrap_or(0);
    let byte = |attribute| u8::try_from(number(attribute)).unwrap_or(0);
    let device = Device {
        ordinal,
        is_mig: is_instance || is_named_so,
        uuid: instance.or(whole).unwrap_or_default(),
        pci_domain: number(Attribute::PciDomain),
        pci_bus: byte(Attribute::PciBus),
        pci_device: byte(Attribute::PciDevice),
        driver_version: driver.version().unwrap_or(0),
        compute_capability: [
            small(Attribute::ComputeMajor),
            small(Attribute::ComputeMinor),
        ],
        multiprocessors: number(Attribute::Multiprocessors),
        name: Name::from_cstr(&name),
    };
    out.record(ticks(), 0, &GpuRecord::Device(device));
}
