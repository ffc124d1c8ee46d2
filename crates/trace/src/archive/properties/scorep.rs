//! What Score-P was shown while the job ran: properties `NCCL::SCOREP::…`.

use std::collections::{BTreeMap, BTreeSet};

use crate::archive::processes::Process;
use nccl_events::archive::list_of;

/// Names and values. Nothing where there was no Score-P.
#[must_use]
pub(super) fn of_archive(processes: &[Process]) -> Vec<(String, String)> {
    let reports = processes.iter().filter_map(|p| p.manifest.scorep.as_ref());
    let mut targets = BTreeSet::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut number = 0_u64;
    for report in reports {
        number += 1;
        targets.insert(report.target.as_str());
        for (name, count) in &report.counts {
            *counts.entry(name).or_default() += count;
        }
    }
    if number == 0 {
        return Vec::new();
    }
    let targets: Vec<&str> = targets.into_iter().collect();
    let mut properties = vec![
        ("NCCL::SCOREP::PROCESSES".to_owned(), number.to_string()),
        ("NCCL::SCOREP::TARGET".to_owned(), list_of(targets)),
    ];
    let counts = counts.into_iter();
    properties.extend(counts.map(|(name, count)| (format!("NCCL::SCOREP::{name}"), count.to_string())));
    properties
}
