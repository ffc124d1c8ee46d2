//! NCCL's side of the plugin: the only place that knows C and versions.

pub mod layout;
pub mod sys;
