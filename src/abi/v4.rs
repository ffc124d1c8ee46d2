//! v4 (2.27): `init` describes the communicator; GPU times. The parent of an operation is its group.

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
                // 2.27, whose own descriptor this is, sets `nChannels`. From 2.28 on the descriptor is a copy that
                // leaves it unset; a release that cannot be asked may be 2.28 or later.
                let channels = if matches!(version::current(), 22_700..22_800) { raw.nChannels } else { 0 };
                p2p!(raw, channels: channels, parent_group: descriptor.parentObj, comm_hash: 0)
            },
            Kind::KernelCh => kernel_ch(member!(descriptor, kernelCh)),
            Kind::NetPlugin => net_plugin!(descriptor),
        );
    }
}
