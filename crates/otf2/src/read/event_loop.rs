//! Reads local definitions first, then all events in chronological order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use otf2_sys as sys;

use super::archive::Archive;
use super::event_callbacks::{EventCallbacks, Inbox};
use super::event_file::check_event_file;
use super::reader::Reader;
use crate::error::{self, Error, Result, check, refused};
use crate::event::{Event, EventKind};
use crate::refs::LocationRef;

/// Expectations for the events of a location, so that a damaged file results in an error, not an endless loop.
struct Expected {
    events: u64,
    seen: u64,
    time: u64,
}

impl Archive {
    /// Calls `each` for every event of these locations in the order of corrected times. Returns the number of events.
    ///
    /// Clock offsets are applied, and references are global ones. Events with equal times come in the order of location
    /// ids. Needs two chunks of memory per location. Truncated files, and files whose chunk size differs from the
    /// anchor's, are an error: libotf2 would never finish reading them, or skip a part.
    pub fn for_each_event(
        &self,
        locations: &[LocationRef],
        mut each: impl FnMut(LocationRef, &Event) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut expected = self.expected(locations)?;
        // libotf2 returns no global reader if there are no locations.
        if locations.is_empty() {
            return Ok(0);
        }
        let mut reader = Reader::open(self.anchor_file())?;
        select(&mut reader, self, locations)?;
        let mut events = Events::open(&mut reader, locations)?;
        let mut total = 0;
        while let Some((location, event)) = events.next()? {
            let path = || self.event_file(location);
            let Some(expected) = expected.get_mut(&location) else {
                return Err(refused("read events", format!("{location:?} was not asked for")));
            };
            expected.seen += 1;
            if expected.seen > expected.events {
                let reason = format!("has more events than the {} it counts", expected.events);
                return Err(Error::Damaged { path: path(), reason });
            }
            if event.time < expected.time {
                return Err(Error::TimeGoesBack { path: path(), from: expected.time, to: event.time });
            }
            expected.time = event.time;
            total += 1;
            if each(location, event).is_break() {
                return Ok(total);
            }
        }
        let short = |location| expected.get(location).filter(|it| it.seen < it.events).map(|it| (location, it));
        if let Some((location, Expected { events, seen, .. })) = locations.iter().find_map(short) {
            let reason = format!("gave {seen} of the {events} events it counts");
            return Err(Error::Damaged { path: self.event_file(*location), reason });
        }
        Ok(total)
    }

    fn expected(&self, locations: &[LocationRef]) -> Result<BTreeMap<LocationRef, Expected>> {
        let mut expected = BTreeMap::new();
        for location in locations {
            let events = check_event_file(&self.event_file(*location), self.event_chunk_bytes())?;
            let of = Expected { events, seen: 0, time: 0 };
            if expected.insert(*location, of).is_some() {
                return Err(refused("read events", format!("{location:?} is asked for twice")));
            }
        }
        Ok(expected)
    }
}

/// Selects the locations and reads their mapping tables and clock offsets, if they have any.
fn select(reader: &mut Reader, archive: &Archive, locations: &[LocationRef]) -> Result<()> {
    reader.select(locations)?;
    for location in locations {
        if archive.has_local_definitions(*location)? {
            reader.read_local(*location, &archive.definition_file(*location), None)?;
        }
    }
    // SAFETY: the reader is open.
    let code = unsafe { sys::OTF2_Reader_CloseDefFiles(reader.as_ptr()) };
    check(code, || "close the local definition files".to_owned())
}

/// The events of the selected locations, one at a time.
struct Events<'a> {
    /// Frees the event readers when it is closed.
    _reader: &'a mut Reader,
    events: *mut sys::OTF2_GlobalEvtReader,
    /// libotf2 has this address. A raw pointer from `Box::into_raw`, so that no Rust reference aliases it.
    inbox: *mut Inbox,
}

impl<'a> Events<'a> {
    fn open(reader: &'a mut Reader, locations: &[LocationRef]) -> Result<Self> {
        let pointer = reader.as_ptr();
        // SAFETY: the reader is open.
        let code = unsafe { sys::OTF2_Reader_OpenEvtFiles(pointer) };
        check(code, || "open the event files".to_owned())?;
        for location in locations {
            error::forget();
            // SAFETY: the reader is open and the location is selected.
            let events = unsafe { sys::OTF2_Reader_GetEvtReader(pointer, location.get()) };
            if events.is_null() {
                return Err(error::null(format!("open the events of {location:?}")));
            }
        }
        error::forget();
        // SAFETY: the reader is open and has event readers.
        let events = unsafe { sys::OTF2_Reader_GetGlobalEvtReader(pointer) };
        if events.is_null() {
            return Err(error::null("read the first events".to_owned()));
        }
        let callbacks = EventCallbacks::new()?;
        let event = Event { time: 0, kind: EventKind::MpiCollectiveBegin, attributes: Vec::new() };
        let inbox = Inbox { location: None, event };
        let opened = Self { _reader: reader, events, inbox: Box::into_raw(Box::new(inbox)) };
        // SAFETY: both readers are open, libotf2 copies the table, and the inbox outlives the event reader's use.
        let code = unsafe {
            sys::OTF2_Reader_RegisterGlobalEvtCallbacks(pointer, events, callbacks.as_ptr(), opened.inbox.cast())
        };
        check(code, || "register the event callbacks".to_owned())?;
        Ok(opened)
    }

    /// The event is valid until the next call.
    fn next(&mut self) -> Result<Option<(LocationRef, &Event)>> {
        loop {
            let mut more = 0;
            // SAFETY: the event reader is open.
            let code = unsafe { sys::OTF2_GlobalEvtReader_HasEvent(self.events, &raw mut more) };
            check(code, || "read the next event".to_owned())?;
            if more == 0 {
                return Ok(None);
            }
            error::forget();
            // SAFETY: the event reader is open.
            let code = unsafe { sys::OTF2_GlobalEvtReader_ReadEvent(self.events) };
            check(code, || "read the next event".to_owned())?;
            // SAFETY: libotf2 has returned, so nothing else refers to the inbox; the borrow of `self` keeps libotf2
            // from running again while the event is used.
            let inbox = unsafe { &mut *self.inbox };
            // A newer libotf2 may know kinds of events that have no callback here; they are skipped.
            if let Some(location) = inbox.location.take() {
                return Ok(Some((location, &inbox.event)));
            }
        }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        // The reader is closed later and frees the event readers without calling back.
        // SAFETY: made by `Box::into_raw` in `open`, and freed only here.
        drop(unsafe { Box::from_raw(self.inbox) });
    }
}
