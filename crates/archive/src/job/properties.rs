//! The archive's properties: what was recorded, what became of it, from which parts, and how good the clocks are.
//!
//! Names and types are in [`Statements`]. Zeros are left out, except for the kinds of events that came.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::job::communicators::Communicators;
use crate::job::processes::{ArchiveInputs, Process};
use crate::job::{clocks, unreported_events};
use crate::part::manifest::{Manifest, StepRangeDefinition};
use ::clocks::gpu::GpuCalibration;
use journal::part::environment::Level;
use journal::part::{ChainReport, ProcessInfo};
use nccl_events::ids::index;
use nccl_events::schema::{Counts, KnownSum, Lines, Listed, Most, NotMerged, Statements, Sum};
use nccl_events::sort::Gather;
use nccl_events::{Span, event_names};
use regular_files::{FNV_SEED, fnv};
use timeline::definitions::SampleClockDefinition;

/// The archive's statements, except those of [`crate::job::matching`] and [`crate::job::communicators`].
pub(crate) fn statements(parts: &ArchiveInputs<'_>, communicators: &Communicators) -> Statements {
    let processes = parts.processes;
    let names = processes.iter().map(|process| &process.manifest.part);
    let distinct_names: BTreeSet<String> = names.clone().cloned().gather();
    let missing = communicators.all.iter().map(|communicator| communicator.missing + communicator.unlocated);
    let records = processes.iter().map(|process| process.manifest.records);
    let mut statements = Statements {
        parts: Listed { number: Sum::some(distinct_names.len() as u64), lines: Lines::from_entries(names) },
        parts_fingerprint: NotMerged(fingerprint(&distinct_names)),
        parts_left_out: Lines::from_entries(parts.left_out),
        counts: total(processes),
        records: Sum::some(records.sum()),
        // Unknown for a part written while its process ran.
        started: KnownSum(processes.iter().map(|process| process.manifest.started).sum()),
        ranks_missing: Sum::some(missing.sum()),
        collectives_unmatched: Sum::some(communicators.all.iter().map(|comm| comm.unmatched).sum()),
        ranks_unlocated: Sum::some(communicators.all.iter().map(|comm| comm.unlocated).sum()),
        ranks_impossible: ranks_impossible(processes),
        ranks_claimed_twice: Sum::some(communicators.ranks_twice),
        measurement_list: switches(processes),
        problems: problems(processes),
        level: level(parts.level),
        ..Statements::default()
    };
    sources(&mut statements, processes);
    clocks(&mut statements, processes);
    clocks::add_clock_statements(&mut statements, processes, parts.alignment);
    add_gpu_statements(&mut statements, processes);
    flight(&mut statements, processes);
    scorep(&mut statements, processes);
    chain(&mut statements, processes);
    statements
}

pub(crate) fn level(level: Level) -> Lines {
    Lines::from_entries([level.name()])
}

pub(crate) fn total(processes: &[Process]) -> Counts {
    let mut counts = Counts::default();
    for process in processes {
        counts.add(&process.manifest.counts);
    }
    counts
}

/// Lists each distinct value once.
fn distinct(processes: &[Process], value: impl Fn(&Process) -> String) -> Lines {
    let values: BTreeSet<String> = processes.iter().map(value).gather();
    Lines::from_entries(values.iter().filter(|value| !value.is_empty()))
}

