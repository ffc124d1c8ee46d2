//! The boundary between NVTX and the plugin.

use crate::abi::guard::SWITCH;

/// Runs the body of a function that NVTX calls. After an internal error nothing is recorded any more.
#[inline]
pub(super) fn guarded<R>(function: &'static str, neutral: R, body: impl FnOnce() -> R) -> R {
    if SWITCH.is_off() {
        return neutral;
    }
    SWITCH.run(function, body).unwrap_or(neutral)
}
