//! The places for tools in a process that uses NCCL, and who has them: the profiler plugin, the plugin for NCCL's
//! variables, NVTX's injection. Nothing is loaded or run: libraries are read as files.

mod found;
mod library;
mod loader;
mod nvtx;
mod search;
mod variables;

pub(crate) use found::{Behind, FIRST_WITH_ENV_PLUGIN, behind, env_plugin};
pub(crate) use library::{Library, Nccl, OURS};
pub(crate) use loader::Loader;
pub(crate) use nvtx::{INJECTION, Injection, injection};
pub(crate) use search::{DEFAULT, Search, search};
pub(crate) use variables::{CHAIN, PLUGIN, Variables};
