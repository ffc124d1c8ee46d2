//! The attributes of an event: what NCCL said about the operation, as far as it says something.

mod derived;
mod gpu_work;
mod network;
mod result;

use otf2::{AttributeValue, NextAttributes, StringRef};

use crate::emit::attributes::Attribute;
use crate::emit::definitions::Definitions;
use crate::links::interval::Interval;
use crate::links::pxn::{self, placeholder};
use crate::timeline::instance::{InstanceKind, RegionInstance, Source};
use crate::timeline::model::ProcessModel;
use journal::format::record::Symbol;
use nccl_events::archive::Timing;
use nccl_events::collective::Collective;
use nccl_events::state;
use tables::OperationRow;
use tables::index::index;
use tables::{CeColl, Coll, CollApi, Event, EventRow, GroupApi, KernelCh, KernelLaunch, P2p, P2pApi, ProxyOp, Row};

/// What intervals are measured by, in the order of [`Timing::ALL`].
pub(crate) type Timings = [StringRef; Timing::ALL.len()];

/// Gives an event its attributes.
#[derive(Debug)]
pub(crate) struct Details<'a, 'e> {
    /// What is shown.
    pub model: &'a ProcessModel<'a>,
    /// The numbers of strings.
    pub definitions: &'a Definitions,
    /// Those of what intervals are measured by.
    pub timings: &'e Timings,
    /// Those of the event.
    pub attributes: &'e mut NextAttributes,
}

impl Details<'_, '_> {
    #[inline(always)]
    fn add(&mut self, attribute: Attribute, value: AttributeValue) -> otf2::Result<()> {
        self.attributes.add(attribute.reference(), value)
    }

    /// Adds a number, or nothing for `skip`: what NCCL writes where it has no value.
    #[inline]
    fn number(&mut self, attribute: Attribute, value: u64, skip: u64) -> otf2::Result<()> {
        if value == skip {
            return Ok(());
        }
        self.add(attribute, AttributeValue::U64(value))
    }

    #[inline]
    fn flag(&mut self, attribute: Attribute, truth: bool) -> otf2::Result<()> {
        if truth { self.add(attribute, AttributeValue::U8(1)) } else { Ok(()) }
    }

    #[inline]
    fn string(&mut self, attribute: Attribute, text: StringRef) -> otf2::Result<()> {
        if text == StringRef::UNDEFINED {
            return Ok(());
        }
        self.add(attribute, AttributeValue::String(text))
    }

    fn name(&mut self, attribute: Attribute, symbol: Symbol) -> otf2::Result<()> {
        self.string(attribute, self.definitions.symbol(symbol))
    }

    fn elements(&mut self, count: u64, datatype: Symbol) -> otf2::Result<()> {
        self.number(Attribute::Count, count, u64::MAX)?;
        self.name(Attribute::Datatype, datatype)?;
        let size = self.model.meanings.element_bytes(datatype);
        self.number(Attribute::Bytes, count.saturating_mul(size), 0)
    }

