//! Collectives: how their data moves, their bytes and bandwidths. Writers and readers of archives share this.

/// How data moves in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Everybody to everybody.
    AllToAll,
    /// The root to everybody.
    FromRoot {
        /// Whether every rank gets its own piece.
        pieces: bool,
    },
    /// Everybody to the root.
    ToRoot,
}

/// The collectives of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// `ncclAllReduce`
    AllReduce,
    /// `ncclAllGather`
    AllGather,
    /// `ncclReduceScatter`
    ReduceScatter,
    /// `ncclAlltoAll`
    AlltoAll,
    /// `ncclBroadcast`
    Broadcast,
    /// `ncclScatter`
    Scatter,
    /// `ncclReduce`
    Reduce,
    /// `ncclGather`
    Gather,
}

/// A collective's shape.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Which collective it is.
    pub collective: Collective,
    /// How data moves.
    pub flow: Flow,
    /// Bus bandwidth over algorithm bandwidth times N, as in nccl-tests: (a·N + b) ÷ N.
    bus: (f64, f64),
}

/// The shape of a function that NCCL names, `None` for one this version does not know.
#[must_use]
pub fn shape(func: &str) -> Option<Shape> {
    let (collective, flow, bus) = match func {
        "AllReduce" => (Collective::AllReduce, Flow::AllToAll, (2.0, -2.0)),
        "AllGather" => (Collective::AllGather, Flow::AllToAll, (1.0, -1.0)),
        "ReduceScatter" => (Collective::ReduceScatter, Flow::AllToAll, (1.0, -1.0)),
        "AlltoAll" => (Collective::AlltoAll, Flow::AllToAll, (1.0, -1.0)),
        "Broadcast" => (Collective::Broadcast, Flow::FromRoot { pieces: false }, (1.0, 0.0)),
        "Scatter" => (Collective::Scatter, Flow::FromRoot { pieces: true }, (1.0, -1.0)),
        "Reduce" => (Collective::Reduce, Flow::ToRoot, (1.0, 0.0)),
        "Gather" => (Collective::Gather, Flow::ToRoot, (1.0, -1.0)),
        _ => return None,
    };
    Some(Shape { collective, flow, bus })
}

impl Shape {
    /// Bytes sent and received by a rank: `bytes` is count × type size, `ranks` the communicator's
    /// size (Score-P's logical convention).
    #[must_use]
    pub fn bytes(&self, bytes: u64, ranks: u64, is_root: bool) -> (u64, u64) {
        let all = bytes.saturating_mul(ranks);
        match (self.flow, is_root) {
            (Flow::AllToAll, _) => (all, all),
            (Flow::FromRoot { .. }, true) => (all, bytes),
            (Flow::FromRoot { .. }, false) => (0, bytes),
            (Flow::ToRoot, true) => (bytes, all),
            (Flow::ToRoot, false) => (bytes, 0),
        }
    }

    /// Whether the collective has a root.
    #[must_use]
    pub const fn has_root(&self) -> bool {
        !matches!(self.flow, Flow::AllToAll)
    }

    /// What bandwidths are computed from: the larger of a rank's buffers, as in nccl-tests.
    #[must_use]
    pub fn buffer_bytes(&self, bytes: u64, ranks: u64) -> u64 {
        match (self.collective, self.flow) {
            (Collective::AllReduce | Collective::Broadcast | Collective::Reduce, _) => bytes,
            _ => bytes.saturating_mul(ranks),
        }
    }

    /// Algorithm and bus bandwidth in bytes per second of a collective that took `seconds`; `bytes` is count × type
    /// size.
    #[must_use]
    pub fn bandwidths(&self, bytes: u64, ranks: u32, seconds: f64) -> (f64, f64) {
        let algorithm = approximate(self.buffer_bytes(bytes, ranks.into())) / seconds;
        (algorithm, algorithm * self.bus_factor(ranks))
    }

    /// Bus bandwidth per algorithm bandwidth.
    #[must_use]
    pub fn bus_factor(&self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks.max(1));
        (self.bus.0 * ranks + self.bus.1) / ranks
    }
}

/// A collective that NCCL makes of sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// `ncclAlltoAll`
    AlltoAll,
    /// `ncclGather`, on its root.
    Gather,
    /// `ncclScatter`, on its root.
    Scatter,
}

