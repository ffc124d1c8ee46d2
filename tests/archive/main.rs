//! What the archive says of a job: everything that was called, at the right time, the same whoever writes it, and as
//! every reader reads it; and what the tool prints of it.

mod alignment;
mod determinism;
mod info;
mod merge;
mod pages;
mod print_archive;
mod print_journal;
mod pxn;
mod readers;
mod real_nccl;
mod replay;
