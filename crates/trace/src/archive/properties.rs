//! The archive's properties: what was seen, what became of it, and how good the clocks are.
//!
//! Names are `NCCL::…`. A list has one entry a line. Numbers that are 0 are left out, but for the kinds
//! of events that came.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::blind_spots;
use crate::archive::forwarded;
use crate::archive::job::Process;
use crate::archive::kept;
use crate::archive::members::Members;
use crate::clocks::alignment::{Alignment, statement};
use crate::clocks::gpu_clock::GpuCalibration;
use crate::links::gpu_work;
use crate::tables::counts::Counts;
use crate::tables::place::index;
use crate::timeline::measurement;
use journal::part::options::ArchiveOptions;
use journal::part::process::ProcessInfo;

mod fit;
mod parts;

pub use fit::within_anchor;
pub use parts::PARTS;
pub(crate) use parts::PartsThere;
use parts::{PARTS_FINGERPRINT, PARTS_NUMBER, fingerprint};

/// How many problems are told in full.
const MOST_PROBLEMS: usize = 100;

/// All properties of an archive: name and value. `left_out` says which parts are not in it and why.
#[must_use]
pub fn properties(
    processes: &[Process],
    alignment: &Alignment,
    members: &Members,
    left_out: &[String],
) -> Vec<(String, String)> {
    let mut list = List::default();
    let parts = processes.iter().map(|process| &process.sidecar.part);
    let names: BTreeSet<String> = parts.clone().cloned().collect();
    list.add(PARTS, lines(parts));
    list.number(PARTS_NUMBER, names.len() as u64);
    list.add(PARTS_FINGERPRINT, fingerprint(&names));
    list.add("NCCL::PARTS_LEFT_OUT", lines(left_out));
    let options = processes.iter().map(|process| &process.sidecar.options);
    for (name, value) in named_options(options) {
        list.add(&name, value);
    }
    sources(&mut list, processes);
    clocks(&mut list, processes);
    for (name, value) in statement::of_archive(processes, alignment) {
        list.add(&name, value);
    }
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
    let records = processes
        .iter()
        .map(|process| process.sidecar.records)
        .sum();
    list.number("NCCL::RECORDS", records);
    // Parts of earlier versions do not tell.
    let started: Option<u64> = processes.iter().map(|p| p.sidecar.started).sum();
    list.number("NCCL::COUNT::STARTED", started.unwrap_or(0));
    let missing = members.comms.iter().map(|comm| comm.missing.len() as u64);
    list.number("NCCL::RANKS_MISSING", missing.sum());
    let unmatched = members.comms.iter().map(|comm| comm.unmatched).sum();
    list.number("NCCL::COLLECTIVES_UNMATCHED", unmatched);
    list.number("NCCL::RANKS_CLAIMED_TWICE", members.claimed_twice);
    for (name, value) in gpu_work::statement::of_archive(processes) {
        list.add(&name, value);
    }
    for (name, value) in kept::of_archive(processes) {
        list.add(&name, value);
    }
    for (name, value) in measurement::of_archive(processes) {
        list.add(&name, value);
    }
    for (name, value) in forwarded::of_archive(processes) {
        list.add(&name, value);
    }
    problems(&mut list, processes);
    list.0
}

/// How the parts of an archive were written: one value each, or a mixture.
#[must_use]
pub fn named_options<'a>(parts: impl Iterator<Item = &'a ArchiveOptions>) -> Vec<(String, String)> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in parts.flat_map(ArchiveOptions::named) {
        values.entry(name).or_default().insert(value);
    }
    let values = values.into_iter();
    values
        .map(|(name, values)| (format!("NCCL::{name}"), lines(values)))
        .collect()
}

/// A problem for each option that the parts do not agree about.
fn mixtures(processes: &[Process]) -> Vec<String> {
    let options = processes.iter().map(|process| &process.sidecar.options);
    let named = named_options(options).into_iter();
    let mixed = named.filter(|(_, values)| values.contains('\n'));
    mixed
        .map(|(name, values)| {
            let option = name.trim_start_matches("NCCL::").to_ascii_lowercase();
            format!(
                "the parts are written differently: {name} is {}; `nccl-otf2 finalize --{}` writes all alike",
                values.replace('\n', " and "),
                option.replace('_', "-")
            )
        })
        .collect()
}

/// The numbers of all parts together.
#[must_use]
pub fn total(processes: &[Process]) -> Counts {
    let mut counts = Counts::default();
    for process in processes {
        counts.add(&process.sidecar.counts);
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

    fn number(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.add(name, number.to_string());
        }
    }
}

fn lines<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> String {
    let entries: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.as_ref().to_owned())
        .collect();
    entries.join("\n")
}

/// What differs between processes is listed once each.
fn distinct(processes: &[Process], value: impl Fn(&Process) -> String) -> String {
    let values: BTreeSet<String> = processes.iter().map(value).collect();
    lines(values.iter().filter(|value| !value.is_empty()))
}

