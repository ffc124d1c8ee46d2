//! What NCCL knows of a host and of the ways that it chose, read from the files that it dumps.
//!
//! * [`System`]: `NCCL_TOPO_DUMP_FILE`. The PCI tree of a host with its GPUs and network interfaces.
//! * [`Graph`]: `NCCL_GRAPH_DUMP_FILE`. The channels of a communicator on a host, for each algorithm, with speeds.
#![warn(missing_docs, clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

mod graph;
mod names;
mod system;
mod xml;

#[cfg(test)]
mod tests;

pub use graph::{Channel, Graph};
pub use names::{Algorithm, GraphKind, PathType, Protocol};
pub use system::{Gpu, Nic, Place, System};
pub use xml::Error;
