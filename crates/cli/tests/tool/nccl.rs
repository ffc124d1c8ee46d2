//! A short form of what this project's writer would write for a made-up job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nccl_events::Kind;
use otf2::verbatim::Definition;
use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, EventWriter,
    LocationRef, MappingType, Message, RegionRef, StringRef, SystemTreeNodeRef,
};

use super::made_up::{Definitions, HOSTS, Host, Moment, RANKS, SECOND, host, number, process_id};
use super::score_p::MPI;

/// One end of a message: even request values mark its start, odd ones its completion.
fn message(to: &mut EventWriter<'_>, (time, sends, request, message): (u64, bool, u64, Message)) -> otf2::Result<()> {
    let none = Attributes::NONE;
    match (sends, request % 2) {
        (true, 0) => to.mpi_isend(time, &message, request, none),
        (true, _) => to.mpi_isend_complete(time, request - 1, none),
        (false, 0) => to.mpi_irecv_request(time, request, none),
        (false, _) => to.mpi_irecv(time, &message, request - 1, none),
    }
}

/// NCCL's archive of the same job.
pub(crate) struct Nccl {
    /// An offset added to all process ids.
    pub(crate) other_processes: u64,
    pub(crate) has_anchors: bool,
    /// How much earlier the hosts were started.
    pub(crate) earlier: Moment,
    /// All-reduces: when each rank enters, and when all leave.
    pub(crate) calls: Vec<([Moment; 3], Moment)>,
    /// When the first thread of each process is in a call, if calls are recorded.
    pub(crate) thread: Option<(Moment, Moment)>,
    /// Whether that call is in a range, and each process has a range that any thread ends.
    pub(crate) has_ranges: bool,
    /// Messages in time order: from, to, begin, end.
    pub(crate) messages: Vec<(u64, u64, Moment, Moment)>,
    /// Whether the GPUs are nodes of the system tree, with the same address on all hosts.
    pub(crate) has_devices: bool,
    /// Whether all ranks are on the first host.
    pub(crate) one_clock: bool,
    /// Additional properties of the archive.
    pub(crate) properties: Vec<(&'static str, &'static str)>,
}

/// The regions of an operation and of its call.
const OPERATION: RegionRef = RegionRef::new(0);
const CALL: RegionRef = RegionRef::new(1);
const RANGE: RegionRef = RegionRef::new(2);

/// `nccl.event` of an operation.
pub(crate) fn operation_id(call: u64, rank: u64) -> u64 {
    (100 * call + rank + 1) << 6 | u64::from(Kind::Coll as u8)
}

/// How much earlier than a call the range around it begins, and how much later it ends.
pub(crate) const AROUND: Moment = 500;

/// When the ranks are in ncclAllReduce: from 2 µs after the first MPI_Allreduce to 2 µs before the second.
pub(crate) const NCCL: (Moment, Moment) = (MPI[0].1 + 2000, MPI[1].0 - 2000);

impl Nccl {
    pub(crate) fn new() -> Self {
        Self {
            other_processes: 0,
            has_anchors: true,
            earlier: 0,
            calls: vec![([NCCL.0; 3], NCCL.1)],
            thread: None,
            has_ranges: false,
            messages: Vec::new(),
            has_devices: false,
            one_clock: false,
            properties: Vec::new(),
        }
    }

    fn host(&self, rank: u64) -> Host {
        let host = host(if self.one_clock { 0 } else { rank });
        Host {
            began: host.began + self.earlier,
            // A clock without drift keeps durations exact.
            slew_ppb: if self.one_clock { 0 } else { host.slew_ppb },
            ..host
        }
    }

