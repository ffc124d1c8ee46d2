//! A communication record, see [`super::messages`].

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// `MpiCollectiveBegin`
    CollectiveBegin,
    /// `MpiCollectiveEnd`
    CollectiveEnd,
    /// `NonBlockingCollectiveRequest`
    CollectiveRequest,
    /// `NonBlockingCollectiveComplete`
    CollectiveComplete,
    /// `MpiIsend`
    SendBegin,
    /// `MpiIsendComplete`
    SendEnd,
    /// `MpiIrecvRequest`
    ReceiveBegin,
    /// `MpiIrecv`
    ReceiveEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Whose: an index of activities.
    pub activity: u32,
    pub role: Role,
}
