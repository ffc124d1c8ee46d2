//! What a part's manifest says about traffic with others: rows of numbers, because each of many thousands of parts may
//! have hundreds.

use serde::{Deserialize, Serialize};

/// A collective on one rank. In the file an array of its fields, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "PassageRow", into = "PassageRow")]
pub struct Passage {
    pub key: Key,
    /// The rank had not entered before; 0 where nobody waits for it, or it is not known.
    pub entered_ns: u64,
    /// It had left by then; 0 where it waits for nobody, or it is not known.
    pub left_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// A place in the part's communicators.
    pub comm: u32,
    /// A place in [`Traffic::functions`].
    pub function: u32,
    /// NCCL's number of a collective, or which message of this rank to that one it is.
    pub sequence: u64,
    /// Replays of a graph have the number of what was captured: its index among those with that number. Of a message
    /// its elements, so that only what fits together is compared.
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

/// One end of data on its way. In the file an array of its fields, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "EndRow", into = "EndRow")]
pub struct End {
    pub key: Key,
    pub from: u32,
    pub to: u32,
    /// Channel and step of the transfer; −1 both for the operation as a whole.
    pub part: (i32, i32),
    /// Whether it is the sender's: not sent before. Else the receiver's: received by then.
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
