//! Network transfers by pair of ranks and by channel.

use serde::Serialize;

use super::ranks::Change;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LinkKey {
    pub communicator: u32,
    /// The sender: index in [`super::Report::ranks`]; none of channels.
    pub from: Option<u32>,
    /// The receiver; none of channels, and where it was not recorded.
    pub to: Option<u32>,
    /// The receiver's rank in the communicator; none of channels.
    pub peer: Option<u32>,
    pub channel: Option<u32>,
}

/// A regression of the time of a step on its bytes, t = latency + bytes ÷ rate, weighted with 1/t².
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fit {
    pub points: u64,
    /// What a step of no bytes takes, in ns; none where all sizes are equal, or the line explains less than half of how
    /// times differ (`r_squared` below 0.5).
    pub latency_ns: Option<f64>,
    /// Bytes per second; none as well where time does not grow with size.
    pub rate: Option<f64>,
    /// Weighted coefficient of determination; none where all sizes are equal.
    pub r_squared: Option<f64>,
}

/// What the network did for a pair of ranks or a channel. Times are those of sends, from handing a step to the network
/// (`SendWait`) to its completion.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Link {
    #[serde(flatten)]
    pub key: LinkKey,
    pub steps: u64,
    pub bytes: u64,
    /// Time in which at least one step was under way.
    pub busy_ns: u64,
    /// `bytes` ÷ `busy_ns`, in bytes per second.
    pub rate: Option<f64>,
    pub all: Option<Fit>,
    /// Regression over the least time for each size: noise only makes steps longer.
    pub least: Option<Fit>,
    /// Steps for a scatter plot, evenly over time, at most 500: `[start_ns, bytes, duration_ns]`.
    pub points: Vec<[u64; 3]>,
    /// Median of time ÷ time of the other links for the same size. None where there are too few others.
    pub slowdown: Option<f64>,
    /// Where that changed while the job ran.
    pub change: Option<Change>,
    /// Time of sends and receives that went into waiting, by whom was waited for, in ns.
    pub waits: Waits,
    /// Time that would be gained on the link if it were like the others, in ns; not summed over ranks.
    pub excess_ns: u64,
}

/// What the proxy waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// The sender's GPU had not produced the data (`SendGPUWait`).
    pub send_gpu_ns: u64,
    /// The receiver had no room (`SendPeerWait`).
    pub send_peer_ns: u64,
    /// The network (`SendWait`).
    pub send_ns: u64,
    /// Data that had not come (`RecvWait`).
    pub recv_ns: u64,
    /// The receiver's memory (`RecvFlushWait`).
    pub recv_flush_ns: u64,
    /// The receiver's GPU had not taken the data (`RecvGPUWait`).
    pub recv_gpu_ns: u64,
}
