//! What is known of a collective that NCCL makes of sends and receives.

use nccl_events::event;
use otf2::AttributeValue;

use super::Details;
use crate::emit::attributes::Attribute;
use crate::links::collective;
use crate::links::composites::ComposedCall;
use nccl_events::Body;

impl Details<'_, '_> {
    /// The call, by the place of the first of its calls.
    pub(super) fn composed_call(&mut self, first: u32) -> otf2::Result<()> {
        match self.scene.correlation.composites.call_begun_by(first) {
            Some(call) => self.call(call),
            None => Ok(()),
        }
    }

    /// It has ended when all its calls have.
    pub(super) fn composed_call_result(&mut self, first: u32) -> otf2::Result<()> {
        let scene = self.scene;
        let call = scene.correlation.composites.call_begun_by(first);
        let open = call.is_some_and(|call| call.calls.iter().any(|&at| scene.is_unfinished(at)));
        self.flag(Attribute::Unfinished, open)
    }

    fn call(&mut self, call: &ComposedCall) -> otf2::Result<()> {
        let first = call.calls.first();
        let first = first.and_then(|&at| self.scene.assembly.operation(at));
        let Some(first) = first else {
            return Ok(());
        };
        self.number(Attribute::Parent, first.parent, 0)?;
        self.elements(call.count, call.datatype)?;
        if collective::shape(call.pattern.func()).is_some_and(|shape| shape.has_root()) {
            self.add(Attribute::Root, AttributeValue::I32(call.rank))?;
        }
        if let Body::P2pApi(event::P2pApi {
            stream,
            graph_captured,
            user_tag,
            ..
        }) = self.scene.assembly.fields_of(first)
        {
            self.number(Attribute::Stream, stream, 0)?;
            self.flag(Attribute::Captured, graph_captured)?;
            self.number(Attribute::UserTag, user_tag, 0)?;
        }
        Ok(())
    }

    /// The collective as it ran, by its first activity.
    pub(super) fn composite(&mut self, leader: u32) -> otf2::Result<()> {
        let scene = self.scene;
        let Some((composite, call)) = scene.correlation.composites.of_member(leader) else {
            return Ok(());
        };
        self.call(call)?;
        let activity = scene.activity(leader);
        let replay = activity.and_then(|a| scene.correlation.replays.number(a.operation));
        self.number(Attribute::Replay, replay.unwrap_or(0), 0)?;
        self.timing_of(composite.interval(scene.intervals))
    }

    /// What is known when it has ended.
    pub(super) fn composite_result(&mut self, leader: u32) -> otf2::Result<()> {
        let scene = self.scene;
        let Some((composite, call)) = scene.correlation.composites.of_member(leader) else {
            return Ok(());
        };
        let members = composite.members.iter();
        let (sent, received) = members
            .filter_map(|&at| scene.activity(at))
            .map(|member| (member.bytes_sent, member.bytes_received))
            .fold((0, 0), |(sent, received), member| {
                (sent + member.0, received + member.1)
            });
        self.number(Attribute::BytesSent, sent, 0)?;
        self.number(Attribute::BytesReceived, received, 0)?;
        let Some(interval) = composite.interval(scene.intervals) else {
            return Ok(());
        };
        self.flag(Attribute::Unfinished, interval.unfinished)?;
        if composite.missing > 0 {
            // Those may have ended later: a bandwidth would be made up.
            let missing = AttributeValue::U32(composite.missing);
            return self.add(Attribute::MembersMissing, missing);
        }
        let element = scene.words.element_bytes(call.datatype);
        let bytes = call.count.saturating_mul(element);
        let shape = collective::shape(call.pattern.func());
        self.bandwidths(shape, bytes, call.ranks, interval)
    }
}
