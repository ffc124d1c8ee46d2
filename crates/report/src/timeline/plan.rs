//! Selects the events that the timeline keeps if an archive is larger than the page: all events in some windows of
//! time, and some operations at other times. The plan needs the analysis only, so it is made before events are read.
//! Also defines the rows of the timeline and the locations in them.

use std::collections::{BTreeMap, BTreeSet};

use analysis::read::{NONE, Operation, Tables};
use analysis::{Analysis, Lane, LaneKind, Trace, try_in_parallel};
use nccl_events::archive::LocationKind;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::sort::Gather;
use otf2::{AttributeRef, AttributeValue, LocationGroupRef, LocationRef};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

/// A window is at most long enough for 1/n of the events that all windows together may have.
const SHARES: u64 = 32;
/// Number of windows that are spread evenly, to show the usual behaviour.
const SPREAD: u64 = 16;
/// Maximum number of windows for each cause, for slow steps, and for operations that had not ended.
const OF_EACH: usize = 3;

/// A time of which all events are kept, unless they do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// Rank by importance; the most important window has 0.
    pub(crate) place: u32,
}

/// The reason for which a call's operation, and thus the call, is kept. If there are several, the smallest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeepReason {
    Chosen,
    /// The operation is in the window with this [`Window::place`], and is kept if the window fits.
    Window(u32),
}

#[derive(Debug)]
pub(crate) struct Plan {
    /// Begin and end of the time that the page shows, in ns.
    pub(crate) span: (u64, u64),
    /// Events that begin later are left out.
    until_ns: u64,
    /// Sorted by time; they do not overlap.
    pub(crate) windows: Vec<Window>,
    /// Maximum number of events in all windows together.
    pub(crate) most_in_windows: u64,
    /// Number of equal parts of the time. Outside of windows, each location keeps at most one event in each part.
    pub(crate) samples: u64,
    /// Indexed by row of the operation: whether it is kept in any case, also outside of windows.
    chosen: Vec<bool>,
    /// Ids of the calls of these operations and of those in windows, ascending, with the reason.
    calls: Vec<(u64, KeepReason)>,
}

impl Plan {
    /// Plans to keep about `most` events. `events` has the maximum number of events of each location. Events that begin
    /// after `until_ns` are left out.
    pub(crate) fn new(analysis: &Analysis, span: (u64, u64), until_ns: Option<u64>, most: u64, events: &[u64]) -> Self {
        let until_ns = until_ns.unwrap_or(u64::MAX);
        let operations = &analysis.tables.operations;
        // Estimate the events in the selected time from its share of the operations. Without operations in it, the
        // number of other events is unknown.
        let wanted =
            operations.rows().filter(|operation| operation.stop_ns >= span.0 && operation.start_ns <= until_ns).count()
                as u64;
        let in_span =
            |events: u64| if wanted == 0 { events } else { (events * wanted).div_ceil(operations.len() as u64) };
        let events: Vec<u64> = events.iter().map(|events| in_span(*events)).collect();
        let all: u64 = events.iter().sum();
        if all <= most {
            let (windows, chosen, calls) = Default::default();
            return Self { span, until_ns, windows, most_in_windows: all, samples: u64::MAX, chosen, calls };
        }
        let most_in_windows = most / 2;
        let length_ns = u128::from(span.1 - span.0) * u128::from(most_in_windows) / u128::from(SHARES * all);
        let length_ns = u64::try_from(length_ns).unwrap_or(u64::MAX).max(1);
        let windows = windows(&moments(analysis, span, length_ns), span, length_ns);
        let chosen = chosen(analysis, span, most / 4);
        let tables = &analysis.tables;
        let with = |row: u32, operation: &Operation| {
            if chosen[large(row)] {
                Some(KeepReason::Chosen)
            } else {
                window_of(&windows, operation.start_ns, operation.stop_ns)
                    .map(|window| KeepReason::Window(window.place))
            }
        };
        let called = (0..).zip(tables.operations.rows()).filter(|(_, operation)| operation.parent != 0);
        // A launch ends before its call, which says that both belong together.
        let ids = |operation: &Operation| [operation.parent, operation.launch].into_iter().filter(|id| *id != 0);
        let kept = called.filter_map(|(row, operation)| Some((with(row, &operation)?, operation)));
        let mut calls: Vec<_> =
            kept.flat_map(|(reason, operation)| ids(&operation).map(move |id| (id, reason))).collect();
        calls.par_sort_unstable();
        calls.dedup_by_key(|(id, _)| *id);
        let samples = fitting(most / 4, events.iter().map(|events| (*events, 1)));
        Self { span, until_ns, windows, most_in_windows, samples, chosen, calls }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.samples == u64::MAX
    }

