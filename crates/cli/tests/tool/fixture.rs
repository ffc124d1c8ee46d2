//! Small archives of two ranks, sound unless a test corrupts them.

mod write;

use std::path::{Path, PathBuf};

use otf2::{ArchiveWriter, AttributeType, CollectiveOp, LocationRef, MetricValue, RegionRef};

/// An event of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Enters an operation; the last number is its size in bytes.
    Enter(u64, RegionRef, u64),
    /// Enters an operation that has not ended.
    EnterUnfinished(u64, RegionRef),
    /// Enters a kernel channel of the all-reduce that began at the second time.
    EnterChannel(u64, u64),
    /// Enters an operation that is timed by its kernels.
    EnterByKernels(u64, RegionRef),
    /// Enters an operation that names the launch that began at the second time.
    EnterLaunched(u64, RegionRef, u64),
    /// Enters a kernel with this external id, of the operation that began in this region at the second time.
    EnterKernel(u64, RegionRef, u64, u64),
    /// Enters a launch with this external id.
    EnterLaunch(u64, u64),
    /// Enters a region that names a user range around it, if any.
    EnterInRange(u64, RegionRef, bool),
    Leave(u64, RegionRef),
    Begin(u64),
    /// Ends a collective, with the bytes that this rank sends and receives.
    End(u64, CollectiveOp, Option<u32>, u64, u64),
    Isend(u64, u32, u64),
    IsendComplete(u64, u64),
    IrecvRequest(u64, u64),
    Irecv(u64, u32, u64),
    /// Receives a different number of bytes than was sent.
    IrecvBytes(u64, u32, u64, u64),
    /// Puts to rank 1 with a matching id.
    Put(u64, u64),
    PutComplete(u64, u64),
    Metric(u64, MetricValue),
    /// A record whose parameter is not defined.
    UndefinedRecord(u64),
}

pub(crate) const ALL_REDUCE: RegionRef = RegionRef::new(0);
pub(crate) const BROADCAST: RegionRef = RegionRef::new(1);
pub(crate) const SEND: RegionRef = RegionRef::new(2);
pub(crate) const RECEIVE: RegionRef = RegionRef::new(3);
pub(crate) const CHANNEL: RegionRef = RegionRef::new(4);
pub(crate) const KERNEL: RegionRef = RegionRef::new(5);
pub(crate) const LAUNCH: RegionRef = RegionRef::new(6);
/// A user range, a call that NCCL's interface reports, and the same call as a range of NCCL's.
pub(crate) const RANGE: RegionRef = RegionRef::new(7);
pub(crate) const CALL: RegionRef = RegionRef::new(8);
pub(crate) const CALL_BY_RANGE: RegionRef = RegionRef::new(9);

/// The location of a kernel's channel and of kernels.
const CHANNEL_LOCATION: u64 = 1 << 32;

/// The value of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StatedValue {
    Text(&'static str),
    Signed(i64),
    Unsigned(u64),
}

