//! A process's tables become a timeline, and that becomes events. Apart from `trace`, whose code runs once a part: this
//! runs once an event and is built for speed.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

pub mod emit;
pub mod links;
pub mod reading;
pub mod timeline;
