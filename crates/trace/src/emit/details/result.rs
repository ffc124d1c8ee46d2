//! What is known of a collective or point-to-point operation when it has ended.

use nccl_events::event;
use otf2::AttributeValue;

use super::Details;
use crate::emit::attributes::Attribute;
use crate::links::collective::Shape;
use crate::links::interval::Interval;
use crate::tables::place::index;
use nccl_events::Body;

impl Details<'_, '_> {
    pub(super) fn operation_result(&mut self, at: u32) -> otf2::Result<()> {
        let scene = self.scene;
        let Some(activity) = scene.activity(at) else {
            return Ok(());
        };
        self.number(Attribute::BytesSent, activity.bytes_sent, 0)?;
        self.number(Attribute::BytesReceived, activity.bytes_received, 0)?;
        let Some(interval) = scene.intervals.get(index(at)).copied().flatten() else {
            return Ok(());
        };
        self.flag(Attribute::Unfinished, interval.unfinished)?;
        let Some(Body::Coll(event::Coll {
            func,
            count,
            datatype,
            ..
        })) = scene
            .assembly
            .operation(activity.operation)
            .map(|operation| scene.assembly.fields_of(operation))
        else {
            return Ok(());
        };
        // Without the number of ranks a bandwidth would be made up.
        let Some(party) = scene.party(at).filter(|party| party.knows_ranks) else {
            return Ok(());
        };
        let bytes = count.saturating_mul(scene.words.element_bytes(datatype));
        self.bandwidths(scene.words.shape(func), bytes, party.ranks, interval)
    }

    /// What a collective of `bytes` a rank reached, where it is known when it ran.
    pub(super) fn bandwidths(
        &mut self,
        shape: Option<Shape>,
        bytes: u64,
        ranks: u32,
        interval: Interval,
    ) -> otf2::Result<()> {
        let measured = interval.timing.is_measured() && !interval.is_shared;
        let seconds = std::time::Duration::from_nanos(interval.end.saturating_sub(interval.start))
            .as_secs_f64();
        if interval.unfinished || !measured || seconds <= 0.0 {
            return Ok(());
        }
        if let Some(shape) = shape {
            let (bandwidth, bus) = shape.bandwidths(bytes, ranks, seconds);
            self.add(
                Attribute::AlgorithmBandwidth,
                AttributeValue::F64(bandwidth),
            )?;
            self.add(Attribute::BusBandwidth, AttributeValue::F64(bus))?;
        }
        Ok(())
    }
}
