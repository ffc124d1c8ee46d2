//! Writes locations' region instances as events of PyTorch's profiler.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::kineto::job::{FIRST_OWN_PID, Job};
use crate::kineto::json;
use crate::kineto::json::{Args, Events, Track};
use crate::source::{Output, Selection};
use analysis::{Lane, LaneKind, Role, Slice, Trace};
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::ids::index;
use nccl_events::schema::attribute::AttributeId;
use otf2::LocationRef;

pub(super) struct Locations<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) selection: &'a Selection<'a>,
    pub(super) outputs: &'a [Option<Output>],
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventCounts {
    pub(super) events: u64,
    /// Operations without a kernel: those with only the enqueueing known, and those that had not ended.
    pub(super) enqueued: u64,
    pub(super) unfinished: u64,
}

/// The number of a kernel in the files, where 0 means no kernel.
const fn id(kernel: u32) -> u64 {
    kernel as u64 + 1
}

impl<'a> Locations<'a> {
    /// Writes a location to the file of its rank, and a thread to the files of all ranks that it works for.
    pub(super) fn write(&self, location: LocationRef) -> Result<EventCounts> {
        let job = self.job;
        let Some(rank) = job.owners.get(&location).copied() else {
            return Ok(EventCounts::default());
        };
        if job.source.trace.is_thread(location) {
            return self.thread(location, rank);
        }
        let kind = job.source.trace.location_kind(location);
        if !matches!(kind, Some(LocationKind::Communicator | LocationKind::Stream)) {
            return self.tracks(location, rank);
        }
        let Some(output) = &self.outputs[index(rank)] else {
            return Ok(EventCounts::default());
        };
        let events = Events::new(output, None);
        match kind {
            Some(LocationKind::Communicator) => self.operations(location, rank, events),
            _ => self.stream(location, rank, events),
        }
    }

