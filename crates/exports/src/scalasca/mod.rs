//! Writes the archive of one communicator in the form that Scalasca's analyser reads.
//!
//! ```text
//!  main ─┬ MPI_Init            shown as ncclCommInitRank
//!        ├ MPI_Allreduce …     shown as ncclAllReduce …, for as long as the rank's operation ran
//!        ├ MPI_Isend, MPI_Irecv  of no length
//!        ├ MPI_Wait            shown as ncclSend or ncclRecv, until the next step is done
//!        └ MPI_Finalize        shown as ncclCommDestroy
//! ```
//!
//! The analyser knows only MPI: regions by canonical name and the file "MPI", one process with one thread per rank.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use analysis::{Instances, Role, Step, Trace};
use nccl_events::schema::COMMUNICATION_COMPLETE;
use nccl_events::sort::Gather;
use otf2::records::{ClockProperties, Comm, Group, Location, LocationGroup, ParadigmRecord, Region, SystemTreeNode};
use otf2::{
    ArchiveWriter, Attributes, Collective, CollectiveOp, CommRef, Event, EventKind, EventWriter, GlobalDefinitions,
    GroupRef, GroupType, LocationGroupRef, LocationGroupType, LocationRef, LocationType, Message, Paradigm,
    ParadigmClass, RegionRef, RegionRole, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

pub mod complete;

/// Time before the first and after the last operation at which ranks begin and end, in ticks.
const AROUND: u64 = 1000;

#[derive(Debug)]
pub struct Communicator<'a> {
    pub name: &'a str,
    pub machine: &'a str,
    pub places: Vec<(&'a str, &'a str)>,
    pub ranks: &'a [Rank],
    pub ticks_per_second: u64,
}

const COMM: CommRef = CommRef::new(0);

