//! The functions of the tables, called as NCCL calls them.

use std::ffi::c_int;

use super::*;
use crate::abi::tables;

/// Without a session that records: handles are NULL, whatever stood in the variable before.
macro_rules! check_handle_is_written {
    ($($table:ident),*) => {$({
        let start = tables::$table.table.startEvent.expect("in the table");
        let mut handle = pointer(0xdead_0000);
        // SAFETY: NULL is legal for every pointer.
        let result = unsafe { start(ptr::null_mut(), &raw mut handle, ptr::null_mut()) };
        assert_eq!(result, sys::ncclSuccess);
        assert!(handle.is_null(), stringify!($table));
        // SAFETY: as above.
        assert_eq!(unsafe { start(ptr::null_mut(), ptr::null_mut(), ptr::null_mut()) }, sys::ncclSuccess);
    })*};
}

#[test]
fn start_writes_null_first() {
    check_handle_is_written!(
        ncclProfiler_v1,
        ncclProfiler_v2,
        ncclProfiler_v3,
        ncclProfiler_v4,
        ncclProfiler_v5,
        ncclProfiler_v6,
        ncclProfiler_v7
    );
}

#[test]
fn stand_in_contexts_differ_and_are_not_null() {
    use crate::abi::callbacks::{is_stand_in, stand_in_context};
    let contexts: Vec<u64> = (0..100).map(|_| stand_in_context()).collect();
    let mut unique = contexts.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), contexts.len());
    assert!(contexts.iter().all(|context| is_stand_in(*context)));
    assert!(!is_stand_in(0));
    assert!(!is_stand_in(nccl_events::id::ContextId::new(nccl_events::id::ProcessTag::new(0xffff), 9).get()));
}

#[test]
fn the_mask_can_be_set_only_while_a_communicator_lives() {
    use crate::host::{live, mask};
    static MASK: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(7);
    let get = || MASK.load(std::sync::atomic::Ordering::Relaxed);
    mask::remember(MASK.as_ptr());
    mask::remember(ptr::null_mut::<c_int>());
    assert!(!mask::set_mask(1));
    assert_eq!(get(), 7);
    live::enter();
    assert!(mask::set_mask(0xffff));
    assert_eq!(get(), 0xffff);
    live::leave();
    assert!(!mask::set_mask(0));
    live::leave();
    assert!(!live::any());
    assert_eq!(get(), 0xffff);
}
