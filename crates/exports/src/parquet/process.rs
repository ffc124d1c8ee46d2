//! The rows of a process.

use std::collections::HashMap;
use std::path::PathBuf;

use analysis::{RegionInfo, Role, Trace};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::gpu::is_of_nccl;
use nccl_events::schema::definition::Nic;
use otf2::{LocationRef, RegionRef};

use super::collectives::Collectives;
use super::rows;
use super::table_file::{TableFiles, Written};
use super::values::small;
use crate::error::Result;
use crate::selection::Selection;
use crate::value::signed;

pub(super) struct Process<'a> {
    pub(super) trace: &'a Trace,
    pub(super) selection: &'a Selection<'a>,
    pub(super) collectives: &'a Collectives,
    pub(super) files: &'a TableFiles,
    pub(super) folder: PathBuf,
}

/// What steps inherit from their transfer.
struct OfTransfer {
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
    pub(super) fn operations(&self, locations: &[LocationRef]) -> Result<Vec<Written>> {
        let mut table = self.files.create("operations", &self.folder);
        for location in locations {
            let (communicator, rank) = self.member(*location);
            self.selection.slices(*location, |slice| {
                let Some(Role::Operation(_)) = slice.role else {
                    return;
                };
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let instance = self.collectives.of_operation(fields.event);
                table.push(rows::Operation {
                    instance: instance.map(|it| it.instance),
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
                    waiting_ns: instance.and_then(|it| it.waiting_ns),
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
    pub(super) fn network(&self, locations: &[LocationRef]) -> Result<Vec<Written>> {
        let is_slot = |it: &LocationRef| self.trace.location_kind(*it) == Some(LocationKind::Slot);
        let (slots, connections): (Vec<LocationRef>, Vec<LocationRef>) = locations.iter().partition(|it| is_slot(it));
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
                    transfers.insert(event, OfTransfer { peer, channel, operation });
                }
                table.push(rows::Transfer {
                    communicator,
                    rank,
                    peer,
                    channel,
                    direction: direction(self.function(slice.region) == "netSend"),
                    nic: self.trace.of_location(location, Nic),
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

    fn steps(&self, slots: &[LocationRef], transfers: &HashMap<u64, OfTransfer>) -> Result<Option<Written>> {
        let mut table = self.files.create("steps", &self.folder);
        for location in slots {
            let (communicator, rank) = self.member(*location);
            // The phases of a step follow each other and share its id.
            let mut open: Option<rows::Step<'_>> = None;
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
                let step = open.get_or_insert_with(|| rows::Step {
                    communicator,
                    rank,
                    peer: transfer.and_then(|it| it.peer),
                    channel: transfer.and_then(|it| it.channel),
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
                    operation: transfer.and_then(|it| it.operation),
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

    pub(super) fn kernels(&self, locations: &[LocationRef]) -> Result<Vec<Written>> {
        let mut table = self.files.create("kernels", &self.folder);
        for location in locations {
            let definition = self.trace.definitions.locations.get(location);
            let stream = definition.and_then(|it| self.trace.definitions.string(it.name)).unwrap_or_default();
            let gpu = self.trace.group_name(self.trace.group(*location));
            self.selection.slices(*location, |slice| {
                let fields = self.trace.fields_of(&slice.attributes);
                let details: Details<'_> = self.trace.read_fields(&slice.attributes);
                let is_copy = self.trace.is_copy(slice.region);
                let by_name = !is_copy && self.trace.canonical_name(slice.region).is_some_and(is_of_nccl);
                table.push(rows::Kernel {
                    class: if is_copy { RegionClass::Copy.name() } else { RegionClass::Kernel.name() },
                    name: self.region_name(slice.region),
                    is_nccl: by_name || fields.parent.is_some() || fields.external_correlation.is_some(),
                    gpu,
                    stream,
                    bytes: fields.bytes.map(signed),
                    start_ns: signed(slice.start_ns),
                    stop_ns: signed(slice.stop_ns),
                    correlation: details.correlation.map(|it| signed(it.into())),
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
        let place = comm.and_then(|comm| self.trace.definitions.comms.keys().position(|it| *it == comm));
        (place.and_then(|it| i32::try_from(it).ok()), rank.map(small))
    }

    fn function(&self, region: RegionRef) -> &'a str {
        self.trace.region(region).map_or_else(|| self.region_name(region), |it: RegionInfo<'a>| it.name)
    }

    pub(super) fn region_name(&self, region: RegionRef) -> &'a str {
        let definition = self.trace.definitions.regions.get(&region);
        definition.and_then(|it| self.trace.definitions.string(it.name)).unwrap_or_default()
    }
}

fn direction(is_send: bool) -> &'static str {
    if is_send { "send" } else { "receive" }
}
