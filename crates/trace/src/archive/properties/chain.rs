//! The profiler plugins behind the recording one: properties `NCCL::CHAIN::…`.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::processes::Process;

/// Names and values. Nothing where no plugin was asked for.
#[must_use]
pub(super) fn of_archive(processes: &[Process]) -> Vec<(String, String)> {
    let reports = || processes.iter().filter_map(|process| process.manifest.chain.as_ref());
    let plugins: BTreeSet<&str> = reports().flat_map(|report| &report.plugins).map(String::as_str).collect();
    let left_out: BTreeSet<&str> = reports().flat_map(|report| &report.left_out).map(String::as_str).collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in reports().flat_map(|report| &report.counts) {
        *counts.entry(name).or_default() += count;
    }
    let texts = [("PLUGINS", super::lines(plugins)), ("LEFT_OUT", super::lines(left_out))].into_iter();
    let texts = texts.map(|(name, text)| (format!("NCCL::CHAIN::{name}"), text));
    let numbers = counts.into_iter().map(|(name, count)| (format!("NCCL::CHAIN::{name}"), count.to_string()));
    texts.chain(numbers).collect()
}
