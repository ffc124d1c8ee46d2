//! Links between ranks: which interfaces they use, and how fast they are expected to be.

mod expected_bandwidth;
pub mod interfaces;
