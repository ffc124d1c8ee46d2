//! Writes the events of one location of a timeline as OTF2 events, with their attributes.

use crate::attributes::{AttributeWriter, Timings, UsedAttributes};
use crate::builder::Location;
use crate::definitions;
use crate::definitions::Definitions;
use crate::locations::{network, switches};
use crate::messages::{EventBody, InterleavedEvents, Message, NestedEvents, Role, TimedInstance, TimelineEvent};
use model::process::{CommunicatorMember, Process};
use model::tables::{OperationRow, Row};
use nccl_events::archive::Timing;
use nccl_events::collective::Collective;
use nccl_events::event::ProxyStep;
use otf2::{Attributes, CommRef, EventWriter, MeasurementMode, RmaAccess, RmaWinRef};

/// How many events are written between two checks of the deadline.
const EVENTS_PER_CHECK: usize = 16 * 1024;

#[derive(Debug)]
pub struct Emitter<'a> {
    model: &'a Process<'a>,
    definitions: &'a Definitions,
    timings: Timings,
    used: UsedAttributes,
}

impl<'a> Emitter<'a> {
    pub fn new(model: &'a Process<'a>, definitions: &'a Definitions) -> Self {
        let timings = Timing::ALL.map(|timing| definitions.text(timing.name()));
        Self { model, definitions, timings, used: UsedAttributes::default() }
    }

    /// The attributes of what was written.
    pub fn into_used(self) -> UsedAttributes {
        self.used
    }

    /// Writes the events of a location; `None` if the deadline passed.
    pub fn write_location(
        &mut self,
        writer: &mut EventWriter<'_>,
        mut location: Location,
        cut: &mut u64,
        is_late: &dyn Fn() -> bool,
    ) -> otf2::Result<Option<WrittenEvents>> {
        location.sort();
        let switches = switches::for_location(location.key, self.model.tables);
        let instances = location.instances.iter();
        if location.has_only_instances() && switches.is_empty() {
            return self.write_events(writer, NestedEvents::new(instances, cut), is_late);
        }
        let events = InterleavedEvents::new(location.events(instances, cut), switches.into_iter());
        self.write_events(writer, events, is_late)
    }

    fn write_events(
        &mut self,
        writer: &mut EventWriter<'_>,
        events: impl Iterator<Item = TimelineEvent>,
        is_late: &dyn Fn() -> bool,
    ) -> otf2::Result<Option<WrittenEvents>> {
        let mut written = WrittenEvents::default();
        for event in events {
            if written.events % EVENTS_PER_CHECK == 0 && is_late() {
                return Ok(None);
            }
            self.write(writer, &event)?;
            written.note(&event);
        }
        Ok(Some(written))
    }

    fn write(&mut self, writer: &mut EventWriter<'_>, event: &TimelineEvent) -> otf2::Result<()> {
        match event.body {
            EventBody::Enter(instance) => {
                let region = self.definitions.region(instance.region);
                self.details(writer).enter(instance, event.time)?;
                writer.enter(event.time, region, Attributes::NONE)
            }
            EventBody::Leave(instance) => {
                let region = self.definitions.region(instance.region);
                self.details(writer).leave(instance)?;
                writer.leave(event.time, region, Attributes::NONE)
            }
            EventBody::Message(message) => self.message(writer, event.time, message),
            EventBody::Record(shown) => self.record(writer, &shown),
            EventBody::Put(row, matching) => self.put(writer, event.time, (row, matching)),
            EventBody::PutComplete(row, matching) => self.put_completes(writer, event.time, (row, matching)),
            EventBody::Measurement(is_on) => {
                let mode = if is_on { MeasurementMode::On } else { MeasurementMode::Off };
                writer.measurement_on_off(event.time, mode, Attributes::NONE)
            }
        }
    }

    fn record(&mut self, writer: &mut EventWriter<'_>, shown: &TimedInstance) -> otf2::Result<()> {
        let region = self.definitions.region(shown.instance.region);
        let mut details = self.details(writer);
        details.enter(shown.instance, shown.start)?;
        details.leave(shown.instance)?;
        let number = details.record(shown)?;
        writer.parameter_u64(shown.end, self.definitions.parameter(region), number, Attributes::NONE)
    }

