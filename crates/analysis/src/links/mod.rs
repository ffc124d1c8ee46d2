//! Links between ranks: which are slow, which network interfaces they use, and how fast NCCL expects them to be.

pub(crate) mod expected_bandwidth;
pub mod interfaces;
pub(crate) mod laws;
pub(crate) mod slow;
