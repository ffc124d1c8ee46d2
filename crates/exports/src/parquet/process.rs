//! The rows of a process and of its threads, and the tables that span ranks: instances of collectives, and ranks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::parquet::columns;
use crate::parquet::columns::{TableFiles, WrittenTable, host, small};
use crate::source::{Selection, Source};
use crate::values::signed;
use analysis::read::Tables;
use analysis::{Incomparable, MatchedCollective, MatchedCollectives, RegionInfo, Role, Slice, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, PATH_SEPARATOR, RegionClass, Timing};
use nccl_events::collective::Flow;
use nccl_events::gpu::is_of_nccl;
use nccl_events::ids::index;
use nccl_events::schema::definition::{Nic, ThreadId};
use otf2::{LocationRef, RegionRef};

pub(super) struct Process<'a> {
    pub(super) trace: &'a Trace,
    pub(super) selection: &'a Selection<'a>,
    pub(super) collectives: &'a Collectives,
    pub(super) files: &'a TableFiles,
    pub(super) folder: PathBuf,
}

/// What steps inherit from their transfer.
struct TransferDetails {
    peer: Option<i32>,
    channel: Option<i32>,
    operation: Option<i64>,
}

nccl_events::fields! {
    struct Details {
        algorithm: Algorithm,
        protocol: Protocol,
        channels: Channels,
        wire_bytes: WireBytes,
        correlation: Correlation,
    }
}

impl<'a> Process<'a> {
    pub(super) fn operations(&self, locations: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let mut table = self.files.create("operations", &self.folder);
        for location in locations {
            let (communicator, rank) = self.member(*location);
            self.selection.slices(*location, |slice| {
                let Some(Role::Operation(_)) = slice.role else {
                    return;
                };
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let instance = self.collectives.details_of_operation(fields.event);
                table.push(columns::Operation {
                    instance: instance.map(|details| details.instance),
                    communicator,
                    rank,
                    function: self.function(slice.region),
                    sequence: fields.sequence.map(signed),
                    replay: fields.replay.map(signed),
                    algorithm: details.algorithm,
                    protocol: details.protocol,
                    channels: details.channels.map(small),
                    bytes: fields.bytes.map(signed),
                    count: fields.count.map(signed),
                    datatype: fields.datatype,
                    root: fields.root.map(small),
                    peer: fields.peer.map(small),
                    timing: fields.timing.map(Timing::name),
                    start_ns: signed(slice.start_ns),
                    stop_ns: signed(slice.stop_ns),
                    waiting_ns: instance.and_then(|details| details.waiting_ns),
                    path: fields.ranges,
                    algbw: fields.algorithm_bandwidth,
                    busbw: fields.bus_bandwidth,
                    unfinished: fields.is_unfinished == Some(true),
                    event: fields.event.map(u64::cast_signed),
                    parent: fields.parent.map(u64::cast_signed),
                    location: location.get().cast_signed(),
                });
            })?;
        }
        Ok(table.close()?.into_iter().collect())
    }

    /// Writes transfers and their steps. A process's transfers are in memory while its steps are written.
    pub(super) fn network(&self, locations: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let is_slot = |location: &LocationRef| self.trace.location_kind(*location) == Some(LocationKind::Slot);
        let (slots, connections): (Vec<LocationRef>, Vec<LocationRef>) =
            locations.iter().partition(|location| is_slot(location));
        let mut transfers = HashMap::new();
        let mut table = self.files.create("transfers", &self.folder);
        for location in connections {
            let (communicator, rank) = self.member(location);
            self.selection.slices(location, |slice| {
                if slice.role != Some(Role::Work(Kind::ProxyOp)) {
                    return;
                }
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let (peer, channel) = (fields.peer.map(small), fields.channel.map(small));
                let operation = fields.parent.map(u64::cast_signed);
                if let Some(event) = fields.event.filter(|_| !slots.is_empty()) {
                    transfers.insert(event, TransferDetails { peer, channel, operation });
                }
                table.push(columns::Transfer {
                    communicator,
                    rank,
                    peer,
                    channel,
                    direction: direction(self.function(slice.region) == "netSend"),
                    nic: self.trace.location_property(location, Nic),
                    bytes: details.wire_bytes.map(signed),
                    start_ns: signed(slice.start_ns),
                    stop_ns: signed(slice.stop_ns),
                    queued_ns: fields.queued_ns.map(signed),
                    event: fields.event.map(u64::cast_signed),
                    parent: operation,
                    location: location.get().cast_signed(),
                });
            })?;
        }
        Ok([table.close()?, self.steps(&slots, &transfers)?].into_iter().flatten().collect())
    }

