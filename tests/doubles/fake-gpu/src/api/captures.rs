//! Captures of streams: how they are begun and ended, and what is known of them.

use super::call::{Handle, Outcome, code, exchange_mode, give, handle, runtime, stream_of, tools};
use crate::kernel::Library;
use crate::settings;
use crate::stream::graph::{Capture, capture_mode};
use crate::stream::{self, GRAPHS, Graph};
use c_double::args::Out;
use c_double::this_thread;
use std::ffi::{c_int, c_ulonglong};
use std::sync::Arc;

/// Where a caller wants the graph, its dependencies, their edges and their number.
type Details = (Out<Handle>, Out<Handle>, Out<Handle>, Out<usize>);

/// Gives what is known of a stream's capture. All but the status is only given during one; there are no edges.
fn give_info(
    stream: Handle,
    status: Out<c_int>,
    id: Out<c_ulonglong>,
    (graph, dependencies, edges, count): Details,
) -> Outcome {
    let capture = stream_of(stream)?.capture();
    // `CUstreamCaptureStatus`: none, active, invalidated
    status.set(capture.as_ref().map_or(0, |graph| 1 + c_int::from(graph.is_broken())));
    if let Some(capture) = capture {
        id.set(capture.id);
        graph.set(handle(Arc::as_ptr(&capture).addr()));
        dependencies.set(handle(0));
        edges.set(handle(0));
        count.set(0);
    }
    Ok(())
}

const NO_DETAILS: Details = (Out::NONE, Out::NONE, Out::NONE, Out::NONE);

runtime! {
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) {
        let stream = stream_of(stream)?;
        let mode = if settings::get().captures_globally { capture_mode::GLOBAL } else { mode };
        let graph = Graph::new(Capture { mode, thread: this_thread() });
        stream.set_capture(Some(graph.clone()));
        // Known by its handle from now on: NCCL uses it during the capture.
        GRAPHS.add(graph);
        Ok(())
    }
    fn cudaStreamEndCapture(stream: Handle, out: Out<Handle>) {
        let graph = stream_of(stream)?.capture().ok_or(code::INVALID)?;
        stream::end_capture(&graph);
        if graph.is_broken() {
            out.set(handle(0));
            return Err(code::CAPTURE_INVALIDATED);
        }
        give(out, handle(Arc::as_ptr(&graph).addr()))
    }
    fn cudaStreamIsCapturing(stream: Handle, status: Out<c_int>) {
        give_info(stream, status, Out::NONE, NO_DETAILS)
    }
    // This name stands for two functions: up to CUDA 12 for the one with three parameters, in CUDA 13 for the one
    // with edges. The registers of the parameters that a caller does not pass hold anything: they are only
    // looked at where they are passed.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) {
        let has_all = Library::current().is_some_and(|library| library.cuda >= 13000);
        let details = (graph, dependencies, edges, count);
        give_info(stream, status, id, if has_all { details } else { NO_DETAILS })
    }
    fn cudaStreamGetCaptureInfo_v2(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                   dependencies: Out<Handle>, count: Out<usize>) {
        give_info(stream, status, id, (graph, dependencies, Out::NONE, count))
    }
    fn cudaStreamGetCaptureInfo_v3(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                   dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) {
        give_info(stream, status, id, (graph, dependencies, edges, count))
    }
    // The order of the calls is kept, not the edges: see `stream::Graph`.
    fn cudaStreamUpdateCaptureDependencies(_stream: Handle) { Ok(()) }
    fn cudaStreamUpdateCaptureDependencies_v2(_stream: Handle) { Ok(()) }
    fn cudaThreadExchangeStreamCaptureMode(mode: Out<c_int>) {
        exchange_mode(mode);
        Ok(())
    }
}

tools! {
    fn cuStreamIsCapturing(stream: Handle, status: Out<c_int>) {
        give_info(stream, status, Out::NONE, NO_DETAILS)
    }
    fn cuThreadExchangeStreamCaptureMode(mode: Out<c_int>) {
        exchange_mode(mode);
        Ok(())
    }
}
