//! The profiler plugins behind the recording one: properties `NCCL::CHAIN::…`.

use std::collections::BTreeSet;

use crate::archive::processes::Process;
use journal::part::chain::ChainReport;
use schema::{Lines, Statements};

/// Nothing where no plugin was asked for.
pub(super) fn of_archive(said: &mut Statements, processes: &[Process]) {
    let reports = || processes.iter().filter_map(|process| process.manifest.chain.as_ref());
    let lines = |list: fn(&ChainReport) -> &[String]| {
        let all: BTreeSet<&str> = reports().flat_map(list).map(String::as_str).collect();
        Lines::of(all)
    };
    said.chain_plugins = lines(|report| &report.plugins);
    said.chain_left_out = lines(|report| &report.left_out);
    for (name, count) in reports().flat_map(|report| &report.counts) {
        *said.chain_counts.entry(name.clone()).or_default() += count;
    }
}
