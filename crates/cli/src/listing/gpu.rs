//! What a journal says of GPUs: no callbacks, but what was found out beside them.

use journal::reader::Symbols;
use journal::record::Symbol;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord};
use trace::clocks::ticks::HostClock;
use trace::links::gpu_work::clocks::Clocks;
use trace::links::gpu_work::words;

use super::fields::{List, Value};
use super::story::Moment;

/// What `--kind` calls all of it.
pub(crate) const KIND: &str = "Gpu";

/// A record about GPUs.
#[derive(Debug)]
pub(crate) struct Said {
    /// When the work began, where that is known, else when it was recorded.
    pub(crate) when: Moment,
    /// How long it took; `None` for what took no time, or none that is known.
    pub(crate) duration_ns: Option<u64>,
    /// The launch or communicator that it is about; 0 for none.
    pub(crate) id: u64,
    pub(crate) record: GpuRecord<Symbol>,
}

/// Puts work where its clock says.
pub(crate) fn place(all: &mut [Said], ticks: &[u64], clock: &HostClock) {
    let samples = all.iter().zip(ticks).filter_map(|(said, ticks)| {
        let GpuRecord::Clock(sample) = said.record else {
            return None;
        };
        let until = ticks.saturating_add(sample.uncertainty_ticks);
        let uncertainty_ticks = clock.nanoseconds(until).saturating_sub(said.when.ns);
        let sample = ClockSample {
            uncertainty_ticks,
            ..sample
        };
        Some((said.when.ns, sample))
    });
    let clocks = Clocks::of_samples(samples);
    for said in all {
        let (clock, device, start_ns, end_ns) = match said.record {
            GpuRecord::Kernel(kernel) => (
                GpuClock::Cupti,
                kernel.device,
                kernel.start_ns,
                kernel.end_ns,
            ),
            GpuRecord::Copy(copy) => (GpuClock::Cupti, copy.device, copy.start_ns, copy.end_ns),
            GpuRecord::LaunchTime(time) => {
                (GpuClock::Events, time.ordinal, time.start_ns, time.end_ns)
            }
            _ => continue,
        };
        if let Some((from, to)) = clocks.place(clock, device, start_ns, end_ns) {
            said.when.ns = from.host_ns;
            said.duration_ns = Some(to.host_ns - from.host_ns);
        }
    }
}

impl Said {
    /// What it is.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.record {
            GpuRecord::Device(_) => "device",
            GpuRecord::DeviceOfCommunicator { .. } => "communicatorDevice",
            GpuRecord::Clock(_) => "clock",
            GpuRecord::Kernel(_) => "kernel",
            GpuRecord::Copy(_) => "copy",
            GpuRecord::LaunchTime(_) => "launchTime",
            GpuRecord::Notice { .. } => "notice",
            GpuRecord::Counts(_) => "counts",
        }
    }

    /// Whether it is for people, too: readings of clocks and running totals are for programs.
    pub(crate) const fn is_for_people(&self) -> bool {
        !matches!(self.record, GpuRecord::Clock(_) | GpuRecord::Counts(_))
    }

    /// What it says.
    pub(crate) fn details(&self, symbols: &Symbols) -> List {
        let text = |symbol: Symbol| Value::Text(symbols.text(symbol).to_owned());
        let number = |number: u32| Value::Unsigned(number.into());
        let extent = |of: [u32; 3]| Value::Text(words::extent(of));
        let list = match self.record {
            GpuRecord::Device(device) => vec![
                ("ordinal", number(device.ordinal)),
                ("name", text(device.name)),
                ("uuid", Value::Text(hexadecimal(&device.uuid))),
                ("pciDomain", number(device.pci_domain)),
                ("pciBus", number(device.pci_bus.into())),
                ("pciDevice", number(device.pci_device.into())),
                ("isMig", Value::Flag(device.is_mig)),
                ("driverVersion", number(device.driver_version)),
                (
                    "computeCapability",
                    Value::Several(
                        device
                            .compute_capability
                            .map(|part| number(part.into()))
                            .into(),
                    ),
                ),
                ("multiprocessors", number(device.multiprocessors)),
            ],
            GpuRecord::DeviceOfCommunicator { ordinal } => vec![("ordinal", number(ordinal))],
            GpuRecord::Clock(sample) => vec![
                ("clock", Value::Text(clock_name(sample.clock).to_owned())),
                ("ordinal", number(sample.ordinal)),
                ("gpuNs", Value::Unsigned(sample.gpu_ns)),
                (
                    "uncertaintyTicks",
                    Value::Unsigned(sample.uncertainty_ticks),
                ),
            ],
            GpuRecord::Kernel(kernel) => vec![
                ("name", text(kernel.name)),
                ("device", number(kernel.device)),
                ("context", number(kernel.context)),
                ("stream", number(kernel.stream)),
                ("corrId", number(kernel.correlation)),
                ("startNs", Value::Unsigned(kernel.start_ns)),
                ("endNs", Value::Unsigned(kernel.end_ns)),
                ("grid", extent(kernel.grid)),
                ("block", extent(kernel.block)),
                ("registers", number(kernel.registers_per_thread.into())),
                ("staticSharedBytes", number(kernel.static_shared_bytes)),
                ("dynamicSharedBytes", number(kernel.dynamic_shared_bytes)),
                ("graph", number(kernel.graph)),
                ("graphNode", Value::Unsigned(kernel.graph_node)),
                ("sourceGraphNode", Value::Unsigned(kernel.source_graph_node)),
            ],
            GpuRecord::Copy(copy) => vec![
                ("kind", number(copy.kind.into())),
                ("bytes", Value::Unsigned(copy.bytes)),
                ("device", number(copy.device)),
                ("context", number(copy.context)),
                ("stream", number(copy.stream)),
                ("corrId", number(copy.correlation)),
                ("startNs", Value::Unsigned(copy.start_ns)),
                ("endNs", Value::Unsigned(copy.end_ns)),
                ("sourceKind", number(copy.source_kind.into())),
                ("destinationKind", number(copy.destination_kind.into())),
                ("sourceDevice", number(copy.source_device)),
                ("destinationDevice", number(copy.destination_device)),
                ("count", number(copy.count)),
                ("graphNode", Value::Unsigned(copy.graph_node)),
            ],
            GpuRecord::LaunchTime(time) => vec![
                ("ordinal", number(time.ordinal)),
                ("stream", Value::Address(time.stream)),
                ("startNs", Value::Unsigned(time.start_ns)),
                ("endNs", Value::Unsigned(time.end_ns)),
                ("uncertaintyNs", number(time.uncertainty_ns)),
            ],
            GpuRecord::Notice { way, text: said } => {
                vec![
                    ("way", Value::Text(way.name().to_owned())),
                    ("text", text(said)),
                ]
            }
            GpuRecord::Counts(counts) => {
                let named = GpuCount::ALL.iter().zip(counts);
                named
                    .map(|(count, number)| (count.name(), Value::Unsigned(number)))
                    .collect()
            }
        };
        // What is 0 outside of graphs is not said there.
        let is_rare = |name: &str| matches!(name, "graph" | "graphNode" | "sourceGraphNode");
        let said = list.into_iter();
        said.filter(|(name, value)| !is_rare(name) || *value != Value::Unsigned(0))
            .collect()
    }
}

const fn clock_name(clock: GpuClock) -> &'static str {
    match clock {
        GpuClock::Cupti => "cupti",
        GpuClock::Events => "events",
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
