//! The rows of the timeline (ranks, and processes without ranks), and the locations in them.

use std::collections::BTreeMap;

use analysis::Trace;
use analysis::read::Tables;
use nccl_events::archive::LocationKind;
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef};
use schemars::JsonSchema;
use serde::Serialize;

/// A rank, or a process that no rank belongs to.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    name: String,
    /// Index in `hosts`.
    host: usize,
    /// Index in the report's ranks.
    rank: Option<usize>,
}

/// What a location shows; the names are those of classes in the page's style.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Shown {
    Range,
    Operation,
    Kernel,
    Call,
    Channel,
    Transfer,
    Step,
    Proxy,
    Other,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Location {
    #[serde(skip)]
    pub(super) reference: LocationRef,
    name: String,
    kind: Shown,
    /// Index in `rows`.
    pub(super) row: usize,
    /// The reference in the archive.
    id: u64,
    /// Size of the communicator whose rank it shows.
    ranks: Option<usize>,
    #[serde(skip)]
    pub(super) part: Part,
    /// At most, as slices: each has an ENTER and a LEAVE.
    #[serde(skip)]
    pub(super) events: u64,
    /// Whether it is a thread of a process with several ranks.
    #[serde(skip)]
    pub(super) is_shared: bool,
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
    pub(super) fn is_operations(&self) -> bool {
        self.kind == Shown::Operation
    }

    pub(super) fn is_thread(&self) -> bool {
        self.kind == Shown::Call
    }
}

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
        let has_shared = tables.members.has_process_of_several_ranks();
        let mut processes = BTreeMap::new();
        for (row, rank) in tables.members.job_ranks.iter().enumerate() {
            processes.entry(rank.process).or_insert(row);
        }
        let groups: BTreeMap<_, _> =
            tables.members.job_ranks.iter().enumerate().map(|(row, rank)| (rank.group, row)).gather();
        for reference in trace.definitions.locations.keys().copied().filter(|it| trace.has_events(*it)) {
            let group = trace.group(reference);
            let process = trace.process(group);
            let own = rank_of(trace, tables, reference);
            let known = own.or_else(|| groups.get(&group).copied()).or_else(|| processes.get(&process).copied());
            let row = known.unwrap_or_else(|| {
                let row = found.add_row(trace, process, trace.group_name(process).to_owned(), false);
                processes.insert(process, row);
                row
            });
            let comm = trace.rank_of(reference).map(|(comm, _)| trace.members(comm).len());
            let is_shared = has_shared && own.is_none() && is_thread(trace.location_kind(reference));
            let levels = if may_have_ranges(trace, trace.location_kind(reference)) { LEVELS } else { 0 };
            found.locations.push(Location {
                reference,
                name: trace.location_name(reference),
                kind: shown(trace.location_kind(reference)),
                row,
                id: reference.get(),
                ranks: comm,
                part: Part::Whole,
                events: trace.events_of(reference) / 2,
                is_shared,
            });
            for _level in 0..levels {
                let name = format!("ranges of {}", trace.location_name(reference));
                let (id, part) = (reference.get(), Part::Level);
                let (kind, ranks, events) = (Shown::Range, None, 0);
                found.locations.push(Location { reference, name, kind, row, id, ranks, part, events, is_shared });
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
    is_thread(kind) && trace.statements.counts.others.ranges_user > 0
}

const fn is_thread(kind: Option<LocationKind>) -> bool {
    matches!(kind, Some(LocationKind::ApiThread | LocationKind::CallbackThread))
}

const fn shown(kind: Option<LocationKind>) -> Shown {
    match kind {
        Some(LocationKind::Communicator | LocationKind::NotRecorded) => Shown::Operation,
        Some(LocationKind::Stream) => Shown::Kernel,
        Some(LocationKind::ApiThread | LocationKind::CallbackThread) => Shown::Call,
        Some(LocationKind::Channel) => Shown::Channel,
        Some(LocationKind::Connection) => Shown::Transfer,
        Some(LocationKind::Slot | LocationKind::NetPlugin) => Shown::Step,
        Some(LocationKind::ProxyThread) => Shown::Proxy,
        Some(LocationKind::Ranges) => Shown::Range,
        None => Shown::Other,
    }
}

fn rank_of(trace: &Trace, tables: &Tables, location: LocationRef) -> Option<usize> {
    let members = &tables.members;
    let row = members.at(location).or_else(|| members.at(trace.member_of(location)?))?;
    usize::try_from(members.row(row).job_rank).ok()
}
