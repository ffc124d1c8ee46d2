//! The hosts' devices and the ways between them, as NCCL dumped them.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Topology {
    /// Hosts of which NCCL dumped the topology.
    pub hosts: Vec<TopologyHost>,
    /// The graphs of the largest communicator that has some, of at most 64 hosts.
    pub graphs: Vec<Graph>,
    /// How many communicators have graphs.
    pub communicators: u32,
    /// Bytes that were sent over the network, where it is unknown over which interface.
    pub bytes_elsewhere: u64,
    /// Dumps that could not be used, and why.
    pub unused: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopologyHost {
    pub name: String,
    pub gpus: Vec<TopologyGpu>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopologyGpu {
    /// Address on the PCI bus.
    pub pci: String,
    /// Number of the processor, and the bridges from there, separated by `/`.
    pub path: String,
    /// Compute capability times ten; 0 if unknown.
    pub capability: u32,
    pub nvlinks: u32,
    /// The rank that uses it: index in [`super::Report::ranks`].
    pub rank: Option<u32>,
}

/// A network interface and what it moved.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Nic {
    /// Index in [`Topology::hosts`].
    pub host: u32,
    pub name: String,
    /// Address on the PCI bus; empty if it is virtual.
    pub pci: String,
    /// As that of a GPU.
    pub path: String,
    /// Whether it can reach the memory of GPUs.
    pub gdr: bool,
    /// In bytes per second; null if its driver does not know.
    pub speed: Option<f64>,
    /// Steps that it sent.
    pub steps: u64,
    /// Null, as what follows, if steps were not recorded, or NCCL reported no sizes of them (before 2.27).
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Time during which at least one sent step was in flight.
    pub busy_ns: Option<u64>,
    /// `sent_bytes` ÷ `busy_ns`, in bytes per second.
    pub rate: Option<f64>,
    /// `rate` ÷ `speed`; null if `rate` is far above `speed`, which NCCL assumes where the system states none.
    pub share: Option<f64>,
    /// Median time of its steps relative to other interfaces' for the same size; null if fewer than three sent those.
    pub slowdown: Option<f64>,
}

/// The channels of an algorithm on a host.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Graph {
    pub communicator: u32,
    /// Index in [`Topology::hosts`].
    pub host: u32,
    /// `RING`, `TREE`, `COLLNET_CHAIN`, `COLLNET_DIRECT` or `NVLS`.
    pub kind: String,
    /// Of a channel between GPUs, in bytes per second.
    pub speed_intra: f64,
    /// Of a channel between hosts.
    pub speed_inter: f64,
    /// NCCL's name of the longest way between GPUs; null if this version does not know it.
    pub type_intra: Option<String>,
    /// The longest way from a GPU to a network interface.
    pub type_inter: Option<String>,
    pub channels: Vec<GraphChannel>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GraphChannel {
    /// The interface of the first rank: index in [`super::Report::nics`].
    pub nic_in: Option<u32>,
    /// In the order of the channel: indices in [`super::Report::ranks`].
    pub ranks: Vec<Option<u32>>,
    /// The interface of all other ranks.
    pub nic_out: Option<u32>,
}