    /// What is known when a region is entered.
    ///
    /// # Errors
    /// An attribute would come twice.
    pub(crate) fn enter(&mut self, instance: RegionInstance) -> otf2::Result<()> {
        match instance.source {
            Source::CommCall(at) => self.comm_call(at),
            Source::DerivedCall(at) => self.derived_call(at),
            Source::Derived(leader) => self.derived(leader),
            Source::Work(at) => self.gpu_work(at),
            Source::Activity(at) => self.operation(instance, at),
            Source::Event(event) => self.event(instance, event),
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
        self.number(Attribute::Event, head.id, 0)?;
        self.number(Attribute::Parent, head.parent, 0)?;
        match event {
            EventRow::ProxyStep(row) => {
                let step = &tables[row];
                self.add(Attribute::Step, AttributeValue::I32(step.fields.step))?;
                // NCCL tells the size at these two states.
                if matches!(instance.kind, InstanceKind::SendWait | InstanceKind::RecvFlushWait) {
                    self.number(Attribute::Bytes, step.state_value(), 0)?;
                }
                Ok(())
            }
            EventRow::ProxyOp(row) => self.proxy(&tables[row]),
            EventRow::GroupApi(row) => {
                let GroupApi { graph_captured, depth } = tables[row].fields;
                self.add(Attribute::Depth, AttributeValue::I32(depth))?;
                self.flag(Attribute::Captured, graph_captured)
            }
            EventRow::CollApi(row) => self.collective_call(&tables[row].fields),
            EventRow::P2pApi(row) => self.message_call(&tables[row].fields),
            EventRow::KernelLaunch(row) => self.launch(row),
            EventRow::KernelCh(row) => self.channel(row),
            EventRow::KernelPhase(row) => {
                let phase = tables[row].fields.phase.into();
                self.add(Attribute::Phase, AttributeValue::U32(phase))
            }
            EventRow::NetPlugin(row) => {
                let fields = &tables[row].fields;
                self.net_plugin(fields.id, fields.data)
            }
            EventRow::CeSync(row) => {
                let ranks = u32::try_from(tables[row].fields.ranks).unwrap_or(0);
                self.add(Attribute::Ranks, AttributeValue::U32(ranks))
            }
            EventRow::CeBatch(row) => {
                let fields = &tables[row].fields;
                let operations = AttributeValue::I32(fields.operations);
                self.add(Attribute::Operations, operations)?;
                self.add(Attribute::Bytes, AttributeValue::U64(fields.bytes))
            }
            _ => Ok(()),
        }
    }

    fn collective_call(&mut self, call: &CollApi) -> otf2::Result<()> {
        self.elements(call.count, call.datatype)?;
        self.root(call.func, call.root)?;
        self.number(Attribute::Stream, call.stream, 0)?;
        self.flag(Attribute::Captured, call.graph_captured)?;
        self.number(Attribute::UserTag, call.user_tag, 0)
    }

    fn message_call(&mut self, call: &P2pApi) -> otf2::Result<()> {
        self.elements(call.count, call.datatype)?;
        self.number(Attribute::Stream, call.stream, 0)?;
        self.flag(Attribute::Captured, call.graph_captured)?;
        self.number(Attribute::UserTag, call.user_tag, 0)
    }

    fn launch(&mut self, row: Row<KernelLaunch>) -> otf2::Result<()> {
        let model = self.model;
        self.number(Attribute::Stream, model.tables[row].fields.stream, 0)?;
        let is_captured = model.links.replays.is_captured_launch(row);
        self.flag(Attribute::Captured, is_captured)?;
        self.external(EventRow::KernelLaunch(row))
    }

    fn channel(&mut self, row: Row<KernelCh>) -> otf2::Result<()> {
        let model = self.model;
        let channel = &model.tables[row];
        let number = channel.fields.channel.into();
        self.add(Attribute::Channel, AttributeValue::U32(number))?;
        if let Some(coll) = model.tables.get::<Coll>(channel.parent) {
            let sequence = AttributeValue::U64(coll.fields.sequence);
            self.add(Attribute::Sequence, sequence)?;
        }
        let suspicious = model.links.stamps.distrust(row).is_some();
        self.flag(Attribute::Suspicious, suspicious)
    }

    /// An operation as it ran, or its enqueueing.
    fn operation(&mut self, instance: RegionInstance, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some(activity) = model.links.activity(at) else {
            return Ok(());
        };
        let operation = model.tables.operation(activity.operation);
        self.number(Attribute::Event, operation.id, 0)?;
        self.number(Attribute::Parent, operation.parent, 0)?;
        self.number(Attribute::Replay, activity.replay.unwrap_or(0), 0)?;
        if instance.kind == InstanceKind::Enqueue {
            self.flag(Attribute::Captured, activity.is_at_capture)?;
        } else {
            match activity.operation {
                OperationRow::Coll(row) => self.collective(&model.tables[row].fields)?,
                OperationRow::P2p(row) => self.point_to_point(&model.tables[row].fields)?,
                OperationRow::CeColl(row) => self.by_copy_engines(&model.tables[row].fields)?,
            }
            self.timing_of(model.interval(at))?;
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
        self.number(Attribute::Event, context.id, 0)?;
        self.name(Attribute::CommName, context.comm.name)?;
        let member = model.comms.member(number);
        if let Some((member, comm)) = member.and_then(|m| Some((m, model.comms.comm(m)?))) {
            self.number(Attribute::CommId, comm.comm_id, 0)?;
            self.add(Attribute::Rank, AttributeValue::U32(member.rank))?;
            if comm.ranks > 0 {
                self.add(Attribute::Ranks, AttributeValue::U32(comm.ranks))?;
            }
            if comm.nodes > 0 {
                self.add(Attribute::Nodes, AttributeValue::U32(comm.nodes))?;
            }
        }
        Ok(())
    }

    fn root(&mut self, func: Symbol, root: i32) -> otf2::Result<()> {
        if self.model.meanings.collective(func).is_some_and(Collective::has_root) {
            return self.add(Attribute::Root, AttributeValue::I32(root));
        }
        Ok(())
    }

    fn timing_of(&mut self, interval: Option<Interval>) -> otf2::Result<()> {
        let Some(interval) = interval else {
            return Ok(());
        };
        self.number(Attribute::StartMoved, interval.moved_ns, 0)?;
        let timing = self.timings.get(interval.timing as usize).copied();
        self.string(Attribute::Timing, timing.unwrap_or(StringRef::UNDEFINED))
    }

    fn collective(&mut self, coll: &Coll) -> otf2::Result<()> {
        self.add(Attribute::Sequence, AttributeValue::U64(coll.sequence))?;
        self.elements(coll.count, coll.datatype)?;
        self.root(coll.func, coll.root)?;
        self.name(Attribute::Algorithm, coll.algorithm)?;
        self.name(Attribute::Protocol, coll.protocol)?;
        let (channels, warps) = (coll.channels.into(), coll.warps.into());
        self.add(Attribute::Channels, AttributeValue::U32(channels))?;
        self.add(Attribute::Warps, AttributeValue::U32(warps))?;
        self.name(Attribute::KernelVariant, coll.kernel_variant)?;
        self.flag(Attribute::Symmetric, coll.is_symmetric)?;
        self.number(Attribute::UserTag, coll.user_tag, 0)
    }

    fn point_to_point(&mut self, p2p: &P2p) -> otf2::Result<()> {
        self.add(Attribute::Peer, AttributeValue::I32(p2p.peer))?;
        self.elements(p2p.count, p2p.datatype)?;
        if p2p.channels > 0 {
            let channels = p2p.channels.into();
            self.add(Attribute::Channels, AttributeValue::U32(channels))?;
        }
        self.number(Attribute::UserTag, p2p.user_tag, 0)
    }

    fn by_copy_engines(&mut self, coll: &CeColl) -> otf2::Result<()> {
        self.add(Attribute::Sequence, AttributeValue::U64(coll.sequence))?;
        self.elements(coll.count, coll.datatype)?;
        self.root(coll.func, coll.root)?;
        self.name(Attribute::SyncStrategy, coll.sync_strategy)?;
        self.number(Attribute::Stream, coll.stream, 0)?;
        self.number(Attribute::UserTag, coll.user_tag, 0)
    }

    fn proxy(&mut self, op: &Event<ProxyOp>) -> otf2::Result<()> {
        let tables = self.model.tables;
        let ProxyOp { pid, channel, peer, steps, chunk_bytes, .. } = op.fields;
        self.add(Attribute::Peer, AttributeValue::I32(peer))?;
        self.add(Attribute::Channel, AttributeValue::U32(channel.into()))?;
        self.add(Attribute::Steps, AttributeValue::I32(steps))?;
        self.add(Attribute::ChunkBytes, AttributeValue::I32(chunk_bytes))?;
        if tables.is_foreign(op) {
            self.add(Attribute::OriginPid, AttributeValue::I32(pid))?;
        }
        if pxn::is_for_another(tables, op) {
            let origin = placeholder(tables.context_of(op));
            self.string(Attribute::Origin, self.definitions.text(&origin))?;
        }
        if let Some(progress) = op.state_time(state::PROXY_OP_IN_PROGRESS) {
            let queued_ns = progress.saturating_sub(op.start);
            self.add(Attribute::QueuedNs, AttributeValue::U64(queued_ns))?;
        }
        Ok(())
    }

    /// What is known only when it is left.
    ///
    /// # Errors
    /// An attribute would come twice.
    pub(crate) fn leave(&mut self, instance: RegionInstance) -> otf2::Result<()> {
        let model = self.model;
        match instance.source {
            Source::Work(at) => {
                let work = model.links.gpu.get(at);
                let unfinished = work.is_some_and(|work| work.unfinished);
                self.flag(Attribute::Unfinished, unfinished)
            }
            Source::CommCall(_) => Ok(()),
            Source::DerivedCall(at) => self.derived_call_result(at),
            Source::Derived(leader) => self.derived_result(leader),
            Source::Activity(at) if instance.kind == InstanceKind::Operation => self.operation_result(at),
            Source::Activity(at) => {
                let activity = model.links.activity(at);
                let operation = activity.map(|one| model.tables.operation(one.operation));
                let open = operation.is_some_and(|operation| operation.stop().is_none());
                self.flag(Attribute::Unfinished, open)
            }
            Source::Event(event) => self.event_result(instance, event),
        }
    }

    fn event_result(&mut self, instance: RegionInstance, event: EventRow) -> otf2::Result<()> {
        let model = self.model;
        match (instance.kind, event) {
            (InstanceKind::Net, EventRow::ProxyOp(row)) => {
                let bytes = model.links.proxy_bytes(row, &model.tables[row]);
                self.number(Attribute::WireBytes, bytes, 0)?;
                let silent = model.links.transfers.is_silent(row);
                self.flag(Attribute::Closed, silent)?;
            }
            (InstanceKind::Call, _) => {
                let replays = model.links.replays.of_call(event);
                self.number(Attribute::Replays, replays, 0)?;
            }
            (InstanceKind::Channel | InstanceKind::PluginSend | InstanceKind::PluginReceive, _) => {}
            (_, EventRow::ProxyCtrl(row)) if instance.is_last => {
                self.number(Attribute::Appended, model.tables[row].state_value(), 0)?;
                let inferred = model.links.inferred_ends.controls.contains_key(&row);
                self.flag(Attribute::Closed, inferred)?;
            }
            // Of one that stopped nothing is left to say.
            (_, EventRow::ProxyStep(row)) if instance.is_last && model.tables[row].stop().is_none() => {
                let inferred = model.links.inferred_ends.steps.contains_key(&row);
                self.flag(Attribute::Closed, inferred)?;
            }
            _ => return Ok(()),
        }
        self.flag(Attribute::Unfinished, model.is_unfinished(event))
    }
}
