//! A job's data shared by all its files: ranks and their numbers, processes, kernels, waiting.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use analysis::read::{Operation, Tables};
use analysis::{MatchedCollectives, Slice};
use nccl_events::archive::LocationKind;
use nccl_events::collective::Function;
use nccl_events::ids::index;
use nccl_events::schema::definition::{ProcessId, StreamId, ThreadId};
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef, RegionRef};

use super::json::{Args, AttributeNames, Track};
use super::kernels::Kernels;
use super::pytorch;
use crate::error::Result;
use crate::ranks;
use crate::source::Source;
use crate::value::number;

/// Processes for locations on no GPU and no thread get numbers above Linux's process ids.
pub(super) const FIRST_OWN_PID: u64 = 1 << 22;

pub(super) struct Job<'a> {
    pub(super) source: Source<'a>,
    pub(super) tables: Tables,
    pub(super) kernels: Kernels,
    pub(super) attributes: AttributeNames,
    pub(super) ranks: Vec<u32>,
    instances: MatchedCollectives,
    /// For each communicator, its job ranks as PyTorch lists them.
    groups: Vec<Option<String>>,
    /// Number and type of operations' elements, by row.
    elements: Vec<(u32, u64, &'a str)>,
    /// Operations by event id, and by the ids of their calls.
    operations: Vec<(u64, u32)>,
    /// Collectives made of messages, which have no id: by location of their rank and begin.
    derived: BTreeMap<(LocationRef, u64, RegionRef), u32>,
    calls: Vec<(u64, u32)>,
    /// The rank of a location; for a thread, the first rank of its process.
    pub(super) owners: BTreeMap<LocationRef, u32>,
    /// The locations of each rank, ascending.
    locations: Vec<Vec<LocationRef>>,
}

impl<'a> Job<'a> {
    pub(super) fn of(source: &Source<'a>) -> Result<Self> {
        let trace = source.trace;
        let tables = Tables::read(trace, source.progress)?;
        let kernels = Kernels::of(source, &tables)?;
        let instances = MatchedCollectives::of(trace, &tables, source.filter);
        let ranks = ranks::numbers(&tables.members);
        let by_id = |id: fn(&Operation) -> u64| {
            let ids = tables.operations.rows().map(|it| id(&it));
            let mut rows: Vec<(u64, u32)> = ids.zip(0..).filter(|(id, _)| *id != 0).collect();
            rows.sort_unstable();
            rows
        };
        let no_id = (0..).zip(tables.operations.rows()).filter(|(_, it)| it.event == 0);
        let member = |member| tables.members.row(member).location;
        let derived = no_id.map(|(row, it)| ((member(it.member), it.start_ns, it.function), row)).collect();
        let (operations, calls) = (by_id(|it| it.event), by_id(|it| it.parent));
        let attributes = AttributeNames::of(trace);
        let (groups, elements) = (Vec::new(), Vec::new());
        let (owners, locations) = (BTreeMap::new(), vec![Vec::new(); ranks.len()]);
        let mut job = Self {
            source: *source,
            tables,
            kernels,
            attributes,
            ranks,
            instances,
            groups,
            elements,
            operations,
            derived,
            calls,
            owners,
            locations,
        };
        job.groups = (0..).zip(&job.tables.members.communicators).map(|(number, _)| job.group_ranks(number)).collect();
        job.elements = job.elements()?;
        let locations = trace.definitions.locations.keys();
        job.owners = locations.filter_map(|location| Some((*location, job.owner(*location)?))).gather();
        for (location, rank) in &job.owners {
            job.locations[index(*rank)].push(*location);
        }
        Ok(job)
    }

