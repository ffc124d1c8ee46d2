//! What the checks share.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::machine::{Bundle, Machine};

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) words: &'static str,
}

pub(crate) struct Context<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) bundle: &'a Bundle,
    pub(crate) is_fake: bool,
    pub(crate) work: PathBuf,
    pub(crate) until: Instant,
    /// How several ranks run on this machine; found out by the first that asks.
    pub(crate) shape: &'a OnceCell<Option<Shape>>,
}

impl Context<'_> {
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}
