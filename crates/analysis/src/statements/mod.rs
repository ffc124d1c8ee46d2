//! What an archive says of itself, for programs.

mod completeness;
mod matching;

pub use completeness::Completeness;
pub use matching::{Matching, Statement};
