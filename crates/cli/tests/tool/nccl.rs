//! What this project's writer would write of a made-up job, in short.

use std::path::{Path, PathBuf};

use otf2::verbatim::Definition;
use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, EventWriter, GroupRef,
    LocationGroupRef, LocationRef, MappingType, Message, RegionRef, StringRef, SystemTreeNodeRef,
};

use super::made_up::{HOSTS, Host, Moment, RANKS, SECOND, Texts, host, number, process_id};
use super::score_p::MPI;

/// One end of a message: requests are even when asked for, and odd when done.
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
    /// Whether the launcher's ranks are known.
    pub(crate) has_ranks: bool,
    /// What process ids are too high by.
    pub(crate) other_processes: u64,
    pub(crate) has_anchors: bool,
    /// What the hosts were started earlier by.
    pub(crate) earlier: Moment,
    /// All-reduces: when each rank enters, and when all leave.
    pub(crate) calls: Vec<([Moment; 3], Moment)>,
    /// When the first thread of each process is in a call, if calls are recorded.
    pub(crate) thread: Option<(Moment, Moment)>,
    /// Messages in the order of time: from, to, begin, end.
    pub(crate) messages: Vec<(u64, u64, Moment, Moment)>,
    /// Of rank 2, how many of its last calls are not there.
    pub(crate) cut: usize,
    /// Whether the GPUs are nodes of the system tree, with the same address on all hosts.
    pub(crate) has_devices: bool,
    /// Whether all ranks are on the first host.
    pub(crate) one_clock: bool,
    /// What else the archive says.
    pub(crate) properties: Vec<(&'static str, &'static str)>,
}

/// What an operation is, and the call of it.
const OPERATION: RegionRef = RegionRef::new(0);
const CALL: RegionRef = RegionRef::new(1);

/// When the ranks are in ncclAllReduce: 2 µs after the first MPI_Allreduce, and until 2 µs before the second.
pub(crate) const NCCL: (Moment, Moment) = (MPI[0].1 + 2000, MPI[1].0 - 2000);

impl Nccl {
    pub(crate) fn new() -> Self {
        Self {
            has_ranks: true,
            other_processes: 0,
            has_anchors: true,
            earlier: 0,
            calls: vec![([NCCL.0; 3], NCCL.1)],
            thread: None,
            messages: Vec::new(),
            cut: 0,
            has_devices: false,
            one_clock: false,
            properties: Vec::new(),
        }
    }

    fn host(&self, rank: u64) -> Host {
        let host = host(if self.one_clock { 0 } else { rank });
        Host {
            began: host.began + self.earlier,
            // A clock that runs right makes lengths what they are.
            slew_ppb: if self.one_clock { 0 } else { host.slew_ppb },
            ..host
        }
    }

