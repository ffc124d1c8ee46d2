//! Room `archive`.

pub mod assemble;
pub mod blind_spots;
pub mod finalize;
pub mod finisher;
pub mod forwarded;
pub mod job;
pub mod kept;
pub mod matching;
pub mod members;
pub mod plan;
pub mod properties;
pub mod unify;
pub mod union;
