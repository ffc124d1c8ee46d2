//! Links between ranks: which are slow, which network interfaces they use, and how fast NCCL expects them to be.

pub(crate) mod connections;
pub(crate) mod expected_bandwidth;
pub mod interfaces;
pub(crate) mod slow;
