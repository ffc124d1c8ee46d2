//! A job's data shared by all its files: ranks and their numbers, processes, waiting, and kernels, which are groups of
//! operations, with their launches.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::error::Result;
use crate::kineto::json;
use crate::kineto::json::{Args, AttributeNames, Track};
use crate::source::Source;
use crate::values;
use crate::values::number;
use analysis::read::{Operation, Tables};
use analysis::{Filter, Lane, MatchedCollectives, ProgramStep, Role, Slice, Trace, program_steps};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::collective::Function;
use nccl_events::ids::index;
use nccl_events::schema::definition::{ProcessId, StreamId, ThreadId};
use nccl_events::sort::Gather;
use otf2::{LocationGroupRef, LocationRef, RegionRef};

/// Processes for locations on no GPU and no thread get numbers above Linux's process ids.
pub(super) const FIRST_OWN_PID: u64 = 1 << 22;

pub(super) struct Job<'a> {
    pub(super) source: Source<'a>,
    pub(super) tables: Tables,
    pub(super) kernels: Kernels,
    pub(super) attributes: AttributeNames,
    pub(super) ranks: Vec<u32>,
    steps: Vec<Vec<ProgramStep>>,
    /// Those that the program itself calls torch.profiler's: thread, begin and region.
    steps_of_torch: BTreeSet<(LocationRef, u64, RegionRef)>,
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
    pub(super) fn new(source: &Source<'a>) -> Result<Self> {
        let trace = source.trace;
        let mut tables = Tables::read(trace, source.progress)?;
        let steps = program_steps(trace, &mut tables, &steps_of_run(trace), source.progress)?;
        let of_torch = |step: &&ProgramStep| trace.region_name(step.region) == json::STEPS_OF_TORCH;
        let steps_of_torch = steps.iter().flatten().filter(of_torch);
        let steps_of_torch = steps_of_torch.map(|step| (step.thread, step.start_ns, step.region)).gather();
        let kernels = Kernels::new(source, &tables)?;
        let instances = MatchedCollectives::new(trace, &tables, source.filter);
        let ranks = values::numbers(&tables.members);
        let by_id = |id: fn(&Operation) -> u64| {
            let ids = tables.operations.rows().map(|operation| id(&operation));
            let mut rows: Vec<(u64, u32)> = ids.zip(0..).filter(|(id, _)| *id != 0).collect();
            rows.sort_unstable();
            rows
        };
        let no_id = (0..).zip(tables.operations.rows()).filter(|(_, operation)| operation.event == 0);
        let member = |member| tables.members.row(member).location;
        let derived = no_id
            .map(|(row, operation)| ((member(operation.member), operation.start_ns, operation.function), row))
            .collect();
        let (operations, calls) = (by_id(|operation| operation.event), by_id(|operation| operation.parent));
        let attributes = AttributeNames::from_trace(trace);
        let (groups, elements) = (Vec::new(), Vec::new());
        let (owners, locations) = (BTreeMap::new(), vec![Vec::new(); ranks.len()]);
        let mut job = Self {
            source: *source,
            tables,
            kernels,
            attributes,
            ranks,
            steps,
            steps_of_torch,
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

    /// The steps of the program on a rank, in time order.
    pub(super) fn steps(&self, rank: u32) -> &[ProgramStep] {
        self.steps.get(index(rank)).map_or(&[], Vec::as_slice)
    }

    /// Whether the range is one of PyTorch's own steps, which is written as a step of its rank.
    pub(super) fn is_written_as_step(&self, slice: &Slice) -> bool {
        self.steps_of_torch.contains(&(slice.location, slice.start_ns, slice.region))
    }

    /// The number of ranks of the job, including ranks that were not recorded.
    pub(super) fn world_size(&self) -> usize {
        values::world_size(&self.tables.members, &self.ranks)
    }

    pub(super) fn process(&self, rank: u32) -> LocationGroupRef {
        self.tables.members.job_ranks[index(rank)].process
    }

    pub(super) fn process_id(&self, process: LocationGroupRef) -> Option<u64> {
        self.source.trace.group_property(process, ProcessId)
    }

    /// The index of a rank's GPU in its process, if known; else 0.
    pub(super) fn device(&self, rank: u32) -> u64 {
        let group = self.tables.members.job_ranks[index(rank)].group;
        let definition = self.source.trace.definitions.location_groups.get(&group);
        definition.and_then(|group| number(self.source.trace, &group.properties, "ordinal")).unwrap_or(0)
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
        let group_rank = ranks().find(|(_, rank)| rank.group == group);
        group_rank.or_else(|| ranks().find(|(_, rank)| rank.process == trace.process(group))).map(|(rank, _)| rank)
    }

    fn stream_id(&self, location: LocationRef) -> Option<u64> {
        self.source.trace.location_property(location, StreamId).map(u64::from)
    }

    /// A location's thread id: the system's, or else a number that the system never uses.
    pub(super) fn thread(&self, location: LocationRef) -> u64 {
        self.source.trace.location_property(location, ThreadId).unwrap_or(FIRST_OWN_PID + (location.get() >> 32))
    }

    /// The stream number for a location's kernels: CUPTI's, or, for a communicator, one that no stream of the rank has.
    pub(super) fn stream_number(&self, rank: u32, location: LocationRef, track: Track) -> u64 {
        self.stream_id(location).unwrap_or_else(|| {
            self.locations_of(rank).filter_map(|location| self.stream_id(location)).max().unwrap_or(0) + track.tid
        })
    }

    /// Where a location's kernels are shown: streams from 1 on or, if no kernels were recorded, communicators.
    pub(super) fn stream(&self, rank: u32, location: LocationRef) -> Track {
        let member = |location: LocationRef| self.source.trace.member_of(location).unwrap_or(location);
        let own = member(location);
        let has_kernels = |location: &LocationRef| {
            let kind = self.source.trace.location_kind(*location);
            kind == Some(LocationKind::Stream)
                || kind == Some(LocationKind::Communicator) && member(*location) == *location
        };
        let before = self.locations_of(rank).filter(has_kernels).take_while(|location| *location != own).count();
        Track { pid: self.device(rank), tid: before as u64 + 1 }
    }

    pub(super) fn has_streams(&self, rank: u32) -> bool {
        let trace = self.source.trace;
        self.locations_of(rank)
            .any(|location| trace.location_kind(location) == Some(LocationKind::Stream) && trace.has_events(location))
    }

    /// The number of a location in the file of a rank; threads that belong to another rank follow its own locations.
    pub(super) fn number_on_rank(&self, rank: u32, location: LocationRef) -> u64 {
        let number = |rank: u32| self.locations[index(rank)].partition_point(|other| *other < location) as u64 + 1;
        match self.owners.get(&location) {
            Some(owner) if *owner != rank => self.locations[index(rank)].len() as u64 + number(*owner),
            _ => number(rank),
        }
    }

    /// The rank whose file shows a lane: that of its records or, if unknown here, that of their location.
    pub(super) fn rank_of_lane(&self, lane: Lane) -> u32 {
        let owner = |location: LocationRef| self.owners.get(&location).copied();
        lane.member(self.source.trace).and_then(owner).or_else(|| owner(lane.location)).unwrap_or(0)
    }

    /// The ranks of a process that the filter keeps.
    pub(super) fn wanted_of_process(&self, process: LocationGroupRef) -> impl Iterator<Item = u32> + '_ {
        let members = &self.tables.members;
        let is_wanted = |member: &u32| self.source.wants_rank(members.row(*member).location);
        let ranks = (0..).zip(&members.job_ranks).filter(move |(_, rank)| rank.process == process);
        ranks.filter(move |(_, rank)| rank.members.iter().any(is_wanted)).map(|(rank, _)| rank)
    }

    /// The first rank of a rank's process, to which the process's threads belong.
    pub(super) fn first_of_process(&self, rank: u32) -> u32 {
        let process = self.process(rank);
        let mut ranks = (0..).zip(&self.tables.members.job_ranks);
        ranks.find(|(_, rank)| rank.process == process).map_or(rank, |(first, _)| first)
    }

    pub(super) fn operation(&self, event: u64) -> Option<u32> {
        find(&self.operations, event)
    }

    /// The operation that a region instance shows.
    pub(super) fn row_of(&self, slice: &Slice) -> Option<u32> {
        let trace = self.source.trace;
        trace.fields_of(&slice.attributes).event.and_then(|event| self.operation(event)).or_else(|| {
            let key = (trace.member_of(slice.location)?, slice.began_ns(), slice.region);
            self.derived.get(&key).copied()
        })
    }

    pub(super) fn row_of_call(&self, call: u64) -> Option<u32> {
        find(&self.calls, call)
    }

    /// Adds the arguments that PyTorch's profiler gives the kernel of a collective.
    pub(super) fn add_collective(&self, row: u32, args: &mut Args) {
        let (trace, members) = (self.source.trace, &self.tables.members);
        let operation = self.tables.operations.row(index(row));
        let member = members.row(operation.member);
        let (number, size) = (member.communicator, members.size(member.communicator));
        let name = trace.function_name(operation.function);
        let function = Function::from_region(&name);
        let is_root = operation.partner == member.rank;
        let known = self.elements.binary_search_by_key(&row, |(row, ..)| *row);
        let (_, count, datatype) = known.ok().map_or((0, 0, ""), |at| self.elements[at]);
        let elements = |function: Function| function.elements(count, size as u64, is_root);
        let (given, gotten) = function.map_or((count, count), elements);
        args.text("Collective name", json::collective(&name));
        args.number("In msg nelems", given);
        args.number("Out msg nelems", gotten);
        args.number("Group size", size);
        args.text("dtype", json::datatype(datatype));
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
        let instance =
            self.instances.instance_of_operation(row).and_then(|number| self.instances.all.get(index(number)));
        let Some(instance) = instance.filter(|instance| instance.is_comparable()) else {
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
        values::ranks_of_communicator(&self.tables.members, &self.ranks, communicator)
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

/// Of the whole run, so that numbers do not depend on what is exported. A program that names PyTorch's steps has these.
fn steps_of_run(trace: &Trace) -> Filter {
    let mut regions = trace.definitions.regions.keys();
    let has_theirs = regions.any(|region| trace.region_name(*region) == json::STEPS_OF_TORCH);
    Filter { step: has_theirs.then(|| json::STEPS_OF_TORCH.to_owned()), ..Filter::default() }
}

fn find<T: Copy>(rows: &[(u64, T)], id: u64) -> Option<T> {
    rows.get(rows.partition_point(|(known, _)| *known < id)).filter(|(known, _)| *known == id).map(|(_, row)| *row)
}

/// The operations of a rank that ran at the same time. A communicator runs one kernel after the other.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) member: u32,
    /// Its first operation; the enclosing one, if the others are parts of a collective.
    pub(super) operation: u32,
    /// Those with events of their own, or the one that stands alone.
    pub(super) operations: u32,
    pub(super) start_ns: u64,
    pub(super) stop_ns: u64,
    /// The id of the launch; if that is unknown, of the operation, whose enqueueing stands for the launch.
    pub(super) launch: u64,
    pub(super) launched_ns: Option<u64>,
    pub(super) is_measured: bool,
}

#[derive(Debug, Default)]
pub(super) struct Kernels {
    pub(super) all: Vec<Kernel>,
    of_operation: Vec<Option<u32>>,
    by_launch: Vec<(u64, u32)>,
}

impl Kernels {
    pub(super) fn new(source: &Source<'_>, tables: &Tables) -> Result<Self> {
        let starts = launch_starts(source)?;
        let operations = &tables.operations;
        let mut rows: Vec<(u32, _)> =
            (0..).zip(operations.rows()).filter(|(_, operation)| !operation.is_unfinished).collect();
        let is_message = |sequence| sequence == analysis::read::NO_SEQUENCE;
        rows.sort_by_key(|(row, operation)| {
            // What consists of messages has no event of its own.
            let is_part = (is_message(operation.sequence), operation.event != 0);
            (operation.member, operation.start_ns, Reverse(operation.stop_ns), is_part, *row)
        });
        let mut found = Self { of_operation: vec![None; operations.len()], ..Self::default() };
        // The last kernel with known times, and the last with only its enqueueing known.
        let mut last: [Option<usize>; 2] = [None; 2];
        for (row, operation) in rows {
            let is_enqueueing = operation.timing == Some(Timing::Enqueue);
            let events = [operation.launch, operation.event];
            let launched = events.into_iter().find_map(|event| Some((event, find(&starts, event)?)));
            let (launch, launched_ns) = launched.map_or((0, None), |(event, start_ns)| (event, Some(start_ns)));
            let joined = last[usize::from(is_enqueueing)].filter(|at| {
                let kernel = &found.all[*at];
                let is_same = if is_enqueueing { kernel.launch == launch } else { operation.start_ns < kernel.stop_ns };
                kernel.member == operation.member && is_same
            });
            let is_measured = operation.timing.is_none_or(Timing::is_measured);
            let at = joined.unwrap_or(found.all.len());
            if joined.is_some() {
                let kernel = &mut found.all[at];
                kernel.operations += 1;
                kernel.stop_ns = kernel.stop_ns.max(operation.stop_ns);
                kernel.is_measured |= is_measured;
                // A collective made of messages is enqueued as these messages.
                if kernel.launch == 0 {
                    (kernel.launch, kernel.launched_ns) = (launch, launched_ns);
                }
            } else {
                last[usize::from(is_enqueueing)] = Some(at);
                found.all.push(Kernel {
                    member: operation.member,
                    operation: row,
                    operations: u32::from(operation.event != 0),
                    start_ns: operation.start_ns,
                    stop_ns: operation.stop_ns,
                    launch,
                    launched_ns,
                    is_measured,
                });
            }
            found.of_operation[index(row)] = u32::try_from(at).ok();
        }
        // A collective whose messages have not ended stands alone.
        found.all.iter_mut().for_each(|kernel| kernel.operations = kernel.operations.max(1));
        let launches = (0..).zip(&found.all).filter(|(_, kernel)| kernel.launch != 0);
        found.by_launch = launches.map(|(number, kernel)| (kernel.launch, number)).collect();
        found.by_launch.sort_unstable();
        found.by_launch.dedup_by_key(|(launch, _)| *launch);
        Ok(found)
    }

    /// The number of an operation's kernel; `None` if the operation had not ended.
    pub(super) fn kernel_of_operation(&self, row: u32) -> Option<u32> {
        self.of_operation.get(index(row)).copied().flatten()
    }

    /// The number of the kernel launched by a launch, or by the enqueueing that stands for it.
    pub(super) fn kernel_of_launch(&self, event: u64) -> Option<u32> {
        find(&self.by_launch, event)
    }

    pub(super) fn get(&self, number: u32) -> &Kernel {
        &self.all[index(number)]
    }

    pub(super) fn kernels_of_member(&self, member: u32) -> std::ops::Range<usize> {
        self.all.partition_point(|kernel| kernel.member < member)
            ..self.all.partition_point(|kernel| kernel.member <= member)
    }
}

/// Event ids and starts of the launches and of the enqueueings of operations, ascending.
fn launch_starts(source: &Source<'_>) -> Result<Vec<(u64, u64)>> {
    let trace = source.trace;
    let threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
    let found = source.each_location(&threads, |location| {
        let mut found = Vec::new();
        trace.slices(location, |slice| {
            let is_wanted = match trace.region(slice.region).map(|region| region.class) {
                Some(RegionClass::Launch) => true,
                Some(RegionClass::Enqueue) => {
                    matches!(slice.role, Some(Role::Call(Kind::Coll | Kind::P2p | Kind::CeColl)))
                }
                _ => false,
            };
            let event = trace.fields_of(&slice.attributes).event.filter(|_| is_wanted);
            found.extend(event.map(|event| (event, slice.start_ns)));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    })?;
    let mut found = found.concat();
    found.sort_unstable();
    Ok(found)
}
