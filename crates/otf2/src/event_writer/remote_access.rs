//! Remote memory access.

use otf2_sys as sys;

use super::EventWriter;
use crate::error::Result;
use crate::{Attributes, RmaWinRef};

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

impl EventWriter<'_> {
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
}
