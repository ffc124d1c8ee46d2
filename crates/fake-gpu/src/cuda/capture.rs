//! Stream capture.

use super::{BAD_HANDLE, Handle, INVALID, OK, api, fail, handle, stream_of};
use crate::c_args::Out;
use crate::driver;
use crate::inject;
use crate::stream::graph::Capture;
use crate::stream::{self, Graph};
use std::ffi::{c_int, c_ulonglong};
use std::sync::Arc;

/// What `cudaStreamGetCaptureInfo` tells; which of it a caller asks for depends on the version.
pub(crate) struct Asked<'a> {
    pub(crate) status: &'a Out<c_int>,
    pub(crate) id: &'a Out<c_ulonglong>,
    pub(crate) graph: Option<&'a Out<Handle>>,
    pub(crate) dependencies: Option<(&'a Out<Handle>, &'a Out<usize>)>,
    pub(crate) edges: Option<&'a Out<Handle>>,
}

/// `CUstreamCaptureStatus`: none, active, invalidated
pub(crate) fn status_of(graph: Option<&Graph>) -> c_int {
    graph.map_or(0, |graph| if graph.is_broken() { 2 } else { 1 })
}

pub(crate) fn info(stream: Handle, asked: &Asked<'_>) -> c_int {
    let Some(stream) = stream_of(stream) else {
        return fail(BAD_HANDLE);
    };
    let graph = stream.capture();
    // The rest is only given during a capture; there are no edges.
    asked.status.set(status_of(graph.as_deref()));
    if let Some(graph) = graph {
        asked.id.set(graph.id);
        if let Some(out) = asked.graph {
            out.set(handle(Arc::as_ptr(&graph).addr()));
        }
        if let Some((dependencies, count)) = asked.dependencies {
            dependencies.set(handle(0));
            count.set(0);
        }
        if let Some(edges) = asked.edges {
            edges.set(handle(0));
        }
    }
    OK
}

api! {
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        let graph = Graph::new(Capture { mode: driver::mode_of_capture(mode), thread: driver::this_thread() });
        stream.set_capture(Some(graph.clone()));
        // Known by its handle from now on: NCCL uses it during the capture.
        stream::graph_add(graph);
        OK
    }
    fn cudaStreamEndCapture(stream: Handle, out: Out<Handle>) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        let Some(graph) = stream.capture() else { return fail(INVALID) };
        stream::end_capture(&graph);
        if graph.is_broken() {
            out.set(handle(0));
            return fail(driver::CAPTURE_INVALIDATED);
        }
        out.set(handle(Arc::as_ptr(&graph).addr()));
        OK
    }
    fn cudaStreamIsCapturing(stream: Handle, status: Out<c_int>) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        status.set(status_of(stream.capture().as_deref()));
        OK
    }
    // This name stands for two functions: up to CUDA 12 for the one with three parameters, in CUDA 13 for the one
    // with edges. The registers of the parameters that a caller does not pass hold anything: they are only
    // looked at where they are passed.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) -> c_int {
        let all = inject::library().is_some_and(|library| library.cuda >= 13000);
        info(stream, &Asked {
            status: &status,
            id: &id,
            graph: all.then_some(&graph),
            dependencies: all.then_some((&dependencies, &count)),
            edges: all.then_some(&edges),
        })
    }
    fn cudaStreamGetCaptureInfo_v2(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                   dependencies: Out<Handle>, count: Out<usize>) -> c_int {
        info(stream, &Asked {
            status: &status,
            id: &id,
            graph: Some(&graph),
            dependencies: Some((&dependencies, &count)),
            edges: None,
        })
    }
    fn cudaStreamGetCaptureInfo_v3(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                   dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) -> c_int {
        info(stream, &Asked {
            status: &status,
            id: &id,
            graph: Some(&graph),
            dependencies: Some((&dependencies, &count)),
            edges: Some(&edges),
        })
    }
    // The order of the calls is kept, not the edges: see `stream::Graph`.
    fn cudaStreamUpdateCaptureDependencies(_stream: Handle) -> c_int { OK }
    fn cudaStreamUpdateCaptureDependencies_v2(_stream: Handle) -> c_int { OK }
}