impl Communicator<'_> {
    /// Writes the archive `directory/traces.otf2`; returns which events were moved.
    pub fn write(&self, directory: &Path) -> otf2::Result<ShiftedTimes> {
        let mut archive = ArchiveWriter::create(directory, "traces")?;
        archive.set_creator(concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION")))?;
        archive.set_machine_name(self.machine)?;
        archive.set_description("One communicator of NCCL's in the words of MPI, for Scalasca")?;
        archive.set_property(COMMUNICATION_COMPLETE, "true")?;
        let span = self.span();
        let (mut events, mut all) = (Vec::new(), ShiftedTimes::default());
        for (number, rank) in (0..).zip(self.ranks) {
            let location = LocationRef::new(number);
            let mut to = archive.event_writer(location)?;
            let numbers = Numbers { comm: COMM, first_region: 0, first_request: 0 };
            let written = write_process(&mut to, rank, numbers, span)?;
            all.last = all.last.max(written.last);
            all.moved += written.moved;
            all.most_moved = all.most_moved.max(written.most_moved);
            events.push(to.close()?);
            archive.local_definitions(location)?.close()?;
        }
        self.define(&mut archive, (span.0, all.last), &events)?;
        archive.close()?;
        Ok(all)
    }

    fn span(&self) -> (u64, u64) {
        let times = self.ranks.iter().flat_map(|rank| {
            let messages = rank.sends.iter().chain(&rank.receives).map(|times| (times.begin, times.end));
            messages.chain(rank.collectives.iter().map(|operation| (operation.begin, operation.end)))
        });
        let (first, last) = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((AROUND, AROUND));
        (first.saturating_sub(AROUND), last.saturating_add(AROUND))
    }

    fn define(&self, archive: &mut ArchiveWriter, (first, last): (u64, u64), events: &[u64]) -> otf2::Result<()> {
        let mut definer = Definer { to: archive.definitions()?, texts: Vec::new(), nodes: 0 };
        definer.to.clock_properties(&ClockProperties {
            timer_resolution: self.ticks_per_second,
            global_offset: first,
            trace_length: last - first + 1,
            realtime_timestamp: u64::MAX,
        })?;
        let paradigm =
            ParadigmRecord { name: definer.text("MPI")?, class: ParadigmClass::Process, properties: Vec::new() };
        definer.to.paradigm(Paradigm::Mpi, &paradigm)?;
        self.define_ranks(&mut definer, events)?;
        for (number, (canonical, name, role)) in (0..).zip(all_regions()) {
            let (paradigm, source_file) = if canonical.starts_with("MPI_") {
                (Paradigm::Mpi, definer.text("MPI")?)
            } else {
                (Paradigm::Compiler, StringRef::UNDEFINED)
            };
            let region = Region {
                name: definer.text(name)?,
                canonical_name: definer.text(canonical)?,
                role,
                paradigm,
                source_file,
                ..Region::default()
            };
            definer.to.region(RegionRef::new(number), &region)?;
        }
        let name = definer.text(self.name)?;
        for (number, group_type) in [(0, GroupType::CommLocations), (1, GroupType::CommGroup)] {
            let group = Group {
                name,
                group_type,
                paradigm: Paradigm::Mpi,
                flags: 0,
                members: (0..self.ranks.len() as u64).collect(),
            };
            definer.to.group(GroupRef::new(number), &group)?;
        }
        definer.to.comm(COMM, &Comm { name, group: GroupRef::new(1), parent: CommRef::UNDEFINED, flags: 0 })
    }

    fn define_ranks(&self, definer: &mut Definer<'_>, events: &[u64]) -> otf2::Result<()> {
        definer.node(self.machine, "machine", SystemTreeDomain::Machine, None)?;
        let root = SystemTreeNodeRef::new(0);
        let hosts: BTreeSet<&str> = self.places.iter().map(|(host, _)| *host).gather();
        for host in &hosts {
            definer.node(host, "node", SystemTreeDomain::SharedMemory, Some(root))?;
        }
        for (rank, (host, process)) in (0..).zip(&self.places) {
            let node = (1..).zip(&hosts).find(|(_, known)| *known == host);
            let group = LocationGroup {
                name: definer.text(&format!("NCCL rank {rank}: {process}"))?,
                group_type: LocationGroupType::Process,
                system_tree_parent: node.map_or(root, |(node, _)| SystemTreeNodeRef::new(node)),
                creator: LocationGroupRef::UNDEFINED,
                properties: Vec::new(),
            };
            definer.to.location_group(LocationGroupRef::new(rank), &group)?;
        }
        for (rank, events) in (0..).zip(events) {
            let location = Location {
                name: definer.text("Master thread")?,
                location_type: LocationType::CpuThread,
                number_of_events: *events,
                group: LocationGroupRef::new(rank),
                properties: Vec::new(),
            };
            definer.to.location(LocationRef::new(rank.into()), &location)?;
        }
        Ok(())
    }
}

struct Definer<'a> {
    to: GlobalDefinitions<'a>,
    texts: Vec<String>,
    nodes: u32,
}

impl Definer<'_> {
    fn text(&mut self, text: &str) -> otf2::Result<StringRef> {
        let known = self.texts.iter().position(|known| known == text);
        let place = known.unwrap_or(self.texts.len());
        // One name per rank and host, and a few more: far below 2³².
        let reference = StringRef::new(u32::try_from(place).unwrap_or(u32::MAX));
        if known.is_none() {
            self.texts.push(text.to_owned());
            self.to.string(reference, text)?;
        }
        Ok(reference)
    }

    fn node(
        &mut self,
        name: &str,
        class: &str,
        domain: SystemTreeDomain,
        parent: Option<SystemTreeNodeRef>,
    ) -> otf2::Result<()> {
        let node = SystemTreeNode {
            name: self.text(name)?,
            class_name: self.text(class)?,
            parent: parent.unwrap_or(SystemTreeNodeRef::UNDEFINED),
            domains: vec![domain],
            properties: Vec::new(),
        };
        let reference = SystemTreeNodeRef::new(self.nodes);
        self.nodes += 1;
        self.to.system_tree_node(reference, &node)
    }
}

