//! Exports of what a job asked NCCL for, to programs that simulate or measure it. A format is a module with one public
//! function, `write(source, out) -> Result<Outcome>`, as in [`exports`].
//!
//! ```text
//!  operations   the operations of a rank, as the program called them
//!   ├► chakra      an execution trace for each rank, for ASTRA-sim and Chakra's tools
//!   └► nccl_tests  a script that measures the job's operations with nccl-tests
//! ```

#![forbid(unsafe_code)]

pub mod chakra;
pub mod nccl_tests;
mod operations;
