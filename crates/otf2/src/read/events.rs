//! Reads events in chronological order, after the local definitions: converts the arguments of libotf2's event
//! callbacks to [`Event`]s. A callback only puts the event into the [`Inbox`]. The caller's code runs after libotf2 has
//! returned, so that its panics never pass through C.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::ControlFlow;

use crate::error;
use crate::error::{Error, Result, check, refused};
use crate::event::{Collective, Event, EventKind, Message, RmaAccess};
use crate::read::archive::{Archive, Reader, array, callback_table, check_event_file};
use crate::vocabulary::{
    AttributeRef, AttributeValue, CollectiveOp, CommRef, LocationRef, MeasurementMode, MetricRef, MetricValue,
    ParameterRef, RegionRef, RmaWinRef, StringRef,
};
use otf2_sys as sys;

/// The event that libotf2 delivered last. The callbacks' user data is its address.
pub(super) struct Inbox {
    /// `None` until it is delivered.
    pub(super) location: Option<LocationRef>,
    /// The memory of its attributes serves all events.
    pub(super) event: Event,
}

callback_table!(EventCallbacks of OTF2_GlobalEvtReaderCallbacks:
    OTF2_GlobalEvtReaderCallbacks_New, OTF2_GlobalEvtReaderCallbacks_Delete);

/// Puts an event into the inbox. Inlined, so that the event is made there: a copy of what was just written stalls the
/// processor.
///
/// # Safety
///
/// The arguments come from an event callback that was registered with the address of an [`Inbox`].
#[inline(always)]
unsafe fn deliver(
    location: sys::OTF2_LocationRef,
    time: sys::OTF2_TimeStamp,
    user_data: *mut c_void,
    list: *mut sys::OTF2_AttributeList,
    kind: EventKind,
) {
    // SAFETY: `Events` registers its inbox, keeps it as long as the reader, and leaves it alone while libotf2 runs.
    let inbox = unsafe { &mut *user_data.cast::<Inbox>() };
    (inbox.location, inbox.event.time, inbox.event.kind) = (Some(LocationRef::new(location)), time, kind);
    // SAFETY: the list is alive during the callback.
    unsafe { copy(list, &mut inbox.event.attributes) };
}

/// Copies an attribute list.
///
/// # Safety
///
/// libotf2 passed the list to the callback that is running.
#[inline(never)]
unsafe fn copy(list: *mut sys::OTF2_AttributeList, to: &mut Vec<(AttributeRef, AttributeValue)>) {
    // SAFETY: the caller passes a live list; NULL counts as empty.
    let count = unsafe { sys::OTF2_AttributeList_GetNumberOfElements(list) };
    to.clear();
    for index in 0..count {
        let (mut attribute, mut value_type) = (0, 0);
        let mut value = sys::OTF2_AttributeValue { uint64: 0 };
        // SAFETY: the list is alive, the index is below its length, and the pointers refer to local variables.
        let code = unsafe {
            let (id, its_type, its_value) = (&raw mut attribute, &raw mut value_type, &raw mut value);
            sys::OTF2_AttributeList_GetAttributeByIndex(list, index, id, its_type, its_value)
        };
        if code == sys::OTF2_SUCCESS {
            to.push((AttributeRef::new(attribute), AttributeValue::from_raw(value_type, value)));
        }
    }
}

