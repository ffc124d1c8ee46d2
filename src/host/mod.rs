//! The process that the plugin is a guest in: its signals, exit and forks, and what libnccl provides (`process`); its
//! memory, and the values of its threads (`threads`).

pub mod process;
pub(crate) mod threads;