    fn steps(&self, slots: &[LocationRef], transfers: &HashMap<u64, TransferDetails>) -> Result<Option<WrittenTable>> {
        let mut table = self.files.create("steps", &self.folder);
        for location in slots {
            let (communicator, rank) = self.member(*location);
            // The phases of a step follow each other and share its id.
            let mut open: Option<columns::Step<'_>> = None;
            self.selection.slices(*location, |slice| {
                let Some(phase) = self.trace.phase(slice.region) else {
                    return;
                };
                let fields = self.trace.fields_of(&slice.attributes);
                let event = fields.event.map(u64::cast_signed);
                if let Some(step) = open.take_if(|step| step.event != event) {
                    table.push(step);
                }
                let transfer = fields.parent.and_then(|parent| transfers.get(&parent));
                let step = open.get_or_insert_with(|| columns::Step {
                    communicator,
                    rank,
                    peer: transfer.and_then(|details| details.peer),
                    channel: transfer.and_then(|details| details.channel),
                    direction: direction(phase < 3),
                    bytes: None,
                    start_ns: signed(slice.start_ns),
                    stop_ns: 0,
                    send_gpu_wait_ns: None,
                    send_peer_wait_ns: None,
                    send_wait_ns: None,
                    recv_wait_ns: None,
                    recv_flush_wait_ns: None,
                    recv_gpu_wait_ns: None,
                    event,
                    transfer: fields.parent.map(u64::cast_signed),
                    operation: transfer.and_then(|details| details.operation),
                    location: location.get().cast_signed(),
                });
                let slot = match phase {
                    0 => &mut step.send_gpu_wait_ns,
                    1 => &mut step.send_peer_wait_ns,
                    2 => &mut step.send_wait_ns,
                    3 => &mut step.recv_wait_ns,
                    4 => &mut step.recv_flush_wait_ns,
                    _ => &mut step.recv_gpu_wait_ns,
                };
                *slot = Some(slot.unwrap_or(0) + signed(slice.stop_ns.saturating_sub(slice.start_ns)));
                step.stop_ns = signed(slice.stop_ns);
                step.bytes = fields.bytes.map(signed).or(step.bytes);
            })?;
            if let Some(step) = open {
                table.push(step);
            }
        }
        table.close()
    }

    pub(super) fn kernels(&self, locations: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let mut table = self.files.create("kernels", &self.folder);
        for location in locations {
            let definition = self.trace.definitions.locations.get(location);
            let stream =
                definition.and_then(|location| self.trace.definitions.string(location.name)).unwrap_or_default();
            let gpu = self.trace.group_name(self.trace.group(*location));
            self.selection.slices(*location, |slice| {
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let is_copy = self.trace.is_copy(slice.region);
                let by_name = !is_copy && self.trace.canonical_name(slice.region).is_some_and(is_of_nccl);
                table.push(columns::Kernel {
                    class: if is_copy { RegionClass::Copy.name() } else { RegionClass::Kernel.name() },
                    name: self.region_name(slice.region),
                    is_nccl: by_name || fields.parent.is_some() || fields.external_correlation.is_some(),
                    gpu,
                    stream,
                    bytes: fields.bytes.map(signed),
                    start_ns: signed(slice.start_ns),
                    stop_ns: signed(slice.stop_ns),
                    correlation: details.correlation.map(|number| signed(number.into())),
                    event: fields.event.map(u64::cast_signed),
                    parent: fields.parent.map(u64::cast_signed),
                    location: location.get().cast_signed(),
                });
            })?;
        }
        Ok(table.close()?.into_iter().collect())
    }