    /// Writes ranges and the states of threads to the file of their process's first rank, records to those of their
    /// ranks.
    fn tracks(&self, location: LocationRef, first: u32) -> Result<EventCounts> {
        let job = self.job;
        let pid = |rank: u32| FIRST_OWN_PID + u64::from(rank);
        let own = track(job, first, location, pid(first));
        let mut files: BTreeMap<u32, (Events<'_>, Lanes)> = BTreeMap::new();
        self.selection.slices(location, |slice| {
            let rank = slice.lane.map_or(first, |lane| job.rank_of_lane(lane));
            let Some(output) = &self.outputs[index(rank)] else {
                return;
            };
            let (events, lanes) = files
                .entry(rank)
                .or_insert_with(|| (Events::new(output, None), Lanes::new(job, rank, location, pid(rank))));
            match slice.lane {
                Some(lane) => lanes.add(job, (lane, slice), events),
                None => add_track(job, slice, own, events),
            }
        })?;
        let mut written = EventCounts::default();
        for (events, _) in files.into_values() {
            written.events += events.finish()?;
        }
        Ok(written)
    }

    /// Writes the steps of the program to the files of their ranks, whichever thread they are on.
    pub(super) fn steps(&self) -> Result<u64> {
        let (job, mut count) = (self.job, 0);
        for (rank, output) in (0..).zip(self.outputs) {
            let Some(output) = output else {
                continue;
            };
            let mut events = Events::new(output, None);
            let pid = job.process_id(job.process(rank)).unwrap_or(0);
            for step in job.steps(rank).iter().filter(|step| self.selection.wants_time(step.start_ns, step.stop_ns)) {
                events.step(job.source.trace, step, Track { pid, tid: job.thread(step.thread) });
            }
            count += events.finish()?;
        }
        Ok(count)
    }

    /// Writes calls as operators, and launches as CUDA's.
    fn thread(&self, location: LocationRef, first: u32) -> Result<EventCounts> {
        let (job, trace) = (self.job, self.job.source.trace);
        let track = Track { pid: job.process_id(job.process(first)).unwrap_or(0), tid: job.thread(location) };
        let files = self.outputs.iter().map(|output| output.as_ref().map(|output| Events::new(output, None)));
        let mut files: Vec<Option<Events<'_>>> = files.collect();
        let mut lanes = Lanes::new(job, first, location, FIRST_OWN_PID + u64::from(first));
        self.selection.slices(location, |slice| {
            if let Some(lane) = slice.lane {
                if let Some(events) = &mut files[index(first)] {
                    lanes.add(job, (lane, slice), events);
                }
                return;
            }
            let event = trace.fields_of(&slice.attributes).event.unwrap_or(0);
            let class = trace.region(slice.region).map(|region| region.class);
            let kernel = job.kernels.kernel_of_launch(event).filter(|_| class != Some(RegionClass::Api));
            let operation = match (class, kernel) {
                (Some(RegionClass::Api), _) => job.row_of_call(event),
                (_, Some(kernel)) => Some(job.kernels.get(kernel).operation),
                _ => job.operation(event),
            };
            let Some(events) = &mut files[index(operation.map_or(first, |row| job.tables.job_rank(row)))] else {
                return;
            };
            let mut args = Args::default();
            let times_ns = (slice.start_ns, slice.stop_ns);
            let name = range_name(trace, slice);
            if let Some(kernel) = kernel {
                args.number("External id", id(kernel));
                args.number("correlation", id(kernel));
                args.text("nccl.region", &name);
                args.attributes(trace, &job.attributes, &slice.attributes);
                events.complete("cuda_runtime", "cudaLaunchKernelExC", track, times_ns, &args);
                events.arrow(true, id(kernel), track, slice.start_ns);
                return;
            }
            if let Some(row) = operation.filter(|_| class == Some(RegionClass::Api)) {
                if let Some(kernel) = job.kernels.kernel_of_operation(row) {
                    args.number("External id", id(kernel));
                }
                job.add_collective(row, &mut args);
            }
            if job.is_written_as_step(slice) {
                return;
            }
            args.attributes(trace, &job.attributes, &slice.attributes);
            let category = if is_of_program(class) { json::ANNOTATION } else { "cpu_op" };
            events.complete(category, &name, track, times_ns, &args);
        })?;
        let mut written = EventCounts::default();
        for events in files.into_iter().flatten() {
            written.events += events.finish()?;
        }
        Ok(written)
    }

    /// If no kernels were recorded, an operation stands for its kernel.
    fn operations(&self, location: LocationRef, rank: u32, mut events: Events<'_>) -> Result<EventCounts> {
        let (job, trace) = (self.job, self.job.source.trace);
        let (track, has_streams) = (job.stream(rank, location), job.has_streams(rank));
        let stream = job.stream_number(rank, location, track);
        let mut written = EventCounts::default();
        let mut lanes = Lanes::new(job, rank, location, FIRST_OWN_PID + u64::from(rank));
        self.selection.slices(location, |slice| {
            if let Some(lane) = slice.lane.filter(|lane| lane.shows != LaneKind::Operations) {
                return lanes.add(job, (lane, slice), &mut events);
            }
            let Some(row) = job.row_of(slice).filter(|_| matches!(slice.role, Some(Role::Operation(_)))) else {
                return;
            };
            let Some(number) = job.kernels.kernel_of_operation(row) else {
                written.unfinished += 1;
                return;
            };
            let kernel = job.kernels.get(number);
            let timing = job.tables.operations.timing[index(row)];
            if !kernel.is_measured {
                written.enqueued += 1;
            } else if kernel.operation == row && !(has_streams && timing == Some(Timing::Cupti)) {
                let mut args = Args::default();
                self.add_kernel(number, (track.pid, stream), &mut args);
                args.attributes(trace, &job.attributes, &slice.attributes);
                let name = trace.function_name(slice.region);
                let way: AlgorithmFields<'_> = trace.read_fields(&slice.attributes);
                let name = json::kernel(&name, way.algorithm, way.protocol);
                events.complete("kernel", &name, track, (kernel.start_ns, kernel.stop_ns), &args);
                if kernel.launch != 0 {
                    events.arrow(false, id(number), track, kernel.start_ns);
                }
            }
        })?;
        Ok(EventCounts { events: events.finish()?, ..written })
    }

    fn stream(&self, location: LocationRef, rank: u32, mut events: Events<'_>) -> Result<EventCounts> {
        let (job, trace) = (self.job, self.job.source.trace);
        let track = job.stream(rank, location);
        let stream = (track.pid, job.stream_number(rank, location, track));
        let members = &job.tables.members.job_ranks[index(rank)].members;
        self.selection.slices(location, |slice| {
            let fields = trace.fields_of(&slice.attributes);
            let is_nccl = fields.parent.is_some() || fields.external_correlation.is_some();
            // The communicator's kernel that ran at this time.
            let runs = |member: &u32| {
                let range = job.kernels.kernels_of_member(*member);
                let member_kernels = job.kernels.all.get(range.clone())?;
                let before =
                    member_kernels.partition_point(|kernel| kernel.start_ns <= slice.began_ns()).checked_sub(1)?;
                let is_it = member_kernels[before].is_measured && member_kernels[before].stop_ns >= slice.stop_ns;
                u32::try_from(range.start + before).ok().filter(|_| is_it)
            };
            let number = members.iter().find_map(runs).filter(|_| is_nccl);
            let mut args = Args::default();
            match number {
                Some(number) => {
                    self.add_kernel(number, stream, &mut args);
                    args.text(AttributeId::Timing.name(), Timing::Cupti.name());
                }
                None => add_stream(stream, &mut args),
            }
            args.attributes(trace, &job.attributes, &slice.attributes);
            let (name, times_ns) = (trace.region_name(slice.region), (slice.start_ns, slice.stop_ns));
            match name.strip_prefix("memcpy") {
                Some(kind) if trace.is_copy(slice.region) => {
                    events.complete("gpu_memcpy", &format!("Memcpy{kind}"), track, times_ns, &args);
                }
                _ => events.complete("kernel", &name, track, times_ns, &args),
            }
            if let Some(number) = number.filter(|number| job.kernels.get(*number).launch != 0) {
                events.arrow(false, id(number), track, slice.start_ns);
            }
        })?;
        Ok(EventCounts { events: events.finish()?, ..EventCounts::default() })
    }

    /// Adds the arguments that PyTorch's profiler gives a NCCL kernel on a stream.
    fn add_kernel(&self, number: u32, stream: (u64, u64), args: &mut Args) {
        let kernel = self.job.kernels.get(number);
        args.number("External id", id(number));
        args.number("correlation", id(number));
        add_stream(stream, args);
        self.job.add_collective(kernel.operation, args);
        if kernel.operations > 1 {
            args.number("nccl.operations_in_kernel", kernel.operations);
        }
        self.job.add_waiting(kernel.operation, args);
    }
}

fn add_stream((device, stream): (u64, u64), args: &mut Args) {
    args.number("device", device);
    args.number("stream", stream);
}

/// The locations of a rank that become separate tracks in a torch.profiler trace: all that the trace itself lacks.
pub(super) fn tracks(job: &Job<'_>, rank: u32) -> Vec<LocationRef> {
    let trace = job.source.trace;
    let is_track = |location: &LocationRef| {
        let is_theirs = trace.is_thread(*location) || trace.location_kind(*location) == Some(LocationKind::Stream);
        !is_theirs && trace.has_events(*location)
    };
    // The threads of the process's first rank work for all of its ranks.
    let first = job.first_of_process(rank);
    let is_shared =
        |location: &LocationRef| first != rank && trace.location_kind(*location) == Some(LocationKind::ProxyThread);
    job.locations_of(rank).chain(job.locations_of(first).filter(is_shared)).filter(is_track).collect()
}

/// The tracks of a location's lanes.
pub(super) struct Lanes {
    pid: u64,
    /// Above the numbers of locations, and of other locations' lanes.
    first: u64,
    known: BTreeMap<Lane, Track>,
}

/// Numbers of tracks that are kept free for the lanes of a location.
const MOST_LANES: u64 = 1 << 16;

impl Lanes {
    pub(super) fn new(job: &Job<'_>, rank: u32, location: LocationRef, pid: u64) -> Self {
        Self { pid, first: job.number_on_rank(rank, location) * MOST_LANES, known: BTreeMap::new() }
    }

