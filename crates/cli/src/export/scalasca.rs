//! The archive of one communicator, as Scalasca's analyser reads it.
//!
//! ```text
//!  main ─┬ MPI_Init            shown as ncclCommInitRank
//!        ├ MPI_Allreduce …     shown as ncclAllReduce …, for as long as the rank's operation ran
//!        ├ MPI_Isend, MPI_Irecv, MPI_Waitall
//!        └ MPI_Finalize        shown as ncclCommDestroy
//! ```
//!
//! It knows MPI only: regions by their canonical name and the file "MPI", one process with one thread for each rank.

use std::collections::BTreeSet;
use std::path::Path;

use analysis::rank::Rank;
use otf2::records::{ClockProperties, Comm, Group, Location, LocationGroup, ParadigmRecord, Region, SystemTreeNode};
use otf2::{
    ArchiveWriter, Attributes, Collective, CollectiveOp, CommRef, EventWriter, GlobalDefinitions, GroupRef, GroupType,
    LocationGroupRef, LocationGroupType, LocationRef, LocationType, Message, Paradigm, ParadigmClass, RegionRef,
    RegionRole, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

use super::complete::OPERATIONS;

/// How long before the first and after the last operation the ranks begin and end, in ticks.
const AROUND: u64 = 1000;

/// A communicator that is to be written.
#[derive(Debug)]
pub(super) struct Communicator<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The name of the machine.
    pub(super) machine: &'a str,
    /// The host of each rank.
    pub(super) hosts: Vec<&'a str>,
    /// What the ranks did: what all have.
    pub(super) ranks: &'a [Rank],
    /// Ticks per second.
    pub(super) ticks_per_second: u64,
}

/// Regions: what Scalasca goes by, what people see, what it is.
const OTHERS: [(&str, &str, RegionRole); 6] = [
    ("main", "main", RegionRole::Function),
    ("MPI_Init", "ncclCommInitRank", RegionRole::Function),
    ("MPI_Finalize", "ncclCommDestroy", RegionRole::Function),
    ("MPI_Isend", "ncclSend", RegionRole::Point2Point),
    ("MPI_Irecv", "ncclRecv", RegionRole::Point2Point),
    ("MPI_Waitall", "wait for messages", RegionRole::Function),
];
const MAIN: RegionRef = RegionRef::new(0);
const INIT: RegionRef = RegionRef::new(1);
const FINALIZE: RegionRef = RegionRef::new(2);
const ISEND: RegionRef = RegionRef::new(3);
const IRECV: RegionRef = RegionRef::new(4);
const WAITALL: RegionRef = RegionRef::new(5);
const COMM: CommRef = CommRef::new(0);

fn region(op: CollectiveOp) -> RegionRef {
    let place = (6..).zip(OPERATIONS).find(|(_, (known, ..))| *known == op);
    place.map_or(MAIN, |(place, _)| RegionRef::new(place))
}

