//! What NCCL's own net plugins hand over with a NetPlugin event, in memory.

use std::ptr;

use nccl_profiler_otf2::abi::sys;

use super::command::NetData;

/// The data of a net plugin's event.
pub(crate) enum NetBlock {
    Ib(Box<sys::ncclProfilerNetIbDescr_v1_t>),
    Socket(Box<sys::ncclProfilerNetSockDescr_v1_t>),
}

impl NetBlock {
    pub(crate) fn new(data: NetData) -> Self {
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        match data {
            NetData::Ib {
                device,
                work_request,
                opcode,
                queue_pair,
                bytes,
            } => Self::Ib(Box::new(sys::ncclProfilerNetIbDescr_v1_t {
                type_: 1,
                __bindgen_anon_1: sys::ncclProfilerNetIbDescr_v1_t__bindgen_ty_1 {
                    qp: sys::ncclProfilerNetIbQp_v1_t {
                        device,
                        wr_id: work_request,
                        opcode,
                        qpNum: queue_pair,
                        length: size(bytes),
                    },
                },
            })),
            NetData::Socket {
                descriptor,
                operation,
                bytes,
            } => Self::Socket(Box::new(sys::ncclProfilerNetSockDescr_v1_t {
                type_: 1,
                __bindgen_anon_1: sys::ncclProfilerNetSockDescr_v1_t__bindgen_ty_1 {
                    sock: sys::ncclProfilerNetSock_v1_t {
                        fd: descriptor,
                        op: operation,
                        length: size(bytes),
                    },
                },
            })),
        }
    }

    pub(crate) fn id(&self) -> i64 {
        i64::from(match self {
            Self::Ib(_) => sys::ncclProfilerNetIbId_v1,
            Self::Socket(_) => sys::ncclProfilerNetSocketId_v1,
        })
    }

    pub(crate) fn address(&self) -> u64 {
        let pointer = match self {
            Self::Ib(data) => ptr::from_ref(&**data).expose_provenance(),
            Self::Socket(data) => ptr::from_ref(&**data).expose_provenance(),
        };
        pointer as u64
    }
}
