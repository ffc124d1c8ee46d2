//! The attributes of an event: what NCCL reported about the operation, without empty values. Those of its fields follow
//! from their declarations ([`fields`]); here are those of links, communicators, ranges, derived collectives and GPU
//! work, and the functions that declarations name.

use std::cell::Cell;

use crate::definitions::Definitions;
use crate::instance::{InstanceKind, RegionInstance, Source};
use crate::locations::network::StepWaits;
use crate::messages::TimedInstance;
use journal::format::Symbol;
use model::links::derived::DerivedCall;
use model::links::gpu_work::GpuRecordKind;
use model::links::intervals::Interval;
use model::links::transfers::placeholder;
use model::links::{gpu_work, transfers};
use model::process::Process;
use model::program_ranges::{
    Begin, RangeEnd, RangeRole, begin, begin_of_comm_call, begin_of_operation, begin_of_range, reduction_name,
};
use model::tables::ranges::RangeAt;
use model::tables::{Coll, CollApi, Event, EventRow, Head, OperationRow, P2pApi, Row};
use nccl_events::archive::Timing;
use nccl_events::collective::Collective;
use nccl_events::event::{KernelCh, KernelLaunch, ProxyOp, ProxyStep};
use nccl_events::gpu::{Copy, Kernel, extent};
use nccl_events::ids::index;
use nccl_events::range::{RangeField, RangeFields};
use nccl_events::schema::attribute;
use nccl_events::schema::attribute::{Attribute, AttributeId, Written};
use nccl_events::schema::carriers::{Carrier, Value};
use nccl_events::{NetData, state};
use otf2::{AttributeRef, AttributeValue, CommRef, LocationRef, NextAttributes, StringRef};

mod fields;

/// The names of the ways to measure intervals, in the order of [`Timing::ALL`].
pub type Timings = [StringRef; Timing::ALL.len()];

#[derive(Debug)]
pub struct AttributeWriter<'a, 'e> {
    pub model: &'a Process<'a>,
    pub definitions: &'a Definitions,
    pub timings: &'e Timings,
    pub attributes: &'e mut NextAttributes,
    pub used: &'e UsedAttributes,
}

/// The attributes that events have: a bit for each.
#[derive(Debug, Default)]
pub struct UsedAttributes(Cell<u128>);

impl UsedAttributes {
    pub const fn has(&self, attribute: AttributeId) -> bool {
        self.0.get() & 1 << attribute as u32 != 0
    }

    #[inline(always)]
    fn add(&self, attribute: AttributeId) {
        self.0.set(self.0.get() | 1 << attribute as u32);
    }
}

#[inline(always)]
pub const fn attribute_value(value: Value<StringRef>) -> AttributeValue {
    match value {
        Value::U8(number) => AttributeValue::U8(number),
        Value::U32(number) => AttributeValue::U32(number),
        Value::U64(number) => AttributeValue::U64(number),
        Value::I32(number) => AttributeValue::I32(number),
        Value::I64(number) => AttributeValue::I64(number),
        Value::F64(number) => AttributeValue::F64(number),
        Value::String(text) => AttributeValue::String(text),
        Value::Location(number) => AttributeValue::Location(LocationRef::new(number)),
        Value::Comm(number) => AttributeValue::Comm(CommRef::new(number)),
    }
}

impl AttributeWriter<'_, '_> {
    #[inline(always)]
    fn add<A: Attribute>(&mut self, _: A, value: Written<A, StringRef>) -> otf2::Result<()> {
        self.used.add(A::ID);
        let reference = AttributeRef::new(A::ID as u32);
        self.attributes.add(reference, attribute_value(A::Carrier::put(value)))
    }

    /// Adds an attribute unless its value is 0 or false, which NCCL writes where it has no value.
    #[inline]
    fn add_unless_empty<A>(&mut self, attribute: A, value: Written<A, StringRef>) -> otf2::Result<()>
    where
        A: Attribute,
        Written<A, StringRef>: Default + PartialEq,
    {
        if value == Default::default() { Ok(()) } else { self.add(attribute, value) }
    }

    #[inline]
    fn string<A>(&mut self, attribute: A, text: StringRef) -> otf2::Result<()>
    where
        A: Attribute,
        A::Carrier: Carrier<Written<StringRef> = StringRef>,
    {
        if text == StringRef::UNDEFINED { Ok(()) } else { self.add(attribute, text) }
    }

