//! What lies beside the journal in the directory of a process.

pub mod environment;
pub mod late;
pub mod metrics;
pub mod options;
pub mod process;
pub mod scorep;
