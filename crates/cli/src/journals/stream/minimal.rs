//! The per-process context for the lines of TU Dresden's minimal profiler. It knows version 5 of NCCL's interface and
//! names the GPU in every line; kernels are `cuptiActivity`, which launches refer to by `extCorrId`.

use std::collections::BTreeMap;

use nccl_events::Kind;
use nccl_events::gpu::GpuRecord;

use crate::journals::process::Process;

/// Fields that version 5 or that profiler does not have.
const NEWER: [&str; 5] = ["commHash", "kernelVariant", "isSymmetric", "userTag", "net"];

pub(super) struct Minimal<'a> {
    pub(super) process: &'a Process,
    gpus: BTreeMap<u32, String>,
    of_comms: BTreeMap<u64, u32>,
    /// Events and numbers (from 1) of launches, sorted by event.
    launches: Vec<(u64, u64)>,
}

impl<'a> Minimal<'a> {
    pub(super) fn of(process: &'a Process) -> Self {
        let launches = process.launches.iter().filter(|launch| launch.kind == Kind::KernelLaunch);
        let mut launches: Vec<(u64, u64)> = launches.map(|launch| launch.id).zip(1..).collect();
        launches.sort_unstable();
        let mut found = Self { process, gpus: BTreeMap::new(), of_comms: BTreeMap::new(), launches };
        for entry in &process.gpu {
            match entry.record {
                GpuRecord::Device(device) => drop(found.gpus.insert(device.ordinal, uuid(device.uuid))),
                GpuRecord::DeviceOfCommunicator { ordinal } => drop(found.of_comms.insert(entry.id, ordinal)),
                _ => {}
            }
        }
        found
    }

    pub(super) fn launch(&self, event: u64) -> Option<u64> {
        self.launches.get(self.launches.binary_search_by_key(&event, |(id, _)| *id).ok()?).map(|(_, number)| *number)
    }

    pub(super) fn has_detail(name: &str) -> bool {
        !NEWER.contains(&name)
    }

    pub(super) fn gpu_of(&self, context: u64) -> &str {
        self.gpu(self.of_comms.get(&context).copied())
    }

    /// The UUID of a device; empty if unknown.
    pub(super) fn gpu(&self, ordinal: Option<u32>) -> &str {
        ordinal.and_then(|ordinal| self.gpus.get(&ordinal)).map_or("", String::as_str)
    }
}

fn uuid(bytes: [u8; 16]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}
