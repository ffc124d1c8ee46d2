//! As many events are in the archive as it says were written.

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::Kind;
use otf2::{AttributeRef, AttributeValue, Event, EventKind, RegionRef};

use crate::archive::Trace;
use crate::completeness::Completeness;
use crate::kinds::{Shows, regions};

use super::findings::Findings;
use super::rules::Rule;

/// Counts the events that regions show.
pub(crate) struct Drawn {
    regions: BTreeMap<RegionRef, Shows>,
    /// Kinds that are counted by what threads did.
    by_calls: BTreeSet<Kind>,
    id: Option<AttributeRef>,
    unfinished: Option<AttributeRef>,
    counts: BTreeMap<Kind, u64>,
    marks: u64,
    /// The parts of one event follow each other on its location.
    last: BTreeMap<Kind, u64>,
}

impl Drawn {
    /// Nothing counted yet.
    pub(crate) fn of(trace: &Trace) -> Self {
        let regions = regions(trace);
        let calls = regions.values().filter_map(|shows| match shows {
            Shows::Call(kind) => Some(*kind),
            _ => None,
        });
        Self {
            by_calls: calls.collect(),
            regions,
            id: trace.attribute("nccl.event"),
            unfinished: trace.attribute("nccl.unfinished"),
            counts: BTreeMap::new(),
            marks: 0,
            last: BTreeMap::new(),
        }
    }

    /// The events of the next location follow.
    pub(crate) fn next_location(&mut self) {
        self.last.clear();
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, event: &Event) {
        if self.unfinished.is_some()
            && event.attributes.iter().any(|(attribute, value)| {
                Some(*attribute) == self.unfinished && *value == AttributeValue::U8(1)
            })
        {
            self.marks += 1;
        }
        let EventKind::Enter(region) = event.kind else {
            return;
        };
        let Some(shows) = self.regions.get(&region).copied() else {
            return;
        };
        // Operations are drawn twice: as they were enqueued, and as they ran.
        if matches!(shows, Shows::Operation(kind) if self.by_calls.contains(&kind)) {
            return;
        }
        let mut attributes = event.attributes.iter();
        let id = attributes.find(|(attribute, _)| Some(*attribute) == self.id);
        // What shows no event, such as a call put together from others, has no id.
        let Some((_, AttributeValue::U64(id))) = id else {
            return;
        };
        if self.last.insert(shows.kind(), *id) != Some(*id) {
            *self.counts.entry(shows.kind()).or_insert(0) += 1;
        }
    }

    /// Compares with what the archive says.
    pub(crate) fn end(&self, account: &Completeness, findings: &mut Findings) {
        for kinds in judged_together() {
            let written = |kind: &Kind| {
                let counts = account.kinds.get(&kind.name().to_ascii_lowercase());
                counts.and_then(|counts| counts.get("written")).copied()
            };
            let said: u64 = kinds.iter().filter_map(written).sum();
            let found: u64 = kinds.iter().filter_map(|kind| self.counts.get(kind)).sum();
            if said != found {
                let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
                let names = names.join(" and ");
                let message = format!("{names}: {said} written, {found} are in the archive");
                findings.general(Rule::Drawn, message);
            }
        }
        if self.marks > 0 && account.unfinished() == 0 {
            let message = format!(
                "{} events are marked unfinished, none is counted",
                self.marks
            );
            findings.general(Rule::UnfinishedMark, message);
        }
    }
}

/// All kinds, those together that only the function's name tells apart: NCCL may give none, or another kind's.
fn judged_together() -> Vec<Vec<Kind>> {
    let mut together = vec![
        vec![Kind::Coll, Kind::P2p],
        vec![Kind::CollApi, Kind::P2pApi],
    ];
    let alone = Kind::ALL
        .into_iter()
        .filter(|kind| !together.iter().flatten().any(|other| other == kind));
    let alone: Vec<Vec<Kind>> = alone.map(|kind| vec![kind]).collect();
    together.extend(alone);
    together
}