fn sources(list: &mut List, processes: &[Process]) {
    let info = |process: &Process| process.sidecar.process.clone();
    list.add(
        "NCCL::VERSION",
        distinct(processes, |process| info(process).nccl_version),
    );
    let table = |process: &Process| match process.sidecar.process.table {
        0 => String::new(),
        table => format!("ncclProfiler_v{table}"),
    };
    list.add("NCCL::TABLE", distinct(processes, table));
    list.add(
        "NCCL::EVENTS",
        distinct(processes, |process| info(process).events.join(",")),
    );
    list.add(
        "NCCL::COMMAND",
        distinct(processes, |process| info(process).command.join(" ")),
    );
    list.add(
        "NCCL::JOB",
        distinct(processes, |process| {
            info(process).environment.job.unwrap_or_default()
        }),
    );
    list.add(
        "NCCL::LAUNCHER",
        distinct(processes, |process| {
            info(process).environment.launcher.unwrap_or_default()
        }),
    );
    let node_name = |process: &Process| {
        let ProcessInfo {
            host, environment, ..
        } = info(process);
        let name = environment.node_name.filter(|name| *name != host);
        name.map_or_else(String::new, |name| format!("{host}: {name}"))
    };
    list.add("NCCL::NODE_NAMES", distinct(processes, node_name));
    list.add(
        "NCCL::PLUGIN_VERSION",
        distinct(processes, |process| info(process).plugin_version),
    );
    list.add("NCCL::BLIND_SPOTS", lines(blind_spots::lines(processes)));
    list.add("NCCL::WRITER_VERSION", env!("CARGO_PKG_VERSION").to_owned());
}

fn clocks(list: &mut List, processes: &[Process]) {
    let clock = |process: &Process| process.sidecar.clock.clone();
    list.add(
        "NCCL::CLOCK::SOURCE",
        distinct(processes, |process| clock(process).source),
    );
    list.add(
        "NCCL::CLOCK::CALIBRATION",
        distinct(processes, |process| {
            format!("{:?}", clock(process).calibration).to_lowercase()
        }),
    );
    let most = |value: fn(&Process) -> u64| processes.iter().map(value).max().unwrap_or(0);
    let residual = most(|process| process.sidecar.clock.residual_ns);
    let uncertainty = most(|process| process.sidecar.clock.uncertainty_ns);
    list.add("NCCL::CLOCK::RESIDUAL_NS", residual.to_string());
    list.add("NCCL::CLOCK::UNCERTAINTY_NS", uncertainty.to_string());
    let gpus = || processes.iter().flat_map(|p| &p.sidecar.gpu_clocks);
    for calibration in GpuCalibration::ALL {
        let name = calibration.name();
        let such = || gpus().filter(|gpu| gpu.clock.calibration == calibration);
        list.number(
            &format!("NCCL::GPU_CLOCK::{name}::RANKS"),
            such().count() as u64,
        );
        let residual = such().map(|gpu| gpu.clock.residual_ns).max();
        list.number(
            &format!("NCCL::GPU_CLOCK::{name}::RESIDUAL_NS"),
            residual.unwrap_or(0),
        );
    }
    list.add(
        "NCCL::GPU_CLOCK::LIST",
        lines(processes.iter().flat_map(gpu_clocks)),
    );
}

/// The clock of each communicator rank's GPU, as in `… comm 0x5 rank 3: BOUNDED, residual 2400 ns, drift -12 ppb, bounds
/// 20 + 40`: so many from below and from above.
fn gpu_clocks(process: &Process) -> impl Iterator<Item = String> {
    let sidecar = &process.sidecar;
    sidecar.gpu_clocks.iter().map(|gpu| {
        let comm = sidecar.comms.get(index(gpu.comm)).map_or(0, |comm| comm.id);
        format!(
            "{}: comm {comm:#x} rank {}: {}, residual {} ns, drift {} ppb, bounds {} + {}{}{}",
            sidecar.part,
            gpu.rank,
            gpu.clock.calibration.name(),
            gpu.clock.residual_ns,
            gpu.clock.drift_ppb(),
            gpu.clock.bounds.0,
            gpu.clock.bounds.1,
            match gpu.clock.knots.len() {
                0..=2 => String::new(),
                knots => format!(", {} lines", knots - 1),
            },
            match (gpu.clock.kernel_bounds, gpu.clock.kernels_contradict) {
                (_, true) => ", kernels contradict".to_owned(),
                (0, false) => String::new(),
                (kernels, false) => match gpu.clock.kernel_slack_ns {
                    0 => format!(", {kernels} of kernels"),
                    slack =>
                        format!(", {kernels} of kernels, off by up to {slack} ns more than known"),
                },
            },
        )
    })
}

fn problems(list: &mut List, processes: &[Process]) {
    let mut all = mixtures(processes);
    let of_parts = processes.iter().flat_map(|process| {
        let sidecar = &process.sidecar;
        let own = (!sidecar.process_problem.is_empty()).then_some(&sidecar.process_problem);
        let problems = own.into_iter().chain(&sidecar.problems);
        problems.map(|problem| format!("{}: {problem}", sidecar.part))
    });
    all.extend(of_parts);
    list.number("NCCL::PROBLEMS", all.len() as u64);
    list.add("NCCL::PROBLEM_LIST", lines(all.iter().take(MOST_PROBLEMS)));
}
