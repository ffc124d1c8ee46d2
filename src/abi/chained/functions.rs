//! The functions of a chained plugin's table.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::{self, offset_of};
use std::ptr::{self, NonNull};

use super::super::sys::{self, ncclDebugLogger_t, ncclResult_t};
use crate::chain::{self, Library};
use nccl_events::{Table, event};

type Pointer = *mut c_void;
type InitV1 = unsafe extern "C" fn(*mut Pointer, *mut c_int) -> ncclResult_t;
type InitV4 = unsafe extern "C" fn(
    *mut Pointer,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    ncclDebugLogger_t,
) -> ncclResult_t;
type InitV5 = unsafe extern "C" fn(
    *mut Pointer,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    ncclDebugLogger_t,
) -> ncclResult_t;
type Start = unsafe extern "C" fn(Pointer, *mut Pointer, Pointer) -> ncclResult_t;
type State = unsafe extern "C" fn(Pointer, sys::ncclProfilerEventState_t, Pointer) -> ncclResult_t;
type OfOne = unsafe extern "C" fn(Pointer) -> ncclResult_t;

/// A table of any version: the members differ only in what their arguments point to, and in the arguments of `init`.
#[repr(C)]
struct AnyTable {
    name: *const c_char,
    init: Option<InitV1>,
    start: Option<Start>,
    stop: Option<OfOne>,
    state: Option<State>,
    finalize: Option<OfOne>,
}

const _: () = assert!(size_of::<AnyTable>() == size_of::<sys::ncclProfiler_v7_t>());
const _: () = assert!(offset_of!(AnyTable, finalize) == offset_of!(sys::ncclProfiler_v7_t, finalize));

/// What `init` gets beside context and mask; nothing up to version 3.
#[derive(Clone, Copy)]
pub(in crate::abi) struct Communicator {
    pub(in crate::abi) id: u64,
    pub(in crate::abi) name: *const c_char,
    pub(in crate::abi) nodes: c_int,
    pub(in crate::abi) ranks: c_int,
    pub(in crate::abi) rank: c_int,
    pub(in crate::abi) logger: ncclDebugLogger_t,
}

/// The kinds of events that a plugin's table can get; any where NCCL itself would pass any.
pub(super) fn kinds(plugin: Table, called: Table) -> u32 {
    if plugin == called { u32::MAX } else { event::kinds(plugin) }
}

pub(super) struct Functions {
    at: NonNull<AnyTable>,
    init: InitV1,
    start: Start,
    stop: OfOne,
    state: State,
    finalize: OfOne,
}

/// The best table of a library that can be served when NCCL calls `called`.
pub(super) fn best(library: &Library, called: Table) -> Result<(Table, Functions), String> {
    let mut others = Vec::new();
    for version in Table::ALL.into_iter().rev() {
        let Some(table) = find(library, version) else { continue };
        if chain::is_own(table.as_ptr().cast()) {
            return Err("that is this plugin itself".to_owned());
        }
        if version.can_serve(called) {
            return Ok((version, Functions::read(table, version)?));
        }
        others.push(version.to_string());
    }
    Err(match others.as_slice() {
        [] => format!("it is no profiler plugin: it has no ncclProfiler_v1 … {}", Table::NEWEST),
        others => format!("NCCL calls by {called}, which its tables cannot be served from: {}", others.join(", ")),
    })
}

fn find(library: &Library, version: Table) -> Option<NonNull<AnyTable>> {
    let symbol = CString::new(format!("ncclProfiler_{version}")).ok()?;
    NonNull::new(library.symbol(&symbol).cast_mut().cast())
}

impl Functions {
    fn read(at: NonNull<AnyTable>, version: Table) -> Result<Self, String> {
        // SAFETY: a symbol of this name is a table, as for NCCL, and the library stays loaded.
        let AnyTable { init, start, stop, state, finalize, .. } = unsafe { at.read() };
        let (Some(init), Some(start), Some(stop), Some(state), Some(finalize)) = (init, start, stop, state, finalize)
        else {
            return Err(format!("its ncclProfiler_{version} lacks a function"));
        };
        Ok(Self { at, init, start, stop, state, finalize })
    }

    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.at == other.at
    }

    /// Calls `init`: gives the context, or the error.
    ///
    /// # Safety
    /// `table` is the one of these functions, and the arguments are NCCL's.
    pub(super) unsafe fn init(
        &self,
        table: Table,
        mask: *mut c_int,
        comm: &Communicator,
    ) -> Result<Pointer, ncclResult_t> {
        let mut context = ptr::null_mut();
        let out = &raw mut context;
        let Communicator { id, name, nodes, ranks, rank, logger } = *comm;
        let result = match table {
            // SAFETY: the type of the first three tables; the pointers live during the call, the mask for ever.
            Table::V1 | Table::V2 | Table::V3 => unsafe { (self.init)(out, mask) },
            Table::V4 => {
                // SAFETY: the type in this table.
                let init = unsafe { mem::transmute::<InitV1, InitV4>(self.init) };
                // SAFETY: as above.
                unsafe { init(out, mask, name, id, nodes, ranks, rank, logger) }
            }
            Table::V5 | Table::V6 | Table::V7 => {
                // SAFETY: the type in later tables.
                let init = unsafe { mem::transmute::<InitV1, InitV5>(self.init) };
                // SAFETY: as above.
                unsafe { init(out, id, mask, name, nodes, ranks, rank, logger) }
            }
        };
        if result == sys::ncclSuccess { Ok(context) } else { Err(result) }
    }

    /// # Safety
    /// The context is one of this plugin's or NULL, the descriptor one that its table can be served from.
    pub(super) unsafe fn start(&self, context: Pointer, descriptor: NonNull<c_void>) -> (ncclResult_t, Pointer) {
        let mut handle = ptr::null_mut();
        // SAFETY: this function's contract.
        let result = unsafe { (self.start)(context, &raw mut handle, descriptor.as_ptr()) };
        (result, handle)
    }

    /// # Safety
    /// The handle is one of this plugin's.
    pub(super) unsafe fn stop(&self, handle: Pointer) -> ncclResult_t {
        // SAFETY: this function's contract.
        unsafe { (self.stop)(handle) }
    }

    /// # Safety
    /// The handle is one of this plugin's, the arguments those of a table that its own can be served from.
    pub(super) unsafe fn state(&self, handle: Pointer, state: u32, arguments: Pointer) -> ncclResult_t {
        // SAFETY: this function's contract.
        unsafe { (self.state)(handle, state, arguments) }
    }

    /// # Safety
    /// The context is one of this plugin's, and was not finalized.
    pub(super) unsafe fn finalize(&self, context: Pointer) -> ncclResult_t {
        // SAFETY: this function's contract.
        unsafe { (self.finalize)(context) }
    }
}
