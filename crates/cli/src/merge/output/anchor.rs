//! The anchor file of the merged archive: Score-P's texts and properties, then NCCL's.

use std::collections::{BTreeMap, BTreeSet};

use schema::{Lines, Statements, within_anchor};

use crate::merge::nccl::Nccl;
use crate::merge::scorep::ScoreP;

/// Score-P promises that no MPI communication is missing.
const COMPLETE: &str = "OTF2::MPI_COMMUNICATION_COMPLETE";

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
    let said = nccls.iter().map(|nccl| Statements::read(nccl.archive.properties()));
    let mut said = said.reduce(|all, other| all.merged(&other)).unwrap_or_default();
    said.merged = Lines::of(creators);
    said.merged_map = Lines::of(map);
    said.merged_clock = Lines::of([clock]);
    let is_complete = said.lacks().next().is_none();
    let mut properties: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in scoreps.iter().flat_map(|it| it.archive.properties()) {
        let value = match name == COMPLETE && !is_complete {
            true => "false",
            false => value,
        };
        properties.entry(name.clone()).or_insert_with(|| value.to_owned());
    }
    properties.extend(said.write());
    text.properties = within_anchor(properties.into_iter().collect());
    text
}
