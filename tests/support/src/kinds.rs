//! NCCL's kinds of events as scripts, streams and counts name them; stated independently of the plugin.

/// All kinds, in the order of their bits in NCCL's mask.
pub const KINDS: [&str; 16] = [
    "Group",
    "Coll",
    "P2p",
    "ProxyOp",
    "ProxyStep",
    "ProxyCtrl",
    "KernelCh",
    "NetPlugin",
    "GroupApi",
    "CollApi",
    "P2pApi",
    "KernelLaunch",
    "CeColl",
    "CeSync",
    "CeBatch",
    "KernelPhase",
];

/// The newest table.
pub const NEWEST: u32 = 7;

/// How many of them each table knows, from version 1.
const KNOWN: [usize; NEWEST as usize] = [6, 6, 8, 8, 12, 15, 16];

pub fn kinds_of_table(version: u32) -> &'static [&'static str] {
    &KINDS[..KNOWN[version as usize - 1]]
}
