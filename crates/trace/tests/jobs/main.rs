//! From journals to archives, with real files: jobs of a few processes, written by the recording half's
//! own writer.

mod archive;
mod every_kind;
mod finisher;
mod gpu_work;
mod job;
mod options;
mod printed;
mod puts;
mod read;
mod sizes;
mod speed;
