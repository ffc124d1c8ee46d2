//! What belongs together: which launch, kernels, channels and transfers an operation has, and when it ran.

pub mod derived;
pub mod gpu_stamps;
pub mod gpu_work;
pub mod intervals;
pub mod launches;
pub mod operations;
pub mod transfers;
