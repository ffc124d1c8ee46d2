//! How many network proxy operations a call causes on one rank, under the settings of [`crate::exact`].
//!
//! One channel, one ring in the order of the communicator's ranks, each neighbour reached over the network:
//! every send to a neighbour and every receive from one is a proxy operation of its own.

/// Who talks to whom in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// All around the ring: all-reduce, all-gather, reduce-scatter.
    Ring,
    /// A chain along the ring that starts at the root: broadcast.
    From {
        /// Rank that has the data.
        root: usize,
    },
    /// A chain along the ring that ends at the root: reduce.
    To {
        /// Rank that gets the result.
        root: usize,
    },
    /// One message with one rank: send or receive.
    Peer {
        /// The other rank, possibly the own one.
        peer: usize,
    },
    /// One message each way with every rank.
    AllToAll,
    /// Messages from all ranks to the root.
    Gather {
        /// Rank that gets the data.
        root: usize,
    },
    /// Messages from the root to all ranks.
    Scatter {
        /// Rank that has the data.
        root: usize,
    },
}

/// Proxy operations of one call on rank `me` of a communicator of `n` ranks.
pub(crate) fn expected(traffic: Traffic, me: usize, n: usize) -> u64 {
    let others = n.saturating_sub(1);
    if others == 0 {
        return 0;
    }
    let next = (me + 1) % n;
    let previous = (me + n - 1) % n;
    let ops = match traffic {
        Traffic::Ring => 2,
        // The root receives nothing, the rank before it sends nothing on.
        Traffic::From { root } => usize::from(me != root) + usize::from(next != root),
        // The rank after the root receives nothing, the root sends nothing on.
        Traffic::To { root } => usize::from(previous != root) + usize::from(me != root),
        // Data for oneself is copied by the kernel.
        Traffic::Peer { peer } => usize::from(peer != me),
        Traffic::AllToAll => 2 * others,
        Traffic::Gather { root } | Traffic::Scatter { root } => {
            if me == root {
                others
            } else {
                1
            }
        }
    };
    ops as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_rank(traffic: Traffic, n: usize) -> Vec<u64> {
        (0..n).map(|me| expected(traffic, me, n)).collect()
    }

    #[test]
    fn rings_and_chains() {
        assert_eq!(per_rank(Traffic::Ring, 4), [2, 2, 2, 2]);
        assert_eq!(per_rank(Traffic::From { root: 1 }, 4), [1, 1, 2, 2]);
        assert_eq!(per_rank(Traffic::To { root: 1 }, 4), [2, 1, 1, 2]);
        assert_eq!(per_rank(Traffic::From { root: 1 }, 2), [1, 1]);
        assert_eq!(per_rank(Traffic::To { root: 0 }, 2), [1, 1]);
    }

    #[test]
    fn messages() {
        assert_eq!(per_rank(Traffic::Peer { peer: 2 }, 3), [1, 1, 0]);
        assert_eq!(per_rank(Traffic::AllToAll, 3), [4, 4, 4]);
        assert_eq!(per_rank(Traffic::Gather { root: 0 }, 4), [3, 1, 1, 1]);
        assert_eq!(per_rank(Traffic::Scatter { root: 2 }, 3), [1, 1, 2]);
    }

    #[test]
    fn every_send_has_its_receive() {
        for n in 1..6 {
            for root in 0..n {
                for traffic in [
                    Traffic::From { root },
                    Traffic::To { root },
                    Traffic::Gather { root },
                ] {
                    let total: u64 = per_rank(traffic, n).iter().sum();
                    assert_eq!(total, 2 * (n as u64 - 1), "{traffic:?} on {n} ranks");
                }
            }
        }
    }

    #[test]
    fn a_single_rank_needs_no_network() {
        assert_eq!(per_rank(Traffic::Ring, 1), [0]);
        assert_eq!(per_rank(Traffic::AllToAll, 1), [0]);
    }
}
