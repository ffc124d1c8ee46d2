//! Events.

use super::{BAD_HANDLE, Handle, NOT_READY, OK, api, device, fail, handle, launch, stream_of};
use crate::stream;
use c_double::args::Out;
use std::ffi::{c_int, c_uint};

fn create(out: &Out<Handle>, flags: c_uint) -> c_int {
    out.set(handle(stream::event_create(flags, device())));
    OK
}

fn record(event: Handle, stream: Handle) -> c_int {
    let (Some(event), Some(stream)) = (stream::event_get(event.addr()), stream_of(stream)) else {
        return fail(BAD_HANDLE);
    };
    event.record(&stream);
    OK
}

api! {
    fn cudaEventCreate(out: Out<Handle>) -> c_int { create(&out, 0) }
    fn cudaEventCreateWithFlags(out: Out<Handle>, flags: c_uint) -> c_int { create(&out, flags) }
    fn cudaEventDestroy(event: Handle) -> c_int {
        if stream::event_destroy(event.addr()) { OK } else { fail(BAD_HANDLE) }
    }
    fn cudaEventRecord(event: Handle, stream: Handle) -> c_int { record(event, stream) }
    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) -> c_int { record(event, stream) }
    fn cudaEventQuery(event: Handle) -> c_int {
        let Some(event) = stream::event_get(event.addr()) else { return fail(BAD_HANDLE) };
        if event.done() { OK } else { NOT_READY }
    }
    fn cudaEventSynchronize(event: Handle) -> c_int {
        let Some(event) = stream::event_get(event.addr()) else { return fail(BAD_HANDLE) };
        event.sync();
        launch::health()
    }
    fn cudaEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) -> c_int {
        let (Some(start), Some(end)) = (stream::event_get(start.addr()), stream::event_get(end.addr())) else {
            return fail(BAD_HANDLE);
        };
        let (Some(from), Some(to)) = (start.time(), end.time()) else { return fail(NOT_READY) };
        milliseconds.set(to.saturating_sub(from) as f32 * 1e-6);
        OK
    }
}
