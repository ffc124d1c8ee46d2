//! What is known of a collective or point-to-point operation when it has ended.

use super::Details;
use crate::links::interval::Interval;
use nccl_events::collective::Collective;
use schema::attribute;
use tables::OperationRow;

impl Details<'_, '_> {
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
        // Without the number of ranks a bandwidth would be made up.
        let member = model.member_of(&operation);
        let Some(member) = member.filter(|member| member.knows_ranks) else {
            return Ok(());
        };
        let element = model.meanings.element_bytes(operation.datatype);
        let bytes = operation.count.saturating_mul(element);
        let collective = model.meanings.collective(operation.func);
        self.bandwidths(collective, bytes, member.ranks, interval)
    }

    /// What a collective of `bytes` a rank reached, where it is known when it ran.
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
