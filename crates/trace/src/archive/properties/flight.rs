//! What the archive says of processes of which only the end was kept: properties `NCCL::FLIGHT::…`.

use crate::archive::processes::Process;
use schema::{Lines, Most, Statements, Sum};

/// Nothing where everything was kept.
pub(super) fn of_archive(said: &mut Statements, processes: &[Process]) {
    let cut: Vec<(&Process, u64)> =
        processes.iter().filter_map(|process| Some((process, process.manifest.complete_since_ns?))).collect();
    said.flight_processes = Sum::some(cut.len() as u64);
    said.flight_complete_from = Most(cut.iter().map(|(process, ns)| process.archive_ns(*ns)).max());
    let lines = cut.iter().map(|(process, ns)| {
        format!(
            "{}: complete from {}; of what began before, {} events were not kept",
            process.name(),
            process.archive_ns(*ns),
            process.manifest.counts.removed
        )
    });
    said.flight_list = Lines::of(lines);
}
