//! v1 (2.23.4): operations and proxies; numbers for names.

use nccl_events::event;
use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start};

use super::shapes::{header, kind, member, number, proxy_op, proxy_step};
use super::sys::ncclProfilerEventDescr_v1_t;
use super::{Descriptor, v1_names};

impl Descriptor for ncclProfilerEventDescr_v1_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        let event_type = u64::from(descriptor.type_);
        // The parent of an operation is its group.
        let parent_group = number(descriptor.parentObj);
        header(start, descriptor.parentObj, descriptor.rank);
        start.body = match kind(event_type) {
            Kind::Group => Body::Group(event::Group {}),
            Kind::Coll => {
                let raw = member!(descriptor, coll);
                Body::Coll(event::Coll {
                    sequence: raw.seqNumber,
                    func: v1_names::function(raw.func),
                    send_buffer: number(raw.sendBuff),
                    recv_buffer: number(raw.recvBuff),
                    count: raw.count as u64,
                    root: raw.root,
                    datatype: v1_names::datatype(raw.datatype),
                    channels: raw.nMaxChannels,
                    warps: raw.nWarps,
                    algorithm: v1_names::algorithm(raw.algo),
                    protocol: v1_names::protocol(raw.proto),
                    parent_group,
                    comm_hash: raw.commHash,
                    kernel_variant: Name::NONE,
                    is_symmetric: false,
                    user_tag: 0,
                })
            }
            Kind::P2p => {
                let raw = member!(descriptor, p2p);
                Body::P2p(event::P2p {
                    func: v1_names::function(raw.func),
                    buffer: number(raw.buff),
                    datatype: v1_names::datatype(raw.datatype),
                    count: raw.count as u64,
                    peer: raw.peer,
                    channels: 0,
                    parent_group,
                    comm_hash: raw.commHash,
                    user_tag: 0,
                })
            }
            Kind::ProxyOp => proxy_op(member!(descriptor, proxyOp)),
            Kind::ProxyStep => proxy_step(member!(descriptor, proxyStep)),
            Kind::ProxyCtrl => Body::ProxyCtrl(event::ProxyCtrl {}),
            _ => Body::Unknown(event::Unknown { event_type }),
        };
    }
}