/// An archive to be written.
pub(crate) struct Fixture {
    pub(crate) ranks: [Vec<Step>; 2],
    /// The events of the kernel's channel.
    pub(crate) channel: Vec<Step>,
    pub(crate) properties: Vec<(&'static str, String)>,
    /// The stated number of events of rank 1, if it differs from those written.
    pub(crate) promised: Option<u64>,
    /// The list of communicating locations.
    pub(crate) listed: Vec<u64>,
    /// Indices of the communicator's ranks into the list of two locations.
    pub(crate) members: Vec<u64>,
    pub(crate) attribute_type: AttributeType,
    pub(crate) span: (u64, u64),
    /// Whether rank 1 is on a second host.
    pub(crate) two_hosts: bool,
    /// Clock offsets of rank 0, of rank 1, and of the kernel's channel, which belongs to the process of rank 0.
    pub(crate) offsets: [Vec<(u64, i64)>; 3],
    /// Standard deviation of the offsets on rank 1.
    pub(crate) deviation: f64,
    /// Statements of the two processes on their clocks, used with `two_hosts`.
    pub(crate) statements: [Vec<(&'static str, StatedValue)>; 2],
    /// The boot ids of the two hosts.
    pub(crate) boots: [Option<&'static str>; 2],
    /// Whether communicators' locations are threads of the process; only the channel's is then on the GPU.
    pub(crate) cpu_lanes: bool,
    /// Whether communicators' locations are on one GPU, and the channel's on another.
    pub(crate) two_gpus: bool,
    /// Whether locations state their kind.
    pub(crate) has_kinds: bool,
    /// The names of the ranks' locations.
    pub(crate) rank_names: [&'static str; 2],
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
                ("NCCL::CLOCK::RESIDUAL_NS", "0".to_owned()),
                ("NCCL::CLOCK::UNCERTAINTY_NS", "0".to_owned()),
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
            statements: Default::default(),
            boots: [None; 2],
            cpu_lanes: false,
            two_gpus: false,
            has_kinds: true,
            rank_names: ["rank 0", "rank 1"],
        }
    }

    pub(crate) fn property(&mut self, name: &'static str, value: &str) {
        self.properties.retain(|(known, _)| *known != name);
        self.properties.push((name, value.to_owned()));
    }

    /// The counts that a writer states.
    fn account(&self) -> Vec<(&'static str, String)> {
        let mut counts = [0_u32; 4];
        for step in self.ranks.iter().flatten().chain(&self.channel) {
            match step {
                Step::Enter(_, SEND | RECEIVE, _) => counts[1] += 1,
                Step::Enter(_, ALL_REDUCE | BROADCAST, _)
                | Step::EnterUnfinished(..)
                | Step::EnterByKernels(..)
                | Step::EnterLaunched(..) => counts[0] += 1,
                Step::EnterChannel(..) => counts[2] += 1,
                Step::EnterLaunch(..) => counts[3] += 1,
                _ => {}
            }
        }
        let [coll, p2p, channels, launches] = counts.map(|count| count.to_string());
        let ends = self.ranks.iter().map(|steps| steps.iter().filter(|step| matches!(step, Step::End(..))).count());
        let recorded: Vec<usize> = ends.filter(|ends| *ends > 0).collect();
        let most = recorded.iter().max().copied().unwrap_or(0);
        let unmatched = most - recorded.iter().min().copied().unwrap_or(0);
        let is_set = |name: &str| self.properties.iter().any(|(known, _)| *known == name);
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
        counts.into_iter().filter(|(name, _)| !is_set(name)).collect()
    }

    fn locations(&self) -> [(LocationRef, &[Step]); 3] {
        let [first, second] = &self.ranks;
        let locations = [(0, first), (1, second), (CHANNEL_LOCATION, &self.channel)];
        locations.map(|(id, steps)| (LocationRef::new(id), steps.as_slice()))
    }

    /// Writes the archive to `directory/trace/traces.otf2` and returns the directory `trace`.
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
        for (location, steps) in self.locations() {
            let mut writer = archive.event_writer(location)?;
            for step in steps {
                step.write(&mut writer)?;
            }
            written.push(writer.close()?);
        }
        // libotf2 creates no file for a location without events.
        for ((location, _), events) in self.locations().iter().zip(&written) {
            if *events == 0 {
                let file = archive.event_file(*location);
                otf2::write_stub_events(&file)?;
            }
        }
        if let Some(promised) = self.promised {
            written[1] = promised;
        }
        self.define(&mut archive, &written);
        for ((location, _), offsets) in self.locations().iter().zip(&self.offsets) {
            let mut local = archive.local_definitions(*location)?;
            let rank_1_deviation = if location.get() == 1 { self.deviation } else { 0.0 };
            for (time, offset) in offsets {
                local.clock_offset(*time, *offset, rank_1_deviation)?;
            }
            local.close()?;
        }
        archive.close()
    }
}