const NONE: &Attributes = Attributes::NONE;

#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub comm: CommRef,
    pub first_region: u32,
    pub first_request: u64,
}

impl Numbers {
    fn region(self, number: u32) -> RegionRef {
        RegionRef::new(self.first_region + number)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ShiftedTimes {
    pub last: u64,
    /// The number of events that were moved later, so that no two share a time.
    pub moved: u64,
    pub most_moved: u64,
}

/// Writes all that a rank did, between MPI_Init and MPI_Finalize. No two events share a time: Pipit sorts by time.
pub(crate) fn write_process(
    to: &mut EventWriter<'_>,
    rank: &Rank,
    numbers: Numbers,
    (first, last): (u64, u64),
) -> otf2::Result<ShiftedTimes> {
    let mut times = Times { free: Some(first), written: ShiftedTimes::default() };
    to.enter(times.next_time(first), numbers.region(MAIN), NONE)?;
    to.enter(times.next_time(first + 1), numbers.region(INIT), NONE)?;
    to.leave(times.next_time(first + 2), numbers.region(INIT), NONE)?;
    let mut times = Events::new(to, rank, numbers, times).write()?;
    let end = last.max(times.written.last + 1);
    to.enter(times.next_time(end), numbers.region(FINALIZE), NONE)?;
    to.leave(times.next_time(end + 1), numbers.region(FINALIZE), NONE)?;
    to.leave(times.next_time(end + 2), numbers.region(MAIN), NONE)?;
    Ok(times.written)
}

/// Writes all that a rank did, on a thread of a process that already has MPI_Init and MPI_Finalize.
pub fn write_thread(to: &mut EventWriter<'_>, rank: &Rank, numbers: Numbers) -> otf2::Result<()> {
    Events::new(to, rank, numbers, Times::default()).write().map(drop)
}

#[derive(Debug, Default)]
struct Times {
    /// The first unused time; `None` if events may share a time.
    free: Option<u64>,
    written: ShiftedTimes,
}

impl Times {
    /// The time to write for an event that happened at `happened`: that time, or the next unused one.
    fn next_time(&mut self, happened: u64) -> u64 {
        let time = self.free.map_or(happened, |free| happened.max(free));
        let by = time - happened;
        self.free = self.free.map(|_| time + 1);
        self.written.last = time;
        self.written.moved += u64::from(by > 0);
        self.written.most_moved = self.written.most_moved.max(by);
        time
    }
}

/// What happens to a message at one of its ends, in the order in which simultaneous steps are written: a message often
/// begins when the previous one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MessageStep {
    Complete,
    Post,
    /// Completes a message of no duration.
    CompleteAtOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Receive,
    Send,
}

impl Direction {
    const fn wait(self) -> u32 {
        match self {
            Self::Send => WAIT_SEND,
            Self::Receive => WAIT_RECEIVE,
        }
    }
}

/// An end of a message: time, step, direction, and index in its list.
type MessageEnd = (u64, MessageStep, Direction, usize);

/// Writes what a rank did as MPI events.
struct Events<'a, 'b> {
    to: &'a mut EventWriter<'b>,
    rank: &'a Rank,
    numbers: Numbers,
    time: u64,
    times: Times,
    wait: Option<Direction>,
    receives: usize,
    sends: usize,
    /// The requests of sends that are done but not completed.
    sent: Vec<u64>,
}

impl<'a, 'b> Events<'a, 'b> {
    const fn new(to: &'a mut EventWriter<'b>, rank: &'a Rank, numbers: Numbers, times: Times) -> Self {
        Self { to, rank, numbers, time: times.written.last, times, wait: None, receives: 0, sends: 0, sent: Vec::new() }
    }

