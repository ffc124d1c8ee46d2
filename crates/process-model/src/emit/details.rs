//! The attributes of an event: what NCCL reported about the operation, without empty values.

mod derived;
mod gpu_work;
mod ranges;

use otf2::{AttributeRef, AttributeValue, LocationRef, NextAttributes, StringRef};

use crate::emit::definitions::Definitions;
use crate::links::interval::Interval;
use crate::links::pxn::{self, placeholder};
use crate::timeline::instance::{InstanceKind, RegionInstance, Source};
use crate::timeline::model::ProcessModel;
use journal::format::Symbol;
use nccl_events::archive::Timing;
use nccl_events::collective::Collective;
use nccl_events::ids::index;
use nccl_events::schema::attribute;
use nccl_events::schema::attribute::{Attribute, Written};
use nccl_events::schema::{Carrier, Value};
use nccl_events::state;
use tables::{
    CeColl, Coll, CollApi, Event, EventRow, GroupApi, KernelCh, KernelLaunch, OperationRow, P2p, P2pApi, ProxyOp, Row,
};

/// The names of the ways to measure intervals, in the order of [`Timing::ALL`].
pub type Timings = [StringRef; Timing::ALL.len()];

#[derive(Debug)]
pub struct Details<'a, 'e> {
    pub model: &'a ProcessModel<'a>,
    pub definitions: &'a Definitions,
    pub timings: &'e Timings,
    pub attributes: &'e mut NextAttributes,
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
    }
}

impl Details<'_, '_> {
    #[inline(always)]
    fn add<A: Attribute>(&mut self, _: A, value: Written<A, StringRef>) -> otf2::Result<()> {
        let reference = AttributeRef::new(A::ID as u32);
        self.attributes.add(reference, attribute_value(A::Carrier::put(value)))
    }

    /// Adds an attribute unless its value is 0 or false, which NCCL writes where it has no value.
    #[inline]
    fn some<A>(&mut self, attribute: A, value: Written<A, StringRef>) -> otf2::Result<()>
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

    fn elements(&mut self, count: u64, datatype: Symbol) -> otf2::Result<()> {
        let count = Some(count).filter(|count| *count != u64::MAX);
        count.map_or(Ok(()), |count| self.add(attribute::Count, count))?;
        self.name(attribute::Datatype, datatype)?;
        self.some(attribute::Bytes, count.map_or(0, |count| self.model.meanings.bytes(count, datatype)))
    }

    pub fn enter(&mut self, instance: RegionInstance) -> otf2::Result<()> {
        match instance.source {
            Source::CommCall(at) => {
                self.comm_call(at)?;
                self.comm_call_within(at)
            }
            Source::DerivedCall(at) => self.derived_call(at),
            Source::Derived(leader) => self.derived(leader),
            Source::Work(at) => self.gpu_work(at),
            Source::Activity(at) => self.operation(instance, at),
            Source::Event(event) => self.event(instance, event),
            Source::Range(at) => self.range(at),
        }
    }

    fn event(&mut self, instance: RegionInstance, event: EventRow) -> otf2::Result<()> {
        if matches!(instance.kind, InstanceKind::GroupStart | InstanceKind::GroupEnd | InstanceKind::Queued) {
            return Ok(());
        }
        let tables = self.model.tables;
        let Some(head) = tables.head(event) else {
            return Ok(());
        };
        self.some(attribute::Event, head.id)?;
        self.some(attribute::Parent, head.parent)?;
        match event {
            EventRow::ProxyStep(row) => {
                let step = &tables[row];
                self.add(attribute::Step, step.fields.step)?;
                // NCCL reports the size at these two states.
                if matches!(instance.kind, InstanceKind::SendWait | InstanceKind::RecvFlushWait) {
                    self.some(attribute::Bytes, step.state_value())?;
                }
                Ok(())
            }
            EventRow::ProxyOp(row) => self.proxy(&tables[row]),
            EventRow::GroupApi(row) => {
                let GroupApi { graph_captured, depth } = tables[row].fields;
                self.add(attribute::Depth, depth)?;
                self.some(attribute::Captured, graph_captured)?;
                self.within(head)
            }
            EventRow::CollApi(row) => {
                self.collective_call(&tables[row].fields)?;
                self.reduction_of(row)?;
                self.within(head)
            }
            EventRow::P2pApi(row) => {
                self.message_call(&tables[row].fields)?;
                self.within(head)
            }
            EventRow::KernelLaunch(row) => self.launch(row),
            EventRow::KernelCh(row) => self.channel(row),
            EventRow::KernelPhase(row) => self.add(attribute::Phase, tables[row].fields.phase.into()),
            EventRow::NetPlugin(row) => self.net_plugin(&tables[row].fields),
            EventRow::CeSync(row) => self.add(attribute::Ranks, u32::try_from(tables[row].fields.ranks).unwrap_or(0)),
            EventRow::CeBatch(row) => {
                self.add(attribute::Operations, tables[row].fields.operations)?;
                self.add(attribute::Bytes, tables[row].fields.bytes)
            }
            EventRow::Group(_)
            | EventRow::Coll(_)
            | EventRow::P2p(_)
            | EventRow::CeColl(_)
            | EventRow::ProxyCtrl(_)
            | EventRow::Unknown(_) => Ok(()),
        }
    }

