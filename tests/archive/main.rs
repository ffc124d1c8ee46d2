//! The archive of a job has everything that was called, at the right time, the same whoever writes it, and the same for
//! every reader; and the tool prints it.

mod alignment;
mod determinism;
mod info;
mod json_schema;
mod merge;
mod pages;
mod print_archive;
mod print_journal;
mod pxn;
mod readers;
mod real_nccl;
mod replay;