    /// Writes the archive to `directory`.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        std::fs::create_dir_all(directory).expect("a directory");
        let mut archive = ArchiveWriter::create(directory, "traces").expect("an archive");
        archive.set_creator("a test").expect("a creator");
        let calls = (3 * self.calls.len()).to_string();
        let said = [
            ("NCCL::VERSION", "2.28.9"),
            ("NCCL::COUNT::COLL::SEEN", &calls),
            ("NCCL::COUNT::COLL::WRITTEN", &calls),
            ("OTF2::MPI_COMMUNICATION_COMPLETE", "true"),
        ];
        let said: BTreeMap<&str, &str> = said.into_iter().chain(self.properties.iter().copied()).collect();
        for (name, value) in said {
            archive.set_property(name, value).expect("a property");
        }
        let mut events = Vec::new();
        let locations_of_rank = if self.has_ranges { 3 } else { 1 + u64::from(self.thread.is_some()) };
        for number in 0..locations_of_rank * RANKS {
            let (location, rank) = (LocationRef::new(number), number % RANKS);
            let mut writer = archive.event_writer(location).expect("a writer");
            match (number / RANKS, self.thread) {
                (1, Some(call)) => self.call(&mut writer, rank, call),
                (2, Some(range)) => self.range(&mut writer, rank, range, |_| Ok(())),
                _ => self.events(&mut writer, rank),
            }
            .expect("events");
            events.push(writer.close().expect("events"));
            self.local(&mut archive, location, rank);
        }
        self.define(&mut archive, &events);
        archive.close().expect("an archive");
        directory.to_owned()
    }

    fn call(&self, to: &mut EventWriter<'_>, rank: u64, (enter, leave): (Moment, Moment)) -> otf2::Result<()> {
        let at = |moment| number(self.host(rank).monotonic(moment));
        let value = AttributeValue::String(StringRef::new(0));
        let call = |to: &mut EventWriter<'_>| {
            to.enter(at(enter), CALL, &Attributes::try_from([(AttributeRef::new(1), value)])?)?;
            to.leave(at(leave), CALL, Attributes::NONE)
        };
        if self.has_ranges { self.range(to, rank, (enter - AROUND, leave + AROUND), call) } else { call(to) }
    }

    fn range(
        &self,
        to: &mut EventWriter<'_>,
        rank: u64,
        (begin, end): (Moment, Moment),
        inside: impl FnOnce(&mut EventWriter<'_>) -> otf2::Result<()>,
    ) -> otf2::Result<()> {
        let at = |moment| number(self.host(rank).monotonic(moment));
        to.enter(at(begin), RANGE, Attributes::NONE)?;
        inside(to)?;
        to.leave(at(end), RANGE, Attributes::NONE)
    }

    fn events(&self, to: &mut EventWriter<'_>, rank: u64) -> otf2::Result<()> {
        let at = |moment| number(self.host(rank).monotonic(moment));
        let none = Attributes::NONE;
        let messages = self.messages.iter().enumerate();
        let mut steps: Vec<(u64, bool, u64, Message)> = Vec::new();
        for (request, (from, to, begin, end)) in messages {
            let ends = [(*from, *to, true), (*to, *from, false)];
            for (_, peer, sends) in ends.into_iter().filter(|(own, ..)| *own == rank) {
                let message =
                    Message { peer: u32::try_from(peer).expect("few"), comm: CommRef::new(0), tag: 0, bytes: 4096 };
                let request = 2 * request as u64;
                steps.push((at(*begin), sends, request, message));
                steps.push((at(*end), sends, request + 1, message));
            }
        }
        steps.sort_by_key(|(time, ..)| *time);
        let mut steps = steps.into_iter().peekable();
        for (call, (enter, leave)) in (1..).zip(&self.calls) {
            let enter = enter[usize::try_from(rank).expect("few")];
            while let Some(step) = steps.next_if(|(time, ..)| *time < at(enter)) {
                message(to, step)?;
            }
            let mut attributes = Attributes::new();
            // A string and an attribute by the process's own numbers, mapped by the tables below.
            attributes.add(AttributeRef::new(1), AttributeValue::String(StringRef::new(0)))?;
            // `nccl.event`.
            attributes.add(AttributeRef::new(0), AttributeValue::U64(operation_id(call, rank)))?;
            to.enter(at(enter), OPERATION, &attributes)?;
            to.mpi_collective_begin(at(enter), none)?;
            let collective = Collective {
                op: CollectiveOp::Allreduce,
                comm: CommRef::new(0),
                root: None,
                bytes_sent: 3 << 20,
                bytes_received: 3 << 20,
            };
            to.mpi_collective_end(at(*leave), &collective, none)?;
            to.leave(at(*leave), OPERATION, none)?;
        }
        for step in steps {
            message(to, step)?;
        }
        Ok(())
    }

    fn local(&self, archive: &mut ArchiveWriter, location: LocationRef, rank: u64) {
        let mut local = archive.local_definitions(location).expect("a writer");
        local.mapping_table_dense(MappingType::String, &[1, 0]).expect("a table");
        local.mapping_table_dense(MappingType::Attribute, &[1, 0]).expect("a table");
        let host = self.host(rank);
        let offset = host.realtime(0) - host.monotonic(0);
        let first = self.calls.iter().flat_map(|(enter, _)| enter).min();
        let last = self.calls.iter().map(|(_, leave)| leave).max();
        let (first, last) = (first.expect("a call"), last.expect("a call"));
        for time in [host.monotonic(*first), host.monotonic(*last) + 1] {
            let offset = i64::try_from(offset).expect("an offset");
            local.clock_offset(number(time), offset, 0.0).expect("an offset");
        }
        local.close().expect("local definitions");
    }

    fn anchors(&self, rank: u64) -> String {
        let host = self.host(rank);
        let anchor = |at| format!("{} {} {} {}", host.ticks(at), host.monotonic(at), host.raw(at), host.realtime(at));
        let anchors = [SECOND, 3 * SECOND, 5 * SECOND].map(anchor);
        anchors.join(", ")
    }

    fn define(&self, archive: &mut ArchiveWriter, events: &[u64]) {
        let mut to = Definitions::default();
        assert_eq!(["world", "shown by"].map(|text| to.text(text).get()), [0, 1]);
        to.node(0, "job 17", "machine", None);
        for (number, host) in (1..).zip(HOSTS) {
            to.node(number, host.name, "node", Some(0));
        }
        for host in (1..3).filter(|_| self.has_devices) {
            to.node(2 + host, "GPU 0000:41:00.0", "GPU", Some(host));
            to.push(Definition::SystemTreeNodeDomain { of: SystemTreeNodeRef::new(2 + host), domain: 7 });
        }
        self.add_processes(&mut to);
        self.add_locations(&mut to, events);
        for (number, (name, attribute_type)) in (0..).zip([("nccl.timing", 11), ("nccl.event", 4)]) {
            to.attribute(number, name, Some("shown by"), attribute_type);
        }
        to.region(OPERATION, ["ncclAllReduce", "nccl::operation::ncclAllReduce"], None, 25, 4);
        to.region(CALL, ["ncclAllReduce", "nccl::call::ncclAllReduce"], None, 25, 4);
        if self.has_ranges {
            to.region(RANGE, ["step #", "nvtx::app::step #"], None, 3, 1);
        }
        let name = to.text("NCCL");
        to.push(Definition::Paradigm { paradigm: 4, name, class: 0 });
        to.group(0, "world", 4, vec![0, 1, 2]);
        to.group(1, "world", 5, vec![0, 1, 2]);
        to.comm(0, "world", 1);
        let clock = [1_000_000_000, number(self.host(2).realtime(0)), number(10 * SECOND), u64::MAX];
        to.write(archive, clock);
    }

    fn add_processes(&self, to: &mut Definitions) {
        for rank in 0..RANKS {
            let process_id = process_id(rank) + self.other_processes;
            let this = small(rank);
            to.location_group(this, &format!("rank {rank} [{}:{process_id}]", host(rank).name), 1, node(rank), None);
            to.group_property(this, "NCCL::PROCESS_ID", AttributeValue::U64(process_id));
            to.group_property(this, "NCCL::RANK", AttributeValue::U64(rank));
            if self.has_anchors {
                let texts = [("NCCL::CLOCK::SOURCE", "TSC".to_owned()), ("NCCL::CLOCK::ANCHORS", self.anchors(rank))];
                for (name, text) in texts {
                    let value = AttributeValue::String(to.text(&text));
                    to.group_property(this, name, value);
                }
            }
        }
    }

    /// The ranks' GPUs and their locations.
    fn add_locations(&self, to: &mut Definitions, events: &[u64]) {
        for rank in 0..RANKS {
            let device = node(rank) + if self.has_devices { 2 } else { 0 };
            to.location_group(small(RANKS + rank), &format!("GPU of rank {rank}"), 2, device, Some(small(rank)));
        }
        for (number, events) in (0..).zip(events) {
            let (rank, this) = (number % RANKS, LocationRef::new(number));
            let thread_id = process_id(rank) + self.other_processes;
            let is_thread = number / RANKS == 1;
            let (name, kind, location_type, group) = match number / RANKS {
                0 => (format!("NCCL world rank {rank}/3"), "communicator", 2, RANKS + rank),
                1 => (format!("API thread {thread_id}"), "api-thread", 1, rank),
                _ => ("NVTX app".to_owned(), "ranges", 1, rank),
            };
            to.location(this, &name, location_type, *events, small(group));
            let kind = AttributeValue::String(to.text(kind));
            to.location_property(this, "NCCL::LOCATION_KIND", kind);
            if is_thread {
                to.location_property(this, "NCCL::THREAD_ID", AttributeValue::U64(thread_id));
            }
        }
    }
}

pub(crate) fn small(rank: u64) -> u32 {
    u32::try_from(rank).expect("few")
}

/// The node of a rank's host: the last rank is on a host of its own.
fn node(rank: u64) -> u32 {
    if rank == RANKS - 1 { 2 } else { 1 }
}
