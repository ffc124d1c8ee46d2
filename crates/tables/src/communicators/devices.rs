//! The devices of a process, and the devices of its communicators' ranks.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Head, Tables};
use journal::format::Symbol;
use nccl_events::gpu::{Device, GpuRecord};
use nccl_events::ids::{index, index_u32};

#[derive(Debug, Default)]
pub struct Devices {
    pub facts: BTreeMap<u32, Device<Symbol>>,
    /// The device of each context's rank, by index of the context, if known.
    pub of_context: Vec<Option<u32>>,
    /// Ordinals by CUPTI's device number, where the kernels of communicators show that they differ.
    renumbered: BTreeMap<u32, u32>,
    /// Ordinals of devices with kernels or copies.
    pub with_work: BTreeSet<u32>,
    /// Whether kernels of communicators ran on other devices than the journal names for those communicators.
    pub is_contradicted: bool,
}

impl Devices {
    /// Devices as recorded in the journal, else as the work of ranks shows them.
    pub fn of(tables: &Tables) -> Self {
        let mut devices = Self { of_context: vec![None; tables.contexts.len()], ..Self::default() };
        for at in &tables.gpu {
            match at.record {
                GpuRecord::Device(device) => {
                    devices.facts.insert(device.ordinal, device);
                }
                GpuRecord::DeviceOfCommunicator { ordinal } => {
                    let context = tables.find_context(at.id);
                    devices.put(context, ordinal);
                }
                _ => {}
            }
        }
        let mut of_cupti: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for at in &tables.gpu {
            let (device, is_ordinal) = match at.record {
                GpuRecord::LaunchTime(time) => (time.ordinal, true),
                GpuRecord::Kernel(kernel) => (kernel.device, false),
                GpuRecord::Copy(copy) => (copy.device, false),
                _ => continue,
            };
            let context = tables.head_of(at.id).and_then(Head::context_at);
            if !is_ordinal && let Some(ordinal) = context.and_then(|at| devices.of_context(at)) {
                of_cupti.entry(device).or_default().insert(ordinal);
            }
            devices.put(context, device);
        }
        devices.renumber(tables, &of_cupti);
        for at in &tables.gpu {
            let device = match at.record {
                GpuRecord::Kernel(kernel) => kernel.device,
                GpuRecord::Copy(copy) => copy.device,
                _ => continue,
            };
            devices.with_work.insert(devices.ordinal(device));
        }
        devices
    }

    /// Maps CUPTI's devices to the ordinals that communicators use. Unless the mapping is one to one, the devices that
    /// work ran on take precedence.
    fn renumber(&mut self, tables: &Tables, of_cupti: &BTreeMap<u32, BTreeSet<u32>>) {
        let mut ordinals: BTreeSet<u32> = BTreeSet::new();
        let mut numbers = of_cupti.values();
        if numbers.all(|of| of.len() == 1 && of.iter().all(|&ordinal| ordinals.insert(ordinal))) {
            for (&device, of) in of_cupti {
                self.renumbered.extend(of.iter().map(|&ordinal| (device, ordinal)));
            }
            return;
        }
        self.is_contradicted = true;
        for at in &tables.gpu {
            let device = match at.record {
                GpuRecord::Kernel(kernel) => kernel.device,
                GpuRecord::Copy(copy) => copy.device,
                _ => continue,
            };
            let context = tables.head_of(at.id).and_then(Head::context_at);
            let of_context = context.and_then(|at| self.of_context.get_mut(index(at)));
            if let Some(of_context) = of_context {
                *of_context = Some(device);
            }
        }
    }

    fn put(&mut self, context: Option<u32>, ordinal: u32) {
        let of_context = context.and_then(|at| self.of_context.get_mut(index(at)));
        if let Some(of_context) = of_context {
            of_context.get_or_insert(ordinal);
        }
    }

    pub fn of_context(&self, context: u32) -> Option<u32> {
        self.of_context.get(index(context)).copied().flatten()
    }

    pub fn ordinal(&self, device: u32) -> u32 {
        self.renumbered.get(&device).copied().unwrap_or(device)
    }

    /// The ranks that use each device: indices of contexts by ordinal.
    pub fn contexts(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut contexts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (context, ordinal) in self.of_context.iter().enumerate() {
            if let Some(ordinal) = ordinal {
                contexts.entry(*ordinal).or_default().push(index_u32(context));
            }
        }
        contexts
    }
}