    fn name<A>(&mut self, attribute: A, symbol: Symbol) -> otf2::Result<()>
    where
        A: Attribute,
        A::Carrier: Carrier<Written<StringRef> = StringRef>,
    {
        self.string(attribute, self.definitions.symbol(symbol))
    }

    /// The field `count`, for which NCCL writes 2⁶⁴ − 1 if it has none.
    fn count(&mut self, count: u64) -> otf2::Result<()> {
        if count == u64::MAX { Ok(()) } else { self.add(attribute::Count, count) }
    }

    /// The field `datatype`, and the size that follows from it.
    fn datatype(&mut self, datatype: Symbol, count: u64) -> otf2::Result<()> {
        self.name(attribute::Datatype, datatype)?;
        let bytes = if count == u64::MAX { 0 } else { self.model.meanings.bytes(count, datatype) };
        self.add_unless_empty(attribute::Bytes, bytes)
    }

    /// The attributes of what is shown from `start` on.
    pub fn enter(&mut self, instance: RegionInstance, start: u64) -> otf2::Result<()> {
        let began = self.began(instance).unwrap_or(start);
        self.add_unless_empty(attribute::Cut, start.saturating_sub(began))?;
        match instance.source {
            Source::CommCall(at) => {
                self.comm_call(at)?;
                self.comm_call_within(at)
            }
            Source::DerivedCall(at) => self.derived_call(at),
            Source::Transfers(_) => Ok(()),
            Source::Fused(at) => {
                let operations = self.definitions.kernels.get(index(at)).map_or(0, |kernel| kernel.operations);
                self.add(attribute::Operations, i32::try_from(operations).unwrap_or(i32::MAX))
            }
            Source::Derived(leader) => self.derived(leader),
            Source::Work(at) => self.gpu_work(at),
            Source::Operation(at) => self.operation(instance, at),
            Source::Event(event) => self.event(instance, event),
            Source::Range(at) => self.range(at),
        }
    }

    /// When what is shown on the row of a communicator, stream or domain began; `None` if it is shown from then on.
    fn began(&self, instance: RegionInstance) -> Option<u64> {
        let model = self.model;
        match instance.source {
            Source::Operation(at) if instance.kind == InstanceKind::Operation => Some(model.interval(at)?.start),
            Source::Derived(leader) => {
                Some(model.links.derived.collective_of_member(leader)?.0.interval(&model.intervals)?.start)
            }
            Source::Fused(at) => Some(self.definitions.kernels.get(index(at))?.start),
            Source::Work(at) => Some(model.links.gpu.get(at)?.start),
            Source::Range(at) => Some(model.tables.ranges.all.get(index(at))?.start),
            _ => None,
        }
    }

    fn event(&mut self, instance: RegionInstance, event: EventRow) -> otf2::Result<()> {
        if matches!(instance.kind, InstanceKind::GroupStart | InstanceKind::GroupEnd) {
            return Ok(());
        }
        let tables = self.model.tables;
        let Some(head) = tables.head(event) else {
            return Ok(());
        };
        self.add_unless_empty(attribute::Event, head.id)?;
        if instance.kind == InstanceKind::LoneCall {
            self.add_unless_empty(attribute::Group, head.parent)?;
        } else {
            self.add_unless_empty(attribute::Parent, head.parent)?;
        }
        self.fields(event)?;
        match event {
            EventRow::ProxyStep(row) => {
                self.connection_of(tables[row].parent)?;
                self.add_unless_empty(attribute::Bytes, tables[row].state_value())
            }
            EventRow::NetPlugin(row) => {
                let step = tables.get::<ProxyStep>(tables[row].parent);
                step.map_or(Ok(()), |step| {
                    self.connection_of(step.parent)?;
                    self.add(attribute::Step, step.fields.step)
                })
            }
            EventRow::ProxyOp(row) => self.proxy(&tables[row]),
            EventRow::CollApi(row) => {
                self.member_of(head)?;
                self.reduction_of(row)?;
                self.within(head)
            }
            EventRow::P2pApi(_) => {
                self.member_of(head)?;
                self.peer_of(event)?;
                self.within(head)
            }
            EventRow::GroupApi(_) => self.within(head),
            EventRow::KernelLaunch(row) => self.launch(row),
            EventRow::KernelCh(row) => self.channel(row),
            EventRow::ProxyCtrl(_) | EventRow::KernelPhase(_) => Ok(()),
            EventRow::Group(_) | EventRow::Coll(_) | EventRow::P2p(_) => Ok(()),
            EventRow::CeColl(_) | EventRow::CeSync(_) | EventRow::CeBatch(_) | EventRow::Unknown(_) => Ok(()),
        }
    }

