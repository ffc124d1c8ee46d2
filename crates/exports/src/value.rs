//! Values of attributes and properties.

use std::borrow::Cow;

use analysis::{Trace, property};
use otf2::AttributeValue;
use otf2::records::Property;

pub(crate) enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    pub(crate) fn of(trace: &'a Trace, value: AttributeValue) -> Self {
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
    match Value::of(trace, property(&trace.definitions, properties, name)?) {
        Value::Unsigned(number) => Some(number),
        _ => None,
    }
}

/// For a time or a size.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