    fn collective_call(&mut self, call: &CollApi) -> otf2::Result<()> {
        let CollApi { func, count, datatype, root, stream, graph_captured, user_tag } = *call;
        self.elements(count, datatype)?;
        self.root(func, root)?;
        self.some(attribute::Stream, stream)?;
        self.some(attribute::Captured, graph_captured)?;
        self.some(attribute::UserTag, user_tag)
    }

    fn message_call(&mut self, call: &P2pApi) -> otf2::Result<()> {
        let P2pApi { func: _, count, datatype, stream, graph_captured, user_tag } = *call;
        self.elements(count, datatype)?;
        self.some(attribute::Stream, stream)?;
        self.some(attribute::Captured, graph_captured)?;
        self.some(attribute::UserTag, user_tag)
    }

    fn launch(&mut self, row: Row<KernelLaunch>) -> otf2::Result<()> {
        let model = self.model;
        self.some(attribute::Stream, model.tables[row].fields.stream)?;
        self.some(attribute::Captured, model.links.replays.is_captured_launch(row))?;
        self.external(EventRow::KernelLaunch(row))
    }

    fn channel(&mut self, row: Row<KernelCh>) -> otf2::Result<()> {
        let model = self.model;
        let channel = &model.tables[row];
        self.add(attribute::Channel, channel.fields.channel.into())?;
        if let Some(coll) = model.tables.get::<Coll>(channel.parent) {
            self.add(attribute::Sequence, coll.fields.sequence)?;
        }
        self.some(attribute::Suspicious, model.links.stamps.distrust(row).is_some())
    }

