//! The process around the plugin: what libnccl provides while a communicator lives (logger, mask, version), and exit,
//! fork and signals.
//!
//! `shared` gives each thread its share of the running instance, stored in `per_thread`; `left` finds out whether a
//! signal handler has left the use of such a value; `memory` serves callbacks when the system has no memory. `dumps`
//! names the files of NCCL's topology. The rest runs in `init` and `finalize`, at exit, and on the plugin's own
//! threads.

pub(crate) mod dumps;
pub(crate) mod left;
pub(crate) mod live;
pub(crate) mod logger;
pub(crate) mod mask;
pub(crate) mod memory;
pub(crate) mod per_thread;
pub(crate) mod process;
pub(crate) mod shared;
pub(crate) mod signals;
pub(crate) mod version;