    fn write(mut self) -> otf2::Result<Times> {
        let rank = self.rank;
        let mut steps: Vec<MessageEnd> = Vec::new();
        for (direction, list) in [(Direction::Send, &rank.sends), (Direction::Receive, &rank.receives)] {
            for (number, end) in list.iter().enumerate() {
                steps.push((end.begin, MessageStep::Post, direction, number));
                steps.push(if end.end > end.begin {
                    (end.end, MessageStep::Complete, direction, number)
                } else {
                    (end.begin, MessageStep::CompleteAtOnce, direction, number)
                });
            }
        }
        steps.sort_unstable();
        let mut steps = steps.into_iter().peekable();
        let mut collectives = rank.collectives.iter().peekable();
        loop {
            let until = collectives.peek().map_or(u64::MAX, |next| next.begin);
            if let Some((at, step, direction, number)) = steps.next_if(|(at, ..)| *at <= until) {
                self.advance(at)?;
                self.message(step, direction, number)?;
            } else if let Some(collective) = collectives.next() {
                self.advance(collective.begin)?;
                self.complete_sends()?;
                self.wait(None)?;
                let region = self.numbers.region(region_of_collective(collective.collective.op));
                self.to.enter(self.times.next_time(self.time), region, NONE)?;
                self.to.mpi_collective_begin(self.times.next_time(self.time), NONE)?;
                self.time = self.time.max(collective.end);
                let record = Collective { comm: self.numbers.comm, ..collective.collective };
                self.to.mpi_collective_end(self.times.next_time(self.time), &record, NONE)?;
                self.to.leave(self.times.next_time(self.time), region, NONE)?;
            } else {
                self.complete_sends()?;
                self.wait(None)?;
                return Ok(self.times);
            }
        }
    }

    /// Writes one end of a message; request numbers are the indices of sends, then of receives. Receives are waited for
    /// first, so that they get all the waiting; a send that finishes meanwhile is completed after them.
    fn message(&mut self, step: MessageStep, direction: Direction, number: usize) -> otf2::Result<()> {
        let (list, before) = match direction {
            Direction::Send => (&self.rank.sends, 0),
            Direction::Receive => (&self.rank.receives, self.rank.sends.len()),
        };
        let Some(end) = list.get(number) else {
            return Ok(());
        };
        let message = Message { peer: end.peer, comm: self.numbers.comm, tag: 0, bytes: end.bytes };
        let request = self.numbers.first_request + (before + number) as u64;
        if step == MessageStep::Post {
            self.wait(None)?;
            let region = self.numbers.region(if direction == Direction::Send { ISEND } else { IRECV });
            self.to.enter(self.times.next_time(self.time), region, NONE)?;
            if direction == Direction::Send {
                self.sends += 1;
                self.to.mpi_isend(self.times.next_time(self.time), &message, request, NONE)?;
            } else {
                self.receives += 1;
                self.to.mpi_irecv_request(self.times.next_time(self.time), request, NONE)?;
            }
            return self.to.leave(self.times.next_time(self.time), region, NONE);
        }
        if direction == Direction::Send {
            self.sends -= 1;
            self.sent.push(request);
        } else {
            self.receives -= 1;
            self.wait(Some(Direction::Receive))?;
            self.to.mpi_irecv(self.times.next_time(self.time), &message, request, NONE)?;
            self.wait(None)?;
        }
        if self.receives == 0 { self.complete_sends() } else { Ok(()) }
    }

    fn complete_sends(&mut self) -> otf2::Result<()> {
        for request in std::mem::take(&mut self.sent) {
            self.wait(Some(Direction::Send))?;
            self.to.mpi_isend_complete(self.times.next_time(self.time), request, NONE)?;
            self.wait(None)?;
        }
        Ok(())
    }

