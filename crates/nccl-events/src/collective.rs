//! NCCL's functions: names, data flow, bytes and bandwidths. Writers and readers of archives share it. Collectives that
//! NCCL implements as sends and receives are recognised by the order of these.

use std::ffi::CStr;

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
    pub fn from_region(region: &str) -> Option<Self> {
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

/// A collective that NCCL implements as sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// `ncclAlltoAll`.
    AlltoAll,
    /// `ncclGather`, recognised only on the root.
    Gather,
    /// `ncclScatter`, recognised only on the root.
    Scatter,
}

impl Pattern {
    /// The function that the program called.
    pub const fn collective(self) -> Collective {
        match self {
            Self::AlltoAll => Collective::AlltoAll,
            Self::Gather => Collective::Gather,
            Self::Scatter => Collective::Scatter,
        }
    }

    /// Whether all ranks recognise the pattern. If so, it has one collective record instead of its members' messages,
    /// because the same bytes must not be reported twice.
    pub const fn is_collective_record(self) -> bool {
        matches!(self, Self::AlltoAll)
    }

    /// The pattern of a group's calls in a communicator of size `ranks`; `true` means send.
    pub fn from_sends(sends: &[bool], ranks: usize) -> Option<Self> {
        if ranks < 2 {
            return None;
        }
        let alternate = sends.chunks(2).all(|pair| pair == [true, false]);
        if alternate && sends.len() == ranks.checked_mul(2)? {
            return Some(Self::AlltoAll);
        }
        if sends.len() != ranks.checked_add(1)? {
            return None;
        }
        match sends {
            [true, received @ ..] if received.iter().all(|&send| !send) => Some(Self::Gather),
            [sent @ .., false] if sent.iter().all(|&send| send) => Some(Self::Scatter),
            _ => None,
        }
    }

    /// Number of transfers between this rank and the others.
    pub const fn transfers(self, ranks: usize) -> usize {
        let others = ranks.saturating_sub(1);
        match self {
            Self::AlltoAll => 2 * others,
            Self::Gather | Self::Scatter => others,
        }
    }
}

/// Whether a function of NCCL, by its full name, makes or ends a communicator.
pub fn is_of_communicators(name: &str) -> bool {
    const MAKE: [&str; 4] = ["Init", "Split", "Shrink", "Grow"];
    let makes = |rest: &str| MAKE.iter().any(|verb| rest.starts_with(verb));
    ends_communicator(name) || name.strip_prefix("ncclComm").is_some_and(makes)
}

/// Whether it ends one.
pub fn ends_communicator(name: &str) -> bool {
    matches!(name, "ncclCommDestroy" | "ncclCommAbort" | "ncclCommFinalize")
}

#[cfg(test)]
mod pattern_tests {
    use crate::collective::*;

    #[test]
    fn the_order_of_calls_tells_the_collective() {
        use crate::collective::Pattern::{AlltoAll, Gather, Scatter};
        for (calls, ranks, pattern) in [
            ("SRSR", 2, Some(AlltoAll)),
            ("SRR", 2, Some(Gather)),
            ("SSR", 2, Some(Scatter)),
            ("SRSRSR", 3, Some(AlltoAll)),
            ("SRRR", 3, Some(Gather)),
            ("SSSR", 3, Some(Scatter)),
            ("", 0, None),
            ("S", 2, None),
            ("R", 2, None),
            ("SR", 1, None),
            ("SRS", 2, None),
            ("SRSR", 3, None),
            ("RSRS", 2, None),
            ("SRRS", 2, None),
            ("RRR", 2, None),
            ("SSS", 2, None),
        ] {
            let sends: Vec<bool> = calls.chars().map(|call| call == 'S').collect();
            assert_eq!(Pattern::from_sends(&sends, ranks), pattern, "{calls} on {ranks}");
        }
    }
}

#[cfg(test)]
mod tests;
