//! v5 (2.28): API calls and kernel launches. The parent of an operation is its API call; the group has its own field.

use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start, event};

use super::Descriptor;
use super::shapes::{coll, kernel_ch, member, name, net_plugin, number, p2p, read};
use super::sys::ncclProfilerEventDescr_v5_t;

impl Descriptor for ncclProfilerEventDescr_v5_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read!(descriptor, start,
            coll: {
                let raw = member!(descriptor, coll);
                coll!(raw, channels: raw.nChannels, parent_group: raw.parentGroup, comm_hash: 0)
            },
            p2p: {
                let raw = member!(descriptor, p2p);
                p2p!(raw, channels: raw.nChannels, parent_group: raw.parentGroup, comm_hash: 0)
            },
            Kind::KernelCh => kernel_ch(member!(descriptor, kernelCh)),
            Kind::NetPlugin => net_plugin!(descriptor),
            Kind::GroupApi => {
                let raw = member!(descriptor, groupApi);
                Body::GroupApi(event::GroupApi { graph_captured: raw.graphCaptured != 0, depth: raw.groupDepth })
            },
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
            },
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
            },
            Kind::KernelLaunch => {
                Body::KernelLaunch(event::KernelLaunch { stream: number(member!(descriptor, kernelLaunch).stream) })
            },
        );
    }
}
