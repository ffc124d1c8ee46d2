//! Settings under which the number of network proxy operations of every call is known beforehand.

/// One ring over one channel, every pair of ranks over the network: what `Call::proxy_ops` assumes.
pub(crate) const EXACT: &[(&str, &str)] = &[
    ("NCCL_ALGO", "RING"),
    ("NCCL_MIN_NCHANNELS", "1"),
    ("NCCL_MAX_NCHANNELS", "1"),
    ("NCCL_MIN_P2P_NCHANNELS", "1"),
    ("NCCL_MAX_P2P_NCHANNELS", "1"),
    ("NCCL_NCHANNELS_PER_NET_PEER", "1"),
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_PXN_DISABLE", "1"),
    ("NCCL_COLLNET_ENABLE", "0"),
    ("NCCL_NVLS_ENABLE", "0"),
    ("NCCL_PAT_ENABLE", "0"),
];

/// Whether the environment of this process fixes the number of proxy operations.
pub(crate) fn in_force(var: impl Fn(&str) -> Option<String>) -> bool {
    EXACT.iter().all(|(name, value)| var(name).is_some_and(|set| set.eq_ignore_ascii_case(value)))
}
