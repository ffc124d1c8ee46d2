//! The process around the plugin: what libnccl lends while a communicator lives (logger, mask, version), and exit,
//! fork and signals.
//!
//! `shared` gives every thread its share of the state that is on, in `per_thread`, and `memory` has some for callbacks
//! when the system has none. The rest runs in `init` and `finalize`, at exit, and on the plugin's own threads.

pub(crate) mod live;
pub(crate) mod logger;
pub(crate) mod mask;
pub(crate) mod memory;
pub(crate) mod per_thread;
pub(crate) mod process;
pub(crate) mod shared;
pub(crate) mod signals;
pub(crate) mod version;
