//! A test double of libcupti: see `README.md` for what it does and how a test drives it.
//!
//! ```text
//! tool ── cupti* ──► v1, v2, shared ──► registry (families, subscribers) ──► client (kinds, stacks, buffers)
//! player ── fake_cupti_* ──► control ──► gpu (what runs) ──► delivery (CUPTI's own thread) ──► tool's callbacks
//! ```
//!
//! `guard` is what each call passes first, `load` makes one file into every release, `knobs` reads the variables.

mod buffer;
mod c_args;
mod client;
mod clock;
mod control;
mod counters;
mod delivery;
mod gpu;
mod guard;
mod knobs;
mod level;
mod load;
mod log;
mod other_tool;
mod records;
mod registry;
mod result;
mod shared;
mod v1;
mod v2;