    /// The communicator rank that a call is for.
    fn member_of(&mut self, call: &Head) -> otf2::Result<()> {
        let Some(member) = self.model.member_of(call) else {
            return Ok(());
        };
        self.add(attribute::Comm, member.comm)?;
        self.add(attribute::Rank, member.rank)
    }

    /// The peer of a call, which only NCCL's range has.
    fn peer_of(&mut self, call: EventRow) -> otf2::Result<()> {
        let range = self.model.links.ranges.around_call(self.model.tables, call);
        let peer = range.and_then(|range| i32::try_from(range.range.fields.get(RangeField::Peer)?).ok());
        peer.map_or(Ok(()), |peer| self.add(attribute::Peer, peer))
    }

    fn launch(&mut self, row: Row<KernelLaunch>) -> otf2::Result<()> {
        let model = self.model;
        self.add_unless_empty(attribute::Captured, model.links.replays.is_captured_launch(row))?;
        self.external(EventRow::KernelLaunch(row))
    }

    fn channel(&mut self, row: Row<KernelCh>) -> otf2::Result<()> {
        let model = self.model;
        if let Some(coll) = model.tables.get::<Coll>(model.tables[row].parent) {
            self.add(attribute::Sequence, coll.fields.sequence)?;
        }
        self.add_unless_empty(attribute::Suspicious, model.links.stamps.distrust(row).is_some())
    }

    fn operation(&mut self, instance: RegionInstance, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some(linked) = model.links.operation(at) else {
            return Ok(());
        };
        let operation = model.tables.operation(linked.operation);
        self.add_unless_empty(attribute::Event, operation.id)?;
        self.add_unless_empty(attribute::Parent, operation.parent)?;
        self.add_unless_empty(attribute::Replay, linked.replay.unwrap_or(0))?;
        if instance.kind == InstanceKind::Enqueue {
            self.add_unless_empty(attribute::Captured, linked.is_at_capture)?;
        } else {
            // Copy engines run without a kernel.
            let launch = linked.own_launch().filter(|_| !linked.operation.is_by_copy_engines());
            self.add_unless_empty(attribute::Launch, launch.map_or(0, |row| model.tables[row].id))?;
            self.fields(linked.operation.event())?;
            self.timing_of(model.interval(at))?;
            self.operation_within(at)?;
        }
        match linked.operation {
            OperationRow::CeColl(row) => self.external(EventRow::CeColl(row)),
            _ => Ok(()),
        }
    }

    fn comm_call(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let number = model.tables.comm_calls.get(index(at)).and_then(|call| call.context);
        let Some((number, context)) = number.and_then(|at| Some((at, model.tables.contexts.get(index(at))?))) else {
            return Ok(());
        };
        self.add_unless_empty(attribute::Event, context.id)?;
        self.name(attribute::CommName, context.comm.name)?;
        let member = model.comms.member(number);
        if let Some((member, comm)) = member.and_then(|m| Some((m, model.comms.comm(m)?))) {
            self.add_unless_empty(attribute::CommId, comm.comm_id)?;
            self.add(attribute::Rank, member.rank)?;
            if comm.ranks > 0 {
                self.add(attribute::Ranks, comm.ranks)?;
            }
            if comm.nodes > 0 {
                self.add(attribute::Nodes, comm.nodes)?;
            }
        }
        Ok(())
    }

    /// The field `root`, which means nothing for other functions.
    fn root(&mut self, func: Symbol, root: i32) -> otf2::Result<()> {
        if self.model.meanings.collective(func).is_some_and(Collective::has_root) {
            return self.add(attribute::Root, root);
        }
        Ok(())
    }

