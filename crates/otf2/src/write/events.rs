//! The writer of one location's events, and their attributes: kept in a list, or passed to libotf2 directly.

use std::ptr;
use std::ptr::NonNull;

use crate::error;
use crate::error::{Error, Result, check, check_all, refused};
use crate::event::{Collective, Message, RmaAccess};
use crate::vocabulary::{
    AttributeRef, AttributeValue, CallingContextRef, CommRef, IoHandleRef, LocationRef, MeasurementMode, MetricRef,
    MetricValue, Paradigm, ParameterRef, RegionRef, RmaWinRef, StringRef,
};
use crate::write::handle::Handle;
use otf2_sys as sys;

/// Writes the event file of one location. Times are in ticks of the archive's clock and never decrease.
///
/// Every method that writes an event returns an error if the time is smaller than the previous event's, if a
/// reference is UNDEFINED, or if libotf2 cannot write. After the last of these errors the file is lost and all
/// further calls fail. References are not checked against definitions, which another process writes later.
pub struct EventWriter<'a> {
    handle: &'a mut Handle,
    archive: *mut sys::OTF2_Archive,
    writer: Option<NonNull<sys::OTF2_EvtWriter>>,
    next: NextAttributes,
    location: LocationRef,
    last_time: u64,
    events: u64,
}

// SAFETY: `archive` and `writer` are reachable only through this value, which borrows the handle exclusively, and
// libotf2 allows a writer to move between threads that use it one after the other.
unsafe impl Send for EventWriter<'_> {}

impl<'a> EventWriter<'a> {
    pub(super) fn new(handle: &'a mut Handle, location: LocationRef) -> Result<Self> {
        let operation = || format!("open the event writer of {location:?}");
        if !location.is_defined() {
            return Err(refused(operation(), "the location reference is UNDEFINED"));
        }
        let archive = handle.archive()?;
        let next = NextAttributes::new().ok_or_else(|| error::null(operation()))?;
        // SAFETY: the archive is open, in write mode, and has flush callbacks.
        let writer = unsafe { sys::OTF2_Archive_GetEvtWriter(archive, location.get()) };
        let writer = NonNull::new(writer).ok_or_else(|| error::null(operation()))?;
        Ok(Self { handle, archive, writer: Some(writer), next, location, last_time: 0, events: 0 })
    }

    /// The location whose events are written.
    pub fn location(&self) -> LocationRef {
        self.location
    }

    /// More attributes for the next event than those passed with it. The event consumes them, even if it is refused.
    #[inline]
    pub fn next_attributes(&mut self) -> &mut NextAttributes {
        &mut self.next
    }

    /// Number of events written so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Closes the event file and returns its number of events.
    /// After an error the file must not be used.
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
    fn event(
        &mut self,
        event: &'static str,
        time: u64,
        attributes: &Attributes,
        write: impl FnOnce(*mut sys::OTF2_EvtWriter, *mut sys::OTF2_AttributeList) -> sys::OTF2_ErrorCode,
    ) -> Result<()> {
        let written = self.write_event(event, time, attributes, write);
        if written.is_err() {
            // libotf2 leaves the attributes in the list if it fails.
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
        write: impl FnOnce(*mut sys::OTF2_EvtWriter, *mut sys::OTF2_AttributeList) -> sys::OTF2_ErrorCode,
    ) -> Result<()> {
        let location = self.location;
        let operation = || format!("write {} at {time} on {location:?}", name_of(event));
        let Some(writer) = self.writer else {
            return Err(refused(operation(), "the event file could not be written before"));
        };
        if time < self.last_time {
            let reason = format!("time went backwards, the event before is at {}", self.last_time);
            return Err(refused(operation(), reason));
        }
        for &(attribute, value) in attributes.entries() {
            self.next.add(attribute, value)?;
        }
        let code = write(writer.as_ptr(), self.next.as_ptr());
        if let Err(error) = check(code, operation) {
            // The arguments were valid, so the file must be the reason: see `Handle::give_up`.
            self.writer = None;
            self.handle.give_up();
            return Err(error);
        }
        self.last_time = time;
        self.events += 1;
        Ok(())
    }

    #[inline]
    fn defined(&mut self, event: &'static str, what: &'static str, defined: bool) -> Result<()> {
        if defined {
            return Ok(());
        }
        self.next.clear();
        let operation = format!("write {} on {:?}", name_of(event), self.location);
        Err(refused(operation, format!("the {what} reference is UNDEFINED")))
    }
}

impl Drop for EventWriter<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() && self.finish().is_err() {
            // A caller that needs the error calls `close`; the archive is still marked as incomplete.
            self.handle.note_failure();
        }
    }
}

