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

pub mod complete;
pub mod events;
pub mod rank;
pub mod regions;

use std::collections::BTreeSet;
use std::path::Path;

use nccl_events::sort::Gather;
use otf2::records::{ClockProperties, Comm, Group, Location, LocationGroup, ParadigmRecord, Region, SystemTreeNode};
use otf2::{
    ArchiveWriter, CommRef, GlobalDefinitions, GroupRef, GroupType, LocationGroupRef, LocationGroupType, LocationRef,
    LocationType, Paradigm, ParadigmClass, RegionRef, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

use events::{Numbers, Written};
use rank::Rank;

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
    pub fn write(&self, directory: &Path) -> otf2::Result<Written> {
        let mut archive = ArchiveWriter::create(directory, "traces")?;
        archive.set_creator(concat!("nccl-profiler-otf2 ", env!("CARGO_PKG_VERSION")))?;
        archive.set_machine_name(self.machine)?;
        archive.set_description("One communicator of NCCL's in the words of MPI, for Scalasca")?;
        archive.set_property("OTF2::MPI_COMMUNICATION_COMPLETE", "true")?;
        let span = self.span();
        let (mut events, mut all) = (Vec::new(), Written::default());
        for (number, rank) in (0..).zip(self.ranks) {
            let location = LocationRef::new(number);
            let mut to = archive.event_writer(location)?;
            let numbers = Numbers { comm: COMM, first_region: 0, first_request: 0 };
            let written = events::write_process(&mut to, rank, numbers, span)?;
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
            let messages = rank.sends.iter().chain(&rank.receives).map(|it| (it.begin, it.end));
            messages.chain(rank.collectives.iter().map(|it| (it.begin, it.end)))
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
        for (number, (canonical, name, role)) in (0..).zip(regions::all()) {
            let (paradigm, source_file) = match canonical.starts_with("MPI_") {
                true => (Paradigm::Mpi, definer.text("MPI")?),
                false => (Paradigm::Compiler, StringRef::UNDEFINED),
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
