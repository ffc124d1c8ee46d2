//! Replays a recorded stream of callbacks through a plugin.
//!
//! [`stream`] reads the JSON Lines, [`order`] recovers the order of the callbacks and who belongs to whom,
//! [`run`] calls the plugin from as many threads as recorded, one after the other by a turn that they hand
//! over, [`double`] plays recorded kernels to a double of libcupti, and [`report`] says what was replayed and what was left out, and why.

pub mod double;
mod line;
pub mod order;
pub mod report;
pub mod run;
pub mod stream;
mod turn;