    /// Adds a record, and the name of its track if it is the first one there.
    pub(super) fn add(&mut self, job: &Job<'_>, (lane, slice): (Lane, &Slice), events: &mut Events<'_>) {
        let (pid, tid) = (self.pid, self.first + self.known.len() as u64);
        let track = *self.known.entry(lane).or_insert_with(|| {
            let track = Track { pid, tid };
            let name = lane.name(job.source.trace);
            events.name("thread", track, &name, tid);
            track
        });
        add_track(job, slice, track, events);
    }
}

pub(super) fn track(job: &Job<'_>, rank: u32, location: LocationRef, pid: u64) -> Track {
    Track { pid, tid: job.number_on_rank(rank, location) }
}

pub(super) fn add_track(job: &Job<'_>, slice: &Slice, track: Track, events: &mut Events<'_>) {
    let trace = job.source.trace;
    let mut args = Args::default();
    args.attributes(trace, &job.attributes, &slice.attributes);
    if let (Some(Role::Operation(_)), Some(row)) = (slice.role, job.row_of(slice)) {
        job.add_waiting(row, &mut args);
    }
    let class = trace.region(slice.region).map(|region| region.class);
    let category = match class {
        class if is_of_program(class) => json::ANNOTATION.to_owned(),
        class => format!("nccl_{}", class.map_or("", RegionClass::name)),
    };
    events.complete(&category, &range_name(trace, slice), track, (slice.start_ns, slice.stop_ns), &args);
}

/// The name of a region, and of torch.profiler's steps with the number, without which HTA fails.
fn range_name(trace: &Trace, slice: &Slice) -> String {
    let name = trace.region_name(slice.region);
    if name != json::STEPS_OF_TORCH {
        return name;
    }
    trace.fields_of(&slice.attributes).range_number.map_or(name, json::step)
}

const fn is_of_program(class: Option<RegionClass>) -> bool {
    matches!(class, Some(RegionClass::User | RegionClass::Mark))
}

nccl_events::fields! {
    struct AlgorithmFields {
        algorithm: Algorithm,
        protocol: Protocol,
    }
}
