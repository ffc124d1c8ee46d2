//! v4 (2.27): the communicator is described by `init`; GPU times.

use nccl_events::event;
use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start};

use super::Descriptor;
use super::shapes::{coll_v4, header, kernel_ch, kind, member, name, net_plugin, number, proxy_op, proxy_step};
use super::sys::ncclProfilerEventDescr_v4_t;
use crate::host::version;

/// In 2.27, whose own descriptor this is, `p2p.nChannels` is set. From 2.28 on the descriptor is a copy in which it
/// never is; a release that cannot be asked may be one of those.
const fn sets_channels(version: u32) -> bool {
    matches!(version, 22_700..22_800)
}

impl Descriptor for ncclProfilerEventDescr_v4_t {
    #[inline]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        let event_type = u64::from(descriptor.type_);
        header(start, descriptor.parentObj, descriptor.rank);
        start.body = match kind(event_type) {
            Kind::Group => Body::Group(event::Group {}),
            Kind::Coll => {
                let raw = member!(descriptor, coll);
                // SAFETY: the contract. The parent of an operation is its group.
                let coll = unsafe { coll_v4(raw, descriptor.parentObj) };
                Body::Coll(coll)
            }
            Kind::P2p => {
                let raw = member!(descriptor, p2p);
                let is_set = sets_channels(version::current());
                Body::P2p(event::P2p {
                    func: name!(raw.func),
                    buffer: number(raw.buff),
                    datatype: name!(raw.datatype),
                    count: raw.count as u64,
                    peer: raw.peer,
                    channels: if is_set { raw.nChannels } else { 0 },
                    parent_group: number(descriptor.parentObj),
                    comm_hash: 0,
                    user_tag: 0,
                })
            }
            Kind::ProxyOp => proxy_op(member!(descriptor, proxyOp)),
            Kind::ProxyStep => proxy_step(member!(descriptor, proxyStep)),
            Kind::ProxyCtrl => Body::ProxyCtrl(event::ProxyCtrl {}),
            Kind::KernelCh => kernel_ch(member!(descriptor, kernelCh)),
            Kind::NetPlugin => {
                let raw = member!(descriptor, netPlugin);
                // SAFETY: the contract.
                unsafe { net_plugin(raw) }
            }
            _ => Body::Unknown(event::Unknown { event_type }),
        };
    }
}
