//! Captures of streams, as the runtime and the driver have them in common: how they are begun, which calls they forbid,
//! and what is told of them.

use crate::settings::choice;
use crate::stream::graph::{Capture, capture_mode};
use crate::stream::{self, Graph, Stream};
use c_double::args::Out;
use std::cell::Cell;
use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::{Arc, OnceLock};

thread_local! {
    /// What this thread said of captures of others.
    static MODE: Cell<c_int> = const { Cell::new(capture_mode::GLOBAL) };
}

/// `cuThreadExchangeStreamCaptureMode`, `cudaThreadExchangeStreamCaptureMode`
pub(crate) fn exchange_mode(mode: Out<c_int>) {
    if let Some(other) = mode.get() {
        mode.set(MODE.replace(other));
    }
}

/// From now on what is submitted to the stream is kept. The mode is as the program says, unless the environment knows
/// better.
pub(crate) fn begin(stream: &Stream, asked: c_int) {
    static FORCED: OnceLock<Option<c_int>> = OnceLock::new();
    let forced = FORCED.get_or_init(|| {
        let words = [
            ("as-asked", None),
            ("global", Some(capture_mode::GLOBAL)),
            ("relaxed", Some(capture_mode::RELAXED)),
        ];
        choice("FAKEGPU_CAPTURE_MODE", &words).flatten()
    });
    let graph = Graph::new(Capture {
        mode: forced.unwrap_or(asked),
        thread: this_thread(),
    });
    stream.set_capture(Some(graph.clone()));
    // Known by its handle from now on: NCCL uses it during the capture.
    stream::graph_add(graph);
}

/// A capture that forbids the calling thread a call that could wait for what is being captured.
pub(crate) fn forbidding() -> Option<Arc<Graph>> {
    let own_mode = MODE.get();
    if own_mode == capture_mode::RELAXED {
        return None;
    }
    stream::open_captures().into_iter().find(|graph| {
        graph.capture.is_some_and(|capture| {
            let own = capture.thread == this_thread() && capture.mode != capture_mode::RELAXED;
            let anybodys = own_mode == capture_mode::GLOBAL && capture.mode == capture_mode::GLOBAL;
            own || anybodys
        })
    })
}

/// The calling thread's number.
fn this_thread() -> i32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::gettid() }
}

/// `CUstreamCaptureStatus`: none, active, invalidated
fn status_of(graph: Option<&Graph>) -> c_int {
    graph.map_or(0, |graph| if graph.is_broken() { 2 } else { 1 })
}

/// What a caller wants to know of a stream's capture: with each version of the question more.
pub(crate) struct Asked<'a> {
    status: &'a Out<c_int>,
    id: Option<&'a Out<c_ulonglong>>,
    graph: Option<&'a Out<*mut c_void>>,
    dependencies: Option<(&'a Out<*mut c_void>, &'a Out<usize>)>,
    edges: Option<&'a Out<*mut c_void>>,
}

impl<'a> Asked<'a> {
    /// `StreamIsCapturing`
    pub(crate) fn status(status: &'a Out<c_int>) -> Self {
        Self {
            status,
            id: None,
            graph: None,
            dependencies: None,
            edges: None,
        }
    }

    /// `StreamGetCaptureInfo`
    pub(crate) fn id(self, id: &'a Out<c_ulonglong>) -> Self {
        let id = Some(id);
        Self { id, ..self }
    }

    /// `StreamGetCaptureInfo_v2`
    pub(crate) fn graph(
        self,
        graph: &'a Out<*mut c_void>,
        dependencies: &'a Out<*mut c_void>,
        count: &'a Out<usize>,
    ) -> Self {
        Self {
            graph: Some(graph),
            dependencies: Some((dependencies, count)),
            ..self
        }
    }

    /// `StreamGetCaptureInfo_v3`
    pub(crate) fn edges(self, edges: &'a Out<*mut c_void>) -> Self {
        let edges = Some(edges);
        Self { edges, ..self }
    }

    /// Tells it of this stream. All but the status is only given during a capture; there are no edges.
    pub(crate) fn answer(&self, stream: &Stream) {
        let capture = stream.capture();
        self.status.set(status_of(capture.as_deref()));
        let Some(capture) = capture else { return };
        if let Some(id) = self.id {
            id.set(capture.id);
        }
        if let Some(graph) = self.graph {
            graph.set(std::ptr::without_provenance_mut(
                Arc::as_ptr(&capture).addr(),
            ));
        }
        if let Some((dependencies, count)) = self.dependencies {
            dependencies.set(std::ptr::null_mut());
            count.set(0);
        }
        if let Some(edges) = self.edges {
            edges.set(std::ptr::null_mut());
        }
    }
}
