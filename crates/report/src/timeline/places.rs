//! The rows of the timeline (ranks, and processes without ranks), and the locations in them.

use std::collections::BTreeMap;

use analysis::Trace;
use analysis::tables::{NONE, Tables};
use nccl_events::archive::LocationKind;
use otf2::{LocationGroupRef, LocationRef};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    host: usize,
    /// Index of the rank in the report.
    rank: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct Location {
    #[serde(skip)]
    pub(super) reference: LocationRef,
    name: String,
    kind: &'static str,
    pub(super) row: usize,
    id: u64,
    /// Size of the communicator whose rank it shows.
    ranks: Option<usize>,
    #[serde(skip)]
    pub(super) part: Part,
}

/// What of an archive's location is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All but the ranges of a thread.
    Whole,
    /// Ranges of a thread that are nested as deep. The levels come after the thread in [`Places::locations`].
    Level,
}

impl Location {
    #[cfg(test)]
    pub(super) fn operations(reference: LocationRef) -> Self {
        Self { reference, name: String::new(), kind: OPERATION, row: 0, id: 0, ranks: None, part: Part::Whole }
    }

    pub(super) fn is_operations(&self) -> bool {
        self.kind == OPERATION
    }
}

const OPERATION: &str = "operation";
const RANGE: &str = "range";
/// Ranges of a thread that are nested deeper share the last row.
pub(super) const LEVELS: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) hosts: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Locations with events, in the order of their references.
    pub(super) locations: Vec<Location>,
}

impl Places {
    pub(super) fn of(trace: &Trace, tables: &Tables, names: &[String]) -> Self {
        let mut found = Self::default();
        for (rank, name) in tables.members.job_ranks.iter().zip(names) {
            found.add_row(trace, rank.process, name.clone(), true);
        }
        let threads = ranks_of_threads(tables);
        let mut processes = BTreeMap::new();
        for (row, rank) in tables.members.job_ranks.iter().enumerate() {
            processes.entry(rank.process).or_insert(row);
        }
        let groups: BTreeMap<_, _> =
            tables.members.job_ranks.iter().enumerate().map(|(row, rank)| (rank.group, row)).collect();
        for reference in trace.definitions.locations.keys().copied().filter(|it| trace.has_events(*it)) {
            let group = trace.group(reference);
            let process = trace.process(group);
            let known = rank_of(trace, tables, reference).or_else(|| threads.get(&reference).copied());
            let known = known.or_else(|| groups.get(&group).copied()).or_else(|| processes.get(&process).copied());
            let row = known.unwrap_or_else(|| {
                let row = found.add_row(trace, process, trace.group_name(process).to_owned(), false);
                processes.insert(process, row);
                row
            });
            let comm = trace.rank_of(reference).map(|(comm, _)| trace.members(comm).len());
            let levels = if may_have_ranges(trace, trace.location_kind(reference)) { LEVELS } else { 0 };
            found.locations.push(Location {
                reference,
                name: trace.location_name(reference),
                kind: kind(trace.location_kind(reference)),
                row,
                id: reference.get(),
                ranks: comm,
                part: Part::Whole,
            });
            for _level in 0..levels {
                let name = format!("ranges of {}", trace.location_name(reference));
                let (id, part) = (reference.get(), Part::Level);
                found.locations.push(Location { reference, name, kind: RANGE, row, id, ranks: None, part });
            }
        }
        found
    }

    fn add_row(&mut self, trace: &Trace, process: LocationGroupRef, name: String, is_rank: bool) -> usize {
        let host = trace.host_name(process).unwrap_or("host unknown");
        let host = self.hosts.iter().position(|known| known == host).unwrap_or_else(|| {
            self.hosts.push(host.to_owned());
            self.hosts.len() - 1
        });
        let row = self.rows.len();
        self.rows.push(Row { name, host, rank: is_rank.then_some(row) });
        row
    }
}

/// Whether rows are made for the ranges of a thread; those that have none are removed.
fn may_have_ranges(trace: &Trace, kind: Option<LocationKind>) -> bool {
    let is_thread = matches!(kind, Some(LocationKind::ApiThread | LocationKind::CallbackThread));
    is_thread && trace.statements.counts.others.ranges_user > 0
}

const fn kind(kind: Option<LocationKind>) -> &'static str {
    match kind {
        Some(LocationKind::Communicator | LocationKind::NotRecorded) => OPERATION,
        Some(LocationKind::Stream) => "kernel",
        Some(LocationKind::ApiThread | LocationKind::CallbackThread) => "call",
        Some(LocationKind::Channel) => "channel",
        Some(LocationKind::Connection) => "transfer",
        Some(LocationKind::Slot | LocationKind::NetPlugin) => "step",
        Some(LocationKind::ProxyThread) => "proxy",
        Some(LocationKind::Ranges) => RANGE,
        None => "other",
    }
}

fn rank_of(trace: &Trace, tables: &Tables, location: LocationRef) -> Option<usize> {
    let members = &tables.members;
    let row = members.at(location).or_else(|| members.at(trace.member_of(location)?))?;
    usize::try_from(members.row(row).job_rank).ok()
}

/// A thread of a process with several GPUs belongs to the rank that most of its calls are for.
fn ranks_of_threads(tables: &Tables) -> BTreeMap<LocationRef, usize> {
    let mut calls: Vec<(u64, LocationRef)> =
        tables.calls.event.iter().copied().zip(tables.calls.location.iter().copied()).collect();
    calls.sort_unstable();
    let mut votes: BTreeMap<LocationRef, BTreeMap<u32, usize>> = BTreeMap::new();
    let operations = &tables.operations;
    for (parent, member) in operations.parent.iter().zip(&operations.member).filter(|(_, member)| **member != NONE) {
        let Ok(call) = calls.binary_search_by_key(parent, |(event, _)| *event) else {
            continue;
        };
        let rank = tables.members.row(*member).job_rank;
        *votes.entry(calls[call].1).or_default().entry(rank).or_default() += 1;
    }
    let most = |ranks: BTreeMap<u32, usize>| ranks.into_iter().max_by_key(|(_, votes)| *votes);
    let chosen = votes.into_iter().filter_map(|(thread, ranks)| {
        let (rank, _) = most(ranks)?;
        Some((thread, usize::try_from(rank).ok()?))
    });
    chosen.collect()
}
