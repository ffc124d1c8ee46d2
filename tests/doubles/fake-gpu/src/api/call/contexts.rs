//! Which devices there are, which one is the calling thread's, contexts, one per device, and what a caller's handle
//! stands for.

use super::outcome::{Handle, Outcome, code};
use crate::settings;
use crate::stream::{EVENTS, Event, Stream};
use c_double::args::Out;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;

pub(crate) const DEVICES: c_int = 8;

pub(crate) fn existing(device: c_int) -> Result<c_int, c_int> {
    let exists = (0..DEVICES).contains(&device);
    exists.then_some(device).ok_or(code::BAD_DEVICE)
}

thread_local! {
    /// Of the calling thread; none was chosen as long as it is the first by default.
    static DEVICE: Cell<Option<c_int>> = const { Cell::new(None) };
    /// The contexts that were this thread's before something was pushed.
    static BELOW: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn device() -> c_int {
    DEVICE.get().unwrap_or(0)
}

pub(crate) fn set_device(device: c_int) -> Outcome {
    DEVICE.set(Some(existing(device)?));
    Ok(())
}

/// Handles of the contexts, one per device, start here.
const FIRST_CONTEXT: usize = 0x1000;

pub(crate) fn context_of(device: c_int) -> Handle {
    without_provenance_mut(FIRST_CONTEXT + device as usize)
}

/// The calling thread has no context: it has one only once it was given one, as with a real driver, if the environment
/// asks for that. Else all have the first device's.
pub(crate) fn has_no_context() -> bool {
    settings::get().has_own_contexts && DEVICE.get().is_none()
}

pub(crate) fn current() -> Handle {
    if has_no_context() { null_mut() } else { context_of(device()) }
}

pub(crate) fn set_context(context: Handle) -> Outcome {
    if context.is_null() {
        DEVICE.set(None);
        return Ok(());
    }
    let device = context.addr().checked_sub(FIRST_CONTEXT).ok_or(code::INVALID_CONTEXT)?;
    set_device(device as c_int).map_err(|_| code::INVALID_CONTEXT)
}

pub(crate) fn push(context: Handle) -> Outcome {
    let before = current();
    set_context(context)?;
    BELOW.with_borrow_mut(|below| below.push(before));
    Ok(())
}

pub(crate) fn pop(out: Out<Handle>) -> Outcome {
    let before = BELOW.with_borrow_mut(Vec::pop).ok_or(code::INVALID_CONTEXT)?;
    out.set(current());
    set_context(before)
}

pub(crate) fn handle(value: usize) -> Handle {
    without_provenance_mut(value)
}

pub(crate) fn stream_of(stream: Handle) -> Result<Arc<Stream>, c_int> {
    crate::stream::get(stream.addr(), device()).ok_or(code::BAD_HANDLE)
}

pub(crate) fn event_of(event: Handle) -> Result<Arc<Event>, c_int> {
    EVENTS.get(event.addr()).ok_or(code::BAD_HANDLE)
}

pub(crate) fn known(was_known: bool) -> Outcome {
    was_known.then_some(()).ok_or(code::BAD_HANDLE)
}
