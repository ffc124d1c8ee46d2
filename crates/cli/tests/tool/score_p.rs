//! Made-up jobs of MPI and NCCL on machines with clocks of their own: what Score-P would write of them, and NCCL's
//! archive. When everything happened is known, so that a merged archive can be held against the truth.

use std::path::{Path, PathBuf};

use otf2::verbatim::Definition;
use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, Attributes, CallingContextRef, Collective,
    CollectiveOp, CommRef, EventWriter, GroupRef, IoFileRef, IoHandleRef, IoParadigmRef,
    LocationGroupRef, LocationRef, MappingType, Message, MetricMemberRef, MetricRef, MetricValue,
    ParameterRef, RegionRef, RmaAccess, RmaWinRef, SourceCodeLocationRef, StringRef,
    SystemTreeNodeRef,
};

/// Nanoseconds since some moment that all hosts have in common.
pub(crate) type Moment = i128;

pub(crate) const SECOND: Moment = 1_000_000_000;

/// What Score-P reads the time from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    Counter,
    MonotonicRaw,
    Realtime,
}

/// The clocks of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) name: &'static str,
    pub(crate) ticks_per_second: Moment,
    began: Moment,
    slew_ppb: Moment,
}

pub(crate) const HOSTS: [Host; 2] = [
    Host {
        name: "alpha",
        ticks_per_second: 2_445_450_361,
        began: 4_000 * SECOND,
        slew_ppb: 12_000,
    },
    // Started later, and its quartz is another.
    Host {
        name: "beta",
        ticks_per_second: 2_445_455_252,
        began: 77 * SECOND,
        slew_ppb: -35_000,
    },
];

impl Host {
    fn ticks(&self, at: Moment) -> Moment {
        (self.began + at) * self.ticks_per_second / SECOND
    }

    fn monotonic(&self, at: Moment) -> Moment {
        self.began + at + at * self.slew_ppb / SECOND
    }

    fn raw(&self, at: Moment) -> Moment {
        self.began + at - 3 * SECOND
    }

    /// Their wall clocks are 8 ms apart.
    fn realtime(&self, at: Moment) -> Moment {
        self.monotonic(at) - self.began + 1_700_000_000 * SECOND + self.began / 500_000
    }

    fn timer(&self, timer: Timer, at: Moment) -> Moment {
        match timer {
            Timer::Counter => self.ticks(at),
            Timer::MonotonicRaw => self.raw(at),
            Timer::Realtime => self.realtime(at) / 1000,
        }
    }
}

/// How much later something of the last host is by the wall clocks, in ticks of the first host's timer.
pub(crate) fn wall_clocks_differ(timer: Timer, at: Moment) -> Moment {
    let [alpha, beta] = HOSTS;
    // The moment at which the first host's wall clock shows what the last one's shows.
    let shown = beta.realtime(at);
    let by_offset = alpha.realtime(0) - alpha.monotonic(0);
    let monotonic = shown - by_offset;
    let moment = (monotonic - alpha.began) * SECOND / (SECOND + alpha.slew_ppb);
    alpha.timer(timer, moment) - alpha.timer(timer, at)
}

/// The host of a rank: the last one has one of its own.
pub(crate) fn host(rank: u64) -> Host {
    HOSTS[usize::from(rank == RANKS - 1)]
}

pub(crate) const RANKS: u64 = 3;

pub(crate) fn process_id(rank: u64) -> u64 {
    1000 + 17 * rank
}

fn number(moment: Moment) -> u64 {
    u64::try_from(moment).expect("a time")
}

/// Collects the strings of an archive.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    fn get(&mut self, text: &str) -> StringRef {
        let place = self.0.iter().position(|known| known == text);
        let place = place.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        StringRef::new(u32::try_from(place).expect("few"))
    }

    fn definitions(self) -> Vec<Definition> {
        let texts = (0..).zip(self.0);
        let definition = texts.map(|(number, text)| Definition::String {
            this: StringRef::new(number),
            text: text.into_bytes(),
        });
        definition.collect()
    }
}

/// The trace of Score-P's.
pub(crate) struct ScoreP {
    pub(crate) timer: Timer,
    /// Whether `scorep.cfg` is there.
    pub(crate) has_settings: bool,
    /// Whether PROGRAM_BEGIN has the process's number.
    pub(crate) has_process_ids: bool,
    /// The one process that it is of, by its rank: without MPI.
    pub(crate) only: Option<u64>,
}

/// When MPI_Allreduce is called and left by all ranks, twice.
pub(crate) const MPI: [(Moment, Moment); 2] = [
    (2 * SECOND, 2 * SECOND + 10_000_000),
    (2 * SECOND + 30_004_000, 4 * SECOND),
];