    /// Writes it to `directory`.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        std::fs::create_dir_all(directory).expect("a directory");
        let mut archive = ArchiveWriter::create(directory, "traces").expect("an archive");
        archive.set_creator("a test").expect("a creator");
        let calls = (3 * self.calls.len() - self.cut).to_string();
        let said =
            [("NCCL::VERSION", "2.28.9"), ("NCCL::COUNT::COLL::SEEN", &calls), ("NCCL::COUNT::COLL::WRITTEN", &calls)];
        for (name, value) in said.into_iter().chain(self.properties.iter().copied()) {
            archive.set_property(name, value).expect("a property");
        }
        let mut events = Vec::new();
        for rank in 0..RANKS {
            let location = LocationRef::new(rank);
            let mut writer = archive.event_writer(location).expect("a writer");
            self.events(&mut writer, rank).expect("events");
            events.push(writer.close().expect("events"));
            self.local(&mut archive, location, rank);
        }
        for (rank, (enter, leave)) in (0..RANKS).filter_map(|rank| Some((rank, self.thread?))) {
            let location = LocationRef::new(RANKS + rank);
            let mut writer = archive.event_writer(location).expect("a writer");
            let at = |moment| number(self.host(rank).monotonic(moment));
            let value = AttributeValue::String(StringRef::new(0));
            let attributes = Attributes::try_from([(AttributeRef::new(1), value)]).expect("an attribute");
            writer.enter(at(enter), CALL, &attributes).expect("an event");
            writer.leave(at(leave), CALL, Attributes::NONE).expect("an event");
            events.push(writer.close().expect("events"));
            self.local(&mut archive, location, rank);
        }
        let mut to = archive.definitions().expect("definitions");
        for definition in self.definitions(&events) {
            to.verbatim(&definition).expect("a definition");
        }
        archive.close().expect("an archive");
        directory.to_owned()
    }

    fn events(&self, to: &mut EventWriter<'_>, rank: u64) -> otf2::Result<()> {
        let at = |moment| number(self.host(rank).monotonic(moment));
        let none = Attributes::NONE;
        let region = OPERATION;
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
        let kept = self.calls.len() - if rank == RANKS - 1 { self.cut } else { 0 };
        for (call, (enter, leave)) in (1..).zip(&self.calls[..kept]) {
            let enter = enter[usize::try_from(rank).expect("few")];
            while let Some(step) = steps.next_if(|(time, ..)| *time < at(enter)) {
                message(to, step)?;
            }
            let mut attributes = Attributes::new();
            // A string and an attribute by the numbers of the process, as the tables below have them.
            attributes.add(AttributeRef::new(1), AttributeValue::String(StringRef::new(0)))?;
            // `nccl.event`.
            attributes.add(AttributeRef::new(0), AttributeValue::U64(100 * call + rank + 1))?;
            to.enter(at(enter), region, &attributes)?;
            to.mpi_collective_begin(at(enter), none)?;
            let collective = Collective {
                op: CollectiveOp::Allreduce,
                comm: CommRef::new(0),
                root: None,
                bytes_sent: 3 << 20,
                bytes_received: 3 << 20,
            };
            to.mpi_collective_end(at(*leave), &collective, none)?;
            to.leave(at(*leave), region, none)?;
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

    fn definitions(&self, events: &[u64]) -> Vec<Definition> {
        let mut texts = Texts::default();
        assert_eq!(["world", "shown by"].map(|text| texts.get(text).get()), [0, 1]);
        let mut all = hosts(&mut texts);
        if self.has_devices {
            add_devices(&mut all, &mut texts);
        }
        self.add_processes(&mut all, &mut texts);
        self.add_locations(&mut all, &mut texts, events);
        add_communication(&mut all, &mut texts);
        let mut definitions = vec![Definition::ClockProperties {
            timer_resolution: 1_000_000_000,
            global_offset: number(self.host(2).realtime(0)),
            trace_length: number(10 * SECOND),
            realtime_timestamp: u64::MAX,
        }];
        definitions.extend(texts.definitions());
        definitions.extend(all);
        definitions
    }

    fn add_processes(&self, all: &mut Vec<Definition>, texts: &mut Texts) {
        let mut text = |text: &str| texts.get(text);
        for rank in 0..RANKS {
            let this = LocationGroupRef::new(small(rank));
            let process_id = process_id(rank) + self.other_processes;
            all.push(Definition::LocationGroup {
                this,
                name: text(&format!("rank {rank} [{}:{process_id}]", host(rank).name)),
                group_type: 1,
                parent: node(rank),
                creator: LocationGroupRef::UNDEFINED,
            });
            let mut say = |name: &str, value| {
                let name = text(name);
                all.push(Definition::LocationGroupProperty { of: this, name, value });
            };
            say("NCCL::PROCESS_ID", AttributeValue::U64(process_id));
            if self.has_ranks {
                say("NCCL::RANK", AttributeValue::U64(rank));
            }
            if self.has_anchors {
                let values = ["TSC".to_owned(), self.anchors(rank)].map(|value| text(&value));
                let names = ["NCCL::CLOCK::SOURCE", "NCCL::CLOCK::ANCHORS"].map(&mut text);
                for (name, value) in names.into_iter().zip(values) {
                    let value = AttributeValue::String(value);
                    all.push(Definition::LocationGroupProperty { of: this, name, value });
                }
            }
        }
    }

    /// The ranks' GPUs and their locations.
    fn add_locations(&self, all: &mut Vec<Definition>, texts: &mut Texts, events: &[u64]) {
        let mut text = |text: &str| texts.get(text);
        let device = |rank| SystemTreeNodeRef::new(node(rank).get() + if self.has_devices { 2 } else { 0 });
        for rank in 0..RANKS {
            all.push(Definition::LocationGroup {
                this: LocationGroupRef::new(small(RANKS + rank)),
                name: text(&format!("GPU of rank {rank}")),
                group_type: 2,
                parent: device(rank),
                creator: LocationGroupRef::new(small(rank)),
            });
        }
        for (number, events) in (0..).zip(events) {
            let is_thread = number >= RANKS;
            let rank = number % RANKS;
            let this = LocationRef::new(number);
            let thread_id = process_id(rank) + self.other_processes;
            all.push(Definition::Location {
                this,
                name: text(&if is_thread {
                    format!("API thread {thread_id}")
                } else {
                    format!("NCCL world rank {rank}/3")
                }),
                location_type: if is_thread { 1 } else { 2 },
                number_of_events: *events,
                group: LocationGroupRef::new(small(if is_thread { rank } else { RANKS + rank })),
            });
            let kind = if is_thread { "api-thread" } else { "communicator" };
            let kind = ("NCCL::LOCATION_KIND", AttributeValue::String(text(kind)));
            let thread = is_thread.then_some(("NCCL::THREAD_ID", AttributeValue::U64(thread_id)));
            for (name, value) in [Some(kind), thread].into_iter().flatten() {
                all.push(Definition::LocationProperty { of: this, name: text(name), value });
            }
        }
    }
}

fn small(rank: u64) -> u32 {
    u32::try_from(rank).expect("few")
}

/// The node of a rank's host: the last one has one of its own.
fn node(rank: u64) -> SystemTreeNodeRef {
    SystemTreeNodeRef::new(if rank == RANKS - 1 { 2 } else { 1 })
}

/// The machine and its hosts.
fn hosts(texts: &mut Texts) -> Vec<Definition> {
    let mut text = |text: &str| texts.get(text);
    let mut all = vec![Definition::SystemTreeNode {
        this: SystemTreeNodeRef::new(0),
        name: text("job 17"),
        class_name: text("machine"),
        parent: SystemTreeNodeRef::UNDEFINED,
    }];
    for (number, host) in (1..).zip(HOSTS) {
        all.push(Definition::SystemTreeNode {
            this: SystemTreeNodeRef::new(number),
            name: text(host.name),
            class_name: text("node"),
            parent: SystemTreeNodeRef::new(0),
        });
    }
    all
}

/// A GPU on each host, all with the same address.
fn add_devices(all: &mut Vec<Definition>, texts: &mut Texts) {
    for host in 1..3 {
        let (this, parent) = (SystemTreeNodeRef::new(2 + host), SystemTreeNodeRef::new(host));
        let (name, class_name) = (texts.get("GPU 0000:41:00.0"), texts.get("GPU"));
        all.push(Definition::SystemTreeNode { this, name, class_name, parent });
        all.push(Definition::SystemTreeNodeDomain { of: this, domain: 7 });
    }
}

/// Attributes, the region of a call, the communicator.
fn add_communication(all: &mut Vec<Definition>, texts: &mut Texts) {
    let mut text = |text: &str| texts.get(text);
    for (number, (name, attribute_type)) in (0..).zip([("nccl.timing", 11), ("nccl.event", 4)]) {
        all.push(Definition::Attribute {
            this: AttributeRef::new(number),
            name: text(name),
            description: text("shown by"),
            attribute_type,
        });
    }
    for (this, canonical_name) in
        [(OPERATION, "nccl::operation::Coll::ncclAllReduce"), (CALL, "nccl::call::CollApi::ncclAllReduce")]
    {
        all.push(Definition::Region {
            this,
            name: text("ncclAllReduce"),
            canonical_name: text(canonical_name),
            description: text("operation"),
            role: 25,
            paradigm: 4,
            flags: 0,
            source_file: StringRef::UNDEFINED,
            begin_line: 0,
            end_line: 0,
        });
    }
    all.push(Definition::Paradigm { paradigm: 4, name: text("NCCL"), class: 0 });
    for (number, group_type) in [(0, 4), (1, 5)] {
        all.push(Definition::Group {
            this: GroupRef::new(number),
            name: text("world"),
            group_type,
            paradigm: 4,
            flags: 0,
            members: vec![0, 1, 2],
        });
    }
    all.push(Definition::Comm {
        this: CommRef::new(0),
        name: text("world"),
        group: GroupRef::new(1),
        parent: CommRef::UNDEFINED,
        flags: 0,
    });
}
