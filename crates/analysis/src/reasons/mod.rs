//! Why an operation took its time: the critical path of a job, and what delayed its late ranks.

mod critical_path;
pub mod why;