/// Registers callbacks, given their arguments and the resulting events.
macro_rules! event_callbacks {
    ($table:ident; $($set:ident($($name:tt: $argument:ty),*) => $kind:expr;)*) => {$({
        unsafe extern "C" fn callback(
            location: sys::OTF2_LocationRef,
            time: sys::OTF2_TimeStamp,
            user_data: *mut c_void,
            attributes: *mut sys::OTF2_AttributeList,
            $($name: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            let kind = $kind;
            // SAFETY: libotf2 passed these arguments to this event callback.
            unsafe { deliver(location, time, user_data, attributes, kind) };
            sys::OTF2_CALLBACK_SUCCESS
        }
        // SAFETY: the table is alive, and the callback has the type declared in the header.
        let code = unsafe { sys::$set($table, Some(callback)) };
        check(code, || "register an event callback".to_owned())?;
    })*};
}

fn collective(op: u8, comm: u32, root: u32, bytes_sent: u64, bytes_received: u64) -> Collective {
    Collective {
        op: CollectiveOp::from_raw(op),
        comm: CommRef::new(comm),
        root: (root != sys::OTF2_COLLECTIVE_ROOT_NONE).then_some(root),
        bytes_sent,
        bytes_received,
    }
}

fn message(peer: u32, comm: u32, tag: u32, bytes: u64) -> Message {
    Message { peer, comm: CommRef::new(comm), tag, bytes }
}

fn access(win: u32, remote: u32, bytes: u64, matching: u64) -> RmaAccess {
    RmaAccess { win: RmaWinRef::new(win), remote, bytes, matching }
}

impl EventCallbacks {
    pub(super) fn new() -> Result<Self> {
        let callbacks = Self::empty()?;
        register(callbacks.as_ptr())?;
        register_others(callbacks.as_ptr())?;
        Ok(callbacks)
    }
}

fn register(table: *mut sys::OTF2_GlobalEvtReaderCallbacks) -> Result<()> {
    event_callbacks! { table;
        OTF2_GlobalEvtReaderCallbacks_SetEnterCallback(region: u32)
            => EventKind::Enter(RegionRef::new(region));
        OTF2_GlobalEvtReaderCallbacks_SetLeaveCallback(region: u32)
            => EventKind::Leave(RegionRef::new(region));
        OTF2_GlobalEvtReaderCallbacks_SetMpiCollectiveBeginCallback()
            => EventKind::MpiCollectiveBegin;
        OTF2_GlobalEvtReaderCallbacks_SetMpiCollectiveEndCallback(
            op: u8, comm: u32, root: u32, sent: u64, received: u64
        ) => EventKind::MpiCollectiveEnd(collective(op, comm, root, sent, received));
        OTF2_GlobalEvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(request: u64)
            => EventKind::NonBlockingCollectiveRequest { request };
        OTF2_GlobalEvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(
            op: u8, comm: u32, root: u32, sent: u64, received: u64, request: u64
        ) => EventKind::NonBlockingCollectiveComplete { collective: collective(op, comm, root, sent, received), request };
        OTF2_GlobalEvtReaderCallbacks_SetMpiSendCallback(peer: u32, comm: u32, tag: u32, bytes: u64)
            => EventKind::MpiSend(message(peer, comm, tag, bytes));
        OTF2_GlobalEvtReaderCallbacks_SetMpiRecvCallback(peer: u32, comm: u32, tag: u32, bytes: u64)
            => EventKind::MpiRecv(message(peer, comm, tag, bytes));
        OTF2_GlobalEvtReaderCallbacks_SetMpiIsendCallback(
            peer: u32, comm: u32, tag: u32, bytes: u64, request: u64
        ) => EventKind::MpiIsend { message: message(peer, comm, tag, bytes), request };
        OTF2_GlobalEvtReaderCallbacks_SetMpiIsendCompleteCallback(request: u64)
            => EventKind::MpiIsendComplete { request };
        OTF2_GlobalEvtReaderCallbacks_SetMpiIrecvRequestCallback(request: u64)
            => EventKind::MpiIrecvRequest { request };
        OTF2_GlobalEvtReaderCallbacks_SetMpiIrecvCallback(
            peer: u32, comm: u32, tag: u32, bytes: u64, request: u64
        ) => EventKind::MpiIrecv { message: message(peer, comm, tag, bytes), request };
        OTF2_GlobalEvtReaderCallbacks_SetRmaPutCallback(win: u32, remote: u32, bytes: u64, matching: u64)
            => EventKind::RmaPut(access(win, remote, bytes, matching));
        OTF2_GlobalEvtReaderCallbacks_SetRmaGetCallback(win: u32, remote: u32, bytes: u64, matching: u64)
            => EventKind::RmaGet(access(win, remote, bytes, matching));
        OTF2_GlobalEvtReaderCallbacks_SetRmaOpCompleteBlockingCallback(win: u32, matching: u64)
            => EventKind::RmaOpCompleteBlocking { win: RmaWinRef::new(win), matching };
        OTF2_GlobalEvtReaderCallbacks_SetRmaOpCompleteNonBlockingCallback(win: u32, matching: u64)
            => EventKind::RmaOpCompleteNonBlocking { win: RmaWinRef::new(win), matching };
        OTF2_GlobalEvtReaderCallbacks_SetMetricCallback(
            metric: u32, count: u8, types: *const u8, values: *const sys::OTF2_MetricValue
        ) => {
            // SAFETY: libotf2 passes arrays of `count` elements.
            let types = unsafe { array(types, usize::from(count)) };
            // SAFETY: as above.
            let values = unsafe { array(values, usize::from(count)) };
            let values = types.into_iter().zip(values).map(|(kind, value)| MetricValue::from_raw(kind, value));
            EventKind::Metric { metric: MetricRef::new(metric), values: values.collect() }
        };
        OTF2_GlobalEvtReaderCallbacks_SetParameterStringCallback(parameter: u32, value: u32)
            => EventKind::ParameterString { parameter: ParameterRef::new(parameter), value: StringRef::new(value) };
        OTF2_GlobalEvtReaderCallbacks_SetParameterIntCallback(parameter: u32, value: i64)
            => EventKind::ParameterInt { parameter: ParameterRef::new(parameter), value };
        OTF2_GlobalEvtReaderCallbacks_SetParameterUnsignedIntCallback(parameter: u32, value: u64)
            => EventKind::ParameterUnsignedInt { parameter: ParameterRef::new(parameter), value };
        OTF2_GlobalEvtReaderCallbacks_SetMeasurementOnOffCallback(mode: u8)
            => EventKind::MeasurementOnOff(MeasurementMode::from_raw(mode));
    }
    Ok(())
}

/// The name of the event that a callback receives.
const fn name_of(set: &str) -> &str {
    let (_, name) = set.split_at("OTF2_GlobalEvtReaderCallbacks_Set".len());
    name.split_at(name.len() - "Callback".len()).0
}

/// Events of which only the name is read. Their callbacks differ only in arguments that are ignored.
macro_rules! other_events {
    ($table:ident; $($set:ident($($argument:ty),*);)*) => {
        event_callbacks! { $table; $($set($(_: $argument),*)
            => EventKind::Other(const { name_of(stringify!($set)) });)* }
    };
}

fn register_others(table: *mut sys::OTF2_GlobalEvtReaderCallbacks) -> Result<()> {
    other_events! { table;
        OTF2_GlobalEvtReaderCallbacks_SetBufferFlushCallback(u64);
        OTF2_GlobalEvtReaderCallbacks_SetMpiRequestTestCallback(u64);
        OTF2_GlobalEvtReaderCallbacks_SetMpiRequestCancelledCallback(u64);
        OTF2_GlobalEvtReaderCallbacks_SetOmpForkCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetOmpJoinCallback();
        OTF2_GlobalEvtReaderCallbacks_SetOmpAcquireLockCallback(u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetOmpReleaseLockCallback(u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetOmpTaskCreateCallback(u64);
        OTF2_GlobalEvtReaderCallbacks_SetOmpTaskSwitchCallback(u64);
        OTF2_GlobalEvtReaderCallbacks_SetOmpTaskCompleteCallback(u64);
        OTF2_GlobalEvtReaderCallbacks_SetRmaWinCreateCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetRmaWinDestroyCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetRmaCollectiveBeginCallback();
        OTF2_GlobalEvtReaderCallbacks_SetRmaCollectiveEndCallback(u8, u32, u32, u32, u64, u64);
        OTF2_GlobalEvtReaderCallbacks_SetRmaGroupSyncCallback(u32, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetRmaRequestLockCallback(u32, u32, u64, u8);
        OTF2_GlobalEvtReaderCallbacks_SetRmaAcquireLockCallback(u32, u32, u64, u8);
        OTF2_GlobalEvtReaderCallbacks_SetRmaTryLockCallback(u32, u32, u64, u8);
        OTF2_GlobalEvtReaderCallbacks_SetRmaReleaseLockCallback(u32, u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetRmaSyncCallback(u32, u32, u8);
        OTF2_GlobalEvtReaderCallbacks_SetRmaWaitChangeCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetRmaAtomicCallback(u32, u32, u8, u64, u64, u64);
        OTF2_GlobalEvtReaderCallbacks_SetRmaOpTestCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetRmaOpCompleteRemoteCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetThreadForkCallback(u8, u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadJoinCallback(u8);
        OTF2_GlobalEvtReaderCallbacks_SetThreadTeamBeginCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadTeamEndCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadAcquireLockCallback(u8, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadReleaseLockCallback(u8, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadTaskCreateCallback(u32, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadTaskSwitchCallback(u32, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadTaskCompleteCallback(u32, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetThreadCreateCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetThreadBeginCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetThreadWaitCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetThreadEndCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetCallingContextEnterCallback(u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetCallingContextLeaveCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetCallingContextSampleCallback(u32, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetIoCreateHandleCallback(u32, u8, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetIoDestroyHandleCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetIoDuplicateHandleCallback(u32, u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetIoSeekCallback(u32, i64, u8, u64);
        OTF2_GlobalEvtReaderCallbacks_SetIoChangeStatusFlagsCallback(u32, u32);
        OTF2_GlobalEvtReaderCallbacks_SetIoDeleteFileCallback(u8, u32);
        OTF2_GlobalEvtReaderCallbacks_SetIoOperationBeginCallback(u32, u8, u32, u64, u64);
        OTF2_GlobalEvtReaderCallbacks_SetIoOperationTestCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetIoOperationIssuedCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetIoOperationCompleteCallback(u32, u64, u64);
        OTF2_GlobalEvtReaderCallbacks_SetIoOperationCancelledCallback(u32, u64);
        OTF2_GlobalEvtReaderCallbacks_SetIoAcquireLockCallback(u32, u8);
        OTF2_GlobalEvtReaderCallbacks_SetIoReleaseLockCallback(u32, u8);
        OTF2_GlobalEvtReaderCallbacks_SetIoTryLockCallback(u32, u8);
        OTF2_GlobalEvtReaderCallbacks_SetProgramBeginCallback(u32, u32, *const u32);
        OTF2_GlobalEvtReaderCallbacks_SetProgramEndCallback(i64);
        OTF2_GlobalEvtReaderCallbacks_SetCommCreateCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetCommDestroyCallback(u32);
        OTF2_GlobalEvtReaderCallbacks_SetUnknownCallback();
    }
    Ok(())
}

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
        let mut reader = self.reader()?;
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
        let short = |location| {
            expected
                .get(location)
                .filter(|expected| expected.seen < expected.events)
                .map(|expected| (location, expected))
        };
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
