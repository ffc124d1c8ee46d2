//! Stream capture.

use super::{BAD_HANDLE, Handle, INVALID, OK, api, fail, handle, stream_of};
use crate::capture::{self, Asked};
use crate::driver;
use crate::inject;
use crate::stream;
use c_double::args::Out;
use std::ffi::{c_int, c_ulonglong};
use std::sync::Arc;

fn tell(stream: Handle, asked: &Asked<'_>) -> c_int {
    let Some(stream) = stream_of(stream) else {
        return fail(BAD_HANDLE);
    };
    asked.answer(&stream);
    OK
}

api! {
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        capture::begin(&stream, mode);
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
        tell(stream, &Asked::status(&status))
    }
    // This name stands for two functions: up to CUDA 12 for the one with three parameters, in CUDA 13 for the one
    // with edges. The registers of the parameters that a caller does not pass hold anything: they are only
    // looked at where they are passed.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) -> c_int {
        let all = inject::library().is_some_and(|library| library.cuda >= 13000);
        let asked = Asked::status(&status).id(&id);
        if all {
            return tell(stream, &asked.graph(&graph, &dependencies, &count).edges(&edges));
        }
        tell(stream, &asked)
    }
    fn cudaStreamGetCaptureInfo_v2(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                   dependencies: Out<Handle>, count: Out<usize>) -> c_int {
        tell(stream, &Asked::status(&status).id(&id).graph(&graph, &dependencies, &count))
    }
    fn cudaStreamGetCaptureInfo_v3(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                   dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) -> c_int {
        tell(stream, &Asked::status(&status).id(&id).graph(&graph, &dependencies, &count).edges(&edges))
    }
    // The order of the calls is kept, not the edges: see `stream::Graph`.
    fn cudaStreamUpdateCaptureDependencies(_stream: Handle) -> c_int { OK }
    fn cudaStreamUpdateCaptureDependencies_v2(_stream: Handle) -> c_int { OK }
}
