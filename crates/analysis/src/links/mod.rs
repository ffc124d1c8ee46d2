//! Links between ranks: which network interfaces they use, and how fast NCCL expects them to be.

mod expected_bandwidth;
pub mod interfaces;
