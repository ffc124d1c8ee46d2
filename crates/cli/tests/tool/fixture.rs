//! Small archives of two ranks, sound unless a test spoils them.

use std::path::{Path, PathBuf};

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember,
    Region, RmaWin, SystemTreeNode,
};
use otf2::{
    ArchiveWriter, AttributeRef, AttributeType, AttributeValue, Attributes, Collective,
    CollectiveOp, CommRef, EventWriter, GroupRef, GroupType, LocationGroupRef, LocationGroupType,
    LocationRef, LocationType, Message, MetricBase, MetricMemberRef, MetricMode, MetricOccurrence,
    MetricRef, MetricType, MetricValue, Paradigm, RecorderKind, RegionRef, RegionRole, RmaAccess,
    RmaWinRef, StringRef, SystemTreeNodeRef,
};

/// An event of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Enters an operation of so many bytes.
    Enter(u64, RegionRef, u64),
    /// The same of one that has not ended.
    EnterUnfinished(u64, RegionRef),
    /// Enters a kernel channel of the all-reduce that began then.
    EnterChannel(u64, u64),
    /// Enters an operation whose kernels tell when it ran.
    EnterByKernels(u64, RegionRef),
    /// Enters a kernel of the operation in this region that began then, with this external id.
    EnterKernel(u64, RegionRef, u64, u64),
    /// Enters a launch with this external id.
    EnterLaunch(u64, u64),
    Leave(u64, RegionRef),
    Begin(u64),
    /// With the bytes that this rank sends and receives.
    End(u64, CollectiveOp, Option<u32>, u64, u64),
    Isend(u64, u32, u64),
    IsendComplete(u64, u64),
    IrecvRequest(u64, u64),
    Irecv(u64, u32, u64),
    /// Of so many bytes, not those that are sent.
    IrecvBytes(u64, u32, u64, u64),
    /// Puts to rank 1 under a matching id.
    Put(u64, u64),
    PutComplete(u64, u64),
    Metric(u64, MetricValue),
}

pub(crate) const ALL_REDUCE: RegionRef = RegionRef::new(0);
pub(crate) const BROADCAST: RegionRef = RegionRef::new(1);
pub(crate) const SEND: RegionRef = RegionRef::new(2);
pub(crate) const RECEIVE: RegionRef = RegionRef::new(3);
pub(crate) const CHANNEL: RegionRef = RegionRef::new(4);
pub(crate) const KERNEL: RegionRef = RegionRef::new(5);
pub(crate) const LAUNCH: RegionRef = RegionRef::new(6);

/// The lane of a kernel's channel.
const CHANNEL_LANE: u64 = 1 << 32;

/// The value of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Text(&'static str),
    Signed(i64),
    Unsigned(u64),
}

