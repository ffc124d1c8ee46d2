//! What the archive says of itself in its properties.

mod completeness;
mod matching;
pub mod statement;

pub use completeness::Completeness;
pub use matching::{Matching, Statement};
