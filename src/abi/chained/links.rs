//! The parents in a descriptor: as NCCL passed them, and as each plugin must see them.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::super::shapes::{number, pointer};
use super::super::sys::{ncclProfilerEventDescr_v1_t, ncclProfilerEventDescr_v5_t, ncclProfilerEventDescr_v6_t};
use nccl_events::{Kind, Table};

/// The parent, and the group of an operation whose descriptor has both.
pub(super) type Parents = [u64; 2];

/// A descriptor and the places of its parents. All tables have type and parent at the same offsets (bindings.rs); v5 to
/// v7 have the group at the same offset.
pub(super) struct Links {
    pub(super) descriptor: NonNull<c_void>,
    pub(super) event_type: u64,
    pub(super) passed: Parents,
    table: Table,
    parent: NonNull<*mut c_void>,
    group: Option<NonNull<*mut c_void>>,
}

impl Links {
    /// # Safety
    /// NCCL passed the descriptor to `startEvent` of this table, and the result is used during this callback only.
    pub(super) unsafe fn of(table: Table, descriptor: NonNull<c_void>) -> Self {
        let has_group = table.facts().has_parent_group;
        let event_type = if has_group {
            // SAFETY: from v5 on the type is the first word.
            unsafe { descriptor.cast::<u64>().read() }
        } else {
            // SAFETY: up to v4 the type is the first byte.
            u64::from(unsafe { descriptor.cast::<u8>().read() })
        };
        // SAFETY: takes an address inside the descriptor and reads nothing.
        let parent = unsafe { &raw mut (*descriptor.cast::<ncclProfilerEventDescr_v1_t>().as_ptr()).parentObj };
        let union = descriptor.cast::<ncclProfilerEventDescr_v5_t>().as_ptr();
        let group = match event_type {
            _ if !has_group => None,
            // SAFETY: as for the parent; v6 and v7 begin with v5's fields.
            COLL => NonNull::new(unsafe { &raw mut (*union).__bindgen_anon_1.coll.parentGroup }),
            // SAFETY: as above.
            P2P => NonNull::new(unsafe { &raw mut (*union).__bindgen_anon_1.p2p.parentGroup }),
            _ => None,
        };
        // SAFETY: the pointer is to a field of the descriptor.
        let parent = unsafe { NonNull::new_unchecked(parent) };
        // SAFETY: NCCL fills the parent of every descriptor.
        let passed = number(unsafe { parent.read() });
        // SAFETY: NCCL fills the group of every operation.
        let passed_group = group.map_or(0, |group| number(unsafe { group.read() }));
        Self { descriptor, event_type, passed: [passed, passed_group], table, parent, group }
    }

    pub(super) fn put(&self, [parent, group]: Parents) {
        // SAFETY: the pointer is to a field of the descriptor, a variable of NCCL's on this thread (contract of `of`).
        unsafe { self.parent.write(pointer(parent)) };
        if let Some(place) = self.group {
            // SAFETY: as above.
            unsafe { place.write(pointer(group)) };
        }
    }

    /// The parents for a plugin that is called through `table`: up to v4 the parent of an operation is its group.
    pub(super) const fn for_plugin(&self, table: Table, [parent, group]: Parents) -> Parents {
        if self.group.is_some() && !table.facts().has_parent_group { [group, group] } else { [parent, group] }
    }

    /// Whether NCCL alone would not report this event to a plugin, because the plugin gave the parent no handle.
    pub(super) fn is_suppressed(&self, [parent, _]: Parents, process: c_int) -> bool {
        let is_reported = self.table.facts().has_parent_group || parent != 0;
        !is_reported && self.passed[0] != 0 && !self.is_for_another(process)
    }

    /// Whether this is a proxy operation for another process, to which its communicator and parent belong.
    pub(super) fn is_for_another(&self, process: c_int) -> bool {
        if self.event_type != PROXY_OP {
            return false;
        }
        let descriptor = self.descriptor.cast::<ncclProfilerEventDescr_v6_t>().as_ptr();
        // SAFETY: takes an address inside the descriptor; all tables have this field at the same offset (bindings.rs).
        let pid = unsafe { &raw const (*descriptor).__bindgen_anon_1.proxyOp.pid };
        // SAFETY: the type shows that NCCL filled this field.
        let pid = unsafe { pid.read() };
        pid != process
    }
}

const COLL: u64 = Kind::Coll.mask() as u64;
const P2P: u64 = Kind::P2p.mask() as u64;
const PROXY_OP: u64 = Kind::ProxyOp.mask() as u64;
