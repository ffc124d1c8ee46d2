//! Messages and collective operations.

use otf2_sys as sys;

use super::EventWriter;
use crate::error::Result;
use crate::{Attributes, CollectiveOp, CommRef};

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

impl EventWriter<'_> {
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
}
