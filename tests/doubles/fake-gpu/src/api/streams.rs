//! Streams.

use super::call::{Handle, Outcome, code, device, event_of, give, handle, known, runtime, stream_of, tools};
use super::launch;
use crate::stream;
use c_double::args::Out;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;

fn create(out: Out<Handle>) -> Outcome {
    give(out, handle(stream::create(device())))
}

runtime! {
    fn cudaStreamCreate(out: Out<Handle>) { create(out) }
    fn cudaStreamCreateWithFlags(out: Out<Handle>, _flags: c_uint) { create(out) }
    fn cudaStreamCreateWithPriority(out: Out<Handle>, _flags: c_uint, _priority: c_int) { create(out) }
    fn cudaStreamDestroy(stream: Handle) { known(stream::destroy(stream.addr())) }
    fn cudaStreamSynchronize(stream: Handle) {
        stream_of(stream)?.sync();
        launch::health()
    }
    fn cudaStreamQuery(stream: Handle) {
        if stream_of(stream)?.idle() { launch::health() } else { Err(code::NOT_READY) }
    }
    fn cudaStreamGetId(stream: Handle, id: Out<c_ulonglong>) { give(id, stream_of(stream)?.id) }
    fn cudaStreamGetFlags(_stream: Handle, flags: Out<c_uint>) { give(flags, 1) }
    fn cudaStreamGetPriority(_stream: Handle, priority: Out<c_int>) { give(priority, 0) }
    fn cudaStreamGetDevice(stream: Handle, out: Out<c_int>) { give(out, stream_of(stream)?.device) }
    fn cudaStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        let (stream, event) = (stream_of(stream)?, event_of(event)?);
        if let Some(graph) = event.capture() {
            // Waiting for a captured event adds the stream to the capture.
            stream.set_capture(Some(graph));
        } else if stream.capture().is_some() {
            stream.submit(Arc::new(move |_| event.sync()), false, 0);
        } else if let Some((other, mark)) = event.target()
            && !Arc::ptr_eq(&other, &stream)
            && !other.reached(mark)
        {
            stream.push(Box::new(move || other.wait(mark)));
        }
        Ok(())
    }
}

tools! {
    fn cuStreamCreate(out: Out<Handle>, _flags: c_uint) { create(out) }
    fn cuStreamDestroy(stream: Handle) { known(stream::destroy(stream.addr())) }
    fn cuStreamDestroy_v2(stream: Handle) { known(stream::destroy(stream.addr())) }
}
