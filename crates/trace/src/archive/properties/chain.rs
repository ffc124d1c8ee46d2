//! The profiler plugins behind the recording one: properties `NCCL::CHAIN::…`.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::processes::Process;
use journal::part::chain::ChainReport;
use nccl_events::archive::list_of;

/// Names and values. Nothing where no plugin was asked for.
#[must_use]
pub(super) fn of_archive(processes: &[Process]) -> Vec<(String, String)> {
    let reports = || processes.iter().filter_map(|process| process.manifest.chain.as_ref());
    let lines = |list: fn(&ChainReport) -> &[String]| {
        let all: BTreeSet<&str> = reports().flat_map(list).map(String::as_str).collect();
        list_of(all)
    };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in reports().flat_map(|report| &report.counts) {
        *counts.entry(name).or_default() += count;
    }
    let texts =
        [("PLUGINS", lines(|report| &report.plugins)), ("LEFT_OUT", lines(|report| &report.left_out))].into_iter();
    let texts = texts.map(|(name, text)| (format!("NCCL::CHAIN::{name}"), text));
    let numbers = counts.into_iter().map(|(name, count)| (format!("NCCL::CHAIN::{name}"), count.to_string()));
    texts.chain(numbers).collect()
}
