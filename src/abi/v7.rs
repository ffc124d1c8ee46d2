//! v7 (2.31, 2.32): v6, with fields appended to operations and API calls, and kernel phases.
//!
//! Forks of NCCL before 2.31 export other structures as v7, all of which begin like v6. The plugin therefore reads v7's
//! new fields only if the running NCCL reports 2.31 or later.

use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start, Table, event};

use super::Descriptor;
use super::shapes::{kind, member, name};
use super::sys::{ncclProfilerEventDescr_v6_t, ncclProfilerEventDescr_v7_t};
use crate::host::version;

impl Descriptor for ncclProfilerEventDescr_v7_t {
    #[inline(always)]
    unsafe fn read(pointer: NonNull<Self>, start: &mut Start<Name<'_>>) {
        let v6 = pointer.cast::<ncclProfilerEventDescr_v6_t>();
        // SAFETY: the contract; v7 and the forks' v7 begin with v6's fields at v6's offsets (bindings.rs).
        unsafe { ncclProfilerEventDescr_v6_t::read(v6, start) };
        // Forks of earlier releases export other structures under the name v7.
        if version::current() >= const { Table::V7.first_of_series() } {
            // SAFETY: the contract, and the release is one whose v7 this is.
            let descriptor = unsafe { pointer.as_ref() };
            // SAFETY: as above; the body was read from this descriptor.
            unsafe { add_v7(&mut start.body, descriptor) };
        }
    }
}

/// Adds the fields that v6 does not have.
///
/// # Safety
/// As for [`Descriptor::read`]; `body` was read from the same descriptor.
#[inline]
unsafe fn add_v7<'a>(body: &mut Body<Name<'a>>, descriptor: &ncclProfilerEventDescr_v7_t) {
    match body {
        Body::Coll(coll) => {
            let raw = member!(descriptor, coll);
            coll.kernel_variant = name!(raw.kernelVariant);
            coll.is_symmetric = raw.isSymColl != 0;
            coll.user_tag = raw.userTag;
        }
        Body::P2p(p2p) => p2p.user_tag = member!(descriptor, p2p).userTag,
        Body::CollApi(event::CollApi { user_tag, .. }) => *user_tag = member!(descriptor, collApi).userTag,
        Body::P2pApi(event::P2pApi { user_tag, .. }) => *user_tag = member!(descriptor, p2pApi).userTag,
        Body::CeColl(coll) => coll.user_tag = member!(descriptor, ceColl).userTag,
        Body::Unknown(event::Unknown { event_type }) if matches!(kind(*event_type), Kind::KernelPhase) => {
            let raw = member!(descriptor, kernelPhase);
            *body = Body::KernelPhase(event::KernelPhase {
                channel: raw.channelId,
                phase: raw.phaseId,
                name: name!(raw.phaseName),
                gpu_ns: raw.pTimer,
            });
        }
        _ => {}
    }
}