/// The name of the event that a libotf2 function writes.
fn name_of(function: &str) -> &str {
    function.trim_start_matches("OTF2_EvtWriter_")
}

/// Defines one function per kind of event: its arguments, which of these are references, and libotf2's arguments.
macro_rules! events {
    ($($(#[$doc:meta])* $method:ident($($argument:ident: $type:ty),*)
        $(refers to $(($what:literal: $reference:expr))+)? = $function:ident($($raw:expr),*);)*) => {
        impl EventWriter<'_> {$(
            $(#[$doc])*
            pub fn $method(&mut self, time: u64, $($argument: $type,)* attributes: &Attributes) -> Result<()> {
                const EVENT: &str = stringify!($function);
                $($(self.defined(EVENT, $what, $reference.is_defined())?;)+)?
                self.event(EVENT, time, attributes, |writer, list| {
                    // SAFETY: `event` passes its live writer and list; the rest are numbers, or NULL for an empty list.
                    unsafe { sys::$function(writer, list, time, $($raw),*) }
                })
            }
        )*}
    };
}

const NO_ROOT: u32 = sys::OTF2_COLLECTIVE_ROOT_NONE;

events! {
    /// A region is entered.
    enter(region: RegionRef) refers to ("region": region) = OTF2_EvtWriter_Enter(region.get());
    /// A region is left.
    leave(region: RegionRef) refers to ("region": region) = OTF2_EvtWriter_Leave(region.get());
    /// Recording stops or continues.
    measurement_on_off(mode: MeasurementMode) = OTF2_EvtWriter_MeasurementOnOff(mode.raw());
    /// A string parameter of the region that was entered last.
    parameter_string(parameter: ParameterRef, value: StringRef) refers to ("parameter": parameter) ("string": value)
        = OTF2_EvtWriter_ParameterString(parameter.get(), value.get());
    /// A signed parameter of the region that was entered last.
    parameter_i64(parameter: ParameterRef, value: i64) refers to ("parameter": parameter)
        = OTF2_EvtWriter_ParameterInt(parameter.get(), value);
    /// An unsigned parameter of the region that was entered last.
    parameter_u64(parameter: ParameterRef, value: u64) refers to ("parameter": parameter)
        = OTF2_EvtWriter_ParameterUnsignedInt(parameter.get(), value);

    /// A collective operation begins on this member of a communicator.
    mpi_collective_begin() = OTF2_EvtWriter_MpiCollectiveBegin();
    /// A collective operation ends on this member of a communicator.
    mpi_collective_end(collective: &Collective) refers to ("communicator": collective.comm)
        = OTF2_EvtWriter_MpiCollectiveEnd(
            collective.op.raw(), collective.comm.get(), collective.root.unwrap_or(NO_ROOT), collective.bytes_sent, collective.bytes_received);
    /// A collective operation is requested; it completes later, with the same request id.
    non_blocking_collective_request(request: u64) = OTF2_EvtWriter_NonBlockingCollectiveRequest(request);
    /// A requested collective operation has completed.
    non_blocking_collective_complete(collective: &Collective, request: u64) refers to ("communicator": collective.comm)
        = OTF2_EvtWriter_NonBlockingCollectiveComplete(
            collective.op.raw(), collective.comm.get(), collective.root.unwrap_or(NO_ROOT), collective.bytes_sent, collective.bytes_received, request);
    /// A blocking send.
    mpi_send(message: &Message) refers to ("communicator": message.comm)
        = OTF2_EvtWriter_MpiSend(message.peer, message.comm.get(), message.tag, message.bytes);
    /// A blocking receive.
    mpi_recv(message: &Message) refers to ("communicator": message.comm)
        = OTF2_EvtWriter_MpiRecv(message.peer, message.comm.get(), message.tag, message.bytes);
    /// A send begins; it completes later, with the same request id.
    mpi_isend(message: &Message, request: u64) refers to ("communicator": message.comm)
        = OTF2_EvtWriter_MpiIsend(message.peer, message.comm.get(), message.tag, message.bytes, request);
    /// A send has completed.
    mpi_isend_complete(request: u64) = OTF2_EvtWriter_MpiIsendComplete(request);
    /// A receive begins; it completes later, with the same request id.
    mpi_irecv_request(request: u64) = OTF2_EvtWriter_MpiIrecvRequest(request);
    /// A receive has completed.
    mpi_irecv(message: &Message, request: u64) refers to ("communicator": message.comm)
        = OTF2_EvtWriter_MpiIrecv(message.peer, message.comm.get(), message.tag, message.bytes, request);

    /// A window is created.
    rma_win_create(win: RmaWinRef) refers to ("window": win) = OTF2_EvtWriter_RmaWinCreate(win.get());
    /// A window is destroyed.
    rma_win_destroy(win: RmaWinRef) refers to ("window": win) = OTF2_EvtWriter_RmaWinDestroy(win.get());
    /// Data is put into a remote member's window; completes with the same matching id.
    rma_put(access: &RmaAccess) refers to ("window": access.win)
        = OTF2_EvtWriter_RmaPut(access.win.get(), access.remote, access.bytes, access.matching);
    /// Data is got from a remote member's window; completes with the same matching id.
    rma_get(access: &RmaAccess) refers to ("window": access.win)
        = OTF2_EvtWriter_RmaGet(access.win.get(), access.remote, access.bytes, access.matching);
    /// A put or get has completed, and its caller waited for it.
    rma_op_complete_blocking(win: RmaWinRef, matching: u64) refers to ("window": win)
        = OTF2_EvtWriter_RmaOpCompleteBlocking(win.get(), matching);
    /// A put or get has completed while its caller did something else.
    rma_op_complete_non_blocking(win: RmaWinRef, matching: u64) refers to ("window": win)
        = OTF2_EvtWriter_RmaOpCompleteNonBlocking(win.get(), matching);

    /// A thread forks: it asks for this number of threads, itself included.
    thread_fork(model: Paradigm, threads: u32) = OTF2_EvtWriter_ThreadFork(model.raw(), threads);
    /// The threads of the last fork have joined.
    thread_join(model: Paradigm) = OTF2_EvtWriter_ThreadJoin(model.raw());
    /// A thread becomes a member of a team, which is a communicator.
    thread_team_begin(team: CommRef) refers to ("communicator": team) = OTF2_EvtWriter_ThreadTeamBegin(team.get());
    /// A thread leaves a team.
    thread_team_end(team: CommRef) refers to ("communicator": team) = OTF2_EvtWriter_ThreadTeamEnd(team.get());
    /// The recorder wrote its buffer to the disk until `stop`: times meanwhile are its own, not the program's.
    buffer_flush(stop: u64) = OTF2_EvtWriter_BufferFlush(stop);

    /// A program begins.
    program_begin(name: StringRef) refers to ("string": name)
        = OTF2_EvtWriter_ProgramBegin(name.get(), 0, ptr::null());
    /// A program ends.
    program_end(exit_status: i64) = OTF2_EvtWriter_ProgramEnd(exit_status);
    /// A calling context is entered, `unwind_distance` levels above the last one.
    calling_context_enter(context: CallingContextRef, unwind_distance: u32) refers to ("calling context": context)
        = OTF2_EvtWriter_CallingContextEnter(context.get(), unwind_distance);
    /// A calling context is left.
    calling_context_leave(context: CallingContextRef) refers to ("calling context": context)
        = OTF2_EvtWriter_CallingContextLeave(context.get());
    /// A file is opened. `flags` are access mode, creation flags and status flags, as OTF2's numbers.
    io_create_handle(file: IoHandleRef, flags: (u8, u32, u32)) refers to ("file": file)
        = OTF2_EvtWriter_IoCreateHandle(file.get(), flags.0, flags.1, flags.2);
    /// A file is closed.
    io_destroy_handle(file: IoHandleRef) refers to ("file": file) = OTF2_EvtWriter_IoDestroyHandle(file.get());
    /// A read (mode 0), write (1) or flush (2) begins, with its number of bytes and the matching id of its completion.
    io_operation_begin(file: IoHandleRef, mode: u8, bytes_and_id: (u64, u64)) refers to ("file": file)
        = OTF2_EvtWriter_IoOperationBegin(file.get(), mode, 0, bytes_and_id.0, bytes_and_id.1);
    /// A read, write or flush has completed.
    io_operation_complete(file: IoHandleRef, bytes_and_id: (u64, u64)) refers to ("file": file)
        = OTF2_EvtWriter_IoOperationComplete(file.get(), bytes_and_id.0, bytes_and_id.1);
}

