//! v4 (2.27): the communicator is described by `init`; GPU times. The parent of an operation is its group.

use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start, event};

use super::Descriptor;
use super::shapes::{coll, kernel_ch, member, net_plugin, p2p, read};
use super::sys::ncclProfilerEventDescr_v4_t;
use crate::host::version;

impl Descriptor for ncclProfilerEventDescr_v4_t {
    #[inline]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read!(descriptor, start,
            coll: {
                let raw = member!(descriptor, coll);
                coll!(raw, channels: raw.nChannels, parent_group: descriptor.parentObj, comm_hash: 0)
            },
            p2p: {
                let raw = member!(descriptor, p2p);
                // In 2.27, whose own descriptor this is, `nChannels` is set. From 2.28 on the descriptor is a copy in
                // which it never is; a release that cannot be asked may be one of those.
                let channels = if matches!(version::current(), 22_700..22_800) { raw.nChannels } else { 0 };
                p2p!(raw, channels: channels, parent_group: descriptor.parentObj, comm_hash: 0)
            },
            Kind::KernelCh => kernel_ch(member!(descriptor, kernelCh)),
            Kind::NetPlugin => net_plugin!(descriptor),
        );
    }
}