    fn timing_of(&mut self, interval: Option<Interval>) -> otf2::Result<()> {
        let Some(interval) = interval else {
            return Ok(());
        };
        self.add_unless_empty(attribute::StartMoved, interval.moved_ns)?;
        let timing = self.timings.get(interval.timing as usize).copied();
        self.string(attribute::Timing, timing.unwrap_or(StringRef::UNDEFINED))
    }

    /// The communicator rank of a transfer, or, where another process's, its name.
    fn rank_of(&mut self, op: &Event<ProxyOp>) -> otf2::Result<()> {
        let (model, tables) = (self.model, self.model.tables);
        if transfers::is_for_another(tables, op) {
            let origin = placeholder(tables.context_of(op));
            return self.string(attribute::Origin, self.definitions.text(&origin));
        }
        match model.member_of(op).filter(|_| !model.owner_of_transfer(op).is_foreign()) {
            Some(member) => {
                self.add(attribute::Comm, member.comm)?;
                self.add(attribute::Rank, member.rank)
            }
            None => Ok(()),
        }
    }

    /// The connection of a step's or a plugin's transfer.
    fn connection_of(&mut self, transfer: u64) -> otf2::Result<()> {
        let Some(op) = self.model.tables.get::<ProxyOp>(transfer) else {
            return Ok(());
        };
        self.rank_of(op)?;
        self.add(attribute::Channel, op.fields.channel.into())?;
        self.add(attribute::Peer, op.fields.peer)
    }

    fn proxy(&mut self, op: &Event<ProxyOp>) -> otf2::Result<()> {
        self.rank_of(op)?;
        if let Some(progress) = op.state_time(state::PROXY_OP_IN_PROGRESS) {
            self.add(attribute::QueuedNs, progress.saturating_sub(op.start))?;
        }
        Ok(())
    }

    /// The field `pid` of a proxy operation.
    fn origin_pid(&mut self, op: &Event<ProxyOp>) -> otf2::Result<()> {
        if self.model.tables.is_foreign(op) { self.add(attribute::OriginPid, op.fields.pid) } else { Ok(()) }
    }

    /// The field `ranks` of a synchronisation.
    fn ranks(&mut self, ranks: i32) -> otf2::Result<()> {
        self.add(attribute::Ranks, u32::try_from(ranks).unwrap_or(0))
    }

    /// Attributes known only at the LEAVE.
    pub fn leave(&mut self, instance: RegionInstance) -> otf2::Result<()> {
        let model = self.model;
        match instance.source {
            Source::Work(at) => {
                let unfinished = model.links.gpu.get(at).is_some_and(|work| work.unfinished);
                self.add_unless_empty(attribute::Unfinished, unfinished)
            }
            Source::CommCall(_) => Ok(()),
            Source::Fused(at) => {
                let unfinished = self.definitions.kernels.get(index(at)).is_some_and(|kernel| kernel.unfinished);
                self.add_unless_empty(attribute::Unfinished, unfinished)
            }
            Source::Transfers(transfers) => self.add(attribute::Transfers, transfers),
            Source::Range(at) => self.range_result(at),
            Source::DerivedCall(at) => self.derived_call_result(at),
            Source::Derived(leader) => self.derived_result(leader),
            Source::Operation(at) if instance.kind == InstanceKind::Operation => self.operation_result(at),
            Source::Operation(at) => {
                let operation = model.links.operation(at).map(|one| model.tables.operation(one.operation));
                let open = operation.is_some_and(|operation| operation.stop().is_none());
                self.add_unless_empty(attribute::Unfinished, open)
            }
            Source::Event(event) => self.event_result(instance, event),
        }
    }

    /// The attributes that only records have. Returns the record's own number.
    pub fn record(&mut self, shown: &TimedInstance) -> otf2::Result<u64> {
        self.add(attribute::Duration, shown.end.saturating_sub(shown.start))?;
        let tables = self.model.tables;
        let number = match shown.instance.source {
            Source::Event(EventRow::KernelCh(row)) => tables[row].fields.channel.into(),
            Source::Event(EventRow::ProxyOp(row)) => u64::try_from(tables[row].fields.peer).unwrap_or(0),
            Source::Operation(at) => match self.model.links.operation(at).map(|linked| linked.operation) {
                Some(OperationRow::P2p(row)) => u64::try_from(tables[row].fields.peer).unwrap_or(0),
                _ => 0,
            },
            Source::Event(EventRow::ProxyStep(row)) => {
                let waits = StepWaits::new(&tables[row], shown.end);
                self.add_unless_empty(attribute::WaitGpu, waits.gpu_ns)?;
                self.add_unless_empty(attribute::WaitPeer, waits.peer_ns)?;
                self.add_unless_empty(attribute::WaitNetwork, waits.network_ns)?;
                self.add_unless_empty(attribute::Flush, waits.flush_ns)?;
                u64::try_from(tables[row].fields.step).unwrap_or(0)
            }
            Source::Event(EventRow::KernelPhase(row)) => {
                if let Some(channel) = tables.get::<KernelCh>(tables[row].parent) {
                    self.add(attribute::Channel, channel.fields.channel.into())?;
                }
                tables[row].fields.phase.into()
            }
            _ => 0,
        };
        Ok(number)
    }

