//! What Score-P was shown while the job ran: properties `NCCL::SCOREP::…`.

use std::collections::BTreeSet;

use crate::archive::processes::Process;
use schema::{Lines, Statements, Sum};

/// Nothing where there was no Score-P.
pub(super) fn of_archive(said: &mut Statements, processes: &[Process]) {
    let reports = || processes.iter().filter_map(|process| process.manifest.scorep.as_ref());
    let targets: BTreeSet<&str> = reports().map(|report| report.target.as_str()).collect();
    said.scorep_processes = Sum::some(reports().count() as u64);
    said.scorep_target = Lines::of(targets);
    for (name, count) in reports().flat_map(|report| &report.counts) {
        *said.scorep_counts.entry(name.clone()).or_default() += count;
    }
}
