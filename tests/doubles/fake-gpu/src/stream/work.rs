//! Work of a device, and why it runs.

use std::sync::Arc;

pub(crate) type Job = Box<dyn FnOnce() + Send>;
pub(crate) type Op = Arc<dyn Fn(&Occasion) + Send + Sync>;

/// Why something runs, for whoever observes the device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Occasion {
    /// CUPTI's id of the call that launched it; 0 if nobody observes
    pub(crate) correlation: u32,
    pub(crate) thread: i32,
    pub(crate) device: i32,
    pub(crate) stream: u64,
    pub(crate) replay: Option<Replay>,
}

/// Where something that runs stands in its graph; all ids are the process's own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Replay {
    pub(crate) graph: u64,
    pub(crate) node: u64,
    pub(crate) source_graph: u64,
    pub(crate) source_node: u64,
}
