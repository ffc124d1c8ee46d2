//! What the archive says of processes of which only the end was kept: properties `NCCL::FLIGHT::…`.

use crate::archive::processes::Process;
use nccl_events::archive::list_of;

/// Names and values. Nothing where everything was kept.
#[must_use]
pub(super) fn of_archive(processes: &[Process]) -> Vec<(String, String)> {
    let cut: Vec<(&Process, u64)> =
        processes.iter().filter_map(|process| Some((process, process.manifest.complete_since_ns?))).collect();
    let Some(from) = cut.iter().map(|(process, ns)| process.archive_ns(*ns)).max() else {
        return Vec::new();
    };
    let lines = cut.iter().map(|(process, ns)| {
        format!(
            "{}: complete from {}; of what began before, {} events were not kept",
            process.name(),
            process.archive_ns(*ns),
            process.manifest.counts.removed
        )
    });
    [("PROCESSES", cut.len().to_string()), ("COMPLETE_FROM", from.to_string()), ("LIST", list_of(lines))]
        .map(|(name, value)| (format!("NCCL::FLIGHT::{name}"), value))
        .into()
}
