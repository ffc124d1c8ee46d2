//! Programs, what sampling finds in them, and their files: what other recorders write and archives are merged with.

use otf2_sys as sys;

use super::EventWriter;
use crate::error::Result;
use crate::{Attributes, CallingContextRef, IoHandleRef, RmaWinRef, StringRef};

impl EventWriter<'_> {
    /// A program begins.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn program_begin(
        &mut self,
        time: u64,
        name: StringRef,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("ProgramBegin", "string", name.is_defined())?;
        self.event("ProgramBegin", time, attributes, |writer, list| {
            let none = std::ptr::null();
            // SAFETY: `event` passes its live writer and list; there are no arguments to read.
            unsafe { sys::OTF2_EvtWriter_ProgramBegin(writer, list, time, name.get(), 0, none) }
        })
    }

    /// A program ends.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn program_end(
        &mut self,
        time: u64,
        exit_status: i64,
        attributes: &Attributes,
    ) -> Result<()> {
        self.event("ProgramEnd", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_ProgramEnd(writer, list, time, exit_status) }
        })
    }

    /// A calling context is entered, so many levels above the last one.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn calling_context_enter(
        &mut self,
        time: u64,
        context: CallingContextRef,
        unwind_distance: u32,
        attributes: &Attributes,
    ) -> Result<()> {
        let event = "CallingContextEnter";
        self.defined(event, "calling context", context.is_defined())?;
        self.event(event, time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_CallingContextEnter(
                    writer,
                    list,
                    time,
                    context.get(),
                    unwind_distance,
                )
            }
        })
    }

    /// A calling context is left.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn calling_context_leave(
        &mut self,
        time: u64,
        context: CallingContextRef,
        attributes: &Attributes,
    ) -> Result<()> {
        let event = "CallingContextLeave";
        self.defined(event, "calling context", context.is_defined())?;
        self.event(event, time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_CallingContextLeave(writer, list, time, context.get()) }
        })
    }

    /// A file is opened: access mode, creation and status flags by OTF2's numbers.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn io_create_handle(
        &mut self,
        time: u64,
        handle: IoHandleRef,
        (mode, creation_flags, status_flags): (u8, u32, u32),
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("IoCreateHandle", "file", handle.is_defined())?;
        self.event("IoCreateHandle", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_IoCreateHandle(
                    writer,
                    list,
                    time,
                    handle.get(),
                    mode,
                    creation_flags,
                    status_flags,
                )
            }
        })
    }

    /// A file is closed.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn io_destroy_handle(
        &mut self,
        time: u64,
        handle: IoHandleRef,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("IoDestroyHandle", "file", handle.is_defined())?;
        self.event("IoDestroyHandle", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_IoDestroyHandle(writer, list, time, handle.get()) }
        })
    }

    /// A read (mode 0), write (1) or flush (2) of so many bytes begins, to complete under the same matching id.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn io_operation_begin(
        &mut self,
        time: u64,
        handle: IoHandleRef,
        mode: u8,
        (bytes, matching): (u64, u64),
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("IoOperationBegin", "file", handle.is_defined())?;
        self.event("IoOperationBegin", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_IoOperationBegin(
                    writer,
                    list,
                    time,
                    handle.get(),
                    mode,
                    0,
                    bytes,
                    matching,
                )
            }
        })
    }

    /// It has completed.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn io_operation_complete(
        &mut self,
        time: u64,
        handle: IoHandleRef,
        (bytes, matching): (u64, u64),
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("IoOperationComplete", "file", handle.is_defined())?;
        self.event("IoOperationComplete", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe {
                sys::OTF2_EvtWriter_IoOperationComplete(
                    writer,
                    list,
                    time,
                    handle.get(),
                    bytes,
                    matching,
                )
            }
        })
    }

    /// A window is made.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn rma_win_create(
        &mut self,
        time: u64,
        win: RmaWinRef,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("RmaWinCreate", "window", win.is_defined())?;
        self.event("RmaWinCreate", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_RmaWinCreate(writer, list, time, win.get()) }
        })
    }

    /// A window is given up.
    ///
    /// # Errors
    ///
    /// See [`EventWriter`].
    pub fn rma_win_destroy(
        &mut self,
        time: u64,
        win: RmaWinRef,
        attributes: &Attributes,
    ) -> Result<()> {
        self.defined("RmaWinDestroy", "window", win.is_defined())?;
        self.event("RmaWinDestroy", time, attributes, |writer, list| {
            // SAFETY: `event` passes its live writer and list.
            unsafe { sys::OTF2_EvtWriter_RmaWinDestroy(writer, list, time, win.get()) }
        })
    }
}
