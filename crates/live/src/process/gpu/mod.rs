//! GPUs: NCCL's kernel channels, the timer that they are stamped with, and what GPUs report by themselves.

mod clock;
mod kernels;
mod work;

pub(crate) use self::clock::RecentBounds;
pub(crate) use self::kernels::Kernels;
pub(crate) use self::work::GpuWork;
