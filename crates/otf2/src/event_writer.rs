//! The events of one location.

use std::ptr::{self, NonNull};

use otf2_sys as sys;

use crate::error::{self, Result, check, check_all, refused};
use crate::handle::Handle;
use crate::{
    Attributes, CollectiveOp, CommRef, LocationRef, MeasurementMode, MetricRef, MetricValue,
    ParameterRef, RegionRef, RmaWinRef, StringRef,
};

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
    list: NonNull<sys::OTF2_AttributeList>,
    location: LocationRef,
    last_time: u64,
    events: u64,
}

// SAFETY: `archive`, `writer` and `list` are only reachable through this value, which has the handle to
// itself, and libotf2 allows a writer to move between threads that use it one after the other.
unsafe impl Send for EventWriter<'_> {}

impl<'a> EventWriter<'a> {
    pub(crate) fn new(handle: &'a mut Handle, location: LocationRef) -> Result<Self> {
        let operation = || format!("open the event writer of {location:?}");
        if !location.is_defined() {
            return Err(refused(operation(), "the location reference is UNDEFINED"));
        }
        let archive = handle.archive()?;
        error::forget();
        // SAFETY: takes nothing, returns a list or NULL.
        let list = unsafe { sys::OTF2_AttributeList_New() };
        let list = NonNull::new(list).ok_or_else(|| error::null(operation()))?;
        // SAFETY: the archive is open, in write mode, and has flush callbacks.
        let writer = unsafe { sys::OTF2_Archive_GetEvtWriter(archive, location.get()) };
        let Some(writer) = NonNull::new(writer) else {
            let error = error::null(operation());
            // SAFETY: made above and used by nobody.
            unsafe { sys::OTF2_AttributeList_Delete(list.as_ptr()) };
            return Err(error);
        };
        Ok(Self {
            handle,
            archive,
            writer: Some(writer),
            list,
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

    fn event(
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
        for (attribute, value) in attributes.entries() {
            // SAFETY: the list is alive and nobody else uses it; the value has the type that goes with it.
            let code = unsafe {
                sys::OTF2_AttributeList_AddAttribute(
                    self.list.as_ptr(),
                    attribute.get(),
                    value.attribute_type().raw(),
                    value.to_raw(),
                )
            };
            if let Err(error) = check(code, operation) {
                self.empty_list();
                return Err(error);
            }
        }
        let code = write(writer.as_ptr(), self.list.as_ptr());
        if let Err(error) = check(code, operation) {
            // libotf2 leaves the attributes in the list when it fails.
            self.empty_list();
            // All arguments were good, so the file was not: see `Handle::give_up`.
            self.writer = None;
            self.handle.give_up();
            return Err(error);
        }
        self.last_time = time;
        self.events += 1;
        Ok(())
    }

    fn empty_list(&mut self) {
        // SAFETY: the list is alive and nobody else uses it.
        unsafe { sys::OTF2_AttributeList_RemoveAllAttributes(self.list.as_ptr()) };
    }

    fn defined(&self, event: &'static str, what: &'static str, defined: bool) -> Result<()> {
        if defined {
            return Ok(());
        }
        let operation = format!("write {event} on {:?}", self.location);
        Err(refused(
            operation,
            format!("the {what} reference is UNDEFINED"),
        ))
    }

    /// A region is entered.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn enter(&mut self, time: u64, region: RegionRef, attributes: &Attributes) -> Result<()> {
        self.defined("Enter", "region", region.is_defined())?;
        self.event("Enter", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_Enter(writer, list, time, region.get()) }
        })
    }

