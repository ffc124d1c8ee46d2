//! Network transfers by pair of ranks and by channel.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::Serialize;

use super::ranks::Change;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct LinkKey {
    pub communicator: u32,
    /// The sender: index in [`super::Report::ranks`]; `None` for channels.
    pub from: Option<u32>,
    /// The receiver; `None` for channels and if it was not recorded.
    pub to: Option<u32>,
    /// The receiver's rank in the communicator; `None` for channels.
    pub peer: Option<u32>,
    pub channel: Option<u32>,
}

/// A regression of the time of a step on its bytes, t = latency + bytes ÷ rate, weighted with 1/t².
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    pub points: u64,
    /// Time of a step of 0 bytes, in ns; `None` if negative, with fewer than three points, if all sizes are equal, or
    /// if the line explains less than half of the variance (`r_squared` below 0.5).
    pub latency_ns: Option<f64>,
    /// Bytes per second; `None` in the last three cases, and if time does not grow with size.
    pub rate: Option<f64>,
    /// Weighted coefficient of determination; `None` if all sizes are equal.
    pub r_squared: Option<f64>,
}

/// What the network did for a pair of ranks or a channel. Times are of sends, from handing a step to the network
/// (`SendWait`) to its completion.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Link {
    #[serde(flatten)]
    pub key: LinkKey,
    pub steps: u64,
    pub bytes: u64,
    /// Time during which at least one step was in flight.
    pub busy_ns: u64,
    /// `bytes` ÷ `busy_ns`, in bytes per second.
    pub rate: Option<f64>,
    pub all: Option<Fit>,
    /// Regression over the minimum time for each size: noise only makes steps longer.
    pub least: Option<Fit>,
    /// Steps for a scatter plot, evenly over time, at most 500: `[start_ns, bytes, duration_ns]`.
    pub points: Vec<[u64; 3]>,
    /// Median of the time relative to other links for the same size. `None` if there are too few others.
    pub slowdown: Option<f64>,
    /// Set if the slowdown changed while the job ran.
    pub change: Option<Change>,
    /// Time sends and receives spent waiting, by what they waited for, in ns.
    pub waits: Waits,
    /// Network interfaces of senders: indices in [`super::Report::nics`]. Empty without topology.
    pub from_nics: Vec<u32>,
    /// Those of receivers.
    pub to_nics: Vec<u32>,
    /// How far senders' GPUs are from them: NCCL's `PIX`, `PXB`, `PHB` or `SYS`.
    pub nic_paths: Vec<String>,
    /// Time that would be saved on this link if it were like the others, in ns; not summed over ranks.
    pub excess_ns: u64,
}

/// What the proxy waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waits {
    /// The sender's GPU had not produced the data (`SendGPUWait`).
    pub send_gpu_ns: u64,
    /// The receiver had no room (`SendPeerWait`).
    pub send_peer_ns: u64,
    /// The network (`SendWait`).
    pub send_ns: u64,
    /// Data that had not arrived (`RecvWait`).
    pub recv_ns: u64,
    /// Flushing to the receiver's memory (`RecvFlushWait`).
    pub recv_flush_ns: u64,
    /// The receiver's GPU had not taken the data (`RecvGPUWait`).
    pub recv_gpu_ns: u64,
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.send_gpu_ns += other.send_gpu_ns;
        self.send_peer_ns += other.send_peer_ns;
        self.send_ns += other.send_ns;
        self.recv_ns += other.recv_ns;
        self.recv_flush_ns += other.recv_flush_ns;
        self.recv_gpu_ns += other.recv_gpu_ns;
    }
}