    fn member(&self, location: LocationRef) -> (Option<i32>, Option<i32>) {
        let (comm, rank) = self.trace.rank_of(location).unzip();
        let place = comm.and_then(|comm| self.trace.definitions.comms.keys().position(|other| *other == comm));
        (place.and_then(|place| i32::try_from(place).ok()), rank.map(small))
    }

    fn function(&self, region: RegionRef) -> &'a str {
        self.trace.region(region).map_or_else(|| self.region_name(region), |region: RegionInfo<'a>| region.name)
    }

    pub(super) fn region_name(&self, region: RegionRef) -> &'a str {
        let definition = self.trace.definitions.regions.get(&region);
        definition.and_then(|region| self.trace.definitions.string(region.name)).unwrap_or_default()
    }
}

fn direction(is_send: bool) -> &'static str {
    if is_send { "send" } else { "receive" }
}

/// Writes the tables that span ranks: instances of collectives, and ranks.
pub(super) struct Collectives {
    of_operations: Vec<CollectiveDetails>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CollectiveDetails {
    event: u64,
    pub(super) instance: i64,
    /// How long it waited for the last rank; `None` if the clocks cannot tell.
    pub(super) waiting_ns: Option<i64>,
}

impl Collectives {
    /// Reads all operations, which are in memory together while they are matched, and writes both tables.
    pub(super) fn write(source: &Source<'_>, files: &TableFiles) -> Result<(Self, Vec<WrittenTable>)> {
        let trace = source.trace;
        let tables = Tables::read(trace, source.progress)?;
        let matched = MatchedCollectives::new(trace, &tables, source.filter);
        let mut instances = files.create("instances", Path::new(""));
        let mut operation_details = Vec::new();
        for (number, instance) in (0..).zip(&matched.all) {
            let operations = matched.operations(instance);
            for row in operations {
                let waiting_ns = instance.waiting_ns(&tables, *row).filter(|_| instance.is_comparable()).map(signed);
                let event = tables.operations.event.get(index(*row));
                operation_details.push(CollectiveDetails { event, instance: number, waiting_ns });
            }
            instances.push(row(trace, &tables, instance, number, operations.len()));
        }
        operation_details.sort_unstable_by_key(|details| details.event);
        let mut ranks = files.create("ranks", Path::new(""));
        for row in rows_of_ranks(trace, &tables) {
            ranks.push(row);
        }
        Ok((
            Self { of_operations: operation_details },
            [instances.close()?, ranks.close()?].into_iter().flatten().collect(),
        ))
    }

    pub(super) fn details_of_operation(&self, event: Option<u64>) -> Option<CollectiveDetails> {
        self.of_operations.get(self.of_operations.binary_search_by_key(&event?, |details| details.event).ok()?).copied()
    }
}

fn row<'a>(
    trace: &'a Trace,
    tables: &Tables,
    instance: &MatchedCollective,
    number: i64,
    operations: usize,
) -> columns::Instance<'a> {
    let last = instance.last.map(|row| tables.members.row(row));
    columns::Instance {
        instance: number,
        communicator: small(instance.communicator),
        function: trace.region(instance.function).map_or("", |region| region.name),
        sequence: instance.sequence.map(signed),
        warm_up: instance.is_warm_up,
        bytes: signed(instance.bytes),
        flow: match instance.flow {
            Flow::AllToAll => "all-to-all",
            Flow::FromRoot => "from-root",
            Flow::ToRoot => "to-root",
        },
        ranks: i32::try_from(operations).unwrap_or(i32::MAX),
        first_ns: signed(instance.arrivals.first_ns),
        last_ns: instance.is_comparable().then_some(signed(instance.arrivals.last_ns)),
        end_ns: signed(instance.arrivals.end_ns),
        last_rank: last.map(|member| small(member.rank)),
        last_job_rank: last.map(|member| small(member.job_rank)),
        error_ns: instance.arrivals.error_ns.ok().map(signed),
        incomparable: instance.arrivals.error_ns.err().map(|why| match why {
            Incomparable::RankMissing => "rank-missing",
            Incomparable::Unfinished => "unfinished",
            Incomparable::NotMeasured => "not-measured",
            Incomparable::ClockUnknown => "clock-unknown",
            Incomparable::Contradiction => "contradiction",
        }),
    }
}

