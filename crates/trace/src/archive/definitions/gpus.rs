//! The GPUs of a process: which locations belong to them, and their names.

use std::collections::BTreeSet;

use crate::archive::clock_statements::Property;
use crate::archive::communicators::Communicator;
use crate::archive::processes::Process;
use crate::part::manifest::{LocationDefinition, LocationKind, LocationOwner};
use journal::part::environment::{ArchiveOptions, CommLocations};
use nccl_events::ids::index;
use nccl_events::schema::Value;
use nccl_events::sort::Gather;
use process_model::links::gpu_work::definition::DeviceDefinition;

pub(super) fn used_gpus(process: &Process, options: ArchiveOptions) -> BTreeSet<u32> {
    process.manifest.locations.iter().filter_map(|location| gpu_of(location, options.comm_locations)).gather()
}

/// Index of the process's GPU that a location belongs to, if any.
pub(super) fn gpu_of(location: &LocationDefinition, locations: CommLocations) -> Option<u32> {
    match location.kind {
        LocationKind::Communicator { .. } if locations == CommLocations::Cpu => None,
        LocationKind::Stream { gpu, .. } => gpu,
        LocationKind::Communicator { gpu, .. }
        | LocationKind::Channel { owner: LocationOwner::Rank { gpu, .. }, .. } => Some(gpu),
        // The GPU of another process's communicator is unknown here.
        LocationKind::Channel { owner: LocationOwner::Foreign { .. }, .. }
        | LocationKind::Thread { .. }
        | LocationKind::Proxy { .. }
        | LocationKind::Ranges { .. }
        | LocationKind::Net(_)
        | LocationKind::Step { .. }
        | LocationKind::Plugin { .. } => None,
    }
}

pub(super) fn device(process: &Process, number: u32) -> Option<&DeviceDefinition> {
    let ordinal = process.manifest.gpus.get(index(number))?.ordinal?;
    let mut devices = process.manifest.gpu_work.devices.iter();
    devices.find(|device| device.ordinal == ordinal)
}

pub(super) fn tree_name(device: &DeviceDefinition) -> &str {
    let mut known = [device.pci.as_str(), device.uuid.as_str()].into_iter().filter(|name| !name.is_empty());
    known.next().unwrap_or("?")
}

pub(super) fn properties_of(device: &DeviceDefinition) -> Vec<Property> {
    let mut properties = vec![("ordinal", Value::U64(device.ordinal.into()))];
    properties.extend(device.statements().into_iter().map(|(name, text)| (name, Value::String(text))));
    properties
}

/// A GPU's name: its CUDA number and address; if unknown, named after a rank.
pub(super) fn gpu_name(process: &Process, number: u32, comms: &[&Communicator]) -> String {
    let place = process.place();
    let Some(gpu) = process.manifest.gpus.get(index(number)) else {
        return format!("GPU [{place}]");
    };
    if let Some(ordinal) = gpu.ordinal {
        let known = device(process, number).filter(|device| !device.pci.is_empty());
        let place = known.map_or(place, |device| device.pci.clone());
        return format!("GPU {ordinal} [{place}]");
    }
    match gpu.comm.and_then(|comm| comms.get(index(comm))) {
        Some(comm) if !gpu.in_largest => {
            format!("GPU of rank {} of {} [{place}]", gpu.rank, comm.name)
        }
        _ => format!("GPU of rank {} [{place}]", gpu.rank),
    }
}
