//! Attributes of collectives that NCCL makes of sends and receives.

use super::Details;
use crate::links::derived::DerivedCall;
use crate::links::interval::Interval;
use nccl_events::collective::Collective;

use nccl_events::ids::index;
use nccl_events::schema::attribute;
use tables::{EventRow, OperationRow, P2pApi};

impl Details<'_, '_> {
    pub(super) fn derived_call(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some(call) = model.links.derived.calls.get(index(at)) else {
            return Ok(());
        };
        self.call(call)?;
        match call.calls.first() {
            Some(&first) => self.within(&model.tables[first]),
            None => Ok(()),
        }
    }

    /// The call has ended when all its sends and receives have.
    pub(super) fn derived_call_result(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let call = model.links.derived.calls.get(index(at));
        let is_open = |&row| model.is_unfinished(EventRow::P2pApi(row));
        let open = call.is_some_and(|call| call.calls.iter().any(is_open));
        self.some(attribute::Unfinished, open)
    }

    fn call(&mut self, call: &DerivedCall) -> otf2::Result<()> {
        let Some(&first) = call.calls.first() else {
            return Ok(());
        };
        let first = &self.model.tables[first];
        self.some(attribute::Parent, first.parent)?;
        self.elements(call.count, call.datatype)?;
        if call.pattern.collective().has_root() {
            self.add(attribute::Root, call.rank)?;
        }
        let P2pApi { stream, graph_captured, user_tag, func: _, count: _, datatype: _ } = first.fields;
        self.some(attribute::Stream, stream)?;
        self.some(attribute::Captured, graph_captured)?;
        self.some(attribute::UserTag, user_tag)
    }

    /// The collective as it ran, identified by its first activity.
    pub(super) fn derived(&mut self, leader: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some((collective, call)) = model.links.derived.of_member(leader) else {
            return Ok(());
        };
        self.call(call)?;
        self.some(attribute::Replay, model.links.activity(leader).and_then(|one| one.replay).unwrap_or(0))?;
        self.timing_of(collective.interval(&model.intervals))?;
        self.operation_within(leader)
    }

    pub(super) fn derived_result(&mut self, leader: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some((collective, call)) = model.links.derived.of_member(leader) else {
            return Ok(());
        };
        let members = || collective.members.iter().filter_map(|&at| model.links.activity(at));
        self.some(attribute::BytesSent, members().map(|member| member.bytes_sent).sum())?;
        self.some(attribute::BytesReceived, members().map(|member| member.bytes_received).sum())?;
        let Some(interval) = collective.interval(&model.intervals) else {
            return Ok(());
        };
        self.some(attribute::Unfinished, interval.unfinished)?;
        if collective.missing > 0 {
            // The missing members may have ended later, so a bandwidth would be invented.
            return self.add(attribute::MembersMissing, collective.missing);
        }
        let bytes = model.meanings.bytes(call.count, call.datatype);
        self.bandwidths(Some(call.pattern.collective()), bytes, call.ranks, interval)
    }

    /// Attributes of a collective or point-to-point operation that are known when it ends.
    pub(super) fn operation_result(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let Some(activity) = model.links.activity(at) else {
            return Ok(());
        };
        self.some(attribute::BytesSent, activity.bytes_sent)?;
        self.some(attribute::BytesReceived, activity.bytes_received)?;
        let Some(interval) = model.interval(at) else {
            return Ok(());
        };
        self.some(attribute::Unfinished, interval.unfinished)?;
        if !matches!(activity.operation, OperationRow::Coll(_)) {
            return Ok(());
        }
        let operation = model.tables.operation(activity.operation);
        // Without the number of ranks, a bandwidth would be invented.
        let Some(member) = model.member_of(&operation).filter(|member| member.knows_ranks) else {
            return Ok(());
        };
        let bytes = model.meanings.bytes(operation.count, operation.datatype);
        let collective = model.meanings.collective(operation.func);
        self.bandwidths(collective, bytes, member.ranks, interval)
    }

    /// The bandwidths of a collective of `bytes` per rank, if its interval is known.
    pub(super) fn bandwidths(
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