    pub(crate) const fn wants(&self, begin_ns: u64, end_ns: u64) -> bool {
        end_ns >= self.span.0 && begin_ns <= self.until_ns
    }

    /// The most important window that overlaps an interval.
    pub(crate) fn window(&self, begin_ns: u64, end_ns: u64) -> Option<Window> {
        window_of(&self.windows, begin_ns, end_ns)
    }

    pub(crate) fn is_chosen(&self, row: u32) -> bool {
        self.chosen.get(large(row)) == Some(&true)
    }

    /// The reason to keep the call with this id; `None` if its operation is not kept.
    pub(crate) fn call(&self, id: u64) -> Option<KeepReason> {
        let at = self.calls.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.calls[at].1)
    }

    /// The index of the part that contains a time, if the span has `parts` equal parts.
    pub(crate) fn part(&self, at_ns: u64, parts: u64) -> usize {
        part(self.span, at_ns, parts)
    }
}

fn part((begin_ns, end_ns): (u64, u64), at_ns: u64, parts: u64) -> usize {
    let at_ns = at_ns.clamp(begin_ns, end_ns) - begin_ns;
    let part = u128::from(at_ns) * u128::from(parts) / (u128::from(end_ns - begin_ns) + 1);
    usize::try_from(part).unwrap_or(usize::MAX)
}

fn window_of(windows: &[Window], begin_ns: u64, end_ns: u64) -> Option<Window> {
    let first = windows.partition_point(|window| window.end_ns < begin_ns);
    let reached = windows[first..].iter().take_while(|window| window.begin_ns <= end_ns);
    reached.min_by_key(|window| window.place).copied()
}

/// The largest limit on members per group that keeps the total weight within `most`. `groups` are the number of members
/// and the weight of a member.
fn fitting(most: u64, groups: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    let weight = |members: u64| groups.clone().map(|(all, weight)| all.min(members) * weight).sum::<u64>();
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if weight(middle) <= most { low = middle } else { high = middle - 1 }
    }
    low
}

/// Times to look at, the most important first: what had not ended, what the causes did, what took far longer than
/// others of its class, the slowest steps, begin and end, and some in between.
fn moments(analysis: &Analysis, span: (u64, u64), length_ns: u64) -> Vec<(u64, u64)> {
    let Analysis { tables, instances, report, .. } = analysis;
    let mut moments = vec![(span.1.saturating_sub(length_ns), span.1)];
    let mut open: Vec<(u64, u64)> =
        tables.operations.rows().filter(|operation| operation.is_unfinished).map(interval).collect();
    open.sort_unstable();
    moments.extend(open.into_iter().take(OF_EACH));
    for rank in report.causes.iter().filter_map(|cause| cause.rank) {
        let rank_instances = instances.all.iter().filter(|instance| !instance.is_warm_up);
        let rank_instances = rank_instances
            .filter(|instance| instance.last.is_some_and(|last| tables.members.row(last).job_rank == rank));
        let mut worst: Vec<(u64, (u64, u64))> = Vec::new();
        for instance in rank_instances {
            worst.push((instance.skew_ns(), (instance.arrivals.first_ns, instance.arrivals.end_ns)));
            worst.sort_unstable_by(|a, b| b.cmp(a));
            worst.truncate(OF_EACH);
        }
        moments.extend(worst.into_iter().map(|(_, time)| time));
    }
    moments.extend(report.causes.iter().filter_map(|cause| cause.since_ns).map(|ns| (ns, ns)));
    moments.extend(report.anomalies.iter().map(|anomaly| (anomaly.start_ns, anomaly.end_ns)));
    let mut steps: Vec<_> = report.steps.iter().flat_map(|steps| &steps.steps).collect();
    nccl_events::sort::sort_by_key(&mut steps, |step| std::cmp::Reverse(step.duration_ns));
    moments.extend(steps.into_iter().take(OF_EACH).map(|step| (step.start_ns, step.start_ns + step.duration_ns)));
    let first_ns = tables.operations.start_ns.iter().copied().filter(|ns| *ns >= span.0).min().unwrap_or(span.0);
    moments.push((first_ns, first_ns + length_ns));
    let spread = (1..SPREAD).map(|at| first_ns + (span.1.saturating_sub(first_ns)) / SPREAD * at);
    moments.extend(spread.map(|ns| (ns, ns + length_ns)));
    moments
}