const MAIN: RegionRef = RegionRef::new(0);
pub(crate) const ALLREDUCE: RegionRef = RegionRef::new(1);
const WORK: RegionRef = RegionRef::new(2);
const WINDOW: RmaWinRef = RmaWinRef::new(0);
const WORLD: CommRef = CommRef::new(0);

impl ScoreP {
    pub(crate) fn new(timer: Timer) -> Self {
        Self {
            timer,
            has_settings: true,
            has_process_ids: true,
            only: None,
        }
    }

    /// The time of the whole trace: that of rank 0's host.
    pub(crate) fn time(&self, at: Moment) -> u64 {
        number(host(0).timer(self.timer, at))
    }

    /// The host whose clock is that of the trace.
    fn clock(&self) -> Host {
        host(self.only.unwrap_or(0))
    }

    fn resolution(&self) -> u64 {
        match self.timer {
            Timer::Counter => number(self.clock().ticks_per_second),
            Timer::MonotonicRaw => 1_000_000_000,
            Timer::Realtime => 1_000_000,
        }
    }

    /// Writes it to `directory`.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        std::fs::create_dir_all(directory).expect("a directory");
        if self.has_settings {
            let name = match self.timer {
                Timer::Counter => "tsc",
                Timer::MonotonicRaw => "clock_gettime",
                Timer::Realtime => "gettimeofday",
            };
            let text = format!("SCOREP_ENABLE_TRACING=true\nSCOREP_TIMER='{name}'\n");
            std::fs::write(directory.join("scorep.cfg"), text).expect("settings");
        }
        // Score-P's chunks of definitions are smaller than ours.
        let mut archive =
            ArchiveWriter::create_with_chunks(directory, "traces", 256 << 10).expect("an archive");
        archive.set_creator("Score-P 8.4").expect("a creator");
        archive
            .set_property("OTF2::MPI_COMMUNICATION_COMPLETE", "true")
            .expect("a property");
        let mut events = Vec::new();
        for rank in (0..RANKS).filter(|rank| self.only.is_none_or(|only| only == *rank)) {
            for thread in 0..2 {
                let in_id = if self.only.is_some() { 0 } else { rank };
                let location = LocationRef::new(thread << 32 | in_id);
                let mut writer = archive.event_writer(location).expect("a writer");
                let at = |moment| number(host(rank).timer(self.timer, moment));
                match thread {
                    0 => self.master(&mut writer, rank, at),
                    _ => self.second(&mut writer, rank, at),
                }
                .expect("events");
                events.push((location, writer.close().expect("events")));
                self.local(&mut archive, location, rank);
            }
        }
        let mut to = archive.definitions().expect("definitions");
        for definition in self.definitions(&events) {
            to.verbatim(&definition).expect("a definition");
        }
        archive.close().expect("an archive");
        directory.to_owned()
    }

    fn local(&self, archive: &mut ArchiveWriter, location: LocationRef, rank: u64) {
        let mut local = archive.local_definitions(location).expect("a writer");
        // As Score-P does it: at MPI_Init and when it ends.
        for at in [SECOND + 500_000_000, 5 * SECOND] {
            let own = host(rank).timer(self.timer, at);
            let all = self.clock().timer(self.timer, at);
            let offset = i64::try_from(all - own).expect("an offset");
            local
                .clock_offset(number(own), offset, 0.0)
                .expect("an offset");
        }
        local
            .mapping_table_dense(MappingType::Comm, &[0, 1])
            .expect("a table");
        local.close().expect("local definitions");
    }

    fn master(
        &self,
        to: &mut EventWriter<'_>,
        rank: u64,
        at: impl Fn(Moment) -> u64,
    ) -> otf2::Result<()> {
        let none = Attributes::NONE;
        let mut process = Attributes::new();
        if self.has_process_ids {
            process.add(AttributeRef::new(0), AttributeValue::U64(process_id(rank)))?;
        }
        let begin = SECOND + Moment::from(rank) * 1_000_000;
        to.program_begin(at(begin), StringRef::new(0), &process)?;
        to.enter(at(begin + 1000), MAIN, none)?;
        for (enter, leave) in MPI {
            to.enter(at(enter), ALLREDUCE, none)?;
            if self.only.is_some() {
                to.leave(at(leave), ALLREDUCE, none)?;
                continue;
            }
            to.mpi_collective_begin(at(enter), none)?;
            let collective = Collective {
                op: CollectiveOp::Allreduce,
                comm: WORLD,
                root: None,
                bytes_sent: 24,
                bytes_received: 24,
            };
            to.mpi_collective_end(at(leave), &collective, none)?;
            to.leave(at(leave), ALLREDUCE, none)?;
        }
        to.leave(at(6 * SECOND), MAIN, none)?;
        to.program_end(at(6 * SECOND), 0, none)
    }

    /// What a thread beside MPI does: all that archives of Score-P's can have besides.
    fn second(
        &self,
        to: &mut EventWriter<'_>,
        rank: u64,
        at: impl Fn(Moment) -> u64,
    ) -> otf2::Result<()> {
        let none = Attributes::NONE;
        let at = |step: Moment| at(3 * SECOND + step * 1000);
        to.enter(at(0), WORK, none)?;
        to.parameter_u64(at(0), ParameterRef::new(0), rank, none)?;
        to.metric(at(1), MetricRef::new(0), &[MetricValue::U64(4096)], none)?;
        to.io_create_handle(at(2), IoHandleRef::new(0), (1, 0, 0), none)?;
        to.io_operation_begin(at(3), IoHandleRef::new(0), 1, (512, 7), none)?;
        to.io_operation_complete(at(4), IoHandleRef::new(0), (512, 7), none)?;
        to.io_destroy_handle(at(5), IoHandleRef::new(0), none)?;
        to.leave(at(5), WORK, none)?;
        to.calling_context_enter(at(6), CallingContextRef::new(0), 2, none)?;
        to.calling_context_leave(at(7), CallingContextRef::new(0), none)?;
        if self.only.is_some() {
            return Ok(());
        }
        to.rma_win_create(at(8), WINDOW, none)?;
        let access = RmaAccess {
            win: WINDOW,
            remote: 0,
            bytes: 8,
            matching: 1,
        };
        to.rma_put(at(9), &access, none)?;
        to.rma_op_complete_blocking(at(10), WINDOW, 1, none)?;
        to.rma_win_destroy(at(11), WINDOW, none)
    }

    fn definitions(&self, events: &[(LocationRef, u64)]) -> Vec<Definition> {
        let mut texts = Texts::default();
        let mut text = |text: &str| texts.get(text);
        let program = text("train");
        assert_eq!(program, StringRef::new(0));
        let mut all = Vec::new();
        let has_mpi = self.only.is_none();
        if has_mpi {
            all.push(Definition::Paradigm {
                paradigm: 4,
                name: text("MPI"),
                class: 0,
            });
            all.push(Definition::ParadigmProperty {
                paradigm: 4,
                property: 0,
                value: AttributeValue::String(text("Comm ${id}")),
            });
        }
        all.push(Definition::IoParadigm {
            this: IoParadigmRef::new(0),
            identification: text("POSIX"),
            name: text("POSIX I/O"),
            class: 0,
            flags: 0,
            properties: Vec::new(),
        });
        all.push(Definition::SystemTreeNode {
            this: SystemTreeNodeRef::new(0),
            name: text("Linux"),
            class_name: text("machine"),
            parent: SystemTreeNodeRef::UNDEFINED,
        });
        for (number, host) in (1..).zip(HOSTS) {
            all.push(Definition::SystemTreeNode {
                this: SystemTreeNodeRef::new(number),
                // With the domain, which NCCL's archive does not have.
                name: text(&format!("{}.cluster.example", host.name)),
                class_name: text("node"),
                parent: SystemTreeNodeRef::new(0),
            });
            all.push(Definition::SystemTreeNodeDomain {
                of: SystemTreeNodeRef::new(number),
                domain: 1,
            });
        }
        for group in 0..if has_mpi { RANKS } else { 1 } {
            let rank = self.only.unwrap_or(group);
            let name = match self.only {
                None => format!("MPI Rank {rank}"),
                Some(_) => "Process".to_owned(),
            };
            all.push(Definition::LocationGroup {
                this: LocationGroupRef::new(u32::try_from(group).expect("few")),
                name: text(&name),
                group_type: 1,
                parent: SystemTreeNodeRef::new(if rank == RANKS - 1 { 2 } else { 1 }),
                creator: LocationGroupRef::UNDEFINED,
            });
        }
        for (location, events) in events {
            let rank = location.get() & 0xff;
            let thread = location.get() >> 32;
            all.push(Definition::Location {
                this: *location,
                name: text(if thread == 0 {
                    "Master thread"
                } else {
                    "Pthread thread 1"
                }),
                location_type: 1,
                number_of_events: *events,
                group: LocationGroupRef::new(u32::try_from(rank).expect("few")),
            });
        }
        for (number, (name, role)) in (0..).zip([("main", 1), ("MPI_Allreduce", 25), ("work", 1)]) {
            all.push(Definition::Region {
                this: RegionRef::new(number),
                name: text(name),
                canonical_name: text(name),
                description: StringRef::UNDEFINED,
                role,
                paradigm: if role == 25 { 4 } else { 1 },
                flags: 0,
                source_file: text("MPI"),
                begin_line: 0,
                end_line: 0,
            });
        }
        // In the order of ranks, as Score-P lists masters only.
        let groups = [
            (0, 4, vec![0, 1, 2]),
            (1, 5, vec![0, 1, 2]),
            (2, 6, Vec::new()),
        ];
        for (number, group_type, members) in groups.into_iter().filter(|_| has_mpi) {
            all.push(Definition::Group {
                this: GroupRef::new(number),
                name: text(""),
                group_type,
                paradigm: 4,
                flags: 0,
                members,
            });
        }
        let comms = [(0, "MPI_COMM_WORLD", 1), (1, "MPI_COMM_SELF", 2)];
        for (number, name, group) in comms.into_iter().filter(|_| has_mpi) {
            all.push(Definition::Comm {
                this: CommRef::new(number),
                name: text(name),
                group: GroupRef::new(group),
                parent: CommRef::UNDEFINED,
                flags: 0,
            });
        }
        if has_mpi {
            all.push(Definition::RmaWin {
                this: WINDOW,
                name: text("Win 0"),
                comm: WORLD,
                flags: 1,
            });
        }
        all.push(Definition::MetricMember {
            this: MetricMemberRef::new(0),
            name: text("ru_maxrss"),
            description: text(""),
            metric_type: 2,
            mode: 2,
            value_type: 4,
            base: 0,
            exponent: 0,
            unit: text("KiB"),
        });
        all.push(Definition::MetricClass {
            this: MetricRef::new(0),
            members: vec![MetricMemberRef::new(0)],
            occurrence: 2,
            recorder_kind: 1,
        });
        all.push(Definition::MetricInstance {
            this: MetricRef::new(1),
            class: MetricRef::new(0),
            recorder: LocationRef::new(0),
            scope_kind: 1,
            scope: 0,
        });
        all.push(Definition::Parameter {
            this: ParameterRef::new(0),
            name: text("step"),
            parameter_type: 2,
        });
        all.push(Definition::Attribute {
            this: AttributeRef::new(0),
            name: text("ProcessId"),
            description: text("Process identifier"),
            attribute_type: 4,
        });
        all.push(Definition::SourceCodeLocation {
            this: SourceCodeLocationRef::new(0),
            file: text("train.c"),
            line: 42,
        });
        all.push(Definition::CallingContext {
            this: CallingContextRef::new(0),
            region: WORK,
            source_code_location: SourceCodeLocationRef::new(0),
            parent: CallingContextRef::UNDEFINED,
        });
        all.push(Definition::IoRegularFile {
            this: IoFileRef::new(0),
            name: text("/data/checkpoint"),
            scope: SystemTreeNodeRef::new(1),
        });
        all.push(Definition::IoHandle {
            this: IoHandleRef::new(0),
            name: text(""),
            file: IoFileRef::new(0),
            paradigm: IoParadigmRef::new(0),
            flags: 0,
            comm: CommRef::UNDEFINED,
            parent: IoHandleRef::UNDEFINED,
        });
        let own = |at| number(self.clock().timer(self.timer, at));
        let mut definitions = vec![Definition::ClockProperties {
            timer_resolution: self.resolution(),
            global_offset: own(SECOND),
            trace_length: own(6 * SECOND) - own(SECOND) + 1,
            realtime_timestamp: u64::MAX,
        }];
        definitions.extend(texts.definitions());
        definitions.extend(all);
        definitions
    }
}

