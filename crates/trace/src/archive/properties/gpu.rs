//! The archive's statements about the GPUs of all processes: properties `NCCL::GPU::…`.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::processes::Process;
use nccl_events::schema::{Lines, Most, Statements, Sum};
use nccl_events::sort::Gather;
use process_model::links::gpu_work::definition::SampleClockDefinition;

/// Adds the GPU properties. Numbers that are 0 are left out.
pub(super) fn of_archive(statements: &mut Statements, processes: &[Process]) {
    let of = || processes.iter().map(|process| &process.manifest.gpu_work);
    let backends: BTreeSet<&str> = of().map(|gpu| gpu.backend.as_str()).gather();
    statements.gpu_backend = Lines::of(backends.into_iter().filter(|way| !way.is_empty()));
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
    statements.gpu_clocks_list = Lines::of(lines);
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
    Lines::of(lines)
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
