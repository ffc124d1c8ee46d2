//! Modes of captures: which calls of a thread a capture forbids.

use crate::stream::graph::{Capture, capture_mode};
use crate::stream::{GRAPHS, Graph};
use c_double::args::Out;
use c_double::this_thread;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;

thread_local! {
    static MODE: Cell<c_int> = const { Cell::new(capture_mode::GLOBAL) };
}

pub(crate) fn exchange_mode(mode: Out<c_int>) {
    if let Some(other) = mode.get() {
        mode.set(MODE.replace(other));
    }
}

/// A capture that forbids the calling thread a call that could wait for what is being captured.
pub(crate) fn forbidding() -> Option<Arc<Graph>> {
    let own_mode = MODE.get();
    if own_mode == capture_mode::RELAXED {
        return None;
    }
    let forbids = |capture: &Capture| {
        let is_own = capture.thread == this_thread() && capture.mode != capture_mode::RELAXED;
        is_own || (own_mode == capture_mode::GLOBAL && capture.mode == capture_mode::GLOBAL)
    };
    let mut graphs = GRAPHS.all().into_iter();
    graphs.find(|graph| graph.is_open() && graph.capture.is_some_and(|capture| forbids(&capture)))
}
