//! What the checks share.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bundle::Bundle;
use crate::machine::Machine;

/// Processes and threads, and what lets NCCL run them here.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) words: &'static str,
}

/// What a check has to work with.
pub(crate) struct Context<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) bundle: &'a Bundle,
    pub(crate) is_fake: bool,
    /// A folder of the check's own.
    pub(crate) work: PathBuf,
    pub(crate) until: Instant,
    /// How several ranks run on this machine; found out by the first that asks.
    pub(crate) shape: &'a OnceCell<Option<Shape>>,
}

impl Context<'_> {
    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}
