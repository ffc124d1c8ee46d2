//! Why an operation took its time: its critical path, and what held up its ranks.

mod critical_path;
pub mod why;