    /// Advances the time; if messages are pending, the rank waits for one.
    fn advance(&mut self, at: u64) -> otf2::Result<()> {
        let next = match (self.receives, self.sends) {
            (0, 0) => None,
            (0, _) => Some(Direction::Send),
            _ => Some(Direction::Receive),
        };
        if next.is_some() && at > self.time {
            self.wait(next)?;
        }
        self.time = self.time.max(at);
        Ok(())
    }

    fn wait(&mut self, wanted: Option<Direction>) -> otf2::Result<()> {
        if wanted == self.wait {
            return Ok(());
        }
        if let Some(before) = self.wait {
            self.to.leave(self.times.next_time(self.time), self.numbers.region(before.wait()), NONE)?;
        }
        if let Some(next) = wanted {
            self.to.enter(self.times.next_time(self.time), self.numbers.region(next.wait()), NONE)?;
        }
        self.wait = wanted;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub begin: u64,
    pub end: u64,
    pub collective: Collective,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTimes {
    pub begin: u64,
    pub end: u64,
    pub peer: u32,
    pub bytes: u64,
}

/// What a rank did in a communicator, according to the communication records; each list is sorted by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    pub collectives: Vec<Operation>,
    pub sends: Vec<MessageTimes>,
    pub receives: Vec<MessageTimes>,
    /// How many collectives and message ends were left out: the first unfinished one and everything after it.
    pub left_out: (u64, u64),
}

/// Reads what a rank did, except for the first unfinished operation and everything after it.
pub fn read(trace: &Trace, comm: CommRef, location: LocationRef) -> otf2::Result<Rank> {
    let mut reading = Reading::default();
    let mut ends_at = u64::MAX;
    let mut instances: Instances<'_> = Instances::new(trace);
    trace.archive.for_each_event(&[location], |_, event| {
        if let Step::Left(instance) | Step::Recorded(instance) = instances.step(event)
            && matches!(instance.role, Some(Role::Operation(_)))
            && instance.fields.is_unfinished == Some(true)
        {
            ends_at = ends_at.min(instance.start);
        }
        reading.event(comm, event);
        ControlFlow::Continue(())
    })?;
    let mut rank = reading.rank;
    let number = |rank: &Rank| (rank.collectives.len() as u64, (rank.sends.len() + rank.receives.len()) as u64);
    let all = number(&rank);
    rank.collectives.retain(|operation| operation.begin < ends_at);
    rank.sends.retain(|times| times.begin < ends_at);
    rank.receives.retain(|times| times.begin < ends_at);
    let kept = number(&rank);
    rank.left_out = (all.0 - kept.0, all.1 - kept.1);
    for ends in [&mut rank.sends, &mut rank.receives] {
        ends.sort_by_key(|times| times.begin);
    }
    Ok(rank)
}

#[derive(Debug, Default)]
struct Reading {
    rank: Rank,
    begun: Option<u64>,
    requests: BTreeMap<u64, (u64, Option<Message>)>,
}

impl Reading {
    fn event(&mut self, comm: CommRef, event: &Event) {
        let time = event.time;
        match &event.kind {
            EventKind::MpiCollectiveBegin => self.begun = Some(time),
            EventKind::MpiCollectiveEnd(collective) => {
                let begin = self.begun.take().unwrap_or(time);
                self.collective(comm, begin, time, *collective);
            }
            EventKind::NonBlockingCollectiveRequest { request } | EventKind::MpiIrecvRequest { request } => {
                self.requests.insert(*request, (time, None));
            }
            EventKind::NonBlockingCollectiveComplete { collective, request } => {
                let begin = self.requests.remove(request).map_or(time, |(begin, _)| begin);
                self.collective(comm, begin, time, *collective);
            }
            EventKind::MpiIsend { message, request } => {
                self.requests.insert(*request, (time, Some(*message)));
            }
            EventKind::MpiIsendComplete { request } => {
                if let Some((begin, Some(message))) = self.requests.remove(request) {
                    self.rank.sends.extend(end(comm, begin, time, &message));
                }
            }
            EventKind::MpiIrecv { message, request } => {
                let begin = self.requests.remove(request).map_or(time, |(begin, _)| begin);
                self.rank.receives.extend(end(comm, begin, time, message));
            }
            _ => {}
        }
    }

