//! A run of a real NCCL on the emulated GPU, and the launches in its journals.

use std::collections::BTreeMap;
use std::path::Path;

use journal::format::{Record, RecordBody, Symbol};
use journal::reader::Journal;
use nccl_events::gpu::{Backend, ClockSample, Device, GpuCount, GpuRecord, LaunchTime};
use nccl_events::ids::EventId;
use nccl_events::{Body, Kind, event};
use whole_plugin::process::FinishedProcess;
use whole_plugin::scratch::Scratch;

pub(crate) struct Run {
    pub(crate) ended: FinishedProcess,
    pub(crate) scratch: Scratch,
    /// The number of calls of each driver function, and of forbidden calls.
    pub(crate) calls: BTreeMap<String, u64>,
    pub(crate) processes: Vec<Process>,
}

/// The records of one process.
#[derive(Default)]
pub(crate) struct Process {
    /// Launches by id: begin and end in ticks, and the stream.
    pub(crate) launches: BTreeMap<u64, Launched>,
    /// Their times, and the ticks when these were known.
    pub(crate) times: BTreeMap<u64, (LaunchTime, u64)>,
    /// Samples of each device's clock, with their ticks.
    pub(crate) samples: BTreeMap<u32, Vec<(u64, ClockSample)>>,
    pub(crate) devices: Vec<Device<String>>,
    /// The device of each context.
    pub(crate) of_communicator: BTreeMap<u64, u32>,
    pub(crate) notices: Vec<(Backend, String)>,
    pub(crate) counts: BTreeMap<GpuCount, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Launched {
    pub(crate) begin: u64,
    pub(crate) stream: u64,
    pub(crate) context: u64,
}

/// Runs two ranks with these variables. `None` if this NCCL is not there.
pub(crate) fn run(version: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Run> {
    let scratch = Scratch::new();
    let report = scratch.path().join("report");
    let mut job = scratch.run_nccl(version, &[], arguments)?;
    job.env("NCCL_OTF2_KEEP_JOURNAL", "1")
        .env("NCCL_OTF2_VERBOSITY", "verbose")
        .env("FAKEGPU_REPORT", &report)
        .envs(variables.iter().copied());
    // nccl-host ends with 0 only when all results are right.
    let ended = whole_plugin::process::run(&mut job).with_code(0);
    let processes = processes(&scratch);
    let _report = scratch.archive().check();
    Some(Run { ended, calls: calls(&report), processes, scratch })
}

/// What a double counted, all processes together; nothing if nobody called it.
pub(crate) fn calls(report: &Path) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in std::fs::read_to_string(report).unwrap_or_default().lines() {
        let [_process, name, count] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}");
        };
        *calls.entry(name.to_owned()).or_default() += count.parse::<u64>().unwrap();
    }
    calls
}

fn processes(scratch: &Scratch) -> Vec<Process> {
    let parts = std::fs::read_dir(scratch.out().join("parts")).unwrap();
    parts
        .map(|part| {
            let journal = Journal::open(&part.unwrap().path().join("journal")).unwrap();
            let mut records = Vec::new();
            let outcome = journal.read(&mut |record| records.push(record)).expect("read");
            assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
            let text = |symbol: Symbol| outcome.symbols.text(symbol).to_owned();
            let mut process = Process::default();
            for record in records {
                process.take(record, &text);
            }
            process
        })
        .collect()
}

impl Process {
    fn take(&mut self, record: Record, text: &dyn Fn(Symbol) -> String) {
        let Record { ticks, id, body, .. } = record;
        match body {
            RecordBody::Start(start) => {
                if let Body::KernelLaunch(event::KernelLaunch { stream }) = start.body {
                    let launched = Launched { begin: ticks, stream, context: start.context };
                    self.launches.insert(id, launched);
                }
            }
            RecordBody::Gpu(GpuRecord::LaunchTime(time)) => {
                assert_eq!(EventId::from_raw(id).kind(), Kind::KernelLaunch);
                let before = self.times.insert(id, (time, ticks));
                assert!(before.is_none(), "timed twice: {time:?}");
            }
            RecordBody::Gpu(GpuRecord::Clock(sample)) => {
                let samples = self.samples.entry(sample.ordinal).or_default();
                samples.push((ticks, sample));
            }
            RecordBody::Gpu(GpuRecord::Device(device)) => self.devices.push(Device {
                ordinal: device.ordinal,
                is_mig: device.is_mig,
                uuid: device.uuid,
                pci_domain: device.pci_domain,
                pci_bus: device.pci_bus,
                pci_device: device.pci_device,
                driver_version: device.driver_version,
                compute_capability: device.compute_capability,
                multiprocessors: device.multiprocessors,
                name: text(device.name),
            }),
            RecordBody::Gpu(GpuRecord::DeviceOfCommunicator { ordinal }) => {
                self.of_communicator.insert(id, ordinal);
            }
            RecordBody::Gpu(GpuRecord::Notice { backend, text: line }) => {
                self.notices.push((backend, text(line)));
            }
            RecordBody::Gpu(GpuRecord::Counts(counts)) => {
                self.counts = GpuCount::ALL.into_iter().zip(counts).collect();
            }
            _ => {}
        }
    }

    pub(crate) fn count(&self, count: GpuCount) -> u64 {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    /// The ticks at a time of a device's clock, with their uncertainty.
    pub(crate) fn ticks_of(&self, ordinal: u32, gpu_ns: u64) -> (f64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "differences of a run of some seconds")]
        let points: Vec<[f64; 3]> = self.samples[&ordinal]
            .iter()
            .map(|(ticks, sample)| [sample.gpu_ns as f64, *ticks as f64, sample.uncertainty_ticks as f64])
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "the same")]
        let at = gpu_ns as f64;
        let after = points.iter().position(|[shown, ..]| *shown >= at).unwrap_or(points.len() - 1).max(1);
        let ([from, from_ticks, from_off], [to, to_ticks, to_off]) = (points[after - 1], points[after]);
        let part = (at - from) / (to - from);
        (from_ticks + part * (to_ticks - from_ticks), from_off.max(to_off))
    }
}
