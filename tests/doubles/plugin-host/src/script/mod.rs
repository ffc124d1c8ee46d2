//! Scripts: sequences of callbacks that no healthy NCCL would make, and those that it does make.
//!
//! The language is described in this crate's README. [`parse`] makes blocks of lines, [`command`] makes a
//! command of a line's words, [`run`] runs them.

pub mod command;
mod exchange;
pub(crate) mod net;
pub mod parse;
mod process;
pub mod run;