const fn interval(operation: Operation) -> (u64, u64) {
    (operation.start_ns, operation.stop_ns)
}

/// Makes disjoint windows around moments, each with a margin. A window longer than `length_ns` is replaced by its begin
/// and its end.
fn windows(moments: &[(u64, u64)], span: (u64, u64), length_ns: u64) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut add = |mut begin_ns: u64, mut end_ns: u64| {
        let next = windows.partition_point(|window| window.end_ns < begin_ns);
        let mut at = next;
        if let Some(there) = windows.get(next).filter(|there| there.begin_ns <= begin_ns) {
            begin_ns = there.end_ns + 1;
            at += 1;
        }
        if let Some(behind) = windows.get(at) {
            end_ns = end_ns.min(behind.begin_ns.saturating_sub(1));
        }
        if begin_ns <= end_ns {
            windows.insert(at, Window { begin_ns, end_ns, place: small(windows.len()) });
        }
    };
    for (begin_ns, end_ns) in moments {
        let room_ns = (end_ns.saturating_sub(*begin_ns) / 8).max(length_ns / 16);
        let begin_ns = begin_ns.saturating_sub(room_ns).clamp(span.0, span.1);
        let end_ns = end_ns.saturating_add(room_ns).clamp(begin_ns, span.1);
        if end_ns - begin_ns <= length_ns {
            add(begin_ns, end_ns);
        } else {
            add(begin_ns, begin_ns + length_ns / 2);
            add(end_ns - length_ns / 2, end_ns);
        }
    }
    windows
}

/// Selects the operations that are kept in any case. For each communicator, these are the longest collective in each of
/// many equal parts of the time, on all its ranks. Unmatched operations are selected likewise for each member.
fn chosen(analysis: &Analysis, span: (u64, u64), most: u64) -> Vec<bool> {
    let Analysis { tables, instances, .. } = analysis;
    let is_in = |begin_ns: u64, end_ns: u64| end_ns >= span.0 && begin_ns <= span.1;
    let units = || {
        let matched = (0..).zip(&instances.all).map(|(number, instance)| Unit {
            group: (instance.communicator, NONE),
            begin_ns: instance.arrivals.first_ns,
            end_ns: instance.arrivals.end_ns,
            id: UnitId::Instance(number),
        });
        let others =
            (0..).zip(tables.operations.rows()).filter(|(row, _)| instances.instance_of_operation(*row).is_none());
        let others = others.map(|(row, operation)| Unit {
            group: (NONE, operation.member),
            begin_ns: operation.start_ns,
            end_ns: operation.stop_ns,
            id: UnitId::Row(row),
        });
        matched.chain(others).filter(|unit| is_in(unit.begin_ns, unit.end_ns))
    };
    let mut groups: BTreeMap<(u32, u32), Group> = BTreeMap::new();
    units().for_each(|unit| groups.entry(unit.group).or_default().all += 1);
    let weight = |(comm, _): (u32, u32)| if comm == NONE { 1 } else { tables.members.recorded(comm) as u64 };
    let parts = fitting(most, groups.iter().map(|(group, counts)| (counts.all, weight(*group))));
    for group in groups.values_mut().filter(|group| group.all > parts) {
        group.longest.resize(usize::try_from(parts).unwrap_or(0), None);
    }
    let mut chosen = vec![false; tables.operations.len()];
    let mut choose = |of: UnitId| match of {
        UnitId::Row(row) => chosen[large(row)] = true,
        UnitId::Instance(number) => {
            let rows = instances.operations(&instances.all[large(number)]).iter();
            rows.for_each(|row| chosen[large(*row)] = true);
        }
    };
    for unit in units() {
        let Some(Group { all, longest }) = groups.get_mut(&unit.group) else {
            continue;
        };
        let length_ns = unit.end_ns.saturating_sub(unit.begin_ns);
        if *all <= parts {
            choose(unit.id);
        } else if let Some(slot) = longest.get_mut(part(span, unit.begin_ns, parts))
            && slot.is_none_or(|(longest_ns, _)| longest_ns < length_ns)
        {
            *slot = Some((length_ns, unit.id));
        }
    }
    groups.values().flat_map(|group| group.longest.iter().flatten()).for_each(|(_, of)| choose(*of));
    chosen
}