    fn event_result(&mut self, instance: RegionInstance, event: EventRow) -> otf2::Result<()> {
        let model = self.model;
        match (instance.kind, event) {
            (InstanceKind::Net, EventRow::ProxyOp(row)) => {
                self.add_unless_empty(attribute::WireBytes, model.links.transfers.bytes(row, &model.tables[row]))?;
                self.add_unless_empty(attribute::Closed, model.links.transfers.is_silent(row))?;
            }
            (InstanceKind::Call | InstanceKind::LoneCall, _) => {
                self.add_unless_empty(attribute::Replays, model.links.replays.replays_of_call(event))?;
            }
            (InstanceKind::Channel | InstanceKind::PluginSend | InstanceKind::PluginReceive, _) => {}
            (_, EventRow::ProxyCtrl(row)) if instance.is_last => {
                self.add_unless_empty(attribute::Appended, model.tables[row].state_value())?;
                self.add_unless_empty(attribute::Closed, model.links.inferred_ends.controls.contains_key(&row))?;
            }
            // A step with a stop of its own needs no `Closed`.
            (_, EventRow::ProxyStep(row)) if model.tables[row].stop().is_none() => {
                self.add_unless_empty(attribute::Closed, model.links.inferred_ends.steps.contains_key(&row))?;
            }
            _ => return Ok(()),
        }
        let group = model.tables.head(event).filter(|_| instance.kind == InstanceKind::LoneCall);
        let group = group.and_then(|call| model.tables.find(call.parent));
        let is_open = model.is_unfinished(event) || group.is_some_and(|group| model.is_unfinished(group));
        self.add_unless_empty(attribute::Unfinished, is_open)
    }
}

