//! Values of attributes and properties, lines that relate one clock to another, and the ranks of a job as numbers for
//! formats that have a file for each rank.

use std::borrow::Cow;
use std::collections::BTreeSet;

use analysis::read::Members;
use analysis::{Trace, property};
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use otf2::AttributeValue;
use otf2::records::Property;

pub(crate) enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    pub(crate) fn new(trace: &'a Trace, value: AttributeValue) -> Self {
        match value {
            AttributeValue::U8(number) => Self::Unsigned(number.into()),
            AttributeValue::U16(number) => Self::Unsigned(number.into()),
            AttributeValue::U32(number) => Self::Unsigned(number.into()),
            AttributeValue::U64(number) => Self::Unsigned(number),
            AttributeValue::I8(number) => Self::Signed(number.into()),
            AttributeValue::I16(number) => Self::Signed(number.into()),
            AttributeValue::I32(number) => Self::Signed(number.into()),
            AttributeValue::I64(number) => Self::Signed(number),
            AttributeValue::F32(number) => Self::Real(number.into()),
            AttributeValue::F64(number) => Self::Real(number),
            AttributeValue::String(_) => Self::Text(trace.text(value).unwrap_or_default().into()),
            AttributeValue::Region(region) => Self::Text(trace.region_name(region).into()),
            AttributeValue::Location(location) => Self::Text(trace.location_name(location).into()),
            AttributeValue::Comm(comm) => Self::Text(trace.comm_name(comm).into()),
            other => Self::Text(format!("{other:?}").into()),
        }
    }
}

pub(crate) fn number(trace: &Trace, properties: &[Property], name: &str) -> Option<u64> {
    match Value::new(trace, property(&trace.definitions, properties, name)?) {
        Value::Unsigned(number) => Some(number),
        _ => None,
    }
}

/// For a time or a size.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A straight line that relates one clock to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) from: [i128; 2],
    pub(crate) to: [i128; 2],
}

impl Line {
    /// A line that adds `by` everywhere.
    pub(crate) const fn later(by: i128) -> Self {
        Self { from: [0, 0], to: [by, by] }
    }

    pub(crate) const fn at(&self, place: i128) -> i128 {
        let length = self.from[1] - self.from[0];
        // Division of such large numbers is slow, and most clocks run at the same rate.
        if length == 0 || length == self.to[1] - self.to[0] {
            return self.to[0] + place - self.from[0];
        }
        self.to[0] + (place - self.from[0]) * (self.to[1] - self.to[0]) / length
    }

    pub(crate) const fn inverse(&self) -> Self {
        Self { from: self.to, to: self.from }
    }

    pub(crate) const fn less(&self, value: i128) -> Self {
        Self { from: self.from, to: [self.to[0] - value, self.to[1] - value] }
    }
}

/// The numbers of the job's ranks: counted from 0 if a number is unknown or not unique.
pub fn numbers(members: &Members) -> Vec<u32> {
    let ranks = &members.job_ranks;
    let known: Option<Vec<u32>> = ranks.iter().map(|rank| rank.number).collect();
    let is_distinct = |known: &Vec<u32>| known.iter().gather::<BTreeSet<&u32>>().len() == known.len();
    known.filter(is_distinct).unwrap_or_else(|| (0..).take(ranks.len()).collect())
}

/// The number of ranks of the job, including ranks that were not recorded.
pub fn world_size(members: &Members, numbers: &[u32]) -> usize {
    let sizes = (0..).zip(&members.communicators).map(|(number, _)| members.size(number));
    sizes.chain(numbers.iter().map(|rank| index(*rank) + 1)).max().unwrap_or(0)
}

/// The numbers of a communicator's ranks; `None` if one of them was not recorded.
pub fn ranks_of_communicator(members: &Members, numbers: &[u32], communicator: u32) -> Option<Vec<u32>> {
    let size = u32::try_from(members.size(communicator)).ok()?;
    (0..size).map(|rank| Some(numbers[index(members.job_rank(communicator, rank)?)])).collect()
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn lines_go_there_and_back() {
        let line = Line { from: [1_700_000_000_000_000_000, 1_700_000_010_000_000_000], to: [500, 10_000_000_700] };
        assert_eq!(line.at(1_700_000_005_000_000_000), 5_000_000_600);
        assert_eq!(line.inverse().at(5_000_000_600), 1_700_000_005_000_000_000);
        assert_eq!(line.inverse().less(1_700_000_000_000_000_000).at(500), 0);
        assert_eq!(Line { from: [7, 7], to: [100, 100] }.at(10), 103);
    }
}