/// The units of a communicator, or of one member's unmatched operations.
#[derive(Default)]
struct Group {
    all: u64,
    /// For each part of the time, the length in ns and the id of the longest unit. Empty if all units are kept.
    longest: Vec<Option<(u64, UnitId)>>,
}

/// Operations that are kept together: a matched collective, or a single unmatched operation.
struct Unit {
    /// The communicator, or the member of an operation that was not matched.
    group: (u32, u32),
    begin_ns: u64,
    end_ns: u64,
    id: UnitId,
}

#[derive(Clone, Copy, Debug)]
enum UnitId {
    Instance(u32),
    Row(u32),
}

/// A rank, or a process that no rank belongs to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Row {
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
pub(crate) struct Location {
    #[serde(skip)]
    pub(crate) reference: LocationRef,
    name: String,
    kind: Shown,
    /// Index in `rows`.
    pub(crate) row: usize,
    /// The reference in the archive.
    id: u64,
    /// Size of the communicator whose rank it shows.
    ranks: Option<usize>,
    #[serde(skip)]
    pub(crate) part: LocationPart,
    /// Maximum number of slices, each of which has an ENTER and a LEAVE.
    #[serde(skip)]
    pub(crate) events: u64,
    /// Whether it is a thread of a process with several ranks.
    #[serde(skip)]
    pub(crate) is_shared: bool,
    /// Whether it is read for its lanes only: it is in the row of an unwanted rank, and some lanes are not.
    #[serde(skip)]
    pub(crate) is_for_lanes: bool,
}

/// The part of an archive's location that a location of the timeline shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocationPart {
    /// All events except the ranges of a thread, and records.
    Whole,
    /// The ranges of a thread at one depth of nesting. The levels follow the thread in [`Places::locations`].
    Level,
    /// Records. The lanes follow the location, and its levels.
    Lane(Lane),
}

impl Location {
    pub(crate) fn is_thread(&self) -> bool {
        self.kind == Shown::Call
    }
}

/// Ranges of a thread that are nested deeper share the last row.
pub(crate) const LEVELS: u32 = 8;

/// The rows of the timeline (ranks, and processes without ranks), and the locations in them.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) hosts: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Locations with events, in the order of their references.
    pub(crate) locations: Vec<Location>,
}

impl Places {
    pub(crate) fn new(trace: &Trace, tables: &Tables, names: &[String]) -> otf2::Result<Self> {
        let mut found = Self::default();
        let mut lanes = lanes(trace)?;
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
        for reference in trace.definitions.locations.keys().copied().filter(|location| trace.has_events(*location)) {
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
            let lanes = lanes.remove(&reference).unwrap_or_default();
            let levels = if may_have_ranges(trace, trace.location_kind(reference)) { LEVELS } else { 0 };
            let part_of = |name, kind, part| Location {
                reference,
                name,
                kind,
                row,
                id: reference.get(),
                ranks: None,
                part,
                events: 0,
                is_shared,
                is_for_lanes: false,
            };
            let kind = shown(trace.location_kind(reference));
            found.locations.push(Location {
                ranks: comm,
                events: trace.events_of(reference).saturating_sub(lanes.values().sum()) / 2,
                ..part_of(trace.location_name(reference), kind, LocationPart::Whole)
            });
            for _level in 0..levels {
                let name = format!("ranges of {}", trace.location_name(reference));
                found.locations.push(part_of(name, Shown::Range, LocationPart::Level));
            }
            for (lane, events) in lanes {
                let member = lane.member(trace).and_then(|member| rank_of(trace, tables, member));
                found.locations.push(Location {
                    ranks: comm.filter(|_| lane.shows == LaneKind::Operations),
                    row: member.unwrap_or(row),
                    events,
                    ..part_of(lane.name(trace), Shown::from_lane(lane), LocationPart::Lane(lane))
                });
            }
        }
        Ok(found)
    }