impl Pattern {
    /// What NCCL would call the function.
    #[must_use]
    pub const fn func(self) -> &'static str {
        match self {
            Self::AlltoAll => "AlltoAll",
            Self::Gather => "Gather",
            Self::Scatter => "Scatter",
        }
    }

    /// Whether all ranks recognise it: then it has one collective record, and its members have no messages. The same
    /// bytes are not reported twice.
    #[must_use]
    pub const fn is_collective_record(self) -> bool {
        matches!(self, Self::AlltoAll)
    }

    /// The pattern of the calls of a group on `ranks`; `true` is a send.
    #[must_use]
    pub fn of(sends: &[bool], ranks: usize) -> Option<Self> {
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

    /// Transfers between this rank and the others.
    #[must_use]
    pub const fn transfers(self, ranks: usize) -> usize {
        let others = ranks.saturating_sub(1);
        match self {
            Self::AlltoAll => 2 * others,
            Self::Gather | Self::Scatter => others,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bandwidth does not need 64 bits of its bytes")]
fn approximate(bytes: u64) -> f64 {
    bytes as f64
}

/// Bytes of an element of a datatype by NCCL's name; 0 for one this version does not know.
#[must_use]
pub fn element_bytes(datatype: &str) -> u64 {
    match datatype.strip_prefix("nccl").unwrap_or(datatype) {
        "Int8" | "Char" | "Uint8" | "Float8e4m3" | "Float8e5m2" => 1,
        "Float16" | "Half" | "Bfloat16" => 2,
        "Int32" | "Int" | "Uint32" | "Float32" | "Float" => 4,
        "Int64" | "Uint64" | "Float64" | "Double" => 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_score_p() {
        let bytes = |func, is_root| {
            let shape = shape(func).expect("known");
            shape.bytes(10, 4, is_root)
        };
        assert_eq!(bytes("AllReduce", false), (40, 40));
        assert_eq!(bytes("Broadcast", true), (40, 10));
        assert_eq!(bytes("Broadcast", false), (0, 10));
        assert_eq!(bytes("Reduce", true), (10, 40));
        assert_eq!(bytes("Reduce", false), (10, 0));
        assert_eq!(bytes("Gather", true), (10, 40));
        assert!(shape("PutSignal").is_none());
    }

    /// What nccl-tests prints for a run of 2 ms on 8 ranks with 1 000 000 float32 as the call's count: the size
    /// is the buffer of a rank that has them all, count × 4 where each has all, and × ranks where `count` is a piece.
    #[test]
    fn bandwidths_follow_nccl_tests() {
        const WHOLE: f64 = 4e6;
        const PIECES: f64 = 8.0 * 4e6;
        for (func, size, factor) in [
            ("AllReduce", WHOLE, 2.0 * 7.0 / 8.0),
            ("Broadcast", WHOLE, 1.0),
            ("Reduce", WHOLE, 1.0),
            ("AllGather", PIECES, 7.0 / 8.0),
            ("ReduceScatter", PIECES, 7.0 / 8.0),
            ("AlltoAll", PIECES, 7.0 / 8.0),
            ("Gather", PIECES, 7.0 / 8.0),
            ("Scatter", PIECES, 7.0 / 8.0),
        ] {
            let shape = shape(func).expect("known");
            let (algorithm, bus) = shape.bandwidths(4_000_000, 8, 2e-3);
            assert!((algorithm / (size / 2e-3) - 1.0).abs() < 1e-12, "{func}");
            assert!((bus / algorithm - factor).abs() < 1e-12, "{func}");
        }
        // Sends and receives share a kernel with others: no bandwidth of their own.
        for func in ["Send", "Recv", "SendRecv"] {
            assert!(shape(func).is_none(), "{func}");
        }
    }

    #[test]
    fn a_rank_alone_has_no_bus() {
        let bus = |func| shape(func).expect("known").bandwidths(100, 1, 1.0).1;
        assert!(bus("AllReduce").abs() < 1e-12);
        assert!(bus("AllGather").abs() < 1e-12);
        assert!((bus("Broadcast") - 100.0).abs() < 1e-12);
    }

    #[test]
    fn datatypes_by_name() {
        assert_eq!(element_bytes("ncclFloat32"), 4);
        assert_eq!(element_bytes("ncclBfloat16"), 2);
        assert_eq!(element_bytes("Unknown"), 0);
    }

    #[test]
    fn the_order_of_calls_tells_the_collective() {
        let of = |calls: &str, ranks| {
            let sends: Vec<bool> = calls.chars().map(|call| call == 'S').collect();
            Pattern::of(&sends, ranks)
        };
        for (calls, ranks, pattern) in [
            ("SRSR", 2, Pattern::AlltoAll),
            ("SRR", 2, Pattern::Gather),
            ("SSR", 2, Pattern::Scatter),
            ("SRSRSR", 3, Pattern::AlltoAll),
            ("SRRR", 3, Pattern::Gather),
            ("SSSR", 3, Pattern::Scatter),
        ] {
            assert_eq!(of(calls, ranks), Some(pattern), "{calls} on {ranks}");
        }
        for (calls, ranks) in [
            ("", 0),
            ("S", 2),
            ("R", 2),
            ("SR", 1),
            ("SRS", 2),
            ("SRSR", 3),
            ("RSRS", 2),
            ("SRRS", 2),
            ("RRR", 2),
            ("SSS", 2),
        ] {
            assert_eq!(of(calls, ranks), None, "{calls} on {ranks}");
        }
    }
}
