//! Writes lines in the format of TU Dresden's minimal profiler.

use nccl_events::gpu::GpuRecord;
use nccl_events::state;

use super::State;
use super::callbacks::{Line, event, lifecycle, span, state_head, who};
use super::minimal::Minimal;
use crate::journals::fields::arguments;
use crate::journals::gpu::Entry;
use crate::journals::process::{Comm, Finalize};
use crate::journals::states;
use crate::journals::value::{Json, Moment, Value};

/// The event kinds of version 5.
const MASK: u32 = (1 << 12) - 1;

impl Minimal<'_> {
    /// Writes a line unless that profiler does not record it: events without a stop, newer kinds, other GPU facts.
    pub(super) fn write(&self, line: &Line<'_>, json: &mut Json) -> bool {
        match line {
            Line::Init(comm) => json.line(|json| self.init(comm, json)),
            Line::Finalize(call) => json.line(|json| self.finalize(call, json)),
            Line::State(it) => return self.state(it, json),
            Line::Event(it) => {
                if it.stop.is_none() || it.record.body.kind().mask() & MASK == 0 {
                    return false;
                }
                json.line(|json| event(self.process, it, Some(self), json));
            }
            Line::Gpu(entry) => return self.kernel(entry, json),
            Line::Range(_) => return false,
        }
        true
    }

    /// A state, with only the argument that NCCL passes with it.
    fn state(&self, it: &State, json: &mut Json) -> bool {
        let argument = match it.number {
            state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT => "transSize",
            state::PROXY_CTRL_APPEND_END => "appendedProxyOps",
            state::KERNEL_CH_STOP => "pTimer",
            number if number <= state::GROUP_END_API_START => "",
            _ => return false,
        };
        // The profiler's own names for these states; the numbers are NCCL's.
        let name = match it.number {
            state::GROUP_START_API_STOP => "EndGroupApiStart".into(),
            state::GROUP_END_API_START => "BeginGroupApiEnd".into(),
            number => states::name(number),
        };
        json.line(|json| {
            state_head(self.process, it, name, json);
            arguments(it.args, |name, value| {
                if name == argument {
                    json.put(name, value);
                }
            });
        });
        true
    }

    fn init(&self, comm: &Comm, json: &mut Json) {
        let record = &comm.record;
        self.head("ProfilerInit", comm.context, (comm.begin, Moment { ns: comm.end_ns, ..comm.begin }), json);
        json.object("details", |json| {
            json.put("nranks", record.ranks);
            json.put("commName", self.process.outcome.symbols.text(record.name));
            json.put("eventMask", self.process.event_mask & MASK);
        });
    }

    fn finalize(&self, call: &Finalize, json: &mut Json) {
        let init = self.process.comms.iter().find(|comm| comm.context == call.context);
        self.head("ProfilerFinalize", call.context, (call.begin, Moment { ns: call.end_ns, ..call.begin }), json);
        json.object("details", |json| {
            if let Some(init) = init {
                json.put("totalDuration", Value::Time(call.end_ns.saturating_sub(init.begin.ns)));
            }
        });
    }

    fn head(&self, func: &str, context: u64, (start, stop): (Moment, Moment), json: &mut Json) {
        lifecycle(func, json);
        json.put("gpuUuid", self.gpu_of(context));
        who(self.process, context, 0, json);
        span(self.process, start, Some(stop), json);
    }

    fn kernel(&self, entry: &Entry, json: &mut Json) -> bool {
        let (GpuRecord::Kernel(kernel), Some(duration_ns)) = (entry.record, entry.duration_ns) else {
            return false;
        };
        let stop = Moment { ns: entry.when.ns.saturating_add(duration_ns), ..entry.when };
        json.line(|json| {
            json.put("recordType", "cuptiActivity");
            json.put("type", "KERNEL");
            json.put("extCorrId", self.launch(entry.id).unwrap_or(0));
            json.put("corrId", kernel.correlation);
            json.put("gpuUuid", self.gpu(Some(kernel.device)));
            json.put("deviceId", kernel.device);
            span(self.process, entry.when, Some(stop), json);
            json.put("name", self.process.outcome.symbols.text(kernel.name));
            json.put("stream", Value::Address(kernel.stream.into()));
            json.object("details", |json| {
                let names = ["gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"];
                for (name, size) in names.into_iter().zip(kernel.grid.into_iter().chain(kernel.block)) {
                    json.put(name, size);
                }
            });
        });
        true
    }
}
