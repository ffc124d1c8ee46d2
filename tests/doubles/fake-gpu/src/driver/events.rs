//! Events, for tools. NCCL has those of the runtime.

use super::faults::{self, Events};
use super::{CAPTURE_UNSUPPORTED, CAPTURED_EVENT, Handle};
use crate::cuda::{self, BAD_HANDLE, NOT_READY, OK};
use crate::stream::{self, Event};
use c_double::args::Out;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

fn record(event: Handle, stream: Handle) -> c_int {
    let own = stream::event_get(event.addr());
    let (Some(event), Some(stream)) = (own, stream::get(stream.addr(), cuda::device())) else {
        return BAD_HANDLE;
    };
    if event.device() != stream.device {
        return BAD_HANDLE;
    }
    if let Some(capture) = stream.capture() {
        faults::count("recorded_in_capture");
        if faults::events() == Events::SpoilCaptures {
            faults::count("spoiled_captures");
            capture.spoil();
            return CAPTURE_UNSUPPORTED;
        }
    }
    event.record(&stream);
    OK
}

/// The event, if its state can be asked for.
fn outside_capture(event: Handle) -> Result<Arc<Event>, c_int> {
    let event = stream::event_get(event.addr()).ok_or(BAD_HANDLE)?;
    if event.capture().is_some() {
        Err(CAPTURED_EVENT)
    } else {
        Ok(event)
    }
}

fn is_done(event: &Event) -> bool {
    faults::events() != Events::NeverDone && event.done()
}

fn query(event: Handle) -> Result<(), c_int> {
    if is_done(&*outside_capture(event)?) {
        Ok(())
    } else {
        Err(NOT_READY)
    }
}

fn synchronize(event: Handle) -> Result<(), c_int> {
    let event = outside_capture(event)?;
    if faults::events() == Events::NeverDone {
        loop {
            std::thread::park();
        }
    }
    event.sync();
    Ok(())
}

/// Milliseconds from one event to the other: a 32-bit float, as precise as that is.
fn elapsed(start: Handle, end: Handle) -> Result<f32, c_int> {
    let (start, end) = (outside_capture(start)?, outside_capture(end)?);
    if start.is_untimed() || end.is_untimed() || start.device() != end.device() {
        return Err(BAD_HANDLE);
    }
    if !is_done(&start) || !is_done(&end) {
        return Err(NOT_READY);
    }
    // Never recorded.
    let (Some(from), Some(to)) = (start.time(), end.time()) else {
        return Err(BAD_HANDLE);
    };
    Ok((to as i64 - from as i64) as f32 * 1e-6)
}

fn code(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(OK)
}

fn give_elapsed(out: &Out<f32>, start: Handle, end: Handle) -> c_int {
    code(elapsed(start, end).map(|milliseconds| out.set(milliseconds)))
}

fn destroy(event: Handle) -> c_int {
    if stream::event_destroy(event.addr()) {
        OK
    } else {
        BAD_HANDLE
    }
}

super::exported! {
    fn cuEventCreate(out: Out<Handle>, flags: c_uint) -> c_int {
        out.set(std::ptr::without_provenance_mut(stream::event_create(flags, cuda::device())));
        OK
    }
    fn cuEventRecord(event: Handle, stream: Handle) -> c_int { record(event, stream) }
    fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) -> c_int { record(event, stream) }
    fn cuEventQuery(event: Handle) -> c_int { code(query(event)) }
    fn cuEventSynchronize(event: Handle) -> c_int { code(synchronize(event)) }
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) -> c_int {
        give_elapsed(&milliseconds, start, end)
    }
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) -> c_int {
        give_elapsed(&milliseconds, start, end)
    }
    fn cuEventDestroy(event: Handle) -> c_int { destroy(event) }
    fn cuEventDestroy_v2(event: Handle) -> c_int { destroy(event) }
}
