//! The lines as TU Dresden's minimal profiler writes them. It knows version 5 of NCCL's interface and names the GPU in
//! every line; kernels are `cuptiActivity`, which launches name by their `extCorrId`.

use std::collections::BTreeMap;

use nccl_events::Kind;
use nccl_events::gpu::GpuRecord;
use nccl_events::state;

use super::callbacks::{Line, lifecycle, span, who};
use crate::listing::gpu::Entry;
use crate::listing::moment::Moment;
use crate::listing::recording::{Comm, Finalize, Recording, State};
use crate::listing::value::{List, Value};

/// The kinds of version 5.
const MASK: u32 = (1 << 12) - 1;
/// Details that version 5 or that profiler does not have.
const NEWER: [&str; 5] = ["commHash", "kernelVariant", "isSymmetric", "userTag", "net"];

/// The fields of every state.
const STATE: [&str; 7] = ["recordType", "eventAddr", "ts", "name", "id", "pid", "tid"];

/// What its lines need of all of a recording.
pub(super) struct Minimal<'a> {
    recording: &'a Recording,
    /// By ordinal.
    gpus: BTreeMap<u32, String>,
    /// By context.
    of_comms: BTreeMap<u64, u32>,
    /// The numbers of launches, from 1, by their events.
    launches: BTreeMap<u64, u64>,
}

impl<'a> Minimal<'a> {
    pub(super) fn of(recording: &'a Recording) -> Self {
        let launches = recording.events.iter().filter(|it| it.record.body.kind() == Kind::KernelLaunch);
        let mut found = Self {
            recording,
            gpus: BTreeMap::new(),
            of_comms: BTreeMap::new(),
            launches: launches.map(|it| it.id).zip(1..).collect(),
        };
        for entry in &recording.gpu {
            match entry.record {
                GpuRecord::Device(device) => drop(found.gpus.insert(device.ordinal, uuid(device.uuid))),
                GpuRecord::DeviceOfCommunicator { ordinal } => drop(found.of_comms.insert(entry.id, ordinal)),
                _ => {}
            }
        }
        found
    }

    /// A line; none of what that profiler does not record: what never stopped, newer kinds, other facts of GPUs.
    pub(super) fn fields(&self, line: &Line<'_>) -> Option<List> {
        match line {
            Line::Init(comm) => Some(self.init(comm)),
            Line::Finalize(call) => Some(self.finalize(call)),
            Line::State(it) => Self::state(it, line.fields(self.recording)),
            Line::Event(event) => {
                let kind = event.record.body.kind();
                let is_known = kind.mask() & MASK != 0;
                event.stop.filter(|_| is_known)?;
                let mut list = line.fields(self.recording);
                if let Some((_, Value::Object(details))) = list.iter_mut().find(|(name, _)| *name == "details") {
                    details.retain(|(name, _)| !NEWER.contains(name));
                }
                insert(&mut list, "commId", ("gpuUuid", self.gpu_of(event.record.context)));
                if let Some(number) = self.launches.get(&event.id) {
                    insert(&mut list, "parentObj", ("extCorrId", (*number).into()));
                }
                Some(list)
            }
            Line::Gpu(entry) => self.kernel(entry),
        }
    }

    /// A state with the argument that NCCL passes with it, and no others.
    fn state(it: &State, mut list: List) -> Option<List> {
        let argument = match it.number {
            state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT => "transSize",
            state::PROXY_CTRL_APPEND_END => "appendedProxyOps",
            state::KERNEL_CH_STOP => "pTimer",
            number if number <= state::GROUP_END_API_START => "",
            _ => return None,
        };
        // Its names for them; the numbers are NCCL's.
        let name = match it.number {
            state::GROUP_START_API_STOP => Some("EndGroupApiStart"),
            state::GROUP_END_API_START => Some("BeginGroupApiEnd"),
            _ => None,
        };
        for (field, value) in &mut list {
            if let Some(name) = name.filter(|_| *field == "name") {
                *value = name.into();
            }
        }
        list.retain(|(name, _)| *name == argument || STATE.contains(name));
        Some(list)
    }

    fn init(&self, comm: &Comm) -> List {
        let record = &comm.record;
        let details = vec![
            ("nranks", record.ranks.into()),
            ("commName", self.recording.outcome.symbols.text(record.name).into()),
            ("eventMask", (self.recording.event_mask & MASK).into()),
        ];
        let stop = Moment { ns: comm.end_ns, ..comm.begin };
        self.lifecycle("ProfilerInit", comm.context, (comm.begin, stop), details)
    }

    fn finalize(&self, call: &Finalize) -> List {
        let init = self.recording.comms.iter().find(|comm| comm.context == call.context);
        let total_ns = init.map(|init| call.end_ns.saturating_sub(init.begin.ns));
        let details = total_ns.map(|ns| ("totalDuration", Value::Time(ns))).into_iter().collect();
        let stop = Moment { ns: call.end_ns, ..call.begin };
        self.lifecycle("ProfilerFinalize", call.context, (call.begin, stop), details)
    }

    fn lifecycle(&self, func: &str, context: u64, (start, stop): (Moment, Moment), details: List) -> List {
        let gpu = vec![("gpuUuid", self.gpu_of(context))];
        let who = who(self.recording, context, 0);
        let rest = vec![("details", Value::Object(details))];
        [lifecycle(func), gpu, who, span(self.recording, start, Some(stop)), rest].concat()
    }

    fn kernel(&self, entry: &Entry) -> Option<List> {
        let GpuRecord::Kernel(kernel) = entry.record else {
            return None;
        };
        let stop = Moment { ns: entry.when.ns.saturating_add(entry.duration_ns?), ..entry.when };
        let [grid, block] = [kernel.grid, kernel.block].map(|it| it.map(Value::from));
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (grid, block);
        let head = vec![
            ("recordType", "cuptiActivity".into()),
            ("type", "KERNEL".into()),
            ("extCorrId", self.launches.get(&entry.id).copied().unwrap_or(0).into()),
            ("corrId", kernel.correlation.into()),
            ("gpuUuid", self.gpu(Some(kernel.device))),
            ("deviceId", kernel.device.into()),
        ];
        let details = vec![
            ("gridX", grid_x),
            ("gridY", grid_y),
            ("gridZ", grid_z),
            ("blockX", block_x),
            ("blockY", block_y),
            ("blockZ", block_z),
        ];
        let rest = vec![
            ("name", self.recording.outcome.symbols.text(kernel.name).into()),
            ("stream", Value::Address(kernel.stream.into())),
            ("details", Value::Object(details)),
        ];
        Some([head, span(self.recording, entry.when, Some(stop)), rest].concat())
    }

    fn gpu_of(&self, context: u64) -> Value {
        self.gpu(self.of_comms.get(&context).copied())
    }

    /// The UUID of a device; empty where it is not known.
    fn gpu(&self, ordinal: Option<u32>) -> Value {
        let uuid = ordinal.and_then(|ordinal| self.gpus.get(&ordinal));
        Value::Text(uuid.cloned().unwrap_or_default())
    }
}

/// A UUID as people write it.
fn uuid(bytes: [u8; 16]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

/// Puts a field before another one.
fn insert(list: &mut List, before: &str, field: (&'static str, Value)) {
    let at = list.iter().position(|(name, _)| *name == before).unwrap_or(list.len());
    list.insert(at, field);
}
