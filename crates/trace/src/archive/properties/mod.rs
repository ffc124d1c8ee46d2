//! The archive's properties: what was seen, what became of it, and how good the clocks are.
//!
//! Names are `NCCL::…`. A list has one entry a line. Numbers that are 0 are left out, but for the kinds
//! of events that came.

use std::collections::BTreeSet;

use crate::archive::blind_spots;
use crate::archive::clock_statements;
use crate::archive::communicators::Communicators;
use crate::archive::processes::{Parts, Process};
use clocks::gpu::GpuCalibration;
use journal::part::options::ArchiveOptions;
use journal::part::process::ProcessInfo;
use nccl_events::archive::list_of;
use tables::counts::Counts;
use tables::index::index;

mod chain;
mod fit;
mod flight;
mod gpu;
mod measurement;
mod parts;
mod scorep;

pub use fit::within_anchor;
use parts::{PARTS, PARTS_FINGERPRINT, PARTS_NUMBER};
pub(crate) use parts::{PARTS_LEFT_OUT, PartsThere, fingerprint};

/// How many problems are listed.
const MOST_PROBLEMS: usize = 100;

/// The properties of an archive, but those of [`super::matching`] and [`super::origins`]: name and value.
pub(super) fn properties(parts: &Parts<'_>, communicators: &Communicators) -> Vec<(String, String)> {
    let processes = parts.processes;
    let mut list = List::default();
    let names = processes.iter().map(|process| &process.manifest.part);
    let distinct_names: BTreeSet<String> = names.clone().cloned().collect();
    list.add(PARTS, list_of(names));
    list.number(PARTS_NUMBER, distinct_names.len() as u64);
    list.add(PARTS_FINGERPRINT, fingerprint(&distinct_names));
    list.add(PARTS_LEFT_OUT, list_of(parts.left_out));
    list.extend(option_properties(parts.options));
    sources(&mut list, processes);
    clocks(&mut list, processes);
    list.extend(clock_statements::of_archive(processes, parts.alignment));
    counts(&mut list, processes);
    let missing = communicators.all.iter().map(|it| it.missing.len() as u64 + it.unlocated);
    list.number("NCCL::RANKS_MISSING", missing.sum());
    let unmatched = communicators.all.iter().map(|comm| comm.unmatched).sum();
    list.number("NCCL::COLLECTIVES_UNMATCHED", unmatched);
    list.number("NCCL::RANKS_CLAIMED_TWICE", communicators.ranks_twice);
    list.extend(gpu::of_archive(processes));
    list.extend(flight::of_archive(processes));
    list.extend(measurement::of_archive(processes));
    list.extend(scorep::of_archive(processes));
    list.extend(chain::of_archive(processes));
    problems(&mut list, processes);
    list.0
}

fn counts(list: &mut List, processes: &[Process]) {
    let counts = total(processes);
    for (kind, numbers) in counts.kinds.iter() {
        let kind = kind.name().to_uppercase();
        for (name, number) in numbers.named() {
            if number > 0 || matches!(name, "SEEN" | "WRITTEN") {
                list.add(&format!("NCCL::COUNT::{kind}::{name}"), number.to_string());
            }
        }
    }
    for (name, number) in counts.named() {
        list.number(&format!("NCCL::COUNT::{name}"), number);
    }
    let records = processes.iter().map(|process| process.manifest.records);
    list.number("NCCL::RECORDS", records.sum());
    // A part that was written while its process ran does not tell.
    let started: Option<u64> = processes.iter().map(|it| it.manifest.started).sum();
    list.number("NCCL::COUNT::STARTED", started.unwrap_or(0));
}

/// How the parts of an archive are written.
pub(super) fn option_properties(options: ArchiveOptions) -> Vec<(String, String)> {
    let named = options.named().into_iter();
    named.map(|(name, value)| (format!("NCCL::{name}"), value)).collect()
}

/// The numbers of all parts together.
pub(crate) fn total(processes: &[Process]) -> Counts {
    let mut counts = Counts::default();
    for process in processes {
        counts.add(&process.manifest.counts);
    }
    counts
}

#[derive(Debug, Default)]
struct List(Vec<(String, String)>);

impl List {
    /// OTF2 has no empty properties.
    fn add(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.0.push((name.to_owned(), value.replace('\0', "")));
        }
    }

    fn extend(&mut self, properties: Vec<(String, String)>) {
        for (name, value) in properties {
            self.add(&name, value);
        }
    }

    fn number(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.add(name, number.to_string());
        }
    }
}

/// What differs between processes is listed once each.
fn distinct(processes: &[Process], value: impl Fn(&Process) -> String) -> String {
    let values: BTreeSet<String> = processes.iter().map(value).collect();
    list_of(values.iter().filter(|value| !value.is_empty()))
}

