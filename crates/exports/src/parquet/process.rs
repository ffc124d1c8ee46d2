//! The rows of a process and of its threads, and the tables that span ranks: instances of collectives, and ranks.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::parquet::Table;
use crate::parquet::columns;
use crate::parquet::columns::{TableFiles, WrittenTable, host, small};
use crate::source::{Selection, Source};
use crate::values::signed;
use analysis::read::Tables;
use analysis::{Incomparable, MatchedCollective, MatchedCollectives, RegionInfo, Role, Slice, Trace};
use nccl_events::Kind;
use nccl_events::archive::{PATH_SEPARATOR, RegionClass, Timing};
use nccl_events::collective::Flow;
use nccl_events::gpu::is_of_nccl;
use nccl_events::ids::index;
use nccl_events::schema::definition::ThreadId;
use otf2::{CommRef, LocationRef, RegionRef};

pub(super) struct Process<'a> {
    pub(super) trace: &'a Trace,
    pub(super) selection: &'a Selection<'a>,
    pub(super) collectives: &'a Collectives,
    pub(super) files: &'a TableFiles,
    pub(super) folder: PathBuf,
    /// The numbers of communicators.
    pub(super) comms: &'a BTreeMap<CommRef, i32>,
    pub(super) nics: &'a Nics,
    /// Counts what no table has.
    pub(super) without: &'a AtomicU64,
}

/// The network interface of a communicator's location, by channel and whether it sends.
pub(super) type Nics = HashMap<(LocationRef, u32, bool), String>;

nccl_events::fields! {
    struct Details {
        comm: Comm,
        rank: Rank,
        wait_gpu: WaitGpu,
        wait_peer: WaitPeer,
        wait_network: WaitNetwork,
        flush: Flush,
        algorithm: Algorithm,
        protocol: Protocol,
        channels: Channels,
        wire_bytes: WireBytes,
        correlation: Correlation,
    }
}

