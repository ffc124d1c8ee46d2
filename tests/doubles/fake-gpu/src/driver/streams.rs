//! Streams and what is known of captures, for tools. NCCL has those of the runtime.

use super::{CAPTURE_UNSUPPORTED, Handle, contexts};
use crate::capture::{self, Asked};
use crate::cuda::{self, BAD_HANDLE, NOT_READY, OK};
use crate::stream::{self, Stream};
use c_double::args::Out;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;

fn get(stream: Handle) -> Result<Arc<Stream>, c_int> {
    stream::get(stream.addr(), cuda::device()).ok_or(BAD_HANDLE)
}

fn with(stream: Handle, action: impl FnOnce(&Arc<Stream>) -> c_int) -> c_int {
    get(stream).map_or_else(|code| code, |stream| action(&stream))
}

fn create(out: &Out<Handle>) -> c_int {
    out.set(std::ptr::without_provenance_mut(stream::create(
        cuda::device(),
    )));
    OK
}

fn destroy(stream: Handle) -> c_int {
    if stream::destroy(stream.addr()) {
        OK
    } else {
        BAD_HANDLE
    }
}

fn tell(stream: Handle, asked: &Asked<'_>) -> c_int {
    with(stream, |stream| {
        asked.answer(stream);
        OK
    })
}

super::exported! {
    fn cuStreamCreate(out: Out<Handle>, _flags: c_uint) -> c_int { create(&out) }
    fn cuStreamCreateWithPriority(out: Out<Handle>, _flags: c_uint, _priority: c_int) -> c_int { create(&out) }
    fn cuStreamDestroy(stream: Handle) -> c_int { destroy(stream) }
    fn cuStreamDestroy_v2(stream: Handle) -> c_int { destroy(stream) }
    fn cuStreamQuery(stream: Handle) -> c_int {
        with(stream, |stream| if stream.idle() { OK } else { NOT_READY })
    }
    fn cuStreamSynchronize(stream: Handle) -> c_int {
        with(stream, |stream| {
            stream.sync();
            OK
        })
    }
    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) -> c_int {
        with(stream, |stream| {
            context.set(contexts::of_device(stream.device));
            OK
        })
    }
    fn cuStreamGetId(stream: Handle, id: Out<c_ulonglong>) -> c_int {
        with(stream, |stream| {
            if stream.capture().is_some() { return CAPTURE_UNSUPPORTED }
            id.set(stream.id);
            OK
        })
    }
    fn cuStreamIsCapturing(stream: Handle, status: Out<c_int>) -> c_int {
        tell(stream, &Asked::status(&status))
    }
    fn cuStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>) -> c_int {
        tell(stream, &Asked::status(&status).id(&id))
    }
    fn cuStreamGetCaptureInfo_v2(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                 dependencies: Out<Handle>, count: Out<usize>) -> c_int {
        tell(stream, &Asked::status(&status).id(&id).graph(&graph, &dependencies, &count))
    }
    fn cuStreamGetCaptureInfo_v3(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                 dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) -> c_int {
        tell(stream, &Asked::status(&status).id(&id).graph(&graph, &dependencies, &count).edges(&edges))
    }
    fn cuThreadExchangeStreamCaptureMode(mode: Out<c_int>) -> c_int {
        capture::exchange_mode(mode);
        OK
    }
}
