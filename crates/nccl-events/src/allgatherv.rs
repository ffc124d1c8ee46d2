//! NCCL's setting for groups of broadcasts with several roots. It also decides whether broadcasts are reported.

use crate::Release;

/// The first release that fuses such a group into one operation. It reports no broadcast below the call, fused or not.
pub const FIRST: Release = 22_902;

/// The variable that turns this off.
pub const VARIABLE: &str = "NCCL_ALLGATHERV_ENABLE";

/// How broadcasts get into a recording, and what that costs.
pub const WAY_OUT: &str = "NCCL_ALLGATHERV_ENABLE=0 makes NCCL report broadcasts; it then runs a group of them with several roots as separate operations, as up to 2.28";

/// Whether this value of [`VARIABLE`] turns it off. A word is 0 only before 2.32, and not counted.
pub fn is_off(value: &str) -> bool {
    let digits = value.trim();
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}
