//! The anchor file of the merged archive: Score-P's texts and properties, then NCCL's.

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::archive::list_of;
use otf2::Archive;
use schema::within_anchor;

use crate::archive::MERGED;
use crate::merge::nccl::Nccl;
use crate::merge::scorep::ScoreP;

/// The property that says which process is which.
const MAP: &str = "NCCL::MERGED::MAP";
/// The property that says how the clocks were brought together.
const CLOCK: &str = "NCCL::MERGED::CLOCK";

/// Score-P promises that no MPI communication is missing.
const COMPLETE: &str = "OTF2::MPI_COMMUNICATION_COMPLETE";
/// What makes NCCL's communication incomplete.
const INCOMPLETE: [&str; 5] = [
    "NCCL::RANKS_MISSING",
    "NCCL::COLLECTIVES_UNMATCHED",
    "NCCL::RANKS_BEHIND",
    "NCCL::PARTS_LEFT_OUT",
    "NCCL::COUNT::STOPS_LOST",
];

/// What the anchor file says.
#[derive(Debug, Default)]
pub(in crate::merge) struct AnchorText {
    pub(super) creator: String,
    pub(super) machine_name: String,
    pub(super) description: String,
    pub(super) properties: Vec<(String, String)>,
}

/// The anchor file of all archives together.
pub(in crate::merge) fn text(scoreps: &[ScoreP], nccls: &[Nccl], map: &[String], clock: &str) -> AnchorText {
    let mut text = AnchorText::default();
    let creators: BTreeSet<&str> = scoreps.iter().map(|it| it.archive.creator()).collect();
    let creators: Vec<&str> = creators.into_iter().collect();
    let own = concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION"));
    text.creator = format!("{}, {own}", creators.join(", "));
    if let Some(first) = scoreps.first() {
        first.archive.machine_name().clone_into(&mut text.machine_name);
        first.archive.description().clone_into(&mut text.description);
    }
    if text.description.is_empty() {
        "MPI and NCCL: a trace of Score-P's with what NCCL did".clone_into(&mut text.description);
    }
    let is_complete = nccls.iter().all(|nccl| is_complete(&nccl.archive));
    let mut properties: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in scoreps.iter().flat_map(|it| it.archive.properties()) {
        let value = match name == COMPLETE && !is_complete {
            true => "false",
            false => value,
        };
        properties.entry(name.clone()).or_insert_with(|| value.to_owned());
    }
    for (name, value) in nccls.iter().flat_map(|nccl| nccl.archive.properties()) {
        let together = match properties.get(name) {
            Some(before) => together(name, before, value),
            None => value.clone(),
        };
        properties.insert(name.clone(), together);
    }
    properties.insert(MERGED.to_owned(), list_of(creators));
    properties.insert(MAP.to_owned(), list_of(map));
    properties.insert(CLOCK.to_owned(), clock.to_owned());
    properties.retain(|_, value| !value.is_empty());
    text.properties = within_anchor(properties.into_iter().collect());
    text
}

fn is_complete(archive: &Archive) -> bool {
    INCOMPLETE.iter().all(|name| archive.property(name).is_none())
}

/// Whether it counts something. Others can look like numbers, as the job's does.
fn is_number(name: &str) -> bool {
    const COUNTED: [&str; 13] = [
        "COUNT::",
        "CLOCK::",
        "GPU_CLOCK::",
        "MISMATCH::",
        "PXN::",
        "FLIGHT::",
        "PARTS::",
        "PROBLEMS",
        "RECORDS",
        "RANKS_",
        "COLLECTIVES_UNMATCHED",
        "MATCHING_UNKNOWN",
        "MEASUREMENT::",
    ];
    let name = name.strip_prefix("NCCL::").unwrap_or_default();
    COUNTED.iter().any(|counted| name.starts_with(counted))
}

/// A property of two archives of NCCL's together.
fn together(name: &str, a: &str, b: &str) -> String {
    if let (true, Ok(a), Ok(b)) = (is_number(name), a.parse::<u64>(), b.parse::<u64>()) {
        let is_largest = name.ends_with("_NS");
        return match is_largest {
            true => a.max(b),
            false => a.saturating_add(b),
        }
        .to_string();
    }
    let mut lines: Vec<&str> = a.lines().collect();
    lines.extend(b.lines().filter(|line| !a.lines().any(|known| known == *line)));
    list_of(lines)
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn numbers_add_up_and_lines_are_listed_once() {
        assert_eq!(together("NCCL::COUNT::LOST", "2", "3"), "5");
        assert_eq!(together("NCCL::CLOCK::RESIDUAL_NS", "2", "3"), "3");
        assert_eq!(together("NCCL::JOB", "17", "17"), "17");
        assert_eq!(together("NCCL::VERSION", "2.28.9", "2.28.9"), "2.28.9");
        assert_eq!(together("NCCL::PARTS", "a\nb", "b\nc"), "a\nb\nc");
    }
}