impl<'a> Process<'a> {
    pub(super) fn operations(&self, locations: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let mut table = self.files.create(Table::Operations, &self.folder);
        for location in locations {
            let (communicator, rank) = self.member(*location);
            self.selection.slices(*location, |slice| {
                let Some(Role::Operation(_)) = slice.role else {
                    if self.trace.class(slice.region) != Some(RegionClass::Fused) {
                        self.leave_out();
                    }
                    return;
                };
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let instance = self
                    .collectives
                    .details_of_operation(&OperationKey::new(fields.event.unwrap_or(0), (*location, slice.began_ns())));
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
                    start_ns: signed(slice.began_ns()),
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
    pub(super) fn network(&self, threads: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let is_step = |region: &RegionRef| self.trace.role(*region) == Some(Role::Work(Kind::ProxyStep));
        let has_steps = self.files.wants(Table::Steps) && self.trace.definitions.regions.keys().any(is_step);
        let mut operations = HashMap::new();
        let mut table = self.files.create(Table::Transfers, &self.folder);
        for location in threads {
            self.selection.slices(*location, |slice| {
                if slice.role != Some(Role::Work(Kind::ProxyOp)) {
                    if slice.role != Some(Role::Work(Kind::ProxyStep)) {
                        self.leave_out();
                    }
                    return;
                }
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let (communicator, rank) = self.rank_of(&details);
                let operation = fields.parent.map(u64::cast_signed);
                if let Some(event) = fields.event.filter(|_| has_steps) {
                    operations.insert(event, operation);
                }
                let is_send = self.trace.is_send(slice.region) == Some(true);
                table.push(columns::Transfer {
                    communicator,
                    rank,
                    peer: fields.peer.map(small),
                    channel: fields.channel.map(small),
                    direction: direction(is_send),
                    nic: self
                        .member_location(&details)
                        .zip(fields.channel)
                        .and_then(|(member, channel)| self.nics.get(&(member, channel, is_send)).map(String::as_str)),
                    bytes: details.wire_bytes.map(signed),
                    start_ns: signed(slice.began_ns()),
                    stop_ns: signed(slice.stop_ns),
                    queued_ns: fields.queued_ns.map(signed),
                    event: fields.event.map(u64::cast_signed),
                    parent: operation,
                    location: location.get().cast_signed(),
                });
            })?;
        }
        let steps = if has_steps { self.steps(threads, &operations)? } else { None };
        Ok([table.close()?, steps].into_iter().flatten().collect())
    }

    fn member_location(&self, details: &Details<'_>) -> Option<LocationRef> {
        self.trace.members(CommRef::new(details.comm?)).get(index(details.rank?)).copied()
    }

    /// `operations` has the operation of each transfer.
    fn steps(&self, threads: &[LocationRef], operations: &HashMap<u64, Option<i64>>) -> Result<Option<WrittenTable>> {
        let mut table = self.files.create(Table::Steps, &self.folder);
        for location in threads {
            self.selection.slices(*location, |slice| {
                if slice.role != Some(Role::Work(Kind::ProxyStep)) {
                    return;
                }
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let (communicator, rank) = self.rank_of(&details);
                let is_send = self.trace.is_send(slice.region) == Some(true);
                let wait = |of: bool, ns: Option<u64>| ns.filter(|_| of == is_send).map(signed);
                table.push(columns::Step {
                    communicator,
                    rank,
                    peer: fields.peer.map(small),
                    channel: fields.channel.map(small),
                    direction: direction(is_send),
                    bytes: fields.bytes.map(signed),
                    start_ns: signed(slice.began_ns()),
                    stop_ns: signed(slice.stop_ns),
                    send_gpu_wait_ns: wait(true, details.wait_gpu),
                    send_peer_wait_ns: wait(true, details.wait_peer),
                    send_wait_ns: wait(true, details.wait_network),
                    recv_wait_ns: wait(false, details.wait_network),
                    recv_flush_wait_ns: wait(false, details.flush),
                    recv_gpu_wait_ns: wait(false, details.wait_gpu),
                    event: fields.event.map(u64::cast_signed),
                    transfer: fields.parent.map(u64::cast_signed),
                    operation: fields.parent.and_then(|parent| operations.get(&parent).copied()).flatten(),
                    location: location.get().cast_signed(),
                });
            })?;
        }
        table.close()
    }

    pub(super) fn kernels(&self, locations: &[LocationRef]) -> Result<Vec<WrittenTable>> {
        let mut table = self.files.create(Table::Kernels, &self.folder);
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
                    start_ns: signed(slice.began_ns()),
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
        self.communicator(self.trace.rank_of(location))
    }

    /// The communicator and rank of a transfer or step; unknown of another process's (PXN).
    fn rank_of(&self, details: &Details<'_>) -> (Option<i32>, Option<i32>) {
        self.communicator(details.comm.map(CommRef::new).zip(details.rank))
    }

    fn communicator(&self, rank: Option<(CommRef, u32)>) -> (Option<i32>, Option<i32>) {
        let (comm, rank) = rank.unzip();
        (comm.and_then(|comm| self.comms.get(&comm)).copied(), rank.map(small))
    }

    fn leave_out(&self) {
        self.without.fetch_add(1, Ordering::Relaxed);
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
    operation: OperationKey,
    pub(super) instance: i64,
    /// How long it waited for the last rank; `None` if the clocks cannot tell.
    pub(super) waiting_ns: Option<i64>,
}

/// An operation by its event; what consists of messages, which has none, by location and begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OperationKey(u64, Option<(LocationRef, u64)>);

impl OperationKey {
    fn new(event: u64, place: (LocationRef, u64)) -> Self {
        Self(event, (event == 0).then_some(place))
    }
}

impl Collectives {
    /// Reads all operations, which are in memory together while they are matched, and writes both tables. Reads nothing
    /// where no table needs them.
    pub(super) fn write(source: &Source<'_>, files: &TableFiles) -> Result<(Self, Vec<WrittenTable>)> {
        if ![Table::Instances, Table::Ranks, Table::Operations].iter().any(|table| files.wants(*table)) {
            return Ok((Self { of_operations: Vec::new() }, Vec::new()));
        }
        let trace = source.trace;
        let tables = Tables::read(trace, source.progress)?;
        let matched = MatchedCollectives::new(trace, &tables, source.filter);
        let mut instances = files.create(Table::Instances, Path::new(""));
        let mut operation_details = Vec::new();
        for (number, instance) in (0..).zip(&matched.all) {
            let operations = matched.operations(instance);
            for row in operations {
                let waiting_ns = instance.waiting_ns(&tables, *row).filter(|_| instance.is_comparable()).map(signed);
                let operation = tables.operations.row(index(*row));
                let place = (tables.members.row(operation.member).location, operation.start_ns);
                let operation = OperationKey::new(operation.event, place);
                operation_details.push(CollectiveDetails { operation, instance: number, waiting_ns });
            }
            instances.push(row(trace, &tables, instance, number, operations.len()));
        }
        operation_details.sort_unstable_by_key(|details| details.operation);
        let mut ranks = files.create(Table::Ranks, Path::new(""));
        for row in rows_of_ranks(trace, &tables) {
            ranks.push(row);
        }
        Ok((
            Self { of_operations: operation_details },
            [instances.close()?, ranks.close()?].into_iter().flatten().collect(),
        ))
    }

    pub(super) fn details_of_operation(&self, operation: &OperationKey) -> Option<CollectiveDetails> {
        let at = self.of_operations.binary_search_by_key(operation, |details| details.operation).ok()?;
        self.of_operations.get(at).copied()
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
        let mut calls = self.files.create(Table::Calls, &self.folder);
        let mut ranges = self.files.create(Table::Ranges, &self.folder);
        for location in locations {
            let thread = self.trace.location_property(*location, ThreadId).map(signed);
            self.selection.nested_slices(*location, |slice, around| {
                // A record on a thread is a kernel channel whose communicator is unknown.
                let Some(region) = self.trace.region(slice.region).filter(|_| slice.lane.is_none()) else {
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
            start_ns: signed(slice.began_ns()),
            stop_ns: signed(slice.stop_ns),
            path: fields.ranges,
            unfinished: fields.is_unfinished == Some(true),
            // The operations of a call that NCCL turns into sends and receives name its group.
            event: fields.event.or(fields.group).map(u64::cast_signed),
            parent: fields.group_of_call().map(u64::cast_signed),
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
            start_ns: signed(slice.began_ns()),
            stop_ns: signed(slice.stop_ns),
            unfinished: fields.is_unfinished == Some(true),
            location: slice.location.get().cast_signed(),
        }
    }
}
