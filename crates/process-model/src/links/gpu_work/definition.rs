//! GPU fields of a part's manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GpuWork;
use clocks::gpu::SampleQuality;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::gpu::{ALL_DEVICES, Device, GpuClock};
use nccl_events::sort::Gather;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuWorkDefinition {
    /// The way GPU work was last recorded: `off`, `cupti`, `events`; empty if the journal has no notice.
    pub backend: String,
    /// Decisions and failures of GPU recording, in order.
    pub notices: Vec<String>,
    /// Counts by name, see [`nccl_events::schema::GpuCounts`]; zeros are left out.
    pub counts: BTreeMap<String, u64>,
    pub clocks: Vec<SampleClockDefinition>,
    pub devices: Vec<DeviceDefinition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleClockDefinition {
    /// `cupti` or `events`.
    pub clock: String,
    /// The device that the clock is for; `None` for all.
    pub ordinal: Option<u32>,
    #[serde(flatten)]
    pub quality: SampleQuality,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceDefinition {
    /// CUDA's device number in this process.
    pub ordinal: u32,
    pub name: String,
    /// As `nvidia-smi` writes it; empty if unknown.
    pub uuid: String,
    /// Domain, bus and device: `0000:41:00.0`; empty if unknown.
    pub pci: String,
    /// Whether the device is a part of a GPU (MIG).
    pub is_mig: bool,
    /// CUDA version that the driver supports: `12.8`; empty if unknown.
    pub driver: String,
    /// Compute capability: `9.0`.
    pub compute_capability: String,
    pub multiprocessors: u32,
}

impl DeviceDefinition {
    /// What identifies the device among the devices of a host; `None` if nothing does.
    pub fn identity(&self) -> Option<&str> {
        [self.uuid.as_str(), self.pci.as_str()].into_iter().find(|known| !known.is_empty())
    }

    /// The archive's statements about the device: name and value, without unknown values.
    pub fn statements(&self) -> Vec<(&'static str, String)> {
        let known = |number: u32| match number {
            0 => String::new(),
            number => number.to_string(),
        };
        let all = [
            ("UUID", self.uuid.clone()),
            ("name", self.name.clone()),
            ("PCI", self.pci.clone()),
            ("MIG", if self.is_mig { "yes" } else { "no" }.to_owned()),
            ("driver", self.driver.clone()),
            ("compute capability", self.compute_capability.clone()),
            ("multiprocessors", known(self.multiprocessors)),
        ];
        all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }
}

fn device(device: &Device<Symbol>, symbols: &Symbols) -> DeviceDefinition {
    let Device { pci_domain, pci_bus, pci_device, driver_version, .. } = *device;
    let has_pci = (pci_domain, pci_bus, pci_device) != (0, 0, 0);
    let [major, minor] = device.compute_capability;
    DeviceDefinition {
        ordinal: device.ordinal,
        name: symbols.text(device.name).to_owned(),
        uuid: uuid(device.uuid, device.is_mig),
        pci: if has_pci { format!("{pci_domain:04x}:{pci_bus:02x}:{pci_device:02x}.0") } else { String::new() },
        is_mig: device.is_mig,
        driver: match driver_version {
            0 => String::new(),
            version => format!("{}.{}", version / 1000, version % 1000 / 10),
        },
        compute_capability: match (major, minor) {
            (0, 0) => String::new(),
            (major, minor) => format!("{major}.{minor}"),
        },
        multiprocessors: device.multiprocessors,
    }
}

/// A UUID as `nvidia-smi` writes it.
fn uuid(bytes: [u8; 16], is_mig: bool) -> String {
    if bytes == [0; 16] {
        return String::new();
    }
    let mut text = if is_mig { "MIG" } else { "GPU" }.to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl GpuWork {
    pub fn definition(&self, symbols: &Symbols) -> GpuWorkDefinition {
        let clocks = self.clocks.all.iter().map(|(&(clock, ordinal), samples)| SampleClockDefinition {
            clock: match clock {
                GpuClock::Cupti => "cupti",
                GpuClock::Events => "events",
            }
            .to_owned(),
            ordinal: (ordinal != ALL_DEVICES).then_some(ordinal),
            quality: samples.quality.clone(),
        });
        let mut counts = self.fates;
        counts.take_recorded(self.counts);
        let counts = counts.named().filter(|&(_, number)| number > 0);
        let facts = self.devices.facts.values();
        let notices = self.notices.iter();
        let contradicted = self.devices.is_contradicted.then(|| {
            "kernels ran on other devices than their communicators were said to use: the kernels are believed"
                .to_owned()
        });
        GpuWorkDefinition {
            backend: self.backend().map_or("", |backend| backend.name()).to_owned(),
            notices: notices
                .map(|&(backend, text)| format!("{}: {}", backend.name(), symbols.text(text)))
                .chain(contradicted)
                .collect(),
            counts: counts.map(|(name, number)| (name.to_owned(), number)).gather(),
            clocks: clocks.collect(),
            devices: facts.map(|facts| device(facts, symbols)).collect(),
        }
    }
}
