//! NCCL's functions: names, data flow, bytes and bandwidths. Shared by writers and readers of archives.

use std::ffi::CStr;

mod communicators;
mod pattern;

pub use communicators::{ends_communicator, is_of_communicators};
pub use pattern::Pattern;

/// NCCL's algorithms, indexed by number (`NCCL_ALGO_*`), with their names in NCCL's events.
pub const ALGORITHMS: [&CStr; 7] =
    [c"TREE", c"RING", c"COLLNET_DIRECT", c"COLLNET_CHAIN", c"NVLS", c"NVLS_TREE", c"PAT"];

/// A function of NCCL that moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "NCCL's names")]
pub enum Function {
    /// All ranks of a communicator take part.
    Collective(Collective),
    Send,
    Recv,
    /// A send or a receive. NCCL does not say which; only version 1 of the interface has a number for this.
    SendRecv,
}

/// NCCL's collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "NCCL's names")]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    AlltoAll,
    Broadcast,
    Scatter,
    Reduce,
    Gather,
}

/// The direction of data in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// From all ranks to all ranks.
    AllToAll,
    /// From the root to all ranks.
    FromRoot,
    /// From all ranks to the root.
    ToRoot,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 11] = [
        Self::Collective(Collective::AllReduce),
        Self::Collective(Collective::AllGather),
        Self::Collective(Collective::ReduceScatter),
        Self::Collective(Collective::AlltoAll),
        Self::Collective(Collective::Broadcast),
        Self::Collective(Collective::Scatter),
        Self::Collective(Collective::Reduce),
        Self::Collective(Collective::Gather),
        Self::Send,
        Self::Recv,
        Self::SendRecv,
    ];

    /// The function with this name in NCCL's events (`AllReduce`); `None` if this version does not know it.
    pub fn named(name: impl AsRef<[u8]>) -> Option<Self> {
        let name = name.as_ref();
        Self::ALL.into_iter().find(|function| function.name().as_bytes() == name)
    }

    /// The function that a region of an archive shows: `AllGather` for the region `ncclAllGather (CE)`.
    pub fn of_region(region: &str) -> Option<Self> {
        Self::named(region.split(' ').next()?.strip_prefix("nccl")?)
    }

    /// The name in NCCL's events.
    pub fn name(self) -> &'static str {
        let call = self.call().to_str().unwrap_or_default();
        call.strip_prefix("nccl").unwrap_or(call)
    }

    /// The name in NCCL's API, after which regions are named.
    pub const fn call(self) -> &'static CStr {
        match self {
            Self::Collective(Collective::AllReduce) => c"ncclAllReduce",
            Self::Collective(Collective::AllGather) => c"ncclAllGather",
            Self::Collective(Collective::ReduceScatter) => c"ncclReduceScatter",
            Self::Collective(Collective::AlltoAll) => c"ncclAlltoAll",
            Self::Collective(Collective::Broadcast) => c"ncclBroadcast",
            Self::Collective(Collective::Scatter) => c"ncclScatter",
            Self::Collective(Collective::Reduce) => c"ncclReduce",
            Self::Collective(Collective::Gather) => c"ncclGather",
            Self::Send => c"ncclSend",
            Self::Recv => c"ncclRecv",
            Self::SendRecv => c"ncclSendRecv",
        }
    }

    /// The collective; `None` for point-to-point functions.
    pub const fn collective(self) -> Option<Collective> {
        match self {
            Self::Collective(collective) => Some(collective),
            Self::Send | Self::Recv | Self::SendRecv => None,
        }
    }

    /// Whether the function sends to its peer (`true`) or receives; `None` for collectives, and if NCCL does not say.
    pub const fn is_send(self) -> Option<bool> {
        match self {
            Self::Send => Some(true),
            Self::Recv => Some(false),
            Self::SendRecv | Self::Collective(_) => None,
        }
    }

    /// Elements in a rank's send and receive buffers, given the call's count.
    pub const fn elements(self, count: u64, ranks: u64, is_root: bool) -> (u64, u64) {
        match self {
            Self::Collective(collective) => collective.elements(count, ranks, is_root),
            Self::Send | Self::Recv | Self::SendRecv => (count, count),
        }
    }
}

