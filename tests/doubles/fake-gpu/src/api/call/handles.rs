//! What a caller's handle stands for.

use super::contexts::device;
use super::outcome::{Handle, Outcome, code};
use crate::stream::{EVENTS, Event, Stream};
use std::ffi::c_int;
use std::sync::Arc;

pub(crate) fn handle(value: usize) -> Handle {
    std::ptr::without_provenance_mut(value)
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
