//! GPUs: NCCL's kernel channels, the timer of their stamps, and the GPUs' own reports.

mod clock;
mod kernels;
mod work;

pub(crate) use self::clock::RecentBounds;
pub(crate) use self::kernels::Kernels;
pub(crate) use self::work::GpuWork;
