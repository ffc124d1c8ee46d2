//! Events as they are read.

use crate::{
    AttributeRef, AttributeValue, Collective, MeasurementMode, Message, MetricRef, MetricValue,
    ParameterRef, RegionRef, RmaAccess, RmaWinRef, StringRef,
};

/// An event of a location.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in ticks of the archive's clock, corrected by the location's clock offsets.
    pub time: u64,
    /// What.
    pub kind: EventKind,
    /// More about it.
    pub attributes: Vec<(AttributeRef, AttributeValue)>,
}

/// What an event is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A region is entered.
    Enter(RegionRef),
    /// A region is left.
    Leave(RegionRef),
    /// A collective operation begins.
    MpiCollectiveBegin,
    /// A collective operation ends.
    MpiCollectiveEnd(Collective),
    /// A collective operation is requested.
    NonBlockingCollectiveRequest {
        /// The completion has the same.
        request: u64,
    },
    /// A requested collective operation has completed.
    NonBlockingCollectiveComplete {
        /// Which.
        collective: Collective,
        /// The request had the same.
        request: u64,
    },
    /// A blocking send.
    MpiSend(Message),
    /// A blocking receive.
    MpiRecv(Message),
    /// A send begins.
    MpiIsend {
        /// What is sent.
        message: Message,
        /// The completion has the same.
        request: u64,
    },
    /// A send has completed.
    MpiIsendComplete {
        /// The begin had the same.
        request: u64,
    },
    /// A receive begins.
    MpiIrecvRequest {
        /// The completion has the same.
        request: u64,
    },
    /// A receive has completed.
    MpiIrecv {
        /// What was received.
        message: Message,
        /// The begin had the same.
        request: u64,
    },
    /// Data is put into a remote window.
    RmaPut(RmaAccess),
    /// Data is got from a remote window.
    RmaGet(RmaAccess),
    /// A put or get has completed, its caller waited.
    RmaOpCompleteBlocking {
        /// The window.
        win: RmaWinRef,
        /// The put or get had the same.
        matching: u64,
    },
    /// A put or get has completed, its caller did not wait.
    RmaOpCompleteNonBlocking {
        /// The window.
        win: RmaWinRef,
        /// The put or get had the same.
        matching: u64,
    },
    /// A sample of a metric class or instance.
    Metric {
        /// The class, or the instance.
        metric: MetricRef,
        /// One value per member of the class.
        values: Vec<MetricValue>,
    },
    /// A string parameter.
    ParameterString {
        /// Which.
        parameter: ParameterRef,
        /// Its value.
        value: StringRef,
    },
    /// A signed parameter.
    ParameterInt {
        /// Which.
        parameter: ParameterRef,
        /// Its value.
        value: i64,
    },
    /// An unsigned parameter.
    ParameterUnsignedInt {
        /// Which.
        parameter: ParameterRef,
        /// Its value.
        value: u64,
    },
    /// Recording stops, or goes on.
    MeasurementOnOff(MeasurementMode),
    /// An event of another kind, by OTF2's name.
    Other(&'static str),
}