impl Collective {
    /// The collective with this name in NCCL's events; `None` for other functions.
    pub fn named(name: impl AsRef<[u8]>) -> Option<Self> {
        Function::named(name)?.collective()
    }

    /// The name in NCCL's events.
    pub fn name(self) -> &'static str {
        Function::Collective(self).name()
    }

    /// The direction of data.
    pub const fn flow(self) -> Flow {
        match self {
            Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::AlltoAll => Flow::AllToAll,
            Self::Broadcast | Self::Scatter => Flow::FromRoot,
            Self::Reduce | Self::Gather => Flow::ToRoot,
        }
    }

    /// Whether the collective has a root.
    pub const fn has_root(self) -> bool {
        !matches!(self.flow(), Flow::AllToAll)
    }

    /// Whether NCCL copies without arithmetic. If so, only the number of bytes matters, whatever datatype the caller
    /// passes, and ranks may pass different datatypes.
    pub const fn moves_bytes(self) -> bool {
        match self {
            Self::AllGather | Self::AlltoAll | Self::Broadcast | Self::Scatter | Self::Gather => true,
            Self::AllReduce | Self::ReduceScatter | Self::Reduce => false,
        }
    }

    /// Bytes that a rank sends and receives, as Score-P counts. `bytes` is count × type size, `ranks` their number.
    pub const fn bytes(self, bytes: u64, ranks: u64, is_root: bool) -> (u64, u64) {
        let all = bytes.saturating_mul(ranks);
        match (self.flow(), is_root) {
            (Flow::AllToAll, _) => (all, all),
            (Flow::FromRoot, true) => (all, bytes),
            (Flow::FromRoot, false) => (0, bytes),
            (Flow::ToRoot, true) => (bytes, all),
            (Flow::ToRoot, false) => (bytes, 0),
        }
    }

    const fn elements(self, count: u64, ranks: u64, is_root: bool) -> (u64, u64) {
        let all = count.saturating_mul(ranks);
        let on_root = if is_root { all } else { 0 };
        match self {
            Self::AllReduce | Self::Broadcast | Self::Reduce => (count, count),
            Self::AllGather => (count, all),
            Self::ReduceScatter => (all, count),
            Self::AlltoAll => (all, all),
            Self::Gather => (count, on_root),
            Self::Scatter => (on_root, count),
        }
    }

    /// The size from which bandwidths are computed: the larger of a rank's buffers, as in nccl-tests.
    pub fn buffer_bytes(self, bytes: u64, ranks: u64) -> u64 {
        let (sent, received) = self.elements(bytes, ranks, true);
        sent.max(received)
    }

    /// Algorithm and bus bandwidth of a collective, in bytes per second. `bytes` is count × type size.
    #[expect(clippy::cast_precision_loss, reason = "a bandwidth does not need 64 bits of its bytes")]
    pub fn bandwidths(self, bytes: u64, ranks: u32, seconds: f64) -> (f64, f64) {
        let algorithm = self.buffer_bytes(bytes, ranks.into()) as f64 / seconds;
        (algorithm, algorithm * self.bus_factor(ranks))
    }

    /// The ratio of bus bandwidth to algorithm bandwidth, as in nccl-tests.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks.max(1));
        let pieces = match self {
            Self::AllReduce => 2.0 * ranks - 2.0,
            Self::AllGather | Self::ReduceScatter | Self::AlltoAll | Self::Scatter | Self::Gather => ranks - 1.0,
            Self::Broadcast | Self::Reduce => ranks,
        };
        pieces / ranks
    }
}

/// Bytes per element of a datatype with this name in NCCL; 0 if this version does not know it.
pub fn element_bytes(datatype: impl AsRef<[u8]>) -> u64 {
    let datatype = datatype.as_ref();
    match datatype.strip_prefix(b"nccl").unwrap_or(datatype) {
        b"Int8" | b"Char" | b"Uint8" | b"Float8e4m3" | b"Float8e5m2" => 1,
        b"Float16" | b"Half" | b"Bfloat16" => 2,
        b"Int32" | b"Int" | b"Uint32" | b"Float32" | b"Float" => 4,
        b"Int64" | b"Uint64" | b"Float64" | b"Double" => 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