/// What is to be written.
pub(crate) struct Fixture {
    pub(crate) ranks: [Vec<Step>; 2],
    /// What the kernel's channel does.
    pub(crate) channel: Vec<Step>,
    pub(crate) properties: Vec<(&'static str, String)>,
    /// Promised events of rank 1, where they are not those written.
    pub(crate) promised: Option<u64>,
    /// The list of communicating locations.
    pub(crate) listed: Vec<u64>,
    /// Indices of the communicator's ranks into the list of two locations.
    pub(crate) members: Vec<u64>,
    pub(crate) attribute_type: AttributeType,
    /// Ends of the clock.
    pub(crate) span: (u64, u64),
    /// Whether rank 1 is on a host of its own.
    pub(crate) two_hosts: bool,
    /// Clock offsets of rank 0, of rank 1 and of the kernel's channel, which is of the process of rank 0.
    pub(crate) offsets: [Vec<(u64, i64)>; 3],
    /// Their standard deviation on rank 1.
    pub(crate) deviation: f64,
    /// What the two processes say of their clocks, where they are on two hosts.
    pub(crate) said: [Vec<(&'static str, Said)>; 2],
    /// The boot ids of the two hosts.
    pub(crate) boots: [Option<&'static str>; 2],
    /// Whether communicators' lanes are threads of the process, and only the channel's is the GPU's.
    pub(crate) cpu_lanes: bool,
    /// Whether communicators' lanes are one GPU's, and the channel's another one's.
    pub(crate) two_gpus: bool,
}

impl Fixture {
    /// An all-reduce, a broadcast from rank 0, and a message from rank 0 to rank 1.
    pub(crate) fn sound() -> Self {
        let collectives = |late: u64, root_sends: u64| {
            vec![
                Step::Enter(100 + late, ALL_REDUCE, 4096),
                Step::Begin(100 + late),
                Step::End(200, CollectiveOp::Allreduce, None, 8192, 8192),
                Step::Leave(200, ALL_REDUCE),
                Step::Enter(300, BROADCAST, 64),
                Step::Begin(300),
                Step::End(350, CollectiveOp::Bcast, Some(0), root_sends, 64),
                Step::Leave(350, BROADCAST),
            ]
        };
        let mut sender = collectives(0, 128);
        sender.extend([
            Step::Enter(400, SEND, 1000),
            Step::Isend(400, 1, 1),
            Step::IsendComplete(450, 1),
            Step::Leave(450, SEND),
            Step::Put(451, 3),
            Step::Metric(452, MetricValue::U64(7)),
            Step::PutComplete(453, 3),
        ]);
        let mut receiver = collectives(20, 0);
        receiver.extend([
            Step::Enter(410, RECEIVE, 1000),
            Step::IrecvRequest(410, 7),
            Step::Irecv(455, 0, 7),
            Step::Leave(455, RECEIVE),
        ]);
        Self {
            ranks: [sender, receiver],
            channel: vec![Step::EnterChannel(105, 100), Step::Leave(203, CHANNEL)],
            properties: vec![
                ("NCCL::VERSION", "2.28.9".to_owned()),
                ("NCCL::GPU_CLOCK::BOUNDED::RANKS", "1".to_owned()),
                ("NCCL::GPU_CLOCK::BOUNDED::RESIDUAL_NS", "5".to_owned()),
            ],
            promised: None,
            listed: vec![0, 1],
            members: vec![0, 1],
            attribute_type: AttributeType::U64,
            span: (100, 455),
            two_hosts: false,
            offsets: Default::default(),
            deviation: 0.0,
            said: Default::default(),
            boots: [None; 2],
            cpu_lanes: false,
            two_gpus: false,
        }
    }

    /// Sets a property.
    pub(crate) fn property(&mut self, name: &'static str, value: &str) {
        self.properties.retain(|(known, _)| *known != name);
        self.properties.push((name, value.to_owned()));
    }

    /// What a writer says of what it wrote.
    fn account(&self) -> Vec<(&'static str, String)> {
        let mut counts = [0_u32; 4];
        for step in self.ranks.iter().flatten().chain(&self.channel) {
            match step {
                Step::Enter(_, SEND | RECEIVE, _) => counts[1] += 1,
                Step::Enter(_, ALL_REDUCE | BROADCAST, _)
                | Step::EnterUnfinished(..)
                | Step::EnterByKernels(..) => counts[0] += 1,
                Step::EnterChannel(..) => counts[2] += 1,
                Step::EnterLaunch(..) => counts[3] += 1,
                _ => {}
            }
        }
        let [coll, p2p, channels, launches] = counts.map(|count| count.to_string());
        let ends = self.ranks.iter().map(|steps| {
            let ends = steps.iter().filter(|step| matches!(step, Step::End(..)));
            ends.count()
        });
        let recorded: Vec<usize> = ends.filter(|ends| *ends > 0).collect();
        let most = recorded.iter().max().copied().unwrap_or(0);
        let unmatched = most - recorded.iter().min().copied().unwrap_or(0);
        let said = |name: &str| self.properties.iter().any(|(known, _)| *known == name);
        let counts = [
            ("NCCL::COUNT::COLL::SEEN", coll.clone()),
            ("NCCL::COUNT::COLL::WRITTEN", coll),
            ("NCCL::COUNT::P2P::SEEN", p2p.clone()),
            ("NCCL::COUNT::P2P::WRITTEN", p2p),
            ("NCCL::COUNT::KERNELCH::SEEN", channels.clone()),
            ("NCCL::COUNT::KERNELCH::WRITTEN", channels),
            ("NCCL::COUNT::KERNELLAUNCH::SEEN", launches.clone()),
            ("NCCL::COUNT::KERNELLAUNCH::WRITTEN", launches),
            ("NCCL::COLLECTIVES_UNMATCHED", unmatched.to_string()),
        ];
        let unsaid = counts.into_iter().filter(|(name, _)| !said(name));
        unsaid.collect()
    }

    /// The locations with what they do.
    fn lanes(&self) -> [(LocationRef, &[Step]); 3] {
        let [first, second] = &self.ranks;
        let lanes = [(0, first), (1, second), (CHANNEL_LANE, &self.channel)];
        lanes.map(|(id, steps)| (LocationRef::new(id), steps.as_slice()))
    }

    /// Writes it to `directory/traces.otf2` and returns the directory.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        let directory = directory.join("trace");
        std::fs::create_dir_all(&directory).expect("a directory");
        self.try_write(&directory).expect("an archive");
        directory
    }

    fn try_write(&self, directory: &Path) -> otf2::Result<()> {
        let mut archive = ArchiveWriter::create(directory, "traces")?;
        archive.set_creator("a test")?;
        for (name, value) in self.properties.iter().chain(&self.account()) {
            archive.set_property(name, value)?;
        }
        let mut written = Vec::new();
        for (location, steps) in self.lanes() {
            let mut writer = archive.event_writer(location)?;
            for step in steps {
                step.write(&mut writer)?;
            }
            written.push(writer.close()?);
        }
        // libotf2 makes no file for a location without events.
        for ((location, _), events) in self.lanes().iter().zip(&written) {
            if *events == 0 {
                let file = archive.event_file(*location);
                otf2::write_stub_events(&file)?;
            }
        }
        if let Some(promised) = self.promised {
            written[1] = promised;
        }
        self.define(&mut archive, &written)?;
        for ((location, _), offsets) in self.lanes().iter().zip(&self.offsets) {
            let mut local = archive.local_definitions(*location)?;
            let of_rank_1 = if location.get() == 1 {
                self.deviation
            } else {
                0.0
            };
            for (time, offset) in offsets {
                local.clock_offset(*time, *offset, of_rank_1)?;
            }
            local.close()?;
        }
        archive.close()
    }

    fn define(&self, archive: &mut ArchiveWriter, events: &[u64]) -> otf2::Result<()> {
        let mut definitions = archive.definitions()?;
        definitions.clock_properties(&ClockProperties {
            timer_resolution: 1_000_000_000,
            global_offset: self.span.0,
            trace_length: self.span.1 - self.span.0,
            realtime_timestamp: u64::MAX,
        })?;
        let mut texts = vec![
            "machine",
            "node",
            "host",
            "process",
            "lane 0",
            "lane 1",
            "ncclAllReduce",
            "ncclBroadcast",
            "ncclSend",
            "ncclRecv",
            "nccl.timing",
            "nccl.bytes",
            "proxy",
            "world",
            "operation",
            "kernelch",
            "nccl.event",
            "nccl.parent",
            "nccl.unfinished",
            "ncclKernelChannel",
            "channel of a kernel",
            "channel lane",
            "lane 1 (not recorded)",
            "samples",
            "nccl.external_correlation",
            "cupti",
            "ncclDevKernel",
            "kernel",
            "ncclKernelLaunch",
            "launch of a kernel",
            "boot id",
        ];
        texts.extend(self.boots.iter().flatten());
        for (name, value) in self.said.iter().flatten() {
            texts.push(name);
            if let Said::Text(text) = value {
                texts.push(text);
            }
        }
        for (number, text) in (0..).zip(&texts) {
            definitions.string(StringRef::new(number), text)?;
        }
        let string = |wanted: &str| {
            let number = texts
                .iter()
                .position(|text| *text == wanted)
                .expect("a text");
            StringRef::new(u32::try_from(number).expect("few"))
        };
        let boot = |host: usize| {
            let id = self.boots[host].into_iter();
            let id = id.map(|id| (string("boot id"), AttributeValue::String(string(id))));
            id.collect::<Vec<_>>()
        };
        let said = |process: usize| {
            let said = self.said[process].iter().map(|(name, value)| {
                let value = match value {
                    Said::Text(text) => AttributeValue::String(string(text)),
                    Said::Signed(number) => AttributeValue::I64(*number),
                    Said::Unsigned(number) => AttributeValue::U64(*number),
                };
                (string(name), value)
            });
            said.collect::<Vec<_>>()
        };
        for (number, (name, attribute_type)) in (0..).zip([
            ("nccl.timing", AttributeType::String),
            ("nccl.bytes", self.attribute_type),
            ("nccl.event", AttributeType::U64),
            ("nccl.parent", AttributeType::U64),
            ("nccl.unfinished", AttributeType::U8),
            ("nccl.external_correlation", AttributeType::U64),
        ]) {
            let attribute = Attribute {
                name: string(name),
                description: StringRef::UNDEFINED,
                attribute_type,
            };
            definitions.attribute(AttributeRef::new(number), &attribute)?;
        }
        definitions.system_tree_node(
            SystemTreeNodeRef::new(0),
            &SystemTreeNode {
                name: string("host"),
                class_name: string("node"),
                properties: boot(0),
                ..SystemTreeNode::default()
            },
        )?;
        definitions.location_group(
            LocationGroupRef::new(0),
            &LocationGroup {
                name: string("process"),
                group_type: LocationGroupType::Process,
                system_tree_parent: SystemTreeNodeRef::new(0),
                creator: LocationGroupRef::UNDEFINED,
                properties: said(0),
            },
        )?;
        // A test asks for one of them at most.
        if self.cpu_lanes {
            definitions.location_group(
                LocationGroupRef::new(1),
                &LocationGroup {
                    name: string("host"),
                    group_type: LocationGroupType::Accelerator,
                    system_tree_parent: SystemTreeNodeRef::new(0),
                    creator: LocationGroupRef::new(0),
                    properties: Vec::new(),
                },
            )?;
        }
        if self.two_gpus {
            for number in [1, 2] {
                definitions.location_group(
                    LocationGroupRef::new(number),
                    &LocationGroup {
                        name: string("host"),
                        group_type: LocationGroupType::Accelerator,
                        system_tree_parent: SystemTreeNodeRef::new(0),
                        creator: LocationGroupRef::new(0),
                        properties: Vec::new(),
                    },
                )?;
            }
        }
        if self.two_hosts {
            definitions.system_tree_node(
                SystemTreeNodeRef::new(1),
                &SystemTreeNode {
                    name: string("machine"),
                    class_name: string("node"),
                    properties: boot(1),
                    ..SystemTreeNode::default()
                },
            )?;
            definitions.location_group(
                LocationGroupRef::new(1),
                &LocationGroup {
                    name: string("process"),
                    group_type: LocationGroupType::Process,
                    system_tree_parent: SystemTreeNodeRef::new(1),
                    creator: LocationGroupRef::UNDEFINED,
                    properties: said(1),
                },
            )?;
        }
        let second = if self.ranks[1].is_empty() {
            "lane 1 (not recorded)"
        } else {
            "lane 1"
        };
        let names = ["lane 0", second, "channel lane"];
        for (((reference, _), name), events) in self.lanes().iter().zip(names).zip(events) {
            let is_of_process = self.cpu_lanes && name != "channel lane";
            let location = Location {
                name: string(name),
                location_type: if is_of_process {
                    LocationType::CpuThread
                } else {
                    LocationType::AcceleratorStream
                },
                number_of_events: *events,
                group: LocationGroupRef::new(
                    u32::from(
                        self.cpu_lanes && !is_of_process || self.two_hosts && reference.get() == 1,
                    ) + u32::from(self.two_gpus) * (1 + u32::from(name == "channel lane")),
                ),
                properties: Vec::new(),
            };
            definitions.location(*reference, &location)?;
        }
        for (number, (name, role, class)) in (0..).zip([
            ("ncclAllReduce", RegionRole::CollAll2All, "operation"),
            ("ncclBroadcast", RegionRole::CollOne2All, "operation"),
            ("ncclSend", RegionRole::Point2Point, "operation"),
            ("ncclRecv", RegionRole::Point2Point, "operation"),
            (
                "ncclKernelChannel",
                RegionRole::Artificial,
                "channel of a kernel",
            ),
            ("ncclDevKernel", RegionRole::Function, "kernel"),
            (
                "ncclKernelLaunch",
                RegionRole::Wrapper,
                "launch of a kernel",
            ),
        ]) {
            let region = Region {
                name: string(name),
                description: string(class),
                role,
                ..Region::default()
            };
            definitions.region(RegionRef::new(number), &region)?;
        }
        for (number, group_type, members) in [
            (0, GroupType::CommLocations, self.listed.clone()),
            (1, GroupType::CommGroup, self.members.clone()),
        ] {
            let group = Group {
                name: string("world"),
                group_type,
                paradigm: Paradigm::Mpi,
                flags: 0,
                members,
            };
            definitions.group(GroupRef::new(number), &group)?;
        }
        let comm = Comm {
            name: string("world"),
            group: GroupRef::new(1),
            parent: CommRef::UNDEFINED,
            flags: 0,
        };
        definitions.comm(CommRef::new(0), &comm)?;
        let window = RmaWin {
            name: string("world"),
            comm: CommRef::new(0),
            flags: 0,
        };
        definitions.rma_win(RmaWinRef::new(0), &window)?;
        let member = MetricMember {
            name: string("samples"),
            description: StringRef::UNDEFINED,
            metric_type: MetricType::Other,
            mode: MetricMode::AbsolutePoint,
            value_type: AttributeType::U64,
            base: MetricBase::Decimal,
            exponent: 0,
            unit: StringRef::UNDEFINED,
        };
        definitions.metric_member(MetricMemberRef::new(0), &member)?;
        let class = MetricClass {
            members: vec![MetricMemberRef::new(0)],
            occurrence: MetricOccurrence::Asynchronous,
            recorder_kind: RecorderKind::Gpu,
        };
        definitions.metric_class(MetricRef::new(0), &class)
    }
}

impl Step {
    fn write(self, writer: &mut EventWriter<'_>) -> otf2::Result<()> {
        const TIMING: AttributeRef = AttributeRef::new(0);
        const BYTES: AttributeRef = AttributeRef::new(1);
        const EVENT: AttributeRef = AttributeRef::new(2);
        const PARENT: AttributeRef = AttributeRef::new(3);
        const UNFINISHED: AttributeRef = AttributeRef::new(4);
        const EXTERNAL: AttributeRef = AttributeRef::new(5);
        const PROXY: StringRef = StringRef::new(12);
        const KERNEL_CHANNELS: StringRef = StringRef::new(15);
        const KERNELS: StringRef = StringRef::new(25);
        let comm = CommRef::new(0);
        let none = Attributes::NONE;
        // Two regions may begin at a time.
        let id =
            |time: u64, region: RegionRef| AttributeValue::U64(time * 10 + u64::from(region.get()));
        let message = |peer| Message {
            peer,
            comm,
            tag: 0,
            bytes: 1000,
        };
        match self {
            Self::Enter(time, region, bytes) => {
                let timing = if region == ALL_REDUCE {
                    KERNEL_CHANNELS
                } else {
                    PROXY
                };
                let attributes = Attributes::try_from([
                    (TIMING, AttributeValue::String(timing)),
                    (BYTES, AttributeValue::U64(bytes)),
                    (EVENT, id(time, region)),
                ])?;
                writer.enter(time, region, &attributes)
            }
            Self::EnterUnfinished(time, region) => {
                let attributes = Attributes::try_from([
                    (EVENT, id(time, region)),
                    (UNFINISHED, AttributeValue::U8(1)),
                ])?;
                writer.enter(time, region, &attributes)
            }
            Self::EnterChannel(time, parent) => {
                let attributes = Attributes::try_from([
                    (EVENT, id(time, CHANNEL)),
                    (PARENT, id(parent, ALL_REDUCE)),
                ])?;
                writer.enter(time, CHANNEL, &attributes)
            }
            Self::EnterByKernels(time, region) => {
                let attributes = Attributes::try_from([
                    (TIMING, AttributeValue::String(KERNELS)),
                    (EVENT, id(time, region)),
                ])?;
                writer.enter(time, region, &attributes)
            }
            Self::EnterKernel(time, region, parent, external) => {
                let attributes = Attributes::try_from([
                    (PARENT, id(parent, region)),
                    (EXTERNAL, AttributeValue::U64(external)),
                ])?;
                writer.enter(time, KERNEL, &attributes)
            }
            Self::EnterLaunch(time, external) => {
                let attributes = Attributes::try_from([
                    (EVENT, id(time, LAUNCH)),
                    (EXTERNAL, AttributeValue::U64(external)),
                ])?;
                writer.enter(time, LAUNCH, &attributes)
            }
            Self::IrecvBytes(time, peer, request, bytes) => {
                let message = Message {
                    bytes,
                    ..message(peer)
                };
                writer.mpi_irecv(time, &message, request, none)
            }
            Self::Put(time, matching) => {
                let access = RmaAccess {
                    win: RmaWinRef::new(0),
                    remote: 1,
                    bytes: 8,
                    matching,
                };
                writer.rma_put(time, &access, none)
            }
            Self::PutComplete(time, matching) => {
                writer.rma_op_complete_non_blocking(time, RmaWinRef::new(0), matching, none)
            }
            Self::Metric(time, value) => writer.metric(time, MetricRef::new(0), &[value], none),
            Self::Leave(time, region) => writer.leave(time, region, none),
            Self::Begin(time) => writer.mpi_collective_begin(time, none),
            Self::End(time, op, root, bytes_sent, bytes_received) => {
                let collective = Collective {
                    op,
                    comm,
                    root,
                    bytes_sent,
                    bytes_received,
                };
                writer.mpi_collective_end(time, &collective, none)
            }
            Self::Isend(time, peer, request) => {
                writer.mpi_isend(time, &message(peer), request, none)
            }
            Self::IsendComplete(time, request) => writer.mpi_isend_complete(time, request, none),
            Self::IrecvRequest(time, request) => writer.mpi_irecv_request(time, request, none),
            Self::Irecv(time, peer, request) => {
                writer.mpi_irecv(time, &message(peer), request, none)
            }
        }
    }
}