impl Communicator<'_> {
    /// Writes the archive `directory/traces.otf2`.
    pub(super) fn write(&self, directory: &Path) -> otf2::Result<()> {
        let mut archive = ArchiveWriter::create(directory, "traces")?;
        archive.set_creator(concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION")))?;
        archive.set_machine_name(self.machine)?;
        archive.set_description("One communicator of NCCL's in the words of MPI, for Scalasca")?;
        archive.set_property("OTF2::MPI_COMMUNICATION_COMPLETE", "true")?;
        let span = self.span();
        let mut events = Vec::new();
        for (number, rank) in (0..).zip(self.ranks) {
            let location = LocationRef::new(number);
            let mut to = archive.event_writer(location)?;
            Row { to: &mut to, time: span.0, is_waiting: false }.write(rank, span)?;
            events.push(to.close()?);
            archive.local_definitions(location)?.close()?;
        }
        self.define(&mut archive, span, &events)?;
        archive.close()
    }

    /// From a little before the first operation to a little after the last.
    fn span(&self) -> (u64, u64) {
        let times = self.ranks.iter().flat_map(|rank| {
            let messages = rank.sends.iter().chain(&rank.receives);
            let messages = messages.map(|it| (it.begin, it.end));
            let collectives = rank.collectives.iter().map(|it| (it.begin, it.end));
            messages.chain(collectives)
        });
        let span = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (first, last) = span.unwrap_or((AROUND, AROUND));
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
        definer.regions()?;
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
        let comm = Comm { name, group: GroupRef::new(1), parent: CommRef::UNDEFINED, flags: 0 };
        definer.to.comm(COMM, &comm)
    }

    /// The machine, its hosts, and a process with one thread for each rank.
    fn define_ranks(&self, definer: &mut Definer<'_>, events: &[u64]) -> otf2::Result<()> {
        definer.node(self.machine, "machine", SystemTreeDomain::Machine, None)?;
        let root = SystemTreeNodeRef::new(0);
        let hosts: BTreeSet<&str> = self.hosts.iter().copied().collect();
        for host in &hosts {
            definer.node(host, "node", SystemTreeDomain::SharedMemory, Some(root))?;
        }
        for (rank, host) in (0..).zip(&self.hosts) {
            let node = (1..).zip(&hosts).find(|(_, known)| *known == host);
            let group = LocationGroup {
                name: definer.text(&format!("NCCL rank {rank}"))?,
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

/// Defines strings when they are first used.
struct Definer<'a> {
    to: GlobalDefinitions<'a>,
    texts: Vec<String>,
    nodes: u32,
}

impl Definer<'_> {
    fn text(&mut self, text: &str) -> otf2::Result<StringRef> {
        let known = self.texts.iter().position(|known| known == text);
        let place = known.unwrap_or(self.texts.len());
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

    fn regions(&mut self) -> otf2::Result<()> {
        let operations = OPERATIONS.iter();
        let operations = operations.map(|(op, canonical, name)| (*canonical, *name, role(*op)));
        let regions = OTHERS.into_iter().chain(operations);
        for (number, (canonical, name, role)) in (0..).zip(regions) {
            let is_mpi = canonical.starts_with("MPI_");
            let (paradigm, source_file) = match is_mpi {
                true => (Paradigm::Mpi, self.text("MPI")?),
                false => (Paradigm::Compiler, StringRef::UNDEFINED),
            };
            let region = Region {
                name: self.text(name)?,
                canonical_name: self.text(canonical)?,
                role,
                paradigm,
                source_file,
                ..Region::default()
            };
            self.to.region(RegionRef::new(number), &region)?;
        }
        Ok(())
    }
}

fn role(op: CollectiveOp) -> RegionRole {
    match op {
        CollectiveOp::Bcast | CollectiveOp::Scatter => RegionRole::CollOne2All,
        CollectiveOp::Reduce | CollectiveOp::Gather => RegionRole::CollAll2One,
        _ => RegionRole::CollAll2All,
    }
}

/// What happens to a message at one of its ends, in the order in which it is written at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Post,
    Complete,
}

/// The events of a rank.
struct Row<'a, 'b> {
    to: &'a mut EventWriter<'b>,
    time: u64,
    is_waiting: bool,
}

impl Row<'_, '_> {
    fn write(mut self, rank: &Rank, (first, last): (u64, u64)) -> otf2::Result<()> {
        let none = Attributes::NONE;
        self.to.enter(first, MAIN, none)?;
        self.to.enter(first, INIT, none)?;
        self.to.leave(first + 1, INIT, none)?;
        self.time = first + 1;
        // Ends of messages: when, what, whether it sends, and which of its list.
        let mut steps: Vec<(u64, Step, bool, usize)> = Vec::new();
        for (sends, list) in [(true, &rank.sends), (false, &rank.receives)] {
            for (number, end) in list.iter().enumerate() {
                steps.push((end.begin, Step::Post, sends, number));
                steps.push((end.end.max(end.begin), Step::Complete, sends, number));
            }
        }
        steps.sort_unstable();
        let mut steps = steps.into_iter().peekable();
        let mut open = 0_usize;
        let mut collectives = rank.collectives.iter().peekable();
        while steps.peek().is_some() || collectives.peek().is_some() {
            let until = collectives.peek().map_or(u64::MAX, |next| next.begin);
            if let Some((at, step, sends, number)) = steps.next_if(|(at, ..)| *at <= until) {
                self.advance(at, open)?;
                self.message(rank, step, sends, number)?;
                match step {
                    Step::Post => open += 1,
                    Step::Complete => open -= 1,
                }
                if open == 0 {
                    self.wait(false)?;
                }
                continue;
            }
            if let Some(next) = collectives.next() {
                self.advance(next.begin, open)?;
                self.wait(false)?;
                let region = region(next.collective.op);
                self.to.enter(self.time, region, none)?;
                self.to.mpi_collective_begin(self.time, none)?;
                self.time = self.time.max(next.end);
                let collective = Collective { comm: COMM, ..next.collective };
                self.to.mpi_collective_end(self.time, &collective, none)?;
                self.to.leave(self.time, region, none)?;
            }
        }
        self.wait(false)?;
        let end = last.max(self.time);
        self.to.enter(end, FINALIZE, none)?;
        self.to.leave(end, FINALIZE, none)?;
        self.to.leave(end, MAIN, none)
    }

    /// One end of a message, by its number: requests are the places of sends, then of receives.
    fn message(&mut self, rank: &Rank, step: Step, sends: bool, number: usize) -> otf2::Result<()> {
        let none = Attributes::NONE;
        let list = if sends { &rank.sends } else { &rank.receives };
        let Some(end) = list.get(number) else {
            return Ok(());
        };
        let message = Message { peer: end.peer, comm: COMM, tag: 0, bytes: end.bytes };
        let request = if sends { number } else { rank.sends.len() + number } as u64;
        if step == Step::Complete {
            self.wait(true)?;
            return match sends {
                true => self.to.mpi_isend_complete(self.time, request, none),
                false => self.to.mpi_irecv(self.time, &message, request, none),
            };
        }
        self.wait(false)?;
        let region = if sends { ISEND } else { IRECV };
        self.to.enter(self.time, region, none)?;
        match sends {
            true => self.to.mpi_isend(self.time, &message, request, none),
            false => self.to.mpi_irecv_request(self.time, request, none),
        }?;
        self.to.leave(self.time, region, none)
    }

    /// Time goes on; with messages under way that is waiting for them.
    fn advance(&mut self, at: u64, open: usize) -> otf2::Result<()> {
        if open > 0 && at > self.time {
            self.wait(true)?;
        }
        self.time = self.time.max(at);
        Ok(())
    }

    /// Begins to wait for messages, or ends it.
    fn wait(&mut self, wanted: bool) -> otf2::Result<()> {
        if wanted == self.is_waiting {
            return Ok(());
        }
        self.is_waiting = wanted;
        match wanted {
            true => self.to.enter(self.time, WAITALL, Attributes::NONE),
            false => self.to.leave(self.time, WAITALL, Attributes::NONE),
        }
    }
}