    /// Row, number and type of the elements of operations, ascending.
    fn elements(&self) -> Result<Vec<(u32, u64, &'a str)>> {
        let trace = self.source.trace;
        let mut locations = self.source.locations();
        locations.retain(|location| trace.location_kind(*location) == Some(LocationKind::Communicator));
        let all = self.source.each_location(&locations, |location| {
            let mut found = Vec::new();
            trace.slices(location, |slice| {
                let fields = trace.fields_of(&slice.attributes);
                let row = self.row_of(slice);
                found.extend(row.map(|row| (row, fields.count.unwrap_or(0), fields.datatype.unwrap_or(""))));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        })?;
        let mut all = all.concat();
        all.sort_unstable();
        Ok(all)
    }

    /// The number of ranks of the job, including ranks that were not recorded.
    pub(super) fn world_size(&self) -> usize {
        ranks::world_size(&self.tables.members, &self.ranks)
    }

    pub(super) fn process(&self, rank: u32) -> LocationGroupRef {
        self.tables.members.job_ranks[index(rank)].process
    }

    pub(super) fn process_id(&self, process: LocationGroupRef) -> Option<u64> {
        self.source.trace.of_group(process, ProcessId)
    }

    /// The index of a rank's GPU in its process, if known; else 0.
    pub(super) fn device(&self, rank: u32) -> u64 {
        let group = self.tables.members.job_ranks[index(rank)].group;
        let definition = self.source.trace.definitions.location_groups.get(&group);
        definition.and_then(|it| number(self.source.trace, &it.properties, "ordinal")).unwrap_or(0)
    }

    /// The locations of a rank, ascending, including threads of its process that belong to no other rank.
    pub(super) fn locations_of(&self, rank: u32) -> impl Iterator<Item = LocationRef> + '_ {
        self.locations[index(rank)].iter().copied()
    }

    fn owner(&self, location: LocationRef) -> Option<u32> {
        let (trace, members) = (self.source.trace, &self.tables.members);
        if let Some((comm, rank)) = trace.rank_of(location) {
            let communicator = members.communicators.binary_search(&comm).ok()?;
            return members.job_rank(u32::try_from(communicator).ok()?, rank);
        }
        let group = trace.group(location);
        let ranks = || (0..).zip(&members.job_ranks);
        let of_group = ranks().find(|(_, rank)| rank.group == group);
        of_group.or_else(|| ranks().find(|(_, rank)| rank.process == trace.process(group))).map(|(rank, _)| rank)
    }

    fn stream_id(&self, location: LocationRef) -> Option<u64> {
        self.source.trace.of_location(location, StreamId).map(u64::from)
    }

    /// A location's thread id: the system's, or else a number that the system never uses.
    pub(super) fn thread(&self, location: LocationRef) -> u64 {
        self.source.trace.of_location(location, ThreadId).unwrap_or(FIRST_OWN_PID + (location.get() >> 32))
    }

    /// The stream number for a location's kernels: CUPTI's, or, for a communicator, one that no stream of the rank has.
    pub(super) fn stream_number(&self, rank: u32, location: LocationRef, track: Track) -> u64 {
        self.stream_id(location).unwrap_or_else(|| {
            self.locations_of(rank).filter_map(|it| self.stream_id(it)).max().unwrap_or(0) + track.tid
        })
    }

    /// Where a location's kernels are shown: streams from 1 on or, if no kernels were recorded, communicators.
    pub(super) fn stream(&self, rank: u32, location: LocationRef) -> Track {
        let member = |it: LocationRef| self.source.trace.member_of(it).unwrap_or(it);
        let own = member(location);
        let of_kernels = |it: &LocationRef| {
            let kind = self.source.trace.location_kind(*it);
            kind == Some(LocationKind::Stream) || kind == Some(LocationKind::Communicator) && member(*it) == *it
        };
        let before = self.locations_of(rank).filter(of_kernels).take_while(|it| *it != own).count();
        Track { pid: self.device(rank), tid: before as u64 + 1 }
    }

    pub(super) fn has_streams(&self, rank: u32) -> bool {
        let trace = self.source.trace;
        self.locations_of(rank).any(|it| trace.location_kind(it) == Some(LocationKind::Stream) && trace.has_events(it))
    }

    pub(super) fn number_on_rank(&self, rank: u32, location: LocationRef) -> u64 {
        self.locations[index(rank)].partition_point(|it| *it < location) as u64 + 1
    }

    /// The first rank of a rank's process, to which the process's threads belong.
    pub(super) fn first_of_process(&self, rank: u32) -> u32 {
        let process = self.process(rank);
        let mut ranks = (0..).zip(&self.tables.members.job_ranks);
        ranks.find(|(_, it)| it.process == process).map_or(rank, |(first, _)| first)
    }

    pub(super) fn operation(&self, event: u64) -> Option<u32> {
        find(&self.operations, event)
    }

    /// The operation that a region instance shows.
    pub(super) fn row_of(&self, slice: &Slice) -> Option<u32> {
        let trace = self.source.trace;
        trace.fields_of(&slice.attributes).event.and_then(|event| self.operation(event)).or_else(|| {
            let key = (trace.member_of(slice.location)?, slice.start_ns, slice.region);
            self.derived.get(&key).copied()
        })
    }

    pub(super) fn of_call(&self, call: u64) -> Option<u32> {
        find(&self.calls, call)
    }

    /// Adds the arguments that PyTorch's profiler gives the kernel of a collective.
    pub(super) fn add_collective(&self, row: u32, args: &mut Args) {
        let (trace, members) = (self.source.trace, &self.tables.members);
        let operation = self.tables.operations.row(index(row));
        let member = members.row(operation.member);
        let (number, size) = (member.communicator, members.size(member.communicator));
        let name = trace.region_name(operation.function);
        let function = Function::of_region(&name);
        let is_root = operation.partner == member.rank;
        let known = self.elements.binary_search_by_key(&row, |(row, ..)| *row);
        let (_, count, datatype) = known.ok().map_or((0, 0, ""), |at| self.elements[at]);
        let elements = |it: Function| it.elements(count, size as u64, is_root);
        let (given, gotten) = function.map_or((count, count), elements);
        args.text("Collective name", pytorch::collective(&name));
        args.number("In msg nelems", given);
        args.number("Out msg nelems", gotten);
        args.number("Group size", size);
        args.text("dtype", pytorch::datatype(datatype));
        if let Some(comm) = members.communicators.get(index(number)) {
            args.text("Process Group Name", &trace.comm_name(*comm));
        }
        if let Some(ranks) = self.groups.get(index(number)).and_then(Option::as_ref) {
            args.text("Process Group Ranks", ranks);
        }
        let peer = members.job_rank(number, operation.partner).and_then(|rank| self.ranks.get(index(rank)));
        if let (Some(is_send), Some(peer)) = (function.and_then(Function::is_send), peer) {
            args.number(if is_send { "Dst Rank" } else { "Src Rank" }, peer);
        }
    }

    /// Adds how long an operation waited for the last rank of its collective, as far as the clocks allow.
    pub(super) fn add_waiting(&self, row: u32, args: &mut Args) {
        let instance = self.instances.of_operation(row).and_then(|number| self.instances.all.get(index(number)));
        let Some(instance) = instance.filter(|it| it.is_comparable()) else {
            return;
        };
        if let Some(waiting_ns) = instance.waiting_ns(&self.tables, row) {
            let operation = self.tables.operations.row(index(row));
            args.number("nccl.waiting_ns", waiting_ns);
            args.number("nccl.transfer_ns", operation.duration_ns().saturating_sub(waiting_ns));
        }
        args.number("nccl.skew_ns", instance.skew_ns());
        if let Some(last) = instance.last {
            args.number("nccl.last_rank", self.ranks[index(self.tables.members.row(last).job_rank)]);
        }
    }

    /// The job ranks of a communicator; `None` if one of them was not recorded.
    pub(super) fn members_of(&self, communicator: u32) -> Option<Vec<u32>> {
        ranks::of_communicator(&self.tables.members, &self.ranks, communicator)
    }

    /// The same list as PyTorch writes it: of more than 30 ranks, only the first and the last ones.
    fn group_ranks(&self, communicator: u32) -> Option<String> {
        const SHOWN: usize = 30;
        let ranks: Vec<String> = self.members_of(communicator)?.iter().map(u32::to_string).collect();
        let last = ranks.last().filter(|_| ranks.len() > SHOWN);
        Some(match last {
            Some(last) => format!("[{}, ..., {last}]", ranks[..SHOWN - 1].join(", ")),
            None => format!("[{}]", ranks.join(", ")),
        })
    }
}

fn find(rows: &[(u64, u32)], id: u64) -> Option<u32> {
    rows.get(rows.partition_point(|(known, _)| *known < id)).filter(|(known, _)| *known == id).map(|(_, row)| *row)
}
