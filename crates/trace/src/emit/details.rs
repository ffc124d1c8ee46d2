//! The attributes of an event: what NCCL said about the operation, as far as it says something.

mod composite;
mod gpu_work;
mod network;
mod result;

use nccl_events::event;
use otf2::{AttributeValue, NextAttributes, StringRef};

use crate::emit::attributes::Attribute;
use crate::emit::definitions::Tables;
use crate::links::interval::{Interval, Timing};
use crate::links::pxn::{self, placeholder};
use crate::tables::place::index;
use crate::timeline::canvas::Scene;
use crate::timeline::figure::{Figure, Shape};
use journal::format::record::Symbol;
use nccl_events::Body;
use nccl_events::state;

/// What intervals are measured by, in the order of [`Timing::ALL`].
pub type Timings = [StringRef; Timing::ALL.len()];

/// Gives an event its attributes.
#[derive(Debug)]
pub struct Details<'a, 'e> {
    /// What is drawn.
    pub scene: &'a Scene<'a>,
    /// The numbers of strings.
    pub tables: &'a Tables,
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
        if truth {
            self.add(attribute, AttributeValue::U8(1))
        } else {
            Ok(())
        }
    }

    #[inline]
    fn string(&mut self, attribute: Attribute, text: StringRef) -> otf2::Result<()> {
        if text == StringRef::UNDEFINED {
            return Ok(());
        }
        self.add(attribute, AttributeValue::String(text))
    }

    fn name(&mut self, attribute: Attribute, symbol: Symbol) -> otf2::Result<()> {
        self.string(attribute, self.tables.symbol(symbol))
    }

    fn elements(&mut self, count: u64, datatype: Symbol) -> otf2::Result<()> {
        self.number(Attribute::Count, count, u64::MAX)?;
        self.name(Attribute::Datatype, datatype)?;
        let size = self.scene.words.element_bytes(datatype);
        self.number(Attribute::Bytes, count.saturating_mul(size), 0)
    }

    /// What is known when a region is entered.
    ///
    /// # Errors
    /// An attribute would come twice.
    pub fn enter(&mut self, figure: Figure) -> otf2::Result<()> {
        match figure.shape {
            Shape::CommInit | Shape::CommFinalize => return self.comm_call(figure.operation),
            Shape::GroupStart | Shape::GroupEnd | Shape::Queued => return Ok(()),
            Shape::ComposedCall => return self.composed_call(figure.operation),
            Shape::Composite => return self.composite(figure.operation),
            Shape::Work => return self.gpu_work(figure.operation),
            _ => {}
        }
        let scene = self.scene;
        let at = match figure.shape {
            Shape::Operation => scene.activity(figure.operation).map(|a| a.operation),
            _ => Some(figure.operation),
        };
        let Some(operation) = at.and_then(|at| scene.assembly.operation(at)) else {
            return Ok(());
        };
        self.number(Attribute::Event, operation.id, 0)?;
        self.number(Attribute::Parent, operation.parent, 0)?;
        if let Some(at) = at {
            let replay = scene.correlation.replays.number(at).unwrap_or(0);
            self.number(Attribute::Replay, replay, 0)?;
        }
        if figure.shape == Shape::Enqueue {
            let at_capture = scene.correlation.replays.is_at_capture(figure.operation);
            self.flag(Attribute::Captured, at_capture)?;
            return self.external(at);
        }
        let fields = scene.assembly.fields_of(operation);
        match fields {
            Body::GroupApi(event::GroupApi {
                graph_captured,
                depth,
            }) => {
                self.add(Attribute::Depth, AttributeValue::I32(depth))?;
                self.flag(Attribute::Captured, graph_captured)
            }
            Body::CollApi(event::CollApi {
                func,
                count,
                datatype,
                root,
                stream,
                graph_captured,
                user_tag,
            }) => {
                self.elements(count, datatype)?;
                self.root(func, root)?;
                self.number(Attribute::Stream, stream, 0)?;
                self.flag(Attribute::Captured, graph_captured)?;
                self.number(Attribute::UserTag, user_tag, 0)
            }
            Body::P2pApi(event::P2pApi {
                count,
                datatype,
                stream,
                graph_captured,
                user_tag,
                ..
            }) => {
                self.elements(count, datatype)?;
                self.number(Attribute::Stream, stream, 0)?;
                self.flag(Attribute::Captured, graph_captured)?;
                self.number(Attribute::UserTag, user_tag, 0)
            }
            Body::KernelLaunch(event::KernelLaunch { stream }) => {
                self.number(Attribute::Stream, stream, 0)?;
                let replays = &scene.correlation.replays;
                let captured = at.is_some_and(|at| replays.is_captured_launch(at));
                self.flag(Attribute::Captured, captured)?;
                self.external(at)
            }
            Body::Coll(event::Coll { .. }) => self.collective(figure, &fields),
            Body::P2p(event::P2p { .. }) => self.point_to_point(figure, &fields),
            Body::ProxyOp(event::ProxyOp { .. }) => self.proxy(figure.operation, &fields),
            Body::CeColl(event::CeColl {
                sequence,
                func,
                count,
                root,
                datatype,
                sync_strategy,
                stream,
                user_tag,
                ..
            }) => {
                self.add(Attribute::Sequence, AttributeValue::U64(sequence))?;
                self.elements(count, datatype)?;
                self.root(func, root)?;
                self.name(Attribute::SyncStrategy, sync_strategy)?;
                self.number(Attribute::Stream, stream, 0)?;
                self.number(Attribute::UserTag, user_tag, 0)?;
                self.timing(figure)?;
                self.external(at)
            }
            Body::CeSync(event::CeSync { ranks, .. }) => self.add(
                Attribute::Ranks,
                AttributeValue::U32(u32::try_from(ranks).unwrap_or(0)),
            ),
            Body::CeBatch(event::CeBatch {
                operations, bytes, ..
            }) => {
                self.add(Attribute::Operations, AttributeValue::I32(operations))?;
                self.add(Attribute::Bytes, AttributeValue::U64(bytes))
            }
            Body::KernelPhase(event::KernelPhase { phase, .. }) => {
                self.add(Attribute::Phase, AttributeValue::U32(phase.into()))
            }
            Body::NetPlugin(event::NetPlugin { id, data }) => self.net_plugin(id, data),
            Body::ProxyStep(event::ProxyStep { step }) => {
                self.add(Attribute::Step, AttributeValue::I32(step))?;
                // NCCL tells the size at these two states.
                if matches!(figure.shape, Shape::SendWait | Shape::RecvFlushWait) {
                    self.number(Attribute::Bytes, operation.step_bytes(), 0)?;
                }
                Ok(())
            }
            Body::KernelCh(event::KernelCh { channel, .. }) => {
                self.add(Attribute::Channel, AttributeValue::U32(channel.into()))?;
                let parent = operation.parent_at();
                let parent = parent.and_then(|at| scene.assembly.operation(at));
                if let Some(Body::Coll(event::Coll { sequence, .. })) =
                    parent.map(|operation| scene.assembly.fields_of(operation))
                {
                    self.add(Attribute::Sequence, AttributeValue::U64(sequence))?;
                }
                let suspicious = scene
                    .correlation
                    .stamps
                    .distrust(figure.operation)
                    .is_some();
                self.flag(Attribute::Suspicious, suspicious)
            }
            _ => Ok(()),
        }
    }

    fn comm_call(&mut self, at: u32) -> otf2::Result<()> {
        let scene = self.scene;
        let call = scene.assembly.comm_calls.get(index(at));
        let context = call.and_then(|call| scene.assembly.contexts.get(index(call.context)));
        let (Some(call), Some(context)) = (call, context) else {
            return Ok(());
        };
        self.number(Attribute::Event, context.id, 0)?;
        self.name(Attribute::CommName, context.comm.name)?;
        let member = scene.comms.member(call.context);
        if let Some((member, comm)) = member.and_then(|m| Some((m, scene.comms.comm(m)?))) {
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
        let shape = self.scene.words.shape(func);
        if shape.is_some_and(|shape| shape.has_root()) {
            return self.add(Attribute::Root, AttributeValue::I32(root));
        }
        Ok(())
    }

    fn timing(&mut self, figure: Figure) -> otf2::Result<()> {
        let interval = self.scene.intervals.get(index(figure.operation));
        self.timing_of(interval.copied().flatten())
    }

    fn timing_of(&mut self, interval: Option<Interval>) -> otf2::Result<()> {
        let Some(interval) = interval else {
            return Ok(());
        };
        self.number(Attribute::StartMoved, interval.moved_ns, 0)?;
        let timing = self.timings.get(interval.timing as usize).copied();
        self.string(Attribute::Timing, timing.unwrap_or(StringRef::UNDEFINED))
    }

    fn collective(&mut self, figure: Figure, fields: &Body<Symbol>) -> otf2::Result<()> {
        let Body::Coll(event::Coll {
            sequence,
            func,
            count,
            root,
            datatype,
            channels,
            warps,
            algorithm,
            protocol,
            kernel_variant,
            is_symmetric,
            user_tag,
            ..
        }) = *fields
        else {
            return Ok(());
        };
        self.add(Attribute::Sequence, AttributeValue::U64(sequence))?;
        self.elements(count, datatype)?;
        self.root(func, root)?;
        self.name(Attribute::Algorithm, algorithm)?;
        self.name(Attribute::Protocol, protocol)?;
        self.add(Attribute::Channels, AttributeValue::U32(channels.into()))?;
        self.add(Attribute::Warps, AttributeValue::U32(warps.into()))?;
        self.name(Attribute::KernelVariant, kernel_variant)?;
        self.flag(Attribute::Symmetric, is_symmetric)?;
        self.number(Attribute::UserTag, user_tag, 0)?;
        self.timing(figure)
    }

    fn point_to_point(&mut self, figure: Figure, fields: &Body<Symbol>) -> otf2::Result<()> {
        let Body::P2p(event::P2p {
            datatype,
            count,
            peer,
            channels,
            user_tag,
            ..
        }) = *fields
        else {
            return Ok(());
        };
        self.add(Attribute::Peer, AttributeValue::I32(peer))?;
        self.elements(count, datatype)?;
        if channels > 0 {
            self.add(Attribute::Channels, AttributeValue::U32(channels.into()))?;
        }
        self.number(Attribute::UserTag, user_tag, 0)?;
        self.timing(figure)
    }

    fn proxy(&mut self, at: u32, fields: &Body<Symbol>) -> otf2::Result<()> {
        let Body::ProxyOp(event::ProxyOp {
            pid,
            channel,
            peer,
            steps,
            chunk_bytes,
            ..
        }) = *fields
        else {
            return Ok(());
        };
        self.add(Attribute::Peer, AttributeValue::I32(peer))?;
        self.add(Attribute::Channel, AttributeValue::U32(channel.into()))?;
        self.add(Attribute::Steps, AttributeValue::I32(steps))?;
        self.add(Attribute::ChunkBytes, AttributeValue::I32(chunk_bytes))?;
        let scene = self.scene;
        let operation = scene.assembly.operation(at);
        if operation.is_some_and(|operation| scene.assembly.is_foreign(operation)) {
            self.add(Attribute::OriginPid, AttributeValue::I32(pid))?;
        }
        if let Some(operation) = operation.filter(|o| pxn::is_for_another(scene.assembly, o)) {
            let origin = self
                .tables
                .text(&placeholder(scene.assembly.context_of(operation)));
            self.string(Attribute::Origin, origin)?;
        }
        let progress = self
            .scene
            .assembly
            .state_time(at, state::PROXY_OP_IN_PROGRESS);
        if let (Some(operation), Some(progress)) = (operation, progress) {
            let queued_ns = progress.saturating_sub(operation.start);
            self.add(Attribute::QueuedNs, AttributeValue::U64(queued_ns))?;
        }
        Ok(())
    }

    /// What is known only when it is left.
    ///
    /// # Errors
    /// An attribute would come twice.
    pub fn leave(&mut self, figure: Figure) -> otf2::Result<()> {
        let scene = self.scene;
        match figure.shape {
            Shape::Operation => self.operation_result(figure.operation),
            Shape::Work => {
                let work = scene.correlation.gpu.get(figure.operation);
                self.flag(
                    Attribute::Unfinished,
                    work.is_some_and(|work| work.unfinished),
                )
            }
            Shape::ComposedCall => self.composed_call_result(figure.operation),
            Shape::Composite => self.composite_result(figure.operation),
            Shape::Net => {
                let bytes = (scene.correlation).proxy_bytes(scene.assembly, figure.operation);
                self.number(Attribute::WireBytes, bytes, 0)?;
                let silent = scene.correlation.is_silent(figure.operation);
                self.flag(Attribute::Closed, silent)?;
                self.flag(Attribute::Unfinished, scene.is_unfinished(figure.operation))
            }
            Shape::Call => {
                let replays = scene.correlation.replays.of_call(figure.operation);
                self.number(Attribute::Replays, replays, 0)?;
                self.flag(Attribute::Unfinished, scene.is_unfinished(figure.operation))
            }
            Shape::Enqueue | Shape::Channel | Shape::PluginSend | Shape::PluginReceive => {
                self.flag(Attribute::Unfinished, scene.is_unfinished(figure.operation))
            }
            _ if figure.is_control() && figure.is_last => {
                let control = scene.assembly.operation(figure.operation);
                let appended = control.map_or(0, |control| {
                    scene.assembly.value_of(figure.operation, control)
                });
                self.number(Attribute::Appended, appended, 0)?;
                let closed = scene.correlation.closed_at(figure.operation);
                self.flag(Attribute::Closed, closed.is_some())?;
                self.flag(Attribute::Unfinished, scene.is_unfinished(figure.operation))
            }
            // Of one that stopped nothing is left to say.
            _ if figure.is_step() && figure.is_last && !scene.has_stopped(figure.operation) => {
                let closed = scene.correlation.closed_at(figure.operation);
                self.flag(Attribute::Closed, closed.is_some())?;
                self.flag(Attribute::Unfinished, scene.is_unfinished(figure.operation))
            }
            _ => Ok(()),
        }
    }
}
