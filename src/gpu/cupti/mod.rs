//! Times GPU work with CUPTI's records: more detail than CUDA events, but other tools in the process can interfere.
//!
//! ```text
//!  launching thread   begins: push id ── NCCL launches ── ends: pop id      launches.rs
//!                     (CUPTI requests a buffer)                             buffers.rs
//!  CUPTI's threads    a buffer comes back                                   buffers.rs
//!  worker             collect: flush ▸ decode ▸ join ▸ output               records/
//!  helper thread      calls that may not return                             helper.rs
//! ```
//!
//! `session.rs` finds CUPTI, subscribes and enables activity kinds; `calls.rs` has all calls. The plugin never calls
//! `cuptiFinalize`, which ends CUPTI for all tools and crashes some. Buffers that CUPTI still holds when the session
//! ends are never freed.

mod backend;
mod buffers;
mod calls;
mod gate;
mod helper;
mod launches;
mod records;
mod session;
#[cfg(test)]
mod tests;

pub(super) use backend::{Opened, open};
pub(super) use session::{NotUsed, Settings, is_ours};