    fn operation(&mut self, instance: RegionInstance, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some(activity) = model.links.activity(at) else {
            return Ok(());
        };
        let operation = model.tables.operation(activity.operation);
        self.some(attribute::Event, operation.id)?;
        self.some(attribute::Parent, operation.parent)?;
        self.some(attribute::Replay, activity.replay.unwrap_or(0))?;
        if instance.kind == InstanceKind::Enqueue {
            self.some(attribute::Captured, activity.is_at_capture)?;
        } else {
            match activity.operation {
                OperationRow::Coll(row) => self.collective(&model.tables[row].fields)?,
                OperationRow::P2p(row) => self.point_to_point(&model.tables[row].fields)?,
                OperationRow::CeColl(row) => self.by_copy_engines(&model.tables[row].fields)?,
            }
            self.timing_of(model.interval(at))?;
            self.operation_within(at)?;
        }
        match activity.operation {
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
        self.some(attribute::Event, context.id)?;
        self.name(attribute::CommName, context.comm.name)?;
        let member = model.comms.member(number);
        if let Some((member, comm)) = member.and_then(|m| Some((m, model.comms.comm(m)?))) {
            self.some(attribute::CommId, comm.comm_id)?;
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
        self.some(attribute::StartMoved, interval.moved_ns)?;
        let timing = self.timings.get(interval.timing as usize).copied();
        self.string(attribute::Timing, timing.unwrap_or(StringRef::UNDEFINED))
    }

    fn collective(&mut self, coll: &Coll) -> otf2::Result<()> {
        // Fields that are not shown are named, too, so that a new field fails to compile here.
        let Coll {
            func,
            sequence,
            algorithm,
            protocol,
            channels,
            warps,
            count,
            root,
            datatype,
            kernel_variant,
            is_symmetric,
            user_tag,
            send_buffer: _,
            recv_buffer: _,
            parent_group: _,
            comm_hash: _,
        } = *coll;
        self.add(attribute::Sequence, sequence)?;
        self.elements(count, datatype)?;
        self.root(func, root)?;
        self.name(attribute::Algorithm, algorithm)?;
        self.name(attribute::Protocol, protocol)?;
        self.add(attribute::Channels, channels.into())?;
        self.add(attribute::Warps, warps.into())?;
        self.name(attribute::KernelVariant, kernel_variant)?;
        self.some(attribute::Symmetric, is_symmetric)?;
        self.some(attribute::UserTag, user_tag)
    }

    fn point_to_point(&mut self, p2p: &P2p) -> otf2::Result<()> {
        let P2p { func: _, peer, channels, count, datatype, buffer: _, parent_group: _, comm_hash: _, user_tag } = *p2p;
        self.add(attribute::Peer, peer)?;
        self.elements(count, datatype)?;
        if channels > 0 {
            self.add(attribute::Channels, channels.into())?;
        }
        self.some(attribute::UserTag, user_tag)
    }

    fn by_copy_engines(&mut self, coll: &CeColl) -> otf2::Result<()> {
        let CeColl {
            func,
            sequence,
            count,
            root,
            datatype,
            stream,
            sync_strategy,
            user_tag,
            ce_sequence: _,
            send_buffer: _,
            recv_buffer: _,
            intra_batch_sync: _,
            batch_size: _,
            batches: _,
        } = *coll;
        self.add(attribute::Sequence, sequence)?;
        self.elements(count, datatype)?;
        self.root(func, root)?;
        self.name(attribute::SyncStrategy, sync_strategy)?;
        self.some(attribute::Stream, stream)?;
        self.some(attribute::UserTag, user_tag)
    }

    fn proxy(&mut self, op: &Event<ProxyOp>) -> otf2::Result<()> {
        let tables = self.model.tables;
        let ProxyOp { pid, channel, peer, steps, chunk_bytes, is_send: _ } = op.fields;
        self.add(attribute::Peer, peer)?;
        self.add(attribute::Channel, channel.into())?;
        self.add(attribute::Steps, steps)?;
        self.add(attribute::ChunkBytes, chunk_bytes)?;
        if tables.is_foreign(op) {
            self.add(attribute::OriginPid, pid)?;
        }
        if pxn::is_for_another(tables, op) {
            let origin = placeholder(tables.context_of(op));
            self.string(attribute::Origin, self.definitions.text(&origin))?;
        }
        if let Some(progress) = op.state_time(state::PROXY_OP_IN_PROGRESS) {
            self.add(attribute::QueuedNs, progress.saturating_sub(op.start))?;
        }
        Ok(())
    }

    /// Attributes known only at the LEAVE.
    pub fn leave(&mut self, instance: RegionInstance) -> otf2::Result<()> {
        let model = self.model;
        match instance.source {
            Source::Work(at) => {
                let unfinished = model.links.gpu.get(at).is_some_and(|work| work.unfinished);
                self.some(attribute::Unfinished, unfinished)
            }
            Source::CommCall(_) => Ok(()),
            Source::Range(at) => self.range_result(at),
            Source::DerivedCall(at) => self.derived_call_result(at),
            Source::Derived(leader) => self.derived_result(leader),
            Source::Activity(at) if instance.kind == InstanceKind::Operation => self.operation_result(at),
            Source::Activity(at) => {
                let operation = model.links.activity(at).map(|one| model.tables.operation(one.operation));
                let open = operation.is_some_and(|operation| operation.stop().is_none());
                self.some(attribute::Unfinished, open)
            }
            Source::Event(event) => self.event_result(instance, event),
        }
    }

    fn event_result(&mut self, instance: RegionInstance, event: EventRow) -> otf2::Result<()> {
        let model = self.model;
        match (instance.kind, event) {
            (InstanceKind::Net, EventRow::ProxyOp(row)) => {
                self.some(attribute::WireBytes, model.links.transfers.bytes(row, &model.tables[row]))?;
                self.some(attribute::Closed, model.links.transfers.is_silent(row))?;
            }
            (InstanceKind::Call, _) => {
                self.some(attribute::Replays, model.links.replays.of_call(event))?;
            }
            (InstanceKind::Channel | InstanceKind::PluginSend | InstanceKind::PluginReceive, _) => {}
            (_, EventRow::ProxyCtrl(row)) if instance.is_last => {
                self.some(attribute::Appended, model.tables[row].state_value())?;
                self.some(attribute::Closed, model.links.inferred_ends.controls.contains_key(&row))?;
            }
            // A step with a stop of its own needs no `Closed`.
            (_, EventRow::ProxyStep(row)) if instance.is_last && model.tables[row].stop().is_none() => {
                self.some(attribute::Closed, model.links.inferred_ends.steps.contains_key(&row))?;
            }
            _ => return Ok(()),
        }
        self.some(attribute::Unfinished, model.is_unfinished(event))
    }
}
