//! v2 (2.24, 2.25): v1 with strings.

use nccl_events::event;
use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start};

use super::Descriptor;
use super::shapes::{header, kind, member, name, number, p2p_v2, proxy_op, proxy_step};
use super::sys::{ncclProfilerEventDescr_v2_t, ncclProfilerEventDescr_v3_t};
use crate::host::version;

/// 2.26.2 to 2.26.5 hand a v2 plugin a pointer to v3's descriptor, which is shorter and has other offsets.
/// (They prefer v3, which we export; but a program may ask for less.)
#[inline]
const fn passes_v3(version: u32) -> bool {
    matches!(version, 22602..=22605)
}

impl Descriptor for ncclProfilerEventDescr_v2_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        if passes_v3(version::current()) {
            let descriptor = descriptor.cast::<ncclProfilerEventDescr_v3_t>();
            // SAFETY: the contract, but these releases pass what v3 expects.
            return unsafe { ncclProfilerEventDescr_v3_t::read(descriptor, start) };
        }
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
            _ => Body::Unknown(event::Unknown { event_type }),
        };
    }
}