fn sources(statements: &mut Statements, processes: &[Process]) {
    let list = |value: fn(&ProcessInfo) -> String| distinct(processes, |process| value(&process.manifest.process));
    statements.version = list(|info| info.nccl_version.clone());
    statements.library = list(|info| info.library.clone());
    statements.table = list(|info| match info.table {
        0 => String::new(),
        table => format!("ncclProfiler_v{table}"),
    });
    statements.events = list(|info| info.events.join(","));
    statements.steps = list(|info| info.steps.clone());
    statements.command = list(|info| info.command.join(" "));
    statements.job = list(|info| match info.job.as_str() {
        "" => info.environment.job.clone().unwrap_or_default(),
        job => job.to_owned(),
    });
    statements.launcher = list(|info| info.environment.launcher.clone().unwrap_or_default());
    statements.node_names = list(|info| {
        let name = info.environment.node_name.as_ref().filter(|name| **name != info.host);
        name.map_or_else(String::new, |name| format!("{}: {name}", info.host))
    });
    statements.plugin_version = list(|info| info.plugin_version.clone());
    statements.unreported = Lines::from_entries(unreported_events::lines(processes));
    statements.writer_version = Lines::from_entries([env!("CARGO_PKG_VERSION")]);
}

fn clocks(statements: &mut Statements, processes: &[Process]) {
    let clock = |process: &Process| process.manifest.clock.clone();
    statements.clock_source = distinct(processes, |process| clock(process).source);
    statements.clock_calibration =
        distinct(processes, |process| format!("{:?}", clock(process).calibration).to_lowercase());
    if processes.iter().all(|process| process.manifest.clock.off_ns().is_some()) {
        let most = |value: fn(&Process) -> u64| Most(Some(processes.iter().map(value).max().unwrap_or(0)));
        statements.clock_residual_ns = most(|process| process.manifest.clock.residual_ns);
        statements.clock_uncertainty_ns = most(|process| process.manifest.clock.uncertainty_ns);
    }
    let gpus = || processes.iter().flat_map(|process| &process.manifest.gpu_clocks);
    for calibration in GpuCalibration::ALL {
        let such = || gpus().filter(|gpu| gpu.clock.calibration == calibration);
        let (ranks, residual_ns) = match calibration {
            GpuCalibration::Bounded => (&mut statements.gpu_clock_bounded, &mut statements.gpu_clock_bounded_ns),
            GpuCalibration::Piecewise => (&mut statements.gpu_clock_piecewise, &mut statements.gpu_clock_piecewise_ns),
            GpuCalibration::UpperOnly => {
                (&mut statements.gpu_clock_upper_only, &mut statements.gpu_clock_upper_only_ns)
            }
            GpuCalibration::None => continue,
            GpuCalibration::Inconsistent => {
                (&mut statements.gpu_clock_inconsistent, &mut statements.gpu_clock_inconsistent_ns)
            }
        };
        *ranks = Sum::some(such().count() as u64);
        *residual_ns = Most::some(such().map(|gpu| gpu.clock.residual_ns).max().unwrap_or(0));
    }
    statements.gpu_clock_list = Lines::from_entries(processes.iter().flat_map(gpu_clocks));
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

fn ranks_impossible(processes: &[Process]) -> Listed {
    let all = processes.iter().flat_map(|process| {
        let Manifest { part, impossible_ranks, .. } = &process.manifest;
        impossible_ranks.iter().map(move |(rank, ranks)| format!("{part}: rank {rank} of {ranks}"))
    });
    let all: Vec<String> = all.collect();
    Listed::some(all.len() as u64, all)
}

fn problems(processes: &[Process]) -> Listed {
    let all = processes.iter().flat_map(|process| {
        let manifest = &process.manifest;
        manifest.all_problems().into_iter().map(|problem| format!("{}: {problem}", manifest.part))
    });
    let all: Vec<String> = all.collect();
    Listed::some(all.len() as u64, all)
}

/// Processes that kept only the end of their recording: `NCCL::FLIGHT::…`. Nothing if all kept everything.
fn flight(statements: &mut Statements, processes: &[Process]) {
    let cut: Vec<(&Process, u64)> =
        processes.iter().filter_map(|process| Some((process, process.manifest.complete_since_ns?))).collect();
    statements.flight_processes = Sum::some(cut.len() as u64);
    statements.flight_complete_from = Most(cut.iter().map(|(process, ns)| process.archive_ns(*ns)).max());
    let lines = cut.iter().map(|(process, ns)| {
        format!(
            "{}: complete from {}; of what began before, {} events were not kept",
            process.name(),
            process.archive_ns(*ns),
            process.manifest.counts.removed
        )
    });
    statements.flight_list = Lines::from_entries(lines);
}

/// What Score-P was shown while the job ran: properties `NCCL::SCOREP::…`. Nothing without Score-P.
fn scorep(statements: &mut Statements, processes: &[Process]) {
    let reports = || processes.iter().filter_map(|process| process.manifest.scorep.as_ref());
    let targets: BTreeSet<&str> = reports().map(|report| report.target.as_str()).gather();
    statements.scorep_processes = Sum::some(reports().count() as u64);
    statements.scorep_target = Lines::from_entries(targets);
    for (name, count) in reports().flat_map(|report| &report.counts) {
        *statements.scorep_counts.entry(name.clone()).or_default() += count;
    }
}

/// The profiler plugins behind the recording one: `NCCL::CHAIN::…`. Nothing if no plugin was asked for.
fn chain(statements: &mut Statements, processes: &[Process]) {
    let reports = || processes.iter().filter_map(|process| process.manifest.chain.as_ref());
    let lines = |list: fn(&ChainReport) -> &[String]| {
        let all: BTreeSet<&str> = reports().flat_map(list).map(String::as_str).gather();
        Lines::from_entries(all)
    };
    statements.chain_plugins = lines(|report| &report.plugins);
    statements.chain_left_out = lines(|report| &report.left_out);
    for (name, count) in reports().flat_map(|report| &report.counts) {
        *statements.chain_counts.entry(name.clone()).or_default() += count;
    }
}

/// The times when recording was switched, one per line: properties `NCCL::MEASUREMENT::…`.
fn switches(processes: &[Process]) -> Lines {
    let mut lines = Vec::new();
    for process in processes {
        for switch in &process.manifest.switches {
            let at = process.archive_ns(switch.ns);
            let what = if switch.is_on { "on" } else { "off" };
            let by = match switch.steps {
                Some(StepRangeDefinition { first, last, rank, is_named }) => {
                    let range = Span { first, last };
                    let of_rank = if rank >= 0 { format!(" of rank {rank}") } else { String::new() };
                    match is_named {
                        true if range.is_empty() => format!("a step, before collective {first}{of_rank}"),
                        true => format!("a step, collectives {range}{of_rank}"),
                        false => format!("steps {range}{of_rank}"),
                    }
                }
                None if switch.by_signal => "a signal".to_owned(),
                None => "the control file".to_owned(),
            };
            let events = event_names(switch.events).join(",");
            lines.push((at, format!("{at}: {}: {what}, events {events}, by {by}", process.name())));
        }
    }
    nccl_events::sort::sort(&mut lines);
    Lines::from_entries(lines.into_iter().map(|(_, line)| line))
}

/// Adds the properties of all processes' GPUs, `NCCL::GPU::…`. Numbers that are 0 are left out.
pub(super) fn add_gpu_statements(statements: &mut Statements, processes: &[Process]) {
    let of = || processes.iter().map(|process| &process.manifest.gpu_work);
    let backends: BTreeSet<&str> = of().map(|gpu| gpu.backend.as_str()).gather();
    statements.gpu_backend = Lines::from_entries(backends.into_iter().filter(|way| !way.is_empty()));
    statements.gpu_notices = notices(processes);
    let devices: BTreeSet<(&str, &str, &str)> = processes
        .iter()
        .flat_map(|process| {
            let devices = process.manifest.gpu_work.devices.iter();
            let host = process.host();
            devices.filter_map(move |device| Some((host.0, host.1, device.identity()?)))
        })
        .gather();
    statements.gpu_devices = Sum::some(devices.len() as u64);
    for (name, number) in of().flat_map(|gpu| &gpu.counts) {
        if let Some(sum) = statements.gpu_counts.get_mut(name) {
            *sum += number;
        }
    }
    let qualities = || of().flat_map(|gpu| &gpu.clocks).map(|clock| &clock.quality);
    statements.gpu_clocks_residual_ns = Most::some(qualities().map(|quality| quality.residual_ns).max().unwrap_or(0));
    statements.gpu_clocks_uncertainty_ns =
        Most::some(qualities().map(|quality| quality.uncertainty_ns).max().unwrap_or(0));
    let lines = processes.iter().flat_map(|process| {
        let part = &process.manifest.part;
        process.manifest.gpu_work.clocks.iter().map(move |clock| format!("{part}: {}", line(clock)))
    });
    statements.gpu_clocks_list = Lines::from_entries(lines);
}

/// Decisions and failures: each line once, with the number of processes it holds for unless it holds for all.
fn notices(processes: &[Process]) -> Lines {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for process in processes {
        let mut of_process: BTreeSet<&str> = BTreeSet::new();
        for notice in process.manifest.gpu_work.notices.iter().filter(|notice| of_process.insert(notice)) {
            *counts.entry(notice).or_insert_with(|| {
                order.push(notice);
                0
            }) += 1;
        }
    }
    let all = processes.len() as u64;
    let lines = order.into_iter().map(|notice| match counts.get(notice) {
        Some(&some) if some < all => format!("{notice} ({some} of {all} processes)"),
        _ => notice.to_owned(),
    });
    Lines::from_entries(lines)
}

fn line(clock: &SampleClockDefinition) -> String {
    let device = match clock.ordinal {
        Some(ordinal) => format!("{} of GPU {ordinal}", clock.clock),
        None => clock.clock.clone(),
    };
    let quality = &clock.quality;
    let mut line = format!(
        "{device}: {} samples, residual {} ns, uncertainty {} ns, pace {:+} ppb",
        quality.samples, quality.residual_ns, quality.uncertainty_ns, quality.pace_ppb
    );
    if quality.steps > 0 {
        line.push_str(&format!(", set {} times, by up to {} ns", quality.steps, quality.largest_step_ns));
    }
    if quality.samples < 2 {
        line.push_str(": too few to place times");
    }
    line
}

/// The parts that an archive was made from.
#[derive(Debug, Default)]
pub(crate) struct PresentParts {
    names: BTreeSet<String>,
    number: u64,
    fingerprint: String,
}

impl PresentParts {
    /// The parts of an archive; `None` if the archive does not list them.
    pub(crate) fn from_statements(statements: Statements) -> Option<Self> {
        let Listed { number, lines } = statements.parts;
        (!lines.is_empty()).then(|| Self {
            number: number.0.unwrap_or(lines.len()),
            names: lines.all.into_iter().gather(),
            fingerprint: statements.parts_fingerprint.0,
        })
    }

    /// The first part of this archive that an archive of `parts` would lose: it is not in `directory` either.
    pub(crate) fn gone(&self, parts: &BTreeSet<String>, directory: &Path) -> Option<&String> {
        self.names.iter().find(|part| !parts.contains(*part) && !directory.join(part.as_str()).is_dir())
    }

    /// Whether the archive has all these parts; if it has too many to list them, whether it has exactly these.
    pub(crate) fn has_all(&self, parts: &BTreeSet<String>) -> bool {
        if self.names.len() as u64 == self.number {
            return parts.is_subset(&self.names);
        }
        self.number == parts.len() as u64 && self.fingerprint == fingerprint(parts)
    }

    pub(crate) fn has_more_than(&self, parts: &BTreeSet<String>) -> bool {
        if self.names.len() as u64 == self.number {
            return parts.is_subset(&self.names) && *parts != self.names;
        }
        self.number > parts.len() as u64
    }
}

/// A hash of the names of parts.
pub(crate) fn fingerprint(parts: &BTreeSet<String>) -> String {
    let hash = parts.iter().fold(FNV_SEED, |hash, name| fnv(fnv(hash, name.as_bytes()), b"\n"));
    format!("{hash:016x}")
}
