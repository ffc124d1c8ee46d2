//! The traffic in a part's manifest: rows of numbers, as thousands of parts can have hundreds of rows each.

use serde::{Deserialize, Serialize};

/// A collective on one rank. Stored as an array of its fields, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "PassageRow", into = "PassageRow")]
pub struct Passage {
    pub key: Key,
    /// The rank had not entered before this time; 0 if nobody waits for the rank, or if unknown.
    pub entered_ns: u64,
    /// The rank had left by this time; 0 if it waits for nobody, or if unknown.
    pub left_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Index in the part's communicators.
    pub comm: u32,
    /// Index in [`Traffic::functions`].
    pub function: u32,
    /// NCCL's number of a collective, or the index of a message from one rank to another.
    pub sequence: u64,
    /// For a collective, its index among those with the same number: replays of a graph have the number of the captured
    /// one. For a message, its number of elements, so that only matching ends are compared.
    pub repetition: u64,
}

type PassageRow = (u32, u32, u64, u64, u64, u64);

impl From<PassageRow> for Passage {
    fn from((comm, function, sequence, repetition, entered_ns, left_ns): PassageRow) -> Self {
        Self { key: Key { comm, function, sequence, repetition }, entered_ns, left_ns }
    }
}

impl From<Passage> for PassageRow {
    fn from(passage: Passage) -> Self {
        let key = passage.key;
        (key.comm, key.function, key.sequence, key.repetition, passage.entered_ns, passage.left_ns)
    }
}

/// One end of a data transfer. Stored as an array of its fields, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "EndRow", into = "EndRow")]
pub struct End {
    pub key: Key,
    pub from: u32,
    pub to: u32,
    /// Channel and step of the transfer; both −1 for the operation as a whole.
    pub part: (i32, i32),
    /// The sender's end (not sent before `ns`) if true, else the receiver's (received by `ns`).
    pub is_send: bool,
    pub ns: u64,
}

type EndRow = (u32, u32, u64, u64, u32, u32, i32, i32, u8, u64);

impl From<EndRow> for End {
    fn from(row: EndRow) -> Self {
        Self {
            key: Key { comm: row.0, function: row.1, sequence: row.2, repetition: row.3 },
            from: row.4,
            to: row.5,
            part: (row.6, row.7),
            is_send: row.8 != 0,
            ns: row.9,
        }
    }
}

impl From<End> for EndRow {
    fn from(end: End) -> Self {
        let key = end.key;
        let (channel, step) = end.part;
        (
            key.comm,
            key.function,
            key.sequence,
            key.repetition,
            end.from,
            end.to,
            channel,
            step,
            u8::from(end.is_send),
            end.ns,
        )
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Traffic {
    pub functions: Vec<String>,
    pub passages: Vec<Passage>,
    pub ends: Vec<End>,
}
