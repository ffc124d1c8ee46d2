//! Proxy operations and their steps.

/// How many steps of a proxy operation are under way at most: NCCL keeps one handle for each.
pub const STEP_SLOTS: u8 = 8;

/// The slot of a step: 0 … 7.
pub fn slot(step: i32) -> u8 {
    u8::try_from(step.rem_euclid(STEP_SLOTS.into())).unwrap_or(0)
}

/// A network connection; `C` names a context. NCCL reports the progress of all operations of a connection or of none
/// (CollNet, shared memory and peer-to-peer proxies since 2.27): of a silent one a missing stop says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection<C> {
    pub context: C,
    /// Whether it serves another process (PXN), to which NCCL 2.23 gives a context of this process.
    pub is_foreign: bool,
    pub channel: u8,
    pub peer: i32,
    pub is_send: bool,
}

/// Whether an operation shows that its connection is not silent.
pub const fn reports(has_stop: bool, states_seen: u32, has_steps: bool) -> bool {
    has_stop || states_seen != 0 || has_steps
}
