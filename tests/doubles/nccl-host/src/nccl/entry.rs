//! The entry points of NCCL, by name.

use super::values::UniqueId;
use anyhow::{Context as _, anyhow};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

pub(super) type Pointer = *mut c_void;

/// send, recv, count, type, comm, stream
type Plain = unsafe extern "C" fn(Pointer, Pointer, usize, c_int, Pointer, Pointer) -> c_int;
/// send, recv, count, type, operator or root, comm, stream
type WithOne = unsafe extern "C" fn(Pointer, Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int;
/// send, recv, count, type, operator, root, comm, stream
type WithTwo = unsafe extern "C" fn(Pointer, Pointer, usize, c_int, c_int, c_int, Pointer, Pointer) -> c_int;
/// buffer, count, type, peer, comm, stream
type Message = unsafe extern "C" fn(Pointer, usize, c_int, c_int, Pointer, Pointer) -> c_int;
type OnComm = unsafe extern "C" fn(Pointer) -> c_int;

c_double::functions! {
    /// As nccl.h declares them, the same in all releases that have them.
    #[derive(Debug)]
    pub(crate) struct Entry {
        get_version: "ncclGetVersion", unsafe extern "C" fn(*mut c_int) -> c_int;
        get_error_string: "ncclGetErrorString", unsafe extern "C" fn(c_int) -> *const c_char;
        get_unique_id: "ncclGetUniqueId", unsafe extern "C" fn(*mut UniqueId) -> c_int;
        comm_init_rank: "ncclCommInitRank", unsafe extern "C" fn(*mut Pointer, c_int, UniqueId, c_int) -> c_int;
        comm_init_all: "ncclCommInitAll", unsafe extern "C" fn(*mut Pointer, c_int, *const c_int) -> c_int;
        comm_split: "ncclCommSplit", unsafe extern "C" fn(Pointer, c_int, c_int, *mut Pointer, Pointer) -> c_int;
        comm_finalize: "ncclCommFinalize", OnComm;
        comm_destroy: "ncclCommDestroy", OnComm;
        comm_abort: "ncclCommAbort", OnComm;
        comm_get_async_error: "ncclCommGetAsyncError", unsafe extern "C" fn(Pointer, *mut c_int) -> c_int;
        group_start: "ncclGroupStart", unsafe extern "C" fn() -> c_int;
        group_end: "ncclGroupEnd", unsafe extern "C" fn() -> c_int;
        all_reduce: "ncclAllReduce", WithOne;
        broadcast: "ncclBroadcast", WithOne;
        reduce: "ncclReduce", WithTwo;
        all_gather: "ncclAllGather", Plain;
        reduce_scatter: "ncclReduceScatter", WithOne;
        send: "ncclSend", Message;
        recv: "ncclRecv", Message;
    } optional {
        comm_init_rank_config: "ncclCommInitRankConfig",
            unsafe extern "C" fn(*mut Pointer, c_int, UniqueId, c_int, Pointer) -> c_int;
        all_to_all: "ncclAlltoAll", Plain;
        gather: "ncclGather", WithOne;
        scatter: "ncclScatter", WithOne;
    }
}

impl Entry {
    /// Maps the library, as the frameworks do: at once and with its names kept to itself.
    pub(super) fn load(path: &Path) -> anyhow::Result<Entry> {
        // SAFETY: runs the constructors of the library that the user named; libnccl's only set up its own data.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .with_context(|| format!("--lib: cannot load {}", path.display()))?;
        let entry = Entry::find(&library).map_err(|name| anyhow!("no {name} in the NCCL library"))?;
        // Never unmapped: NCCL's own threads may outlive every communicator.
        let _ = library.into_raw();
        Ok(entry)
    }
}