fn sources(list: &mut List, processes: &[Process]) {
    let mut add = |name: &str, value: fn(&ProcessInfo) -> String| {
        let value = distinct(processes, |process| value(&process.manifest.process));
        list.add(name, value);
    };
    add("NCCL::VERSION", |info| info.nccl_version.clone());
    add("NCCL::LIBRARY", |info| info.library.clone());
    add("NCCL::TABLE", |info| match info.table {
        0 => String::new(),
        table => format!("ncclProfiler_v{table}"),
    });
    add("NCCL::EVENTS", |info| info.events.join(","));
    add("NCCL::COMMAND", |info| info.command.join(" "));
    add("NCCL::JOB", |info| match info.job.as_str() {
        "" => info.environment.job.clone().unwrap_or_default(),
        job => job.to_owned(),
    });
    add("NCCL::LAUNCHER", |info| info.environment.launcher.clone().unwrap_or_default());
    add("NCCL::NODE_NAMES", |info| {
        let name = info.environment.node_name.as_ref();
        let name = name.filter(|name| **name != info.host);
        name.map_or_else(String::new, |name| format!("{}: {name}", info.host))
    });
    add("NCCL::PLUGIN_VERSION", |info| info.plugin_version.clone());
    list.add("NCCL::BLIND_SPOTS", list_of(blind_spots::lines(processes)));
    list.add("NCCL::WRITER_VERSION", env!("CARGO_PKG_VERSION").to_owned());
}

fn clocks(list: &mut List, processes: &[Process]) {
    let clock = |process: &Process| process.manifest.clock.clone();
    list.add("NCCL::CLOCK::SOURCE", distinct(processes, |process| clock(process).source));
    list.add(
        "NCCL::CLOCK::CALIBRATION",
        distinct(processes, |process| format!("{:?}", clock(process).calibration).to_lowercase()),
    );
    let most = |value: fn(&Process) -> u64| processes.iter().map(value).max().unwrap_or(0);
    let residual = most(|process| process.manifest.clock.residual_ns);
    let uncertainty = most(|process| process.manifest.clock.uncertainty_ns);
    list.add("NCCL::CLOCK::RESIDUAL_NS", residual.to_string());
    list.add("NCCL::CLOCK::UNCERTAINTY_NS", uncertainty.to_string());
    let gpus = || processes.iter().flat_map(|p| &p.manifest.gpu_clocks);
    for calibration in GpuCalibration::ALL {
        let name = calibration.name();
        let such = || gpus().filter(|gpu| gpu.clock.calibration == calibration);
        list.number(&format!("NCCL::GPU_CLOCK::{name}::RANKS"), such().count() as u64);
        let residual = such().map(|gpu| gpu.clock.residual_ns).max();
        list.number(&format!("NCCL::GPU_CLOCK::{name}::RESIDUAL_NS"), residual.unwrap_or(0));
    }
    list.add("NCCL::GPU_CLOCK::LIST", list_of(processes.iter().flat_map(gpu_clocks)));
}

/// The clock of each communicator rank's GPU, as in `… comm 0x5 rank 3: BOUNDED, residual 2400 ns, drift -12 ppb,
/// bounds 20 + 40`: the numbers of bounds from below and from above.
fn gpu_clocks(process: &Process) -> impl Iterator<Item = String> {
    let manifest = &process.manifest;
    manifest.gpu_clocks.iter().map(|gpu| {
        let comm = manifest.comms.get(index(gpu.comm)).map_or(0, |comm| comm.id);
        format!(
            "{}: comm {comm:#x} rank {}: {}, residual {} ns, drift {} ppb, bounds {} + {}{}{}",
            manifest.part,
            gpu.rank,
            gpu.clock.calibration.name(),
            gpu.clock.residual_ns,
            gpu.clock.drift_ppb,
            gpu.clock.bounds.0,
            gpu.clock.bounds.1,
            match gpu.clock.lines {
                0..=1 => String::new(),
                lines => format!(", {lines} lines"),
            },
            match (gpu.clock.kernel_bounds, gpu.clock.kernels_contradict) {
                (_, true) => ", kernels contradict".to_owned(),
                (0, false) => String::new(),
                (kernels, false) => match gpu.clock.kernel_slack_ns {
                    0 => format!(", {kernels} of kernels"),
                    slack => format!(", {kernels} of kernels, off by up to {slack} ns more than known"),
                },
            },
        )
    })
}

fn problems(list: &mut List, processes: &[Process]) {
    let all = processes.iter().flat_map(|process| {
        let manifest = &process.manifest;
        manifest.all_problems().into_iter().map(|problem| format!("{}: {problem}", manifest.part))
    });
    let all: Vec<String> = all.collect();
    list.number("NCCL::PROBLEMS", all.len() as u64);
    list.add("NCCL::PROBLEM_LIST", list_of(all.iter().take(MOST_PROBLEMS)));
}
