//! The functions of a chained plugin's table.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use super::super::sys::{self, ncclDebugLogger_t, ncclResult_t};
use crate::chain::{self, Library};
use nccl_events::{Table, event};

type Pointer = *mut c_void;
type Init = unsafe extern "C" fn(*mut Pointer, *mut c_int) -> ncclResult_t;
type Start = unsafe extern "C" fn(Pointer, *mut Pointer, Pointer) -> ncclResult_t;
type State = unsafe extern "C" fn(Pointer, sys::ncclProfilerEventState_t, Pointer) -> ncclResult_t;
type HandleFunction = unsafe extern "C" fn(Pointer) -> ncclResult_t;

/// A table of any version. Versions differ only in the arguments of `init` and in what other arguments point to.
#[repr(C)]
struct AnyTable {
    name: *const c_char,
    init: Option<Init>,
    start: Option<Start>,
    stop: Option<HandleFunction>,
    state: Option<State>,
    finalize: Option<HandleFunction>,
}

const _: () = assert!(size_of::<AnyTable>() == size_of::<sys::ncclProfiler_v7_t>());
const _: () = assert!(offset_of!(AnyTable, finalize) == offset_of!(sys::ncclProfiler_v7_t, finalize));

/// The arguments of `init` other than context and mask; unused up to version 3.
#[derive(Clone, Copy)]
pub(in crate::abi) struct Communicator {
    pub(in crate::abi) id: u64,
    pub(in crate::abi) name: *const c_char,
    pub(in crate::abi) nodes: c_int,
    pub(in crate::abi) ranks: c_int,
    pub(in crate::abi) rank: c_int,
    pub(in crate::abi) logger: ncclDebugLogger_t,
}

/// The kinds of events that a plugin's table can get; all kinds if NCCL would call the same table.
pub(super) fn kinds(plugin: Table, called: Table) -> u32 {
    if plugin == called { u32::MAX } else { event::kinds(plugin) }
}

pub(super) struct Functions {
    at: NonNull<AnyTable>,
    init: Init,
    pub(super) start: Start,
    pub(super) stop: HandleFunction,
    pub(super) state: State,
    pub(super) finalize: HandleFunction,
}

/// The newest table of a library that can be served when NCCL calls `called`.
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
        // SAFETY: a symbol of this name is a table, as NCCL also assumes, and the library stays loaded.
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

    /// Calls `init`; returns the context or the error.
    ///
    /// # Safety
    /// These functions come from `table`, and the arguments are NCCL's.
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
            // SAFETY: the first three tables have this type; the pointers live during the call, the mask for ever.
            Table::V1 | Table::V2 | Table::V3 => Some(unsafe { (self.init)(out, mask) }),
            Table::V4 => {
                // SAFETY: the library's table has this type, and stays loaded.
                let own = unsafe { self.at.cast::<sys::ncclProfiler_v4_t>().as_ref() };
                // SAFETY: as above.
                own.init.map(|init| unsafe { init(out, mask, name, id, nodes, ranks, rank, logger) })
            }
            Table::V5 | Table::V6 | Table::V7 => {
                // SAFETY: the library's table has this type, or one that begins with the same `init`.
                let own = unsafe { self.at.cast::<sys::ncclProfiler_v5_t>().as_ref() };
                // SAFETY: as above.
                own.init.map(|init| unsafe { init(out, id, mask, name, nodes, ranks, rank, logger) })
            }
        };
        match result.unwrap_or(sys::ncclInternalError) {
            sys::ncclSuccess => Ok(context),
            error => Err(error),
        }
    }
}
