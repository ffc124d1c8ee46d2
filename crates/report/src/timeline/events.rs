//! An event of the timeline, as small as sorting and linking allow.

/// No set of attributes, no instance, no waiting time.
pub(super) const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) event: u64,
    /// The id of its parent; 0 if it has none.
    pub(super) parent: u64,
    pub(super) waiting_ns: u64,
    pub(super) sequence: u64,
    pub(super) instance: u64,
    pub(super) attributes: u64,
    pub(super) location: u32,
    pub(super) name: u32,
    pub(super) depth: u32,
    /// Whether it is an operation: the enqueueing of one has the same id.
    pub(super) is_operation: bool,
}