impl EventWriter<'_> {
    /// The values of a metric class, at most 255, in the order of its members and with their types.
    pub fn metric(
        &mut self,
        time: u64,
        metric: MetricRef,
        values: &[MetricValue],
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("Metric", "metric", metric.is_defined())?;
        let Ok(count) = u8::try_from(values.len()) else {
            let operation = format!("write Metric at {time} on {:?}", self.location);
            return Err(refused(operation, "a metric event has at most 255 values"));
        };
        // A single value is the common case and needs no allocation.
        let one;
        let many: (Vec<_>, Vec<_>);
        let (types, raw_values): (*const _, *const _) = match values {
            [] => (ptr::null(), ptr::null()),
            [value] => {
                one = (value.raw_type(), value.to_raw());
                (&raw const one.0, &raw const one.1)
            }
            _ => {
                many = values.iter().map(|value| (value.raw_type(), value.to_raw())).unzip();
                (many.0.as_ptr(), many.1.as_ptr())
            }
        };
        let metric = metric.get();
        self.event("Metric", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list; both arrays have `count` elements.
            unsafe { sys::OTF2_EvtWriter_Metric(writer, list, time, metric, count, types, raw_values) }
        })
    }
}

/// Attributes for an event: a reusable list. Each attribute has one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    entries: Vec<(AttributeRef, AttributeValue)>,
    /// Bit n: attribute n has a value. Higher numbers are searched for in `entries`.
    has: u128,
}

