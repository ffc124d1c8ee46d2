//! Values that NCCL's functions take and give.

use std::ffi::c_int;
use std::fmt;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub(super) [u8; 128]);

impl UniqueId {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<UniqueId> {
        Some(UniqueId(bytes.try_into().ok()?))
    }
}

/// NCCL's version code, e.g. 22809 for 2.28.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) c_int);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0 / 10000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// The operators used here, with the codes of `ncclRedOp_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Reduction {
    Sum = 0,
    Max = 2,
    Avg = 4,
}

/// ncclInProgress: what a call on a nonblocking communicator returns before it is done.
pub(super) const IN_PROGRESS: c_int = 7;

pub(crate) trait Element: Copy + PartialEq + fmt::Debug + Default + 'static {
    /// Code of `ncclDataType_t`.
    const CODE: c_int;
    const NAME: &'static str;
}

impl Element for i32 {
    const CODE: c_int = 2;
    const NAME: &'static str = "ncclInt32";
}

impl Element for f32 {
    const CODE: c_int = 7;
    const NAME: &'static str = "ncclFloat32";
}

/// NCCL takes ranks as int; there are never more than `pattern::MAX_RANKS`.
pub(crate) fn int(rank: usize) -> anyhow::Result<c_int> {
    Ok(c_int::try_from(rank)?)
}
