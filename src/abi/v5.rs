//! v5 (2.28): API calls and kernel launches. The parent of an operation is its API call; the group has a field.

use nccl_events::event;
use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start};

use super::Descriptor;
use super::shapes::{coll_v4, header, kernel_ch, kind, member, name, net_plugin, number, proxy_op, proxy_step};
use super::sys::{ncclProfilerColl_v4_t, ncclProfilerColl_v5_t, ncclProfilerEventDescr_v5_t};

/// The fields that v4 has: v5 appends one.
#[inline]
fn as_v4(raw: &ncclProfilerColl_v5_t) -> &ncclProfilerColl_v4_t {
    // SAFETY: v5's structure begins with v4's fields at v4's offsets (bindings.rs asserts both).
    unsafe { &*(&raw const *raw).cast::<ncclProfilerColl_v4_t>() }
}

impl Descriptor for ncclProfilerEventDescr_v5_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        let event_type = descriptor.type_;
        header(start, descriptor.parentObj, descriptor.rank);
        start.body = match kind(event_type) {
            Kind::Group => Body::Group(event::Group {}),
            Kind::Coll => {
                let raw = member!(descriptor, coll);
                // SAFETY: the contract.
                Body::Coll(unsafe { coll_v4(as_v4(raw), raw.parentGroup) })
            }
            Kind::P2p => {
                let raw = member!(descriptor, p2p);
                Body::P2p(event::P2p {
                    func: name!(raw.func),
                    buffer: number(raw.buff),
                    datatype: name!(raw.datatype),
                    count: raw.count as u64,
                    peer: raw.peer,
                    channels: raw.nChannels,
                    parent_group: number(raw.parentGroup),
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
            Kind::GroupApi => {
                let raw = member!(descriptor, groupApi);
                Body::GroupApi(event::GroupApi { graph_captured: raw.graphCaptured != 0, depth: raw.groupDepth })
            }
            Kind::CollApi => {
                let raw = member!(descriptor, collApi);
                Body::CollApi(event::CollApi {
                    func: name!(raw.func),
                    count: raw.count as u64,
                    datatype: name!(raw.datatype),
                    root: raw.root,
                    stream: number(raw.stream),
                    graph_captured: raw.graphCaptured != 0,
                    user_tag: 0,
                })
            }
            Kind::P2pApi => {
                let raw = member!(descriptor, p2pApi);
                Body::P2pApi(event::P2pApi {
                    func: name!(raw.func),
                    count: raw.count as u64,
                    datatype: name!(raw.datatype),
                    stream: number(raw.stream),
                    graph_captured: raw.graphCaptured != 0,
                    user_tag: 0,
                })
            }
            Kind::KernelLaunch => {
                Body::KernelLaunch(event::KernelLaunch { stream: number(member!(descriptor, kernelLaunch).stream) })
            }
            _ => Body::Unknown(event::Unknown { event_type }),
        };
    }
}
