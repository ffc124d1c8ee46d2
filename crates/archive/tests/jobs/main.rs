//! From journals to archives with real files: jobs of a few processes, written with the recorder's own writer.

mod archive;
mod every_kind;
mod gpu_work;
mod job;
mod last_process;
mod level;
mod printed;
mod puts;
mod ranges;
mod read;
mod sizes;
