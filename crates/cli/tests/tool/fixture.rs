//! Small archives of two ranks, sound unless a test spoils them.

use std::path::{Path, PathBuf};

use otf2::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, Region, SystemTreeNode,
};
use otf2::{
    ArchiveWriter, AttributeRef, AttributeType, AttributeValue, Attributes, Collective,
    CollectiveOp, CommRef, EventWriter, GroupRef, GroupType, LocationGroupRef, LocationGroupType,
    LocationRef, LocationType, Message, Paradigm, RegionRef, RegionRole, StringRef,
    SystemTreeNodeRef,
};

/// An event of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Enters an operation of so many bytes.
    Enter(u64, RegionRef, u64),
    Leave(u64, RegionRef),
    Begin(u64),
    /// With the bytes that this rank sends and receives.
    End(u64, CollectiveOp, Option<u32>, u64, u64),
    Isend(u64, u32, u64),
    IsendComplete(u64, u64),
    IrecvRequest(u64, u64),
    Irecv(u64, u32, u64),
}

pub(crate) const ALL_REDUCE: RegionRef = RegionRef::new(0);
pub(crate) const BROADCAST: RegionRef = RegionRef::new(1);
pub(crate) const SEND: RegionRef = RegionRef::new(2);
pub(crate) const RECEIVE: RegionRef = RegionRef::new(3);

/// What is to be written.
pub(crate) struct Fixture {
    pub(crate) ranks: [Vec<Step>; 2],
    pub(crate) properties: Vec<(&'static str, String)>,
    /// Promised events of rank 1, where they are not those written.
    pub(crate) promised: Option<u64>,
    /// Indices of the communicator's ranks into the list of two locations.
    pub(crate) members: Vec<u64>,
    pub(crate) attribute_type: AttributeType,
    /// Ends of the clock.
    pub(crate) span: (u64, u64),
    /// Clock offsets of rank 1.
    pub(crate) offsets: Vec<(u64, i64)>,
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
            properties: vec![
                ("NCCL::VERSION", "2.28.9".to_owned()),
                ("NCCL::COUNT::COLL::SEEN", "4".to_owned()),
                ("NCCL::COUNT::COLL::WRITTEN", "4".to_owned()),
            ],
            promised: None,
            members: vec![0, 1],
            attribute_type: AttributeType::U64,
            span: (100, 455),
            offsets: Vec::new(),
        }
    }

    /// Sets a property.
    pub(crate) fn property(&mut self, name: &'static str, value: &str) {
        self.properties.retain(|(known, _)| *known != name);
        self.properties.push((name, value.to_owned()));
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
        for (name, value) in &self.properties {
            archive.set_property(name, value)?;
        }
        let mut written = Vec::new();
        for (location, steps) in (0..).zip(&self.ranks) {
            let mut writer = archive.event_writer(LocationRef::new(location))?;
            for step in steps {
                step.write(&mut writer)?;
            }
            written.push(writer.close()?);
        }
        // libotf2 makes no file for a location without events.
        for (location, events) in (0..).zip(&written) {
            if *events == 0 {
                let file = archive.event_file(LocationRef::new(location));
                otf2::write_stub_events(&file)?;
            }
        }
        if let Some(promised) = self.promised {
            written[1] = promised;
        }
        self.define(&mut archive, &written)?;
        for location in 0..2 {
            let mut local = archive.local_definitions(LocationRef::new(location))?;
            if location == 1 {
                for (time, offset) in &self.offsets {
                    local.clock_offset(*time, *offset, 0.0)?;
                }
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
        let texts = [
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
        ];
        for (number, text) in (0..).zip(texts) {
            definitions.string(StringRef::new(number), text)?;
        }
        let string = |wanted: &str| {
            let number = texts
                .iter()
                .position(|text| *text == wanted)
                .expect("a text");
            StringRef::new(u32::try_from(number).expect("few"))
        };
        for (number, (name, attribute_type)) in (0..).zip([
            ("nccl.timing", AttributeType::String),
            ("nccl.bytes", self.attribute_type),
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
                properties: Vec::new(),
            },
        )?;
        for ((number, name), events) in (0..).zip(["lane 0", "lane 1"]).zip(events) {
            let location = Location {
                name: string(name),
                location_type: LocationType::AcceleratorStream,
                number_of_events: *events,
                group: LocationGroupRef::new(0),
                properties: Vec::new(),
            };
            definitions.location(LocationRef::new(number), &location)?;
        }
        for (number, (name, role)) in (0..).zip([
            ("ncclAllReduce", RegionRole::CollAll2All),
            ("ncclBroadcast", RegionRole::CollOne2All),
            ("ncclSend", RegionRole::Point2Point),
            ("ncclRecv", RegionRole::Point2Point),
        ]) {
            let region = Region {
                name: string(name),
                role,
                ..Region::default()
            };
            definitions.region(RegionRef::new(number), &region)?;
        }
        for (number, group_type, members) in [
            (0, GroupType::CommLocations, vec![0, 1]),
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
        definitions.comm(CommRef::new(0), &comm)
    }
}

impl Step {
    fn write(self, writer: &mut EventWriter<'_>) -> otf2::Result<()> {
        const TIMING: AttributeRef = AttributeRef::new(0);
        const BYTES: AttributeRef = AttributeRef::new(1);
        const PROXY: StringRef = StringRef::new(12);
        let comm = CommRef::new(0);
        let none = Attributes::NONE;
        let message = |peer| Message {
            peer,
            comm,
            tag: 0,
            bytes: 1000,
        };
        match self {
            Self::Enter(time, region, bytes) => {
                let attributes = Attributes::try_from([
                    (TIMING, AttributeValue::String(PROXY)),
                    (BYTES, AttributeValue::U64(bytes)),
                ])?;
                writer.enter(time, region, &attributes)
            }
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
