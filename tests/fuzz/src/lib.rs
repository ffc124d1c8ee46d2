//! What reads files that others wrote, on any bytes: [`TARGETS`].
//!
//! A target is a function of bytes that panics where a promise is broken. `cargo xtask fuzz` has libFuzzer look for
//! such bytes; the tests replay `corpus/`, where inputs lie that once broke one.

mod archive;
mod dumps;
mod follow;
mod foreign;
mod job;
mod journal;
mod pieces;
mod records;
pub mod seeds;
mod segments;

#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    /// Reads bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "journal", run: journal::read },
    Target { name: "follow", run: follow::follow },
    Target { name: "finalize", run: job::finalize },
    Target { name: "manifest", run: job::unify },
    Target { name: "archive", run: archive::read },
    Target { name: "records", run: records::read },
    Target { name: "kineto", run: foreign::kineto },
    Target { name: "xplane", run: foreign::xplane },
    Target { name: "topology", run: dumps::read },
];