/// One end of a message: requests are even when asked for, and odd when done.
fn message(
    to: &mut EventWriter<'_>,
    (time, sends, request, message): (u64, bool, u64, Message),
) -> otf2::Result<()> {
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
    /// Whether clocks were read.
    pub(crate) has_anchors: bool,
    /// What the hosts were started earlier by.
    pub(crate) earlier: Moment,
    /// All-reduces: when each rank enters, and when all leave.
    pub(crate) calls: Vec<([Moment; 3], Moment)>,
    /// Messages in the order of time: from, to, begin, end.
    pub(crate) messages: Vec<(u64, u64, Moment, Moment)>,
    /// Of rank 2, how many of its last calls are not there.
    pub(crate) cut: usize,
    /// Whether all ranks are on the first host.
    pub(crate) one_clock: bool,
    /// What else the archive says.
    pub(crate) properties: Vec<(&'static str, &'static str)>,
}

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
            messages: Vec::new(),
            cut: 0,
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
        let said = [
            ("NCCL::VERSION", "2.28.9"),
            ("NCCL::COUNT::COLL::SEEN", &calls),
            ("NCCL::COUNT::COLL::WRITTEN", &calls),
        ];
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
        let region = RegionRef::new(0);
        let messages = self.messages.iter().enumerate();
        let mut steps: Vec<(u64, bool, u64, Message)> = Vec::new();
        for (request, (from, to, begin, end)) in messages {
            let ends = [(*from, *to, true), (*to, *from, false)];
            for (_, peer, sends) in ends.into_iter().filter(|(own, ..)| *own == rank) {
                let message = Message {
                    peer: u32::try_from(peer).expect("few"),
                    comm: CommRef::new(0),
                    tag: 0,
                    bytes: 4096,
                };
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
            attributes.add(
                AttributeRef::new(1),
                AttributeValue::String(StringRef::new(0)),
            )?;
            // `nccl.event`.
            attributes.add(
                AttributeRef::new(0),
                AttributeValue::U64(100 * call + rank + 1),
            )?;
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
        local
            .mapping_table_dense(MappingType::String, &[1, 0])
            .expect("a table");
        local
            .mapping_table_dense(MappingType::Attribute, &[1, 0])
            .expect("a table");
        let host = self.host(rank);
        let offset = host.realtime(0) - host.monotonic(0);
        let first = self.calls.iter().flat_map(|(enter, _)| enter).min();
        let last = self.calls.iter().map(|(_, leave)| leave).max();
        let (first, last) = (first.expect("a call"), last.expect("a call"));
        for time in [host.monotonic(*first), host.monotonic(*last) + 1] {
            let offset = i64::try_from(offset).expect("an offset");
            local
                .clock_offset(number(time), offset, 0.0)
                .expect("an offset");
        }
        local.close().expect("local definitions");
    }

    fn anchors(&self, rank: u64) -> String {
        let host = self.host(rank);
        let anchor = |at| {
            format!(
                "{} {} {} {}",
                host.ticks(at),
                host.monotonic(at),
                host.raw(at),
                host.realtime(at)
            )
        };
        let anchors = [SECOND, 3 * SECOND, 5 * SECOND].map(anchor);
        anchors.join(", ")
    }

    fn definitions(&self, events: &[u64]) -> Vec<Definition> {
        let mut texts = Texts::default();
        let mut text = |text: &str| texts.get(text);
        assert_eq!(
            [text("world"), text("shown by")].map(StringRef::get),
            [0, 1]
        );
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
        let node = |rank| SystemTreeNodeRef::new(if rank == RANKS - 1 { 2 } else { 1 });
        let small = |rank: u64| u32::try_from(rank).expect("few");
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
                all.push(Definition::LocationGroupProperty {
                    of: this,
                    name,
                    value,
                });
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
                    all.push(Definition::LocationGroupProperty {
                        of: this,
                        name,
                        value,
                    });
                }
            }
        }
        for rank in 0..RANKS {
            all.push(Definition::LocationGroup {
                this: LocationGroupRef::new(small(RANKS + rank)),
                name: text(&format!("GPU of rank {rank}")),
                group_type: 2,
                parent: node(rank),
                creator: LocationGroupRef::new(small(rank)),
            });
        }
        for (rank, events) in (0..).zip(events) {
            all.push(Definition::Location {
                this: LocationRef::new(rank),
                name: text(&format!("NCCL world rank {rank}/3")),
                location_type: 2,
                number_of_events: *events,
                group: LocationGroupRef::new(small(RANKS + rank)),
            });
        }
        for (number, (name, attribute_type)) in (0..).zip([("nccl.timing", 11), ("nccl.event", 4)])
        {
            all.push(Definition::Attribute {
                this: AttributeRef::new(number),
                name: text(name),
                description: text("shown by"),
                attribute_type,
            });
        }
        all.push(Definition::Region {
            this: RegionRef::new(0),
            name: text("ncclAllReduce"),
            canonical_name: text("ncclAllReduce"),
            description: text("operation"),
            role: 25,
            paradigm: 4,
            flags: 0,
            source_file: StringRef::UNDEFINED,
            begin_line: 0,
            end_line: 0,
        });
        all.push(Definition::Paradigm {
            paradigm: 4,
            name: text("NCCL"),
            class: 0,
        });
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
}