fn rows_of_ranks<'a>(trace: &'a Trace, tables: &Tables) -> impl Iterator<Item = columns::Rank<'a>> {
    let members = &tables.members;
    members.all.iter().filter_map(|member| {
        let job_rank = members.job_ranks.get(index(member.job_rank))?;
        let comm = members.communicators.get(index(member.communicator))?;
        let name = trace.definitions.comms.get(comm).and_then(|comm| trace.definitions.string(comm.name));
        Some(columns::Rank {
            communicator: small(member.communicator),
            communicator_name: name.unwrap_or_default(),
            rank: small(member.rank),
            job_rank: small(member.job_rank),
            job_rank_number: job_rank.number.map(small),
            host: host(trace, job_rank.process),
            process: small(job_rank.process.get()),
            process_name: trace.group_name(job_rank.process),
            group_name: trace.group_name(job_rank.group),
            location: member.location.get().cast_signed(),
        })
    })
}

nccl_events::fields! {
    struct ThreadDetails {
        stream: Stream,
        domain: RangeDomain,
        category: RangeCategory,
        color: RangeColor,
        payload: RangePayload,
        payload_signed: RangePayloadSigned,
        payload_float: RangePayloadFloat,
    }
}

impl<'a> Process<'a> {
    /// Writes the calls and ranges of threads, and the ranges that any thread ends.
    pub(super) fn threads(&self, locations: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let mut calls = self.files.create("calls", &self.folder);
        let mut ranges = self.files.create("ranges", &self.folder);
        for location in locations {
            let thread = self.trace.location_property(*location, ThreadId).map(signed);
            self.selection.nested_slices(*location, |slice, around| {
                let Some(region) = self.trace.region(slice.region) else {
                    return;
                };
                match region.class {
                    RegionClass::User | RegionClass::Mark => ranges.push(self.range(region, slice, around, thread)),
                    _ => calls.push(self.call(region, slice, thread)),
                }
            })?;
        }
        Ok([calls.close()?, ranges.close()?].into_iter().flatten().collect())
    }

    fn call(&self, region: RegionInfo<'a>, slice: &Slice, thread: Option<i64>) -> columns::Call<'a> {
        let fields = self.trace.fields_of(&slice.attributes);
        let details: ThreadDetails<'_> = self.trace.read_fields(&slice.attributes);
        columns::Call {
            class: region.class.name(),
            function: region.name,
            thread,
            stream: details.stream.map(u64::cast_signed),
            bytes: fields.bytes.map(signed),
            count: fields.count.map(signed),
            datatype: fields.datatype,
            root: fields.root.map(small),
            peer: fields.peer.map(small),
            start_ns: signed(slice.start_ns),
            stop_ns: signed(slice.stop_ns),
            path: fields.ranges,
            unfinished: fields.is_unfinished == Some(true),
            event: fields.event.map(u64::cast_signed),
            parent: fields.parent.map(u64::cast_signed),
            location: slice.location.get().cast_signed(),
        }
    }

    fn range(
        &self,
        region: RegionInfo<'_>,
        slice: &Slice,
        around: &[Slice],
        thread: Option<i64>,
    ) -> columns::Range<'a> {
        let fields = self.trace.fields_of(&slice.attributes);
        let details: ThreadDetails<'_> = self.trace.read_fields(&slice.attributes);
        let path = self.trace.path(around.iter().map(|slice| slice.region), slice.region);
        columns::Range {
            class: region.class.name(),
            domain: details.domain,
            name: self.region_name(slice.region),
            number: fields.range_number.map(u64::cast_signed),
            category: details.category,
            color: details.color.map(i64::from),
            payload: details.payload.map(u64::cast_signed).or(details.payload_signed),
            payload_float: details.payload_float,
            depth: i32::try_from(path.matches(PATH_SEPARATOR).count()).unwrap_or(i32::MAX),
            path,
            thread,
            start_ns: signed(slice.start_ns),
            stop_ns: signed(slice.stop_ns),
            unfinished: fields.is_unfinished == Some(true),
            location: slice.location.get().cast_signed(),
        }
    }
}
