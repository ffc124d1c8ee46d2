//! Events, for writers and from readers.

use crate::refs::{AttributeRef, CommRef, MetricRef, ParameterRef, RegionRef, RmaWinRef, StringRef};
use crate::value::{AttributeValue, MetricValue};
use crate::vocabulary::{CollectiveOp, MeasurementMode};

/// A member's data about a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of OTF2's arguments")]
pub struct Collective {
    pub op: CollectiveOp,
    pub comm: CommRef,
    /// A rank of the communicator; `None` for operations without a root.
    pub root: Option<u32>,
    /// Bytes sent by this member, as `bytes_received` are the bytes it received.
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// One end of a message. Sends and receives are matched by communicator and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of OTF2's arguments")]
pub struct Message {
    /// The rank of the other end in `comm`.
    pub peer: u32,
    pub comm: CommRef,
    pub tag: u32,
    pub bytes: u64,
}

/// A put into, or a get from, the memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of OTF2's arguments")]
pub struct RmaAccess {
    pub win: RmaWinRef,
    /// The remote member's rank in the window's communicator.
    pub remote: u32,
    pub bytes: u64,
    /// The id that the completion has, too.
    pub matching: u64,
}

/// An event of a location.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct Event {
    /// Time in ticks of the archive's clock, corrected by the location's clock offsets.
    pub time: u64,
    pub kind: EventKind,
    pub attributes: Vec<(AttributeRef, AttributeValue)>,
}

/// The kinds of events by OTF2's names. All parts of an operation have the same `request` or `matching`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "kinds and fields have the names of OTF2's events")]
pub enum EventKind {
    Enter(RegionRef),
    Leave(RegionRef),
    MpiCollectiveBegin,
    MpiCollectiveEnd(Collective),
    NonBlockingCollectiveRequest {
        request: u64,
    },
    NonBlockingCollectiveComplete {
        collective: Collective,
        request: u64,
    },
    MpiSend(Message),
    MpiRecv(Message),
    MpiIsend {
        message: Message,
        request: u64,
    },
    MpiIsendComplete {
        request: u64,
    },
    MpiIrecvRequest {
        request: u64,
    },
    MpiIrecv {
        message: Message,
        request: u64,
    },
    RmaPut(RmaAccess),
    RmaGet(RmaAccess),
    RmaOpCompleteBlocking {
        win: RmaWinRef,
        matching: u64,
    },
    RmaOpCompleteNonBlocking {
        win: RmaWinRef,
        matching: u64,
    },
    /// A sample of a metric class or instance: one value per member of the class.
    Metric {
        metric: MetricRef,
        values: Vec<MetricValue>,
    },
    ParameterString {
        parameter: ParameterRef,
        value: StringRef,
    },
    ParameterInt {
        parameter: ParameterRef,
        value: i64,
    },
    ParameterUnsignedInt {
        parameter: ParameterRef,
        value: u64,
    },
    MeasurementOnOff(MeasurementMode),
    /// An event of another kind, by OTF2's name.
    Other(&'static str),
}
