//! Attributes that many events have alike, each set once.

use std::collections::BTreeMap;

use nccl_events::schema::attribute::AttributeId;
use otf2::{AttributeRef, AttributeValue};
use schemars::JsonSchema;
use serde::Serialize;

use super::events::NONE;

/// Beyond this many distinct sets, new sets drop numbers other than bytes: nearly every set would be unique.
pub(super) const MOST_SETS: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

pub(super) type Set = Vec<(String, Value)>;

/// A set as the archive has it: numbers, and references of strings.
pub(super) type Key = Vec<(AttributeRef, i64)>;

#[derive(Debug, Default)]
pub(super) struct Sets {
    pub(super) all: Vec<Set>,
    known: BTreeMap<Set, u64>,
}

impl Sets {
    pub(super) fn number(&mut self, mut set: Set) -> u64 {
        if self.known.len() >= MOST_SETS && !self.known.contains_key(&set) {
            set.retain(|(name, value)| matches!(value, Value::Text(_)) || name == AttributeId::Bytes.name());
        }
        if set.is_empty() {
            return NONE;
        }
        *self.known.entry(set).or_insert_with_key(|set| {
            self.all.push(set.clone());
            self.all.len() as u64 - 1
        })
    }
}

/// An integer, or the reference of a string; `None` for other values.
pub(super) fn bits(value: AttributeValue) -> Option<i64> {
    match value {
        AttributeValue::U64(number) => Some(number.cast_signed()),
        AttributeValue::U32(number) => Some(number.into()),
        AttributeValue::U16(number) => Some(number.into()),
        AttributeValue::U8(number) => Some(number.into()),
        AttributeValue::I64(number) => Some(number),
        AttributeValue::I32(number) => Some(number.into()),
        AttributeValue::String(string) => Some(string.get().into()),
        _ => None,
    }
}