impl Attributes {
    /// No attributes.
    pub const NONE: &'static Self = &Self::new();

    /// An empty list.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), has: 0 }
    }

    /// Clears the list but keeps its memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.has = 0;
    }

    /// The attributes in the order in which they were added.
    pub fn entries(&self) -> &[(AttributeRef, AttributeValue)] {
        &self.entries
    }

    /// Adds a value; an error if the attribute already has one.
    #[inline]
    pub fn add(&mut self, attribute: AttributeRef, value: AttributeValue) -> Result<()> {
        let bit = 1_u128.checked_shl(attribute.get()).unwrap_or(0);
        if self.has & bit != 0 || bit == 0 && !self.is_free(attribute) {
            return Err(cannot_be_added(attribute));
        }
        self.has |= bit;
        self.entries.push((attribute, value));
        Ok(())
    }

    /// Whether an attribute without a bit in `has` can be added.
    fn is_free(&self, attribute: AttributeRef) -> bool {
        let mut listed = self.entries.iter().map(|(listed, _)| *listed);
        attribute.is_defined() && !listed.any(|listed| listed == attribute)
    }
}

#[cold]
fn cannot_be_added(attribute: AttributeRef) -> Error {
    let reason = if attribute.is_defined() {
        format!("{attribute:?} already has a value")
    } else {
        "the attribute reference is UNDEFINED".to_owned()
    };
    refused("add an attribute", reason)
}

