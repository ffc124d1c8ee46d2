//! Events.

use super::call::{Handle, Outcome, code, device, event_of, give, handle, known, runtime, stream_of, tools};
use super::launch;
use crate::settings::{self, Events};
use crate::stream::{EVENTS, Event};
use c_double::args::Out;
use c_double::count;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

fn create(out: Out<Handle>, flags: c_uint) -> Outcome {
    give(out, handle(EVENTS.add(Event::new(flags, device()))))
}

fn record(event: Handle, stream: Handle) -> Outcome {
    let (event, stream) = (event_of(event)?, stream_of(stream)?);
    event.record(&stream);
    Ok(())
}

/// The same by a tool, as strictly as a driver takes it.
fn record_strictly(event: Handle, stream: Handle) -> Outcome {
    let (own, of_stream) = (event_of(event)?, stream_of(stream)?);
    if own.device != of_stream.device {
        return Err(code::BAD_HANDLE);
    }
    if of_stream.capture().is_some() {
        count("recorded_in_capture", 1);
    }
    record(event, stream)
}

/// The event, if its state can be asked for, and whether it is done.
fn outside_capture(event: Handle) -> Result<(Arc<Event>, bool), c_int> {
    let event = event_of(event)?;
    if event.capture().is_some() {
        return Err(code::CAPTURED_EVENT);
    }
    let is_done = settings::get().events != Events::NeverDone && event.done();
    Ok((event, is_done))
}

/// Milliseconds from one event to the other: a 32-bit float, as precise as that is.
fn elapsed(start: Handle, end: Handle) -> Result<f32, c_int> {
    let ((start, is_begun), (end, is_done)) = (outside_capture(start)?, outside_capture(end)?);
    if start.is_untimed || end.is_untimed || start.device != end.device {
        return Err(code::BAD_HANDLE);
    }
    if !is_begun || !is_done {
        return Err(code::NOT_READY);
    }
    // Never recorded.
    let (from, to) = start.time().zip(end.time()).ok_or(code::BAD_HANDLE)?;
    Ok((to as i64 - from as i64) as f32 * 1e-6)
}

runtime! {
    fn cudaEventCreate(out: Out<Handle>) { create(out, 0) }
    fn cudaEventCreateWithFlags(out: Out<Handle>, flags: c_uint) { create(out, flags) }
    fn cudaEventDestroy(event: Handle) { known(EVENTS.remove(event.addr())) }
    fn cudaEventRecord(event: Handle, stream: Handle) { record(event, stream) }
    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) { record(event, stream) }
    fn cudaEventQuery(event: Handle) {
        event_of(event)?.done().then_some(()).ok_or(code::NOT_READY)
    }
    fn cudaEventSynchronize(event: Handle) {
        event_of(event)?.sync();
        launch::health()
    }
    fn cudaEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        give(milliseconds, elapsed(start, end)?)
    }
}

tools! {
    fn cuEventCreate(out: Out<Handle>, flags: c_uint) { create(out, flags) }
    fn cuEventRecord(event: Handle, stream: Handle) { record_strictly(event, stream) }
    fn cuEventQuery(event: Handle) {
        outside_capture(event)?.1.then_some(()).ok_or(code::NOT_READY)
    }
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        give(milliseconds, elapsed(start, end)?)
    }
    fn cuEventDestroy(event: Handle) { known(EVENTS.remove(event.addr())) }
    fn cuEventDestroy_v2(event: Handle) { known(EVENTS.remove(event.addr())) }
}
