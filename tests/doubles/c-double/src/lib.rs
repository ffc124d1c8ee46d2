//! What the doubles of C libraries share.

pub mod args;
mod counts;
mod hidden;

pub use counts::Counts;
pub use hidden::hide;