impl<const N: usize> TryFrom<[(AttributeRef, AttributeValue); N]> for Attributes {
    type Error = Error;

    fn try_from(entries: [(AttributeRef, AttributeValue); N]) -> Result<Self> {
        let mut attributes = Self::new();
        for (attribute, value) in entries {
            attributes.add(attribute, value)?;
        }
        Ok(attributes)
    }
}

/// Attributes for a writer's next event, which consumes them. The faster way for attributes that are added one by one;
/// [`Attributes`] suit attributes that several events have in common.
#[derive(Debug)]
pub struct NextAttributes {
    list: NonNull<sys::OTF2_AttributeList>,
}

// SAFETY: the list is reachable only through this value, and libotf2 keeps none of it elsewhere.
unsafe impl Send for NextAttributes {}

impl NextAttributes {
    /// `None` if there is no memory.
    pub(super) fn new() -> Option<Self> {
        error::forget();
        // SAFETY: takes no arguments, returns a list or NULL.
        let list = unsafe { sys::OTF2_AttributeList_New() };
        Some(Self { list: NonNull::new(list)? })
    }

    /// Adds a value; an attribute has one.
    // Callers know the type of the value, so inlining removes the conversion's branches.
    #[inline(always)]
    pub fn add(&mut self, attribute: AttributeRef, value: AttributeValue) -> Result<()> {
        if !attribute.is_defined() {
            return Err(refused("add an attribute", "the reference is UNDEFINED"));
        }
        let attribute_type = value.attribute_type().raw();
        self.add_raw(attribute.get(), attribute_type, value.to_raw())
    }

    fn add_raw(
        &mut self,
        attribute: sys::OTF2_AttributeRef,
        attribute_type: sys::OTF2_Type,
        value: sys::OTF2_AttributeValue,
    ) -> Result<()> {
        let list = self.list.as_ptr();
        // SAFETY: the list is alive and nothing else uses it; `add` passes a value with its type.
        let code = unsafe { sys::OTF2_AttributeList_AddAttribute(list, attribute, attribute_type, value) };
        check(code, || format!("add attribute {attribute}"))
    }

    /// The list for libotf2, which clears it after writing an event.
    pub(super) fn as_ptr(&mut self) -> *mut sys::OTF2_AttributeList {
        self.list.as_ptr()
    }

    pub(super) fn clear(&mut self) {
        // SAFETY: the list is alive and nothing else uses it.
        unsafe { sys::OTF2_AttributeList_RemoveAllAttributes(self.list.as_ptr()) };
    }
}

impl Drop for NextAttributes {
    fn drop(&mut self) {
        // SAFETY: made in `new` and used only by this value.
        unsafe { sys::OTF2_AttributeList_Delete(self.list.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_value() {
        // Numbers with a bit in `has`, and larger ones.
        for attribute in [1, 127, 128, 1 << 20].map(AttributeRef::new) {
            let mut attributes = Attributes::new();
            attributes.add(attribute, AttributeValue::U64(1)).expect("the first value is accepted");
            attributes.add(attribute, AttributeValue::U8(2)).expect_err("the second value is refused");
            attributes.add(AttributeRef::UNDEFINED, AttributeValue::U8(2)).expect_err("undefined");
            assert_eq!(attributes.entries(), [(attribute, AttributeValue::U64(1))]);
            attributes.clear();
            attributes.add(attribute, AttributeValue::U8(2)).expect("an empty list has no value");
        }
    }
}
