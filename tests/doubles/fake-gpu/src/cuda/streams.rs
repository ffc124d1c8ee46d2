//! Streams.

use super::{BAD_HANDLE, Handle, NOT_READY, OK, api, device, fail, handle, launch, stream_of};
use crate::stream;
use c_double::args::Out;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;

fn create(out: &Out<Handle>) -> c_int {
    out.set(handle(stream::create(device())));
    OK
}

api! {
    fn cudaStreamCreate(out: Out<Handle>) -> c_int { create(&out) }
    fn cudaStreamCreateWithFlags(out: Out<Handle>, _flags: c_uint) -> c_int { create(&out) }
    fn cudaStreamCreateWithPriority(out: Out<Handle>, _flags: c_uint, _priority: c_int) -> c_int { create(&out) }
    fn cudaStreamDestroy(stream: Handle) -> c_int {
        if stream::destroy(stream.addr()) { OK } else { fail(BAD_HANDLE) }
    }
    fn cudaStreamSynchronize(stream: Handle) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        stream.sync();
        launch::health()
    }
    fn cudaStreamQuery(stream: Handle) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        if stream.idle() { launch::health() } else { NOT_READY }
    }
    fn cudaStreamGetId(stream: Handle, id: Out<c_ulonglong>) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        id.set(stream.id);
        OK
    }
    fn cudaStreamGetFlags(_stream: Handle, flags: Out<c_uint>) -> c_int {
        flags.set(1);
        OK
    }
    fn cudaStreamGetPriority(_stream: Handle, priority: Out<c_int>) -> c_int {
        priority.set(0);
        OK
    }
    fn cudaStreamGetDevice(stream: Handle, out: Out<c_int>) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        out.set(stream.device);
        OK
    }
    fn cudaStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        let Some(event) = stream::event_get(event.addr()) else { return fail(BAD_HANDLE) };
        if let Some(graph) = event.capture() {
            // Waiting for a captured event draws the stream into the capture.
            stream.set_capture(Some(graph));
            return OK;
        }
        if stream.capture().is_some() {
            stream.submit(Arc::new(move |_| event.sync()), false);
            return OK;
        }
        if let Some((other, mark)) = event.target()
            && !Arc::ptr_eq(&other, &stream)
            && !other.reached(mark)
        {
            stream.push(Box::new(move || other.wait(mark)));
        }
        OK
    }
}
