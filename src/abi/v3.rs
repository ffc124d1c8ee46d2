//! v3 (2.26): v2 without traffic bytes; kernel channels (without GPU time) and net plugins.

use nccl_events::event;
use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start};

use super::Descriptor;
use super::shapes::{header, kind, member, name, net_plugin, number, p2p_v2, proxy_op, proxy_step};
use super::sys::ncclProfilerEventDescr_v3_t;

impl Descriptor for ncclProfilerEventDescr_v3_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        let event_type = u64::from(descriptor.type_);
        header(start, descriptor.parentObj, descriptor.rank);
        start.body = match kind(event_type) {
            Kind::Group => Body::Group(event::Group {}),
            Kind::Coll => {
                let raw = member!(descriptor, coll);
                Body::Coll(event::Coll {
                    sequence: raw.seqNumber,
                    func: name!(raw.func),
                    send_buffer: number(raw.sendBuff),
                    recv_buffer: number(raw.recvBuff),
                    count: raw.count as u64,
                    root: raw.root,
                    datatype: name!(raw.datatype),
                    channels: raw.nMaxChannels,
                    warps: raw.nWarps,
                    algorithm: name!(raw.algo),
                    protocol: name!(raw.proto),
                    parent_group: number(descriptor.parentObj),
                    comm_hash: raw.commHash,
                    kernel_variant: Name::NONE,
                    is_symmetric: false,
                    user_tag: 0,
                })
            }
            Kind::P2p => {
                let raw = member!(descriptor, p2p);
                // SAFETY: the contract.
                unsafe { p2p_v2(raw, descriptor.parentObj) }
            }
            Kind::ProxyOp => proxy_op(member!(descriptor, proxyOp)),
            Kind::ProxyStep => proxy_step(member!(descriptor, proxyStep)),
            Kind::ProxyCtrl => Body::ProxyCtrl(event::ProxyCtrl {}),
            Kind::KernelCh => {
                Body::KernelCh(event::KernelCh { channel: member!(descriptor, kernelCh).channelId, gpu_ns: 0 })
            }
            Kind::NetPlugin => {
                let raw = member!(descriptor, netPlugin);
                // SAFETY: the contract.
                unsafe { net_plugin(raw) }
            }
            _ => Body::Unknown(event::Unknown { event_type }),
        };
    }
}
