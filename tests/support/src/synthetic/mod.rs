//! Synthetic jobs with known properties, and their archives.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "made-up jobs are small"
)]

mod job;
mod write;

pub use job::{
    BYTE_NS, CALL_NS, Delayed, Disturbance, Job, LATENCY_NS, LinkNoise, Operation, Random, SIZES, Step, play,
};
pub use write::write;
