//! v2 (2.24, 2.25): v1 with strings. v3 (2.26): v2 without traffic bytes; kernel channels (without GPU time) and net
//! plugins. The parent of an operation is its group.

use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start, event};

use super::Descriptor;
use super::shapes::{coll, member, net_plugin, p2p, read};
use super::sys::{ncclProfilerEventDescr_v2_t, ncclProfilerEventDescr_v3_t};
use crate::host::version;

macro_rules! read_both {
    ($descriptor:ident, $start:ident, $($kind:pat => $other:expr,)*) => {
        read!($descriptor, $start,
            coll: {
                let raw = member!($descriptor, coll);
                coll!(
                    raw,
                    channels: raw.nMaxChannels, parent_group: $descriptor.parentObj, comm_hash: raw.commHash
                )
            },
            p2p: {
                let raw = member!($descriptor, p2p);
                p2p!(raw, channels: 0, parent_group: $descriptor.parentObj, comm_hash: raw.commHash)
            },
            $($kind => $other,)*
        );
    };
}

impl Descriptor for ncclProfilerEventDescr_v2_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // 2.26.2 to 2.26.5 give a v2 plugin a pointer to v3's descriptor, which is shorter and has other offsets. (They
        // prefer v3, which the plugin exports; but a program may ask for less.)
        if matches!(version::current(), 22602..=22605) {
            let descriptor = descriptor.cast::<ncclProfilerEventDescr_v3_t>();
            // SAFETY: the contract, except that these releases pass a v3 descriptor.
            return unsafe { ncclProfilerEventDescr_v3_t::read(descriptor, start) };
        }
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read_both!(descriptor, start,);
    }
}

impl Descriptor for ncclProfilerEventDescr_v3_t {
    #[inline(always)]
    unsafe fn read(descriptor: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { descriptor.as_ref() };
        read_both!(descriptor, start,
            Kind::KernelCh => {
                Body::KernelCh(event::KernelCh { channel: member!(descriptor, kernelCh).channelId, gpu_ns: 0 })
            },
            Kind::NetPlugin => net_plugin!(descriptor),
        );
    }
}
