//! What Score-P would write for a made-up job.

mod definitions;

use std::path::{Path, PathBuf};

use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, Attributes, ChunkBytes, Collective, CollectiveOp, CommRef,
    EventWriter, LocationRef, MappingType, RegionRef, StringRef,
};

use super::made_up::{Host, Moment, RANKS, SECOND, Timer, host, number, process_id};

/// A Score-P trace.
pub(crate) struct ScoreP {
    pub(crate) timer: Timer,
    pub(crate) chunks: ChunkBytes,
    /// Whether local definitions take more than 256 KiB.
    pub(crate) has_large_tables: bool,
    /// The rank of the only process, for a trace of one process without MPI.
    pub(crate) only: Option<u64>,
    pub(crate) creator: &'static str,
}

/// When all ranks enter and leave MPI_Allreduce, twice.
pub(crate) const MPI: [(Moment, Moment); 2] =
    [(2 * SECOND, 2 * SECOND + 10_000_000), (2 * SECOND + 30_004_000, 4 * SECOND)];

const MAIN: RegionRef = RegionRef::new(0);
pub(crate) const ALLREDUCE: RegionRef = RegionRef::new(1);
const WORK: RegionRef = RegionRef::new(2);
const WORLD: CommRef = CommRef::new(0);

impl ScoreP {
    pub(crate) fn new(timer: Timer) -> Self {
        // Score-P's event chunks are larger than this project's.
        let chunks = ChunkBytes { events: 1 << 20, definitions: 256 << 10 };
        Self { timer, chunks, has_large_tables: false, only: None, creator: "Score-P 8.4" }
    }

    /// The trace's clock is that of rank 0's host, or of the only process's host.
    pub(crate) fn time(&self, at: Moment) -> u64 {
        number(host(0).timer(self.timer, at))
    }

    /// The host whose clock the trace uses.
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

    /// Writes the trace to `directory`.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        std::fs::create_dir_all(directory).expect("a directory");
        let name = match self.timer {
            Timer::Counter => "tsc",
            Timer::MonotonicRaw => "clock_gettime",
            Timer::Realtime => "gettimeofday",
        };
        let text = format!("SCOREP_ENABLE_TRACING=true\nSCOREP_TIMER='{name}'\n");
        std::fs::write(directory.join("scorep.cfg"), text).expect("settings");
        let mut archive = ArchiveWriter::create_with_chunks(directory, "traces", self.chunks).expect("an archive");
        archive.set_creator(self.creator).expect("a creator");
        archive.set_property("OTF2::MPI_COMMUNICATION_COMPLETE", "true").expect("a property");
        let mut events = Vec::new();
        for rank in (0..RANKS).filter(|rank| self.only.is_none_or(|only| only == *rank)) {
            for thread in 0..2 {
                let in_id = if self.only.is_some() { 0 } else { rank };
                let location = LocationRef::new(thread << 32 | in_id);
                let mut writer = archive.event_writer(location).expect("a writer");
                let at = |moment| number(host(rank).timer(self.timer, moment));
                match thread {
                    0 => self.master(&mut writer, rank, at),
                    _ => Self::second(&mut writer, at),
                }
                .expect("events");
                events.push((location, writer.close().expect("events")));
                self.local(&mut archive, location, rank);
            }
        }
        self.define(&mut archive, &events);
        archive.close().expect("an archive");
        directory.to_owned()
    }

    fn local(&self, archive: &mut ArchiveWriter, location: LocationRef, rank: u64) {
        let mut local = archive.local_definitions(location).expect("a writer");
        // Like Score-P: at MPI_Init and at the end.
        for at in [SECOND + 500_000_000, 5 * SECOND] {
            let own = host(rank).timer(self.timer, at);
            let all = self.clock().timer(self.timer, at);
            let offset = i64::try_from(all - own).expect("an offset");
            local.clock_offset(number(own), offset, 0.0).expect("an offset");
        }
        local.mapping_table_dense(MappingType::Comm, &[0, 1]).expect("a table");
        let large = [MappingType::String, MappingType::Region, MappingType::Attribute, MappingType::Parameter];
        // Ids in use map to themselves; the rest is reversed.
        let table: Vec<u32> = (0..100).chain((100..30_000).rev()).collect();
        for mapping in large.into_iter().filter(|_| self.has_large_tables) {
            local.mapping_table_dense(mapping, &table).expect("a table");
        }
        local.close().expect("local definitions");
    }

    fn master(&self, to: &mut EventWriter<'_>, rank: u64, at: impl Fn(Moment) -> u64) -> otf2::Result<()> {
        let none = Attributes::NONE;
        let process = Attributes::try_from([(AttributeRef::new(0), AttributeValue::U64(process_id(rank)))])?;
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
            let collective =
                Collective { op: CollectiveOp::Allreduce, comm: WORLD, root: None, bytes_sent: 24, bytes_received: 24 };
            to.mpi_collective_end(at(leave), &collective, none)?;
            to.leave(at(leave), ALLREDUCE, none)?;
        }
        to.leave(at(6 * SECOND), MAIN, none)?;
        to.program_end(at(6 * SECOND), 0, none)
    }

    /// The events of a second thread.
    fn second(to: &mut EventWriter<'_>, at: impl Fn(Moment) -> u64) -> otf2::Result<()> {
        to.enter(at(3 * SECOND), WORK, Attributes::NONE)?;
        to.leave(at(3 * SECOND + 5000), WORK, Attributes::NONE)
    }
}
