//! The checks that are jobs of other programs: NCCL's under the plugin, and PyTorch's.

mod cost;
mod job;
mod nccl;
mod probes;
mod tools;

pub(crate) use cost::{callback_cost, cupti_cost};
pub(crate) use nccl::{
    ends, events_backend, kernel_channels, nccl_graphs, nccl_kernels, one_rank, several_gpus, several_ranks,
};
pub(crate) use probes::{function_ids, probe, refused_buffer, two_tools};
pub(crate) use tools::{nsys, torch_profiler};
