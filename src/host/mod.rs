//! The process around the plugin: what libnccl lends while a communicator lives, and exit, fork, signals and threads.

pub(crate) mod hooks;
pub(crate) mod live;
pub mod logger;
pub mod mask;
pub(crate) mod shared;
pub mod version;