    /// A region is left.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn leave(&mut self, time: u64, region: RegionRef, attributes: &Attributes) -> Result<()> {
        self.defined("Leave", "region", region.is_defined())?;
        self.event("Leave", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_Leave(writer, list, time, region.get()) }
        })
    }

    /// A collective operation begins on this member of a communicator.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn mpi_collective_begin(&mut self, time: u64, attributes: &Attributes) -> Result<()> {
        self.event("MpiCollectiveBegin", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_MpiCollectiveBegin(writer, list, time) }
        })
    }

    /// A collective operation ends on this member of a communicator.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn mpi_collective_end(
        &mut self,
        time: u64,
        collective: &Collective,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined(
            "MpiCollectiveEnd",
            "communicator",
            collective.comm.is_defined(),
        )?;
        self.event("MpiCollectiveEnd", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_MpiCollectiveEnd(
                    writer,
                    list,
                    time,
                    collective.op.raw(),
                    collective.comm.get(),
                    collective.root.unwrap_or(sys::OTF2_COLLECTIVE_ROOT_NONE),
                    collective.bytes_sent,
                    collective.bytes_received,
                )
            }
        })
    }

    /// A collective operation is requested; it completes later, under the same request id.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn non_blocking_collective_request(
        &mut self,
        time: u64,
        request: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.event(
            "NonBlockingCollectiveRequest",
            time,
            attributes,
            |writer, list| {
                // SAFETY: `event` passes its live writer and list.
                unsafe {
                    sys::OTF2_EvtWriter_NonBlockingCollectiveRequest(writer, list, time, request)
                }
            },
        )
    }

    /// A requested collective operation has completed.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn non_blocking_collective_complete(
        &mut self,
        time: u64,
        collective: &Collective,
        request: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined(
            "NonBlockingCollectiveComplete",
            "communicator",
            collective.comm.is_defined(),
        )?;
        self.event(
            "NonBlockingCollectiveComplete",
            time,
            attributes,
            |writer, list| {
                // SAFETY: `event` passes its live writer and list.
                unsafe {
                    sys::OTF2_EvtWriter_NonBlockingCollectiveComplete(
                        writer,
                        list,
                        time,
                        collective.op.raw(),
                        collective.comm.get(),
                        collective.root.unwrap_or(sys::OTF2_COLLECTIVE_ROOT_NONE),
                        collective.bytes_sent,
                        collective.bytes_received,
                        request,
                    )
                }
            },
        )
    }

    /// A send begins; it completes later, under the same request id.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn mpi_isend(
        &mut self,
        time: u64,
        message: &Message,
        request: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("MpiIsend", "communicator", message.comm.is_defined())?;
        self.event("MpiIsend", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_MpiIsend(
                    writer,
                    list,
                    time,
                    message.peer,
                    message.comm.get(),
                    message.tag,
                    message.bytes,
                    request,
                )
            }
        })
    }

    /// A send has completed.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn mpi_isend_complete(
        &mut self,
        time: u64,
        request: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.event("MpiIsendComplete", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_MpiIsendComplete(writer, list, time, request) }
        })
    }

    /// A receive begins; it completes later, under the same request id.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn mpi_irecv_request(
        &mut self,
        time: u64,
        request: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.event("MpiIrecvRequest", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_MpiIrecvRequest(writer, list, time, request) }
        })
    }

    /// A receive has completed.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn mpi_irecv(
        &mut self,
        time: u64,
        message: &Message,
        request: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("MpiIrecv", "communicator", message.comm.is_defined())?;
        self.event("MpiIrecv", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_MpiIrecv(
                    writer,
                    list,
                    time,
                    message.peer,
                    message.comm.get(),
                    message.tag,
                    message.bytes,
                    request,
                )
            }
        })
    }

    /// Data is put into a window of a remote member; completes under the same matching id.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn rma_put(
        &mut self,
        time: u64,
        access: &RmaAccess,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("RmaPut", "window", access.win.is_defined())?;
        self.event("RmaPut", time, attributes, |writer, list| {
            let RmaAccess {
                win,
                remote,
                bytes,
                matching,
            } = *access;
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_RmaPut(writer, list, time, win.get(), remote, bytes, matching)
            }
        })
    }

    /// Data is got from a window of a remote member; completes under the same matching id.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn rma_get(
        &mut self,
        time: u64,
        access: &RmaAccess,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("RmaGet", "window", access.win.is_defined())?;
        self.event("RmaGet", time, attributes, |writer, list| {
            let RmaAccess {
                win,
                remote,
                bytes,
                matching,
            } = *access;
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_RmaGet(writer, list, time, win.get(), remote, bytes, matching)
            }
        })
    }

    /// A put or get has completed, and its caller waited for it.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn rma_op_complete_blocking(
        &mut self,
        time: u64,
        win: RmaWinRef,
        matching: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("RmaOpCompleteBlocking", "window", win.is_defined())?;
        self.event("RmaOpCompleteBlocking", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_RmaOpCompleteBlocking(writer, list, time, win.get(), matching)
            }
        })
    }

    /// A put or get has completed while its caller did something else.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn rma_op_complete_non_blocking(
        &mut self,
        time: u64,
        win: RmaWinRef,
        matching: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("RmaOpCompleteNonBlocking", "window", win.is_defined())?;
        self.event(
            "RmaOpCompleteNonBlocking",
            time,
            attributes,
            |writer, list| {
                // SAFETY: `event` passes its live writer and list.
                unsafe {
                    sys::OTF2_EvtWriter_RmaOpCompleteNonBlocking(
                        writer,
                        list,
                        time,
                        win.get(),
                        matching,
                    )
                }
            },
        )
    }

    /// The values of a metric class, in the order of its members and of their types.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`]; also when there are more than 255 values.
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
        // One value is the common case and needs no memory.
        let one;
        let many: (Vec<_>, Vec<_>);
        let (types, raw_values): (*const _, *const _) = match values {
            [] => (ptr::null(), ptr::null()),
            [value] => {
                one = (value.raw_type(), value.to_raw());
                (&raw const one.0, &raw const one.1)
            }
            _ => {
                many = values
                    .iter()
                    .map(|value| (value.raw_type(), value.to_raw()))
                    .unzip();
                (many.0.as_ptr(), many.1.as_ptr())
            }
        };
        self.event("Metric", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list; both arrays have `count` elements.
            unsafe {
                sys::OTF2_EvtWriter_Metric(
                    writer,
                    list,
                    time,
                    metric.get(),
                    count,
                    types,
                    raw_values,
                )
            }
        })
    }

    /// Recording stops, or goes on.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn measurement_on_off(
        &mut self,
        time: u64,
        mode: MeasurementMode,
        attributes: &Attributes,
    ) -> Result<()> {
        self.event("MeasurementOnOff", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_MeasurementOnOff(writer, list, time, mode.raw()) }
        })
    }

    /// A string parameter of the region entered last.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn parameter_string(
        &mut self,
        time: u64,
        parameter: ParameterRef,
        value: StringRef,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ParameterString", "parameter", parameter.is_defined())?;
        self.defined("ParameterString", "string", value.is_defined())?;
        self.event("ParameterString", time, attributes, |writer, list| {
            let (parameter, value) = (parameter.get(), value.get());
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_ParameterString(writer, list, time, parameter, value) }
        })
    }

    /// A signed parameter of the region entered last.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn parameter_i64(
        &mut self,
        time: u64,
        parameter: ParameterRef,
        value: i64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ParameterInt", "parameter", parameter.is_defined())?;
        self.event("ParameterInt", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_ParameterInt(writer, list, time, parameter.get(), value) }
        })
    }

    /// An unsigned parameter of the region entered last.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn parameter_u64(
        &mut self,
        time: u64,
        parameter: ParameterRef,
        value: u64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ParameterUnsignedInt", "parameter", parameter.is_defined())?;
        self.event("ParameterUnsignedInt", time, attributes, |writer, list| {
            let parameter = parameter.get();
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_ParameterUnsignedInt(writer, list, time, parameter, value)
            }
        })
    }
}

impl Drop for EventWriter<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() && self.finish().is_err() {
            // Who wants to know why calls `close`; the archive still says that it is not whole.
            self.handle.note_failure();
        }
        // SAFETY: made in `new`, used only by this value.
        unsafe { sys::OTF2_AttributeList_Delete(self.list.as_ptr()) };
    }
}

/// What a member of a communicator says about a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Which operation.
    pub op: CollectiveOp,
    /// In which communicator.
    pub comm: CommRef,
    /// The root's rank, for operations that have one.
    pub root: Option<u32>,
    /// Bytes this member sent.
    pub bytes_sent: u64,
    /// Bytes this member received.
    pub bytes_received: u64,
}

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank of the other end: the receiver of a send, the sender of a receive.
    pub peer: u32,
    /// In which communicator.
    pub comm: CommRef,
    /// Tag: sends and receives match by it.
    pub tag: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// A put or a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaAccess {
    /// The window.
    pub win: RmaWinRef,
    /// The rank of the remote member in the window's communicator.
    pub remote: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// The completion names the same id.
    pub matching: u64,
}