    fn details<'e>(&'e self, writer: &'e mut EventWriter<'_>) -> AttributeWriter<'a, 'e> {
        AttributeWriter {
            model: self.model,
            definitions: self.definitions,
            timings: &self.timings,
            attributes: writer.next_attributes(),
            used: &self.used,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenEvents {
    pub events: usize,
    /// How many of the events complete a collective on this rank.
    pub collectives: u64,
    pub span_ns: Option<(u64, u64)>,
}

impl WrittenEvents {
    #[inline]
    fn note(&mut self, event: &TimelineEvent) {
        self.events += 1;
        self.collectives += u64::from(event.ends_collective());
        let (first, _) = self.span_ns.unwrap_or((event.time, event.time));
        self.span_ns = Some((first, event.time));
    }
}

impl Emitter<'_> {
    fn put(&self, writer: &mut EventWriter<'_>, time: u64, (row, matching): (Row<ProxyStep>, u32)) -> otf2::Result<()> {
        let Some(put) = network::rma_put(self.model, row) else {
            return Ok(());
        };
        let access = RmaAccess {
            win: RmaWinRef::new(put.comm),
            remote: put.peer,
            bytes: put.bytes,
            matching: u64::from(matching),
        };
        writer.rma_put(time, &access, Attributes::NONE)
    }

    fn put_completes(
        &self,
        writer: &mut EventWriter<'_>,
        time: u64,
        (row, matching): (Row<ProxyStep>, u32),
    ) -> otf2::Result<()> {
        let Some(put) = network::rma_put(self.model, row) else {
            return Ok(());
        };
        writer.rma_op_complete_non_blocking(time, RmaWinRef::new(put.comm), u64::from(matching), Attributes::NONE)
    }

    fn message(&self, writer: &mut EventWriter<'_>, time: u64, message: Message) -> otf2::Result<()> {
        let model = self.model;
        let request = u64::from(message.operation);
        let Some(linked) = model.links.operation(message.operation) else {
            return Ok(());
        };
        let operation = model.tables.operation(linked.operation);
        let Some(member) = model.member_of(&operation) else {
            return Ok(());
        };
        let none = Attributes::NONE;
        let exchanged = || match linked.operation {
            OperationRow::P2p(row) => otf2::Message {
                peer: u32::try_from(model.tables[row].fields.peer).unwrap_or(u32::MAX),
                comm: CommRef::new(member.comm),
                tag: 0,
                bytes: self.model.meanings.bytes(operation.count, operation.datatype),
            },
            _ => otf2::Message { peer: u32::MAX, comm: CommRef::new(member.comm), tag: 0, bytes: 0 },
        };
        match message.role {
            Role::CollectiveBegin => writer.mpi_collective_begin(time, none),
            Role::CollectiveEnd => match self.collective(message.operation, member) {
                Some(collective) => writer.mpi_collective_end(time, &collective, none),
                None => Ok(()),
            },
            Role::SendBegin => writer.mpi_isend(time, &exchanged(), request, none),
            Role::SendEnd => writer.mpi_isend_complete(time, request, none),
            Role::ReceiveBegin => writer.mpi_irecv_request(time, request, none),
            Role::ReceiveEnd => writer.mpi_irecv(time, &exchanged(), request, none),
        }
    }

    /// The collective record of an operation, or of the collective that its send or receive belongs to.
    fn collective(&self, at: u32, member: CommunicatorMember) -> Option<otf2::Collective> {
        let model = self.model;
        let operation = model.links.operation(at)?.operation;
        let root = match operation {
            OperationRow::Coll(row) => Some(model.tables[row].fields.root),
            OperationRow::CeColl(row) => Some(model.tables[row].fields.root),
            OperationRow::P2p(_) => None,
        };
        let (collective, bytes, root): (Collective, u64, i32) = match root {
            Some(root) => {
                let operation = model.tables.operation(operation);
                let bytes = model.meanings.bytes(operation.count, operation.datatype);
                (model.meanings.collective(operation.func)?, bytes, root)
            }
            None => {
                let (_, call) = model.links.derived.collective_of_member(at)?;
                let bytes = self.model.meanings.bytes(call.count, call.datatype);
                (call.pattern.collective(), bytes, call.rank)
            }
        };
        let root = u32::try_from(root).ok().filter(|root| collective.has_root() && member.may_have(*root));
        let is_root = root == Some(member.rank);
        let (bytes_sent, bytes_received) = collective.bytes(bytes, member.ranks_in_bytes(), is_root);
        Some(otf2::Collective {
            op: definitions::operation(collective),
            comm: CommRef::new(member.comm),
            root,
            bytes_sent,
            bytes_received,
        })
    }
}
