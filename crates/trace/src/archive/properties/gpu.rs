//! What the archive says of GPUs, all processes together: properties `NCCL::GPU::…`.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::processes::Process;
use crate::links::gpu_work::Fates;
use crate::links::gpu_work::definition::SampleClockDefinition;
use nccl_events::archive::list_of;
use nccl_events::gpu::GpuCount;

/// Name and value; numbers that are 0 are left out.
pub(super) fn of_archive(processes: &[Process]) -> Vec<(String, String)> {
    let mut said = Vec::new();
    let mut say = |name: &str, value: String| {
        if !value.is_empty() && value != "0" {
            said.push((format!("NCCL::GPU::{name}"), value));
        }
    };
    let of = || processes.iter().map(|process| &process.manifest.gpu_work);
    let backends: BTreeSet<&str> = of().map(|gpu| gpu.backend.as_str()).collect();
    let backends: Vec<&str> = backends.into_iter().filter(|way| !way.is_empty()).collect();
    say("BACKEND", list_of(backends));
    say("NOTICES", notices(processes));
    let devices: BTreeSet<(&str, &str, &str)> = processes
        .iter()
        .flat_map(|process| {
            let devices = process.manifest.gpu_work.devices.iter();
            let host = process.host();
            devices.filter_map(move |device| Some((host.0, host.1, device.identity()?)))
        })
        .collect();
    say("DEVICES", devices.len().to_string());
    let recorded = GpuCount::ALL.iter().map(|count| count.name());
    let fates = Fates::default().named().map(|(name, _)| name);
    for name in recorded.chain(fates) {
        let counts = of().filter_map(|gpu| gpu.counts.get(name));
        say(name, counts.sum::<u64>().to_string());
    }
    let clocks = || of().flat_map(|gpu| &gpu.clocks);
    let residual = clocks().map(|clock| clock.quality.residual_ns).max();
    say("CLOCKS::RESIDUAL_NS", residual.unwrap_or(0).to_string());
    let uncertainty = clocks().map(|clock| clock.quality.uncertainty_ns).max();
    say("CLOCKS::UNCERTAINTY_NS", uncertainty.unwrap_or(0).to_string());
    let lines = processes.iter().flat_map(|process| {
        let part = &process.manifest.part;
        let clocks = process.manifest.gpu_work.clocks.iter();
        clocks.map(move |clock| format!("{part}: {}", line(clock)))
    });
    let lines: Vec<String> = lines.collect();
    say("CLOCKS::LIST", list_of(lines));
    said
}

/// What was decided and what went wrong: each line once, with how many processes said it where that is not all.
fn notices(processes: &[Process]) -> String {
    let mut said: BTreeMap<&str, u64> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for process in processes {
        let notices = process.manifest.gpu_work.notices.iter();
        let of_process: BTreeSet<&str> = notices.clone().map(String::as_str).collect();
        for notice in of_process {
            *said.entry(notice).or_insert(0) += 1;
        }
        for notice in notices {
            if seen.insert(notice) {
                order.push(notice);
            }
        }
    }
    let all = processes.len() as u64;
    let lines = order.into_iter().map(|notice| match said.get(notice) {
        Some(&some) if some < all => format!("{notice} ({some} of {all} processes)"),
        _ => notice.to_owned(),
    });
    list_of(lines)
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
