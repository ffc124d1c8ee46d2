//! Streams and what is known of captures, for tools. NCCL has those of the runtime.

use super::{CAPTURE_UNSUPPORTED, Handle, contexts, this_thread};
use crate::c_args::{InOut, Out};
use crate::cuda::capture::{Asked, info, status_of};
use crate::cuda::{self, BAD_HANDLE, NOT_READY, OK};
use crate::settings::choice;
use crate::stream::graph::capture_mode;
use crate::stream::{self, Graph, Stream};
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::{Arc, OnceLock};

thread_local! {
    /// What this thread said of captures of others.
    static MODE: Cell<c_int> = const { Cell::new(capture_mode::GLOBAL) };
}

/// `cuThreadExchangeStreamCaptureMode`
pub(crate) fn exchange_mode(mode: &InOut<c_int>) {
    mode.exchange(|other| MODE.replace(other));
}

/// How a capture is begun: as the program says, unless the environment knows better.
pub(crate) fn mode_of_capture(asked: c_int) -> c_int {
    static FORCED: OnceLock<Option<c_int>> = OnceLock::new();
    let forced = FORCED.get_or_init(|| {
        let words = [
            ("as-asked", None),
            ("global", Some(capture_mode::GLOBAL)),
            ("relaxed", Some(capture_mode::RELAXED)),
        ];
        choice("FAKEGPU_CAPTURE_MODE", &words).flatten()
    });
    forced.unwrap_or(asked)
}

/// A capture that forbids the calling thread a call that could wait for what is being captured.
pub(super) fn forbidding_capture() -> Option<Arc<Graph>> {
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
        with(stream, |stream| {
            status.set(status_of(stream.capture().as_deref()));
            OK
        })
    }
    fn cuStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>) -> c_int {
        info(stream, &Asked { status: &status, id: &id, graph: None, dependencies: None, edges: None })
    }
    fn cuStreamGetCaptureInfo_v2(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                 dependencies: Out<Handle>, count: Out<usize>) -> c_int {
        info(stream, &Asked {
            status: &status,
            id: &id,
            graph: Some(&graph),
            dependencies: Some((&dependencies, &count)),
            edges: None,
        })
    }
    fn cuStreamGetCaptureInfo_v3(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>,
                                 dependencies: Out<Handle>, edges: Out<Handle>, count: Out<usize>) -> c_int {
        info(stream, &Asked {
            status: &status,
            id: &id,
            graph: Some(&graph),
            dependencies: Some((&dependencies, &count)),
            edges: Some(&edges),
        })
    }
    fn cuThreadExchangeStreamCaptureMode(mode: InOut<c_int>) -> c_int {
        exchange_mode(&mode);
        OK
    }
}