    /// Keeps the locations of wanted rows, and those that wanted lanes are read from.
    pub(crate) fn keep(&mut self, wants: impl Fn(usize) -> bool) {
        let is_wanted = |location: &Location| location.is_shared || wants(location.row);
        let read: BTreeSet<LocationRef> =
            self.locations.iter().filter(|location| is_wanted(location)).map(|location| location.reference).collect();
        self.locations.retain_mut(|location| {
            location.is_for_lanes = location.part == LocationPart::Whole && !is_wanted(location);
            if location.is_for_lanes {
                location.events = 0;
            }
            if location.is_for_lanes { read.contains(&location.reference) } else { is_wanted(location) }
        });
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

/// The lanes of locations, with the number of their records.
fn lanes(trace: &Trace) -> otf2::Result<BTreeMap<LocationRef, BTreeMap<Lane, u64>>> {
    if trace.definitions.parameters.is_empty() {
        return Ok(BTreeMap::new());
    }
    let locations = trace.definitions.locations.keys().copied();
    let lanes = try_in_parallel(locations.filter(|location| trace.has_events(*location)), |location| {
        otf2::Result::Ok((location, trace.lanes(location)?))
    });
    Ok(lanes?.into_iter().gather())
}

impl Shown {
    const fn from_lane(lane: Lane) -> Self {
        match lane.shows {
            LaneKind::Operations => Self::Operation,
            LaneKind::Channel(_) | LaneKind::Phases(_) => Self::Channel,
            LaneKind::Connection(_) => Self::Transfer,
            LaneKind::Slot(..) | LaneKind::Plugin(..) => Self::Step,
        }
    }
}

/// Whether to add levels for the ranges of a thread. Levels without ranges are removed later.
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

/// Limit on the operations that vote for a thread's rank. Of more operations, an even sample is taken.
const MOST: usize = 1_000_000;

nccl_events::fields! {
    struct CallFields {
        event: Event,
    }
}

/// The ranks of calls, by the calls' ids; empty if no process has several ranks. A thread of a process with several
/// GPUs belongs to the rank that most of its calls are for.
#[derive(Debug, Default)]
pub(crate) struct RanksByCall(Vec<(u64, u32)>);

impl RanksByCall {
    pub(crate) fn new(tables: &Tables) -> Self {
        if !tables.members.has_process_of_several_ranks() {
            return Self::default();
        }
        let operations = &tables.operations;
        let rows = (0..operations.len()).step_by(operations.len().div_ceil(MOST).max(1));
        let rows = rows.filter(|row| operations.parent.get(*row) != 0 && operations.member[*row] != NONE);
        let mut ranks: Vec<(u64, u32)> =
            rows.map(|row| (operations.parent.get(row), tables.job_rank(small(row)))).collect();
        ranks.sort_unstable();
        Self(ranks)
    }

    /// If an event is a call, counts its operations by rank in `votes`.
    pub(crate) fn add(
        &self,
        trace: &Trace,
        attributes: &[(AttributeRef, AttributeValue)],
        votes: &mut BTreeMap<u32, u64>,
    ) {
        let CallFields { event: Some(event), .. } = trace.read_fields::<CallFields<'_>>(attributes) else {
            return;
        };
        let first = self.0.partition_point(|(call, _)| *call < event);
        for (_, rank) in self.0[first..].iter().take_while(|(call, _)| *call == event) {
            *votes.entry(*rank).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_disjoint_and_keep_what_is_more_important() {
        let made = windows(&[(100, 200), (190, 250), (0, 1000)], (0, 1000), 160);
        let times: Vec<_> = made.iter().map(|window| (window.begin_ns, window.end_ns, window.place)).collect();
        // 100 … 200 with 12 around; what follows begins behind it; the last is cut to its ends.
        assert_eq!(times, [(0, 80, 2), (88, 212, 0), (213, 260, 1), (920, 1000, 3)]);
        let place = |begin, end| window_of(&made, begin, end).map(|window| window.place);
        assert_eq!([place(81, 87), place(70, 90), place(212, 213), place(950, 951)], [None, Some(0), Some(0), Some(3)]);
    }

    #[test]
    fn small_groups_are_kept_and_large_ones_share_the_rest() {
        let groups = [(10, 1), (1000, 1), (1000, 4)];
        assert_eq!(fitting(510, groups.into_iter()), 100);
        assert_eq!(fitting(7, [(1, 1)].into_iter()), 7);
    }
}