    /// Collective requests may overlap: each collective begins where the previous one ended.
    fn collective(&mut self, comm: CommRef, begin: u64, end: u64, collective: Collective) {
        if collective.comm != comm {
            return;
        }
        let begin = begin.max(self.rank.collectives.last().map_or(0, |before| before.end));
        self.rank.collectives.push(Operation { begin, end: end.max(begin), collective });
    }
}

fn end(comm: CommRef, begin: u64, end: u64, message: &Message) -> Option<MessageTimes> {
    (message.comm == comm).then_some(MessageTimes { begin, end, peer: message.peer, bytes: message.bytes })
}

/// Operations that MPI has: the canonical name for Scalasca, and the name for people.
const OPERATIONS: [(CollectiveOp, &str, &str); 8] = [
    (CollectiveOp::Allreduce, "MPI_Allreduce", "ncclAllReduce"),
    (CollectiveOp::Bcast, "MPI_Bcast", "ncclBroadcast"),
    (CollectiveOp::Reduce, "MPI_Reduce", "ncclReduce"),
    (CollectiveOp::Allgather, "MPI_Allgather", "ncclAllGather"),
    (CollectiveOp::ReduceScatterBlock, "MPI_Reduce_scatter_block", "ncclReduceScatter"),
    (CollectiveOp::Alltoall, "MPI_Alltoall", "ncclAlltoAll"),
    (CollectiveOp::Gather, "MPI_Gather", "ncclGather"),
    (CollectiveOp::Scatter, "MPI_Scatter", "ncclScatter"),
];

const OTHERS: [(&str, &str, RegionRole); 7] = [
    ("main", "main", RegionRole::Function),
    ("MPI_Init", "ncclCommInitRank", RegionRole::Function),
    ("MPI_Finalize", "ncclCommDestroy", RegionRole::Function),
    ("MPI_Isend", "ncclSend begins", RegionRole::Point2Point),
    ("MPI_Irecv", "ncclRecv begins", RegionRole::Point2Point),
    ("MPI_Wait", "ncclSend", RegionRole::Point2Point),
    ("MPI_Wait", "ncclRecv", RegionRole::Point2Point),
];
pub(crate) const MAIN: u32 = 0;
pub(crate) const INIT: u32 = 1;
pub(crate) const FINALIZE: u32 = 2;
pub(crate) const ISEND: u32 = 3;
pub(crate) const IRECV: u32 = 4;
pub(crate) const WAIT_SEND: u32 = 5;
pub(crate) const WAIT_RECEIVE: u32 = 6;

/// All regions, by number: canonical name for Scalasca, name for people, role.
pub fn all_regions() -> impl Iterator<Item = (&'static str, &'static str, RegionRole)> {
    let operations = OPERATIONS.iter().map(|(op, canonical, name)| (*canonical, *name, role(*op)));
    OTHERS.into_iter().chain(operations)
}

pub(crate) fn region_of_collective(op: CollectiveOp) -> u32 {
    let place = (7..).zip(OPERATIONS).find(|(_, (known, ..))| *known == op);
    place.map_or(MAIN, |(place, _)| place)
}

pub(crate) fn is_known(op: CollectiveOp) -> bool {
    OPERATIONS.iter().any(|(known, ..)| *known == op)
}

fn role(op: CollectiveOp) -> RegionRole {
    match op {
        CollectiveOp::Bcast | CollectiveOp::Scatter => RegionRole::CollOne2All,
        CollectiveOp::Reduce | CollectiveOp::Gather => RegionRole::CollAll2One,
        _ => RegionRole::CollAll2All,
    }
}
