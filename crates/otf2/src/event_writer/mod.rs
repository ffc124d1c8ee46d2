//! The events of one location.

mod messages;
mod next_attributes;
mod programs;
mod regions;
mod remote_access;

use std::ptr::NonNull;

use otf2_sys as sys;

use crate::error::{self, Result, check, check_all, refused};
use crate::handle::Handle;
use crate::{Attributes, LocationRef};

pub use messages::{Collective, Message};
pub use next_attributes::NextAttributes;
pub use remote_access::RmaAccess;

/// Writes the event file of one location. Times are in ticks of the archive's clock, and never go backwards.
///
/// Every method that writes an event returns an error when the time is smaller than that of the event before,
/// when a reference is UNDEFINED, or when libotf2 cannot write; after the last of these the file is lost and
/// every further call fails. References are not looked up: the definitions are written by somebody else,
/// later.
pub struct EventWriter<'a> {
    handle: &'a mut Handle,
    archive: *mut sys::OTF2_Archive,
    writer: Option<NonNull<sys::OTF2_EvtWriter>>,
    next: NextAttributes,
    location: LocationRef,
    last_time: u64,
    events: u64,
}

// SAFETY: `archive` and `writer` are only reachable through this value, which has the handle to
// itself, and libotf2 allows a writer to move between threads that use it one after the other.
unsafe impl Send for EventWriter<'_> {}

impl<'a> EventWriter<'a> {
    pub(crate) fn new(handle: &'a mut Handle, location: LocationRef) -> Result<Self> {
        let operation = || format!("open the event writer of {location:?}");
        if !location.is_defined() {
            return Err(refused(operation(), "the location reference is UNDEFINED"));
        }
        let archive = handle.archive()?;
        let next = NextAttributes::new().ok_or_else(|| error::null(operation()))?;
        // SAFETY: the archive is open, in write mode, and has flush callbacks.
        let writer = unsafe { sys::OTF2_Archive_GetEvtWriter(archive, location.get()) };
        let writer = NonNull::new(writer).ok_or_else(|| error::null(operation()))?;
        Ok(Self {
            handle,
            archive,
            writer: Some(writer),
            next,
            location,
            last_time: 0,
            events: 0,
        })
    }

    /// The location.
    #[must_use]
    pub fn location(&self) -> LocationRef {
        self.location
    }

    /// The attributes of the event that is written next, beside those that are given with it: it takes them, or, where it
    /// is refused, they are gone.
    #[inline]
    pub fn next_attributes(&mut self) -> &mut NextAttributes {
        &mut self.next
    }

    /// How many events were written so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Closes the event file and returns how many events are in it.
    ///
    /// # Errors
    ///
    /// When the file could not be written, now or before; then it is not to be used.
    pub fn close(mut self) -> Result<u64> {
        if let Err(error) = self.finish() {
            self.handle.note_failure();
            return Err(error);
        }
        Ok(self.events)
    }

    fn finish(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            let operation = format!("close {}", self.handle.event_file(self.location).display());
            return Err(refused(operation, "an event could not be written before"));
        };
        error::forget();
        // SAFETY: archive and writer are open, `take` makes this the writer's last use.
        let code = unsafe { sys::OTF2_Archive_CloseEvtWriter(self.archive, writer.as_ptr()) };
        let file = self.handle.event_file(self.location);
        check_all(code, || format!("close {}", file.display()))?;
        self.handle.write_full_chunk(&file, self.events)
    }

    #[inline]
    pub(super) fn event(
        &mut self,
        event: &'static str,
        time: u64,
        attributes: &Attributes,
        write: impl FnOnce(
            *mut sys::OTF2_EvtWriter,
            *mut sys::OTF2_AttributeList,
        ) -> sys::OTF2_ErrorCode,
    ) -> Result<()> {
        let written = self.write_event(event, time, attributes, write);
        if written.is_err() {
            // libotf2 leaves the attributes in the list when it fails.
            self.next.clear();
        }
        written
    }

    #[inline]
    fn write_event(
        &mut self,
        event: &'static str,
        time: u64,
        attributes: &Attributes,
        write: impl FnOnce(
            *mut sys::OTF2_EvtWriter,
            *mut sys::OTF2_AttributeList,
        ) -> sys::OTF2_ErrorCode,
    ) -> Result<()> {
        let location = self.location;
        let operation = || format!("write {event} at {time} on {location:?}");
        let Some(writer) = self.writer else {
            return Err(refused(
                operation(),
                "the event file could not be written before",
            ));
        };
        if time < self.last_time {
            let reason = format!(
                "time went backwards, the event before is at {}",
                self.last_time
            );
            return Err(refused(operation(), reason));
        }
        for &(attribute, value) in attributes.entries() {
            self.next.add(attribute, value)?;
        }
        let code = write(writer.as_ptr(), self.next.as_ptr());
        if let Err(error) = check(code, operation) {
            // All arguments were good, so the file was not: see `Handle::give_up`.
            self.writer = None;
            self.handle.give_up();
            return Err(error);
        }
        self.last_time = time;
        self.events += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn defined(
        &mut self,
        event: &'static str,
        what: &'static str,
        defined: bool,
    ) -> Result<()> {
        if defined {
            return Ok(());
        }
        self.next.clear();
        let operation = format!("write {event} on {:?}", self.location);
        Err(refused(
            operation,
            format!("the {what} reference is UNDEFINED"),
        ))
    }
}

impl Drop for EventWriter<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() && self.finish().is_err() {
            // Who wants to know why calls `close`; the archive still says that it is not whole.
            self.handle.note_failure();
        }
    }
}
