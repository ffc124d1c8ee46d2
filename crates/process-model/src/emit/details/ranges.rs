//! Attributes of ranges, and of the ranges around calls and operations.

use super::Details;
use job::ranges::{
    Begin, RangeEnd, RangeRole, begin, begin_of_comm_call, begin_of_operation, begin_of_range, reduction_name,
};
use nccl_events::range::{RangeField, RangeFields};
use otf2::StringRef;

use nccl_events::ids::index;
use nccl_events::schema::attribute;
use tables::ranges::RangeAt;
use tables::{CollApi, Head, Row};

/// A number of 32 bits, which the journal has extended to 64.
const fn small(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

const fn signed(value: u64) -> i32 {
    small(value).cast_signed()
}

impl Details<'_, '_> {
    pub(super) fn range(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        let role = model.links.ranges.roles.get(index(at));
        match (model.tables.ranges.all.get(index(at)), role) {
            (Some(range), Some(RangeRole::User)) => self.user_range(range),
            (Some(range), _) => self.call_by_range(at, range),
            (None, _) => Ok(()),
        }
    }

    pub(super) fn range_result(&mut self, at: u32) -> otf2::Result<()> {
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
                RangeField::ParentCommId => self.some(attribute::ParentCommId, value)?,
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
        self.some(attribute::Ranks, fields.get(RangeField::Ranks).and_then(|ranks| ranks.try_into().ok()).unwrap_or(0))
    }

    fn reduction(&mut self, number: u64) -> otf2::Result<()> {
        let name = self.definitions.text(&reduction_name(number));
        self.string(attribute::Reduction, name)
    }

    /// The reduction operator of a call, which only the range around it has.
    pub(super) fn reduction_of(&mut self, call: Row<CollApi>) -> otf2::Result<()> {
        self.model.links.ranges.reduction(call).map_or(Ok(()), |number| self.reduction(number))
    }

    fn at(&mut self, begin: Begin) -> otf2::Result<()> {
        let around = self.model.links.ranges.paths.around(begin);
        around.map_or(Ok(()), |path| self.string(attribute::Ranges, self.definitions.path(path)))
    }

    /// The user ranges around a call.
    #[inline]
    pub(super) fn within(&mut self, call: &Head) -> otf2::Result<()> {
        self.at(begin(call))
    }

    pub(super) fn comm_call_within(&mut self, at: u32) -> otf2::Result<()> {
        self.model.tables.comm_calls.get(index(at)).map_or(Ok(()), |call| self.at(begin_of_comm_call(call)))
    }

    /// The user ranges around the call of an operation.
    #[inline]
    pub(super) fn operation_within(&mut self, at: u32) -> otf2::Result<()> {
        let model = self.model;
        if model.links.ranges.paths.texts.is_empty() {
            return Ok(());
        }
        let activity = model.links.activity(at);
        activity.map_or(Ok(()), |activity| {
            self.at(begin_of_operation(model.tables, activity.operation, activity.replay.is_some()))
        })
    }
}