/// A number of 32 bits, which the journal has extended to 64.
const fn small(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

const fn signed(value: u64) -> i32 {
    small(value).cast_signed()
}

impl AttributeWriter<'_, '_> {
    pub(crate) fn range(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let role = model.links.ranges.roles.get(index(at));
        match (model.tables.ranges.all.get(index(at)), role) {
            (Some(range), Some(RangeRole::User)) => self.user_range(range),
            (Some(range), _) => self.call_by_range(at, range),
            (None, _) => Ok(()),
        }
    }

    pub(crate) fn range_result(&mut self, at: u32) -> otf2::Result<()> {
        let tables = self.model.tables;
        let end = tables.ranges.all.get(index(at)).map(|range| self.model.links.ranges.end(at, range));
        match end {
            Some(RangeEnd::Bounded) => self.add(attribute::Closed, true),
            Some(RangeEnd::Open) => self.add(attribute::Unfinished, true),
            Some(RangeEnd::Known) | None => Ok(()),
        }
    }

    fn user_range(&mut self, range: &RangeAt) -> otf2::Result<()> {
        let name = range.range;
        self.name(attribute::RangeDomain, name.domain)?;
        let category = match (self.definitions.symbol(name.category), name.fields.get(RangeField::Category)) {
            (StringRef::UNDEFINED, Some(number)) => self.definitions.text(&number.to_string()),
            (category, _) => category,
        };
        self.string(attribute::RangeCategory, category)?;
        for (field, value) in name.fields.iter() {
            match field {
                RangeField::Number => self.add(attribute::RangeNumber, value)?,
                RangeField::Color => self.add(attribute::RangeColor, small(value))?,
                RangeField::Unsigned => self.add(attribute::RangePayload, value)?,
                RangeField::Signed => self.add(attribute::RangePayloadSigned, value.cast_signed())?,
                RangeField::Float => self.add(attribute::RangePayloadFloat, f64::from_bits(value))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A call that only a range of NCCL's shows; with what is known of the communicator that it begins or ends.
    fn call_by_range(&mut self, at: u32, range: &RangeAt) -> otf2::Result<()> {
        let model = self.model;
        let call = model.links.ranges.comm_call(at);
        if let Some(call) = call {
            self.comm_call(call)?;
        }
        let context = call.and_then(|call| model.tables.comm_calls.get(index(call))?.context);
        if context.and_then(|context| model.comms.member(context)).is_none() {
            self.communicator(&range.range.fields)?;
        }
        for (field, value) in range.range.fields.iter() {
            match field {
                RangeField::ParentCommId => self.add_unless_empty(attribute::ParentCommId, value)?,
                RangeField::Device => self.add(attribute::Device, signed(value))?,
                RangeField::Bytes => self.add(attribute::Bytes, value)?,
                RangeField::Root => self.add(attribute::Root, signed(value))?,
                RangeField::Peer => self.add(attribute::Peer, signed(value))?,
                RangeField::Reduction => self.reduction(value)?,
                RangeField::SplitColor => self.add(attribute::SplitColor, signed(value))?,
                RangeField::SplitKey => self.add(attribute::SplitKey, signed(value))?,
                _ => {}
            }
        }
        self.at(begin_of_range(range))
    }

    /// The communicator that the range itself names.
    fn communicator(&mut self, fields: &RangeFields) -> otf2::Result<()> {
        let model = self.model;
        if let Some(id) = fields.get(RangeField::CommId).filter(|&id| id != 0) {
            self.add(attribute::CommId, id)?;
            if let Some(comm) = model.comms.comms.iter().find(|comm| comm.comm_id == id) {
                self.name(attribute::CommName, comm.name)?;
            }
        }
        if let Some(rank) = fields.get(RangeField::Rank).and_then(|rank| u32::try_from(rank).ok()) {
            self.add(attribute::Rank, rank)?;
        }
        self.add_unless_empty(
            attribute::Ranks,
            fields.get(RangeField::Ranks).and_then(|ranks| ranks.try_into().ok()).unwrap_or(0),
        )
    }

    fn reduction(&mut self, number: u64) -> otf2::Result<()> {
        let name = self.definitions.text(&reduction_name(number));
        self.string(attribute::Reduction, name)
    }

    /// The reduction operator of a call, which only the range around it has.
    pub(crate) fn reduction_of(&mut self, call: Row<CollApi>) -> otf2::Result<()> {
        self.model.links.ranges.reduction(self.model.tables, call).map_or(Ok(()), |number| self.reduction(number))
    }

    fn at(&mut self, begin: Begin) -> otf2::Result<()> {
        let around = self.model.links.ranges.paths.path_at_begin(begin);
        around.map_or(Ok(()), |path| self.string(attribute::Ranges, self.definitions.path(path)))
    }

    /// The user ranges around a call.
    #[inline]
    pub(crate) fn within(&mut self, call: &Head) -> otf2::Result<()> {
        self.at(begin(call))
    }

    pub(crate) fn comm_call_within(&mut self, at: u32) -> otf2::Result<()> {
        self.model.tables.comm_calls.get(index(at)).map_or(Ok(()), |call| self.at(begin_of_comm_call(call)))
    }

    /// The user ranges around the call of an operation.
    #[inline]
    pub(crate) fn operation_within(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        if model.links.ranges.paths.texts.is_empty() {
            return Ok(());
        }
        let linked = model.links.operation(at);
        linked.map_or(Ok(()), |linked| {
            self.at(begin_of_operation(model.tables, linked.operation, linked.replay.is_some()))
        })
    }
}

impl AttributeWriter<'_, '_> {
    pub(crate) fn derived_call(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let call = model.links.derived.calls.get(index(at));
        let Some((call, &first)) = call.and_then(|call| Some((call, call.calls.first()?))) else {
            return Ok(());
        };
        let first = &model.tables[first];
        self.add_unless_empty(attribute::Group, first.parent)?;
        self.call(call)?;
        self.within(first)
    }

    /// The call has ended when its group and all its sends and receives have.
    pub(crate) fn derived_call_result(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let calls = model.links.derived.calls.get(index(at)).map_or(&[][..], |call| &call.calls);
        let group = calls.first().and_then(|&first| model.tables.find(model.tables[first].parent));
        let parts = calls.iter().map(|&call| EventRow::P2pApi(call)).chain(group);
        let is_open = parts.into_iter().any(|part| model.is_unfinished(part));
        self.add_unless_empty(attribute::Unfinished, is_open)
    }

    fn call(&mut self, call: &DerivedCall) -> otf2::Result<()> {
        let Some(&first) = call.calls.first() else {
            return Ok(());
        };
        let first = &self.model.tables[first];
        self.count(call.count)?;
        self.datatype(call.datatype, call.count)?;
        if call.pattern.collective().has_root() {
            self.add(attribute::Root, call.rank)?;
        }
        let P2pApi { stream, graph_captured, user_tag, func: _, count: _, datatype: _ } = first.fields;
        self.add_unless_empty(attribute::Stream, stream)?;
        self.add_unless_empty(attribute::Captured, graph_captured)?;
        self.add_unless_empty(attribute::UserTag, user_tag)
    }

    /// The collective as it ran, identified by its first operation.
    pub(crate) fn derived(&mut self, leader: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some((collective, call)) = model.links.derived.collective_of_member(leader) else {
            return Ok(());
        };
        let parent = call.calls.first().map_or(0, |&first| model.tables[first].parent);
        self.add_unless_empty(attribute::Parent, parent)?;
        self.call(call)?;
        self.add_unless_empty(
            attribute::Replay,
            model.links.operation(leader).and_then(|one| one.replay).unwrap_or(0),
        )?;
        self.timing_of(collective.interval(&model.intervals))?;
        self.operation_within(leader)
    }

    pub(crate) fn derived_result(&mut self, leader: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some((collective, call)) = model.links.derived.collective_of_member(leader) else {
            return Ok(());
        };
        let members = || collective.members.iter().filter_map(|&at| model.links.operation(at));
        self.add_unless_empty(attribute::BytesSent, members().map(|member| member.bytes_sent).sum())?;
        self.add_unless_empty(attribute::BytesReceived, members().map(|member| member.bytes_received).sum())?;
        let Some(interval) = collective.interval(&model.intervals) else {
            return Ok(());
        };
        self.add_unless_empty(attribute::Unfinished, interval.unfinished)?;
        if collective.missing > 0 {
            // The missing members may have ended later, so a bandwidth would be invented.
            return self.add(attribute::MembersMissing, collective.missing);
        }
        let bytes = model.meanings.bytes(call.count, call.datatype);
        self.bandwidths(Some(call.pattern.collective()), bytes, call.ranks, interval)
    }

    /// Attributes of a collective or point-to-point operation that are known when it ends.
    pub(crate) fn operation_result(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some(linked) = model.links.operation(at) else {
            return Ok(());
        };
        self.add_unless_empty(attribute::BytesSent, linked.bytes_sent)?;
        self.add_unless_empty(attribute::BytesReceived, linked.bytes_received)?;
        let Some(interval) = model.interval(at) else {
            return Ok(());
        };
        self.add_unless_empty(attribute::Unfinished, interval.unfinished)?;
        if !matches!(linked.operation, OperationRow::Coll(_)) {
            return Ok(());
        }
        let operation = model.tables.operation(linked.operation);
        // Without the number of ranks, a bandwidth would be invented.
        let Some(member) = model.member_of(&operation).filter(|member| member.knows_ranks) else {
            return Ok(());
        };
        let bytes = model.meanings.bytes(operation.count, operation.datatype);
        let collective = model.meanings.collective(operation.func);
        self.bandwidths(collective, bytes, member.ranks, interval)
    }

    /// The bandwidths of a collective of `bytes` per rank, if its interval is known.
    pub(crate) fn bandwidths(
        &mut self,
        collective: Option<Collective>,
        bytes: u64,
        ranks: u32,
        interval: Interval,
    ) -> otf2::Result<()> {
        let measured = interval.timing.is_measured() && !interval.is_shared;
        let seconds = std::time::Duration::from_nanos(interval.end.saturating_sub(interval.start)).as_secs_f64();
        if interval.unfinished || !measured || seconds <= 0.0 {
            return Ok(());
        }
        if let Some(collective) = collective {
            let (bandwidth, bus) = collective.bandwidths(bytes, ranks, seconds);
            self.add(attribute::AlgorithmBandwidth, bandwidth)?;
            self.add(attribute::BusBandwidth, bus)?;
        }
        Ok(())
    }
}

impl AttributeWriter<'_, '_> {
    pub(crate) fn gpu_work(&mut self, at: u32) -> otf2::Result<()> {
        let Some(&work) = self.model.links.gpu.get(at) else {
            return Ok(());
        };
        self.add_unless_empty(attribute::Parent, work.parent)?;
        self.add_unless_empty(attribute::ExternalCorrelation, work.external)?;
        match work.kind {
            GpuRecordKind::Kernel(kernel) => self.kernel(&kernel),
            GpuRecordKind::Copy(copy) => self.copy(&copy),
        }
    }

    /// The external correlation id that CUPTI reported with the work of a launch or copy-engine collective, if it did.
    pub(crate) fn external(&mut self, launch: EventRow) -> otf2::Result<()> {
        let model = self.model;
        let joined = Some(launch).filter(|&launch| model.links.gpu.is_joined(launch));
        let id = joined.and_then(|launch| model.tables.head(launch)).map_or(0, |head| head.id);
        self.add_unless_empty(attribute::ExternalCorrelation, id)
    }

    fn word<A>(&mut self, attribute: A, text: &str) -> otf2::Result<()>
    where
        A: Attribute<Carrier = nccl_events::schema::carriers::Word>,
    {
        if text.is_empty() {
            return Ok(());
        }
        self.string(attribute, self.definitions.text(text))
    }

    fn kernel(&mut self, kernel: &Kernel<Symbol>) -> otf2::Result<()> {
        self.add_unless_empty(attribute::Correlation, kernel.correlation)?;
        self.word(attribute::Grid, &extent(kernel.grid))?;
        self.word(attribute::Block, &extent(kernel.block))?;
        self.add_unless_empty(attribute::Registers, kernel.registers_per_thread.into())?;
        self.add_unless_empty(attribute::StaticShared, kernel.static_shared_bytes)?;
        self.add_unless_empty(attribute::DynamicShared, kernel.dynamic_shared_bytes)?;
        self.add_unless_empty(attribute::Graph, kernel.graph)?;
        self.add_unless_empty(attribute::GraphNode, kernel.graph_node)?;
        self.add_unless_empty(attribute::SourceGraphNode, kernel.source_graph_node)
    }

    fn copy(&mut self, copy: &Copy) -> otf2::Result<()> {
        self.add_unless_empty(attribute::Correlation, copy.correlation)?;
        self.add_unless_empty(attribute::Bytes, copy.bytes)?;
        if copy.count > 1 {
            self.add_unless_empty(attribute::Copies, copy.count)?;
        }
        if copy.source_device != copy.device {
            self.add(attribute::SourceDevice, copy.source_device)?;
        }
        if copy.destination_device != copy.device {
            self.add(attribute::DestinationDevice, copy.destination_device)?;
        }
        self.word(attribute::SourceMemory, gpu_work::memory_kind(copy.source_kind))?;
        self.word(attribute::DestinationMemory, gpu_work::memory_kind(copy.destination_kind))?;
        self.add_unless_empty(attribute::GraphNode, copy.graph_node)
    }

    /// The field `id` of a network plugin's event.
    fn plugin_id(&mut self, id: i64) -> otf2::Result<()> {
        self.add(attribute::PluginId, id.cast_unsigned())
    }

    /// What the network plugin reported at the start, as numbers: only the plugin knows their meaning.
    fn net_data(&mut self, data: NetData) -> otf2::Result<()> {
        match data {
            NetData::Opaque => Ok(()),
            NetData::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => {
                self.add(attribute::NetDevice, device)?;
                self.add(attribute::QueuePair, queue_pair)?;
                self.add(attribute::Opcode, opcode)?;
                self.add(attribute::WorkRequest, work_request)?;
                self.add(attribute::Bytes, bytes)
            }
            NetData::Socket { descriptor, operation, bytes } => {
                self.add(attribute::Socket, descriptor)?;
                self.add(attribute::Opcode, operation)?;
                self.add(attribute::Bytes, bytes)
            }
        }
    }
}
