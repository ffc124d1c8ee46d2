//! Injects a fault, in debug builds only, to prove that a panic in the built library reaches neither NCCL nor the job.

use nccl_events::Body;
use nccl_events::{Name, event};

/// The event type that makes the recorder panic. NCCL's own types are single bits.
const MAGIC: u64 = 0xfa17;

/// Panics when NCCL reports an event of the magic type.
#[inline]
pub(crate) fn on(body: &Body<Name<'_>>) {
    if cfg!(debug_assertions) && matches!(body, Body::Unknown(event::Unknown { event_type: MAGIC })) {
        plant();
    }
}

#[cold]
#[expect(clippy::panic, reason = "a test plants it; builds for users have none")]
fn plant() {
    panic!("planted by an event of type {MAGIC:#x}");
}
