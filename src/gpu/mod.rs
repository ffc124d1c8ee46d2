//! GPUs: which there are, and when they did what NCCL launched.
//!
//! What is found out goes into the journal as [`record::GpuRecord`]s; the writing half makes rows of it.

pub mod count;
mod cupti;
pub mod record;
mod way;
