//! Communicators: how they come and go.

use super::entry::Pointer;
use super::{Nccl, UniqueId, int};
use anyhow::Context as _;
use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};

/// One rank's handle of a communicator. It has no destructor: how a communicator ends is part of a run, and
/// a handle of a failed run must not be touched again.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(super) nccl: &'static Nccl,
    pub(super) raw: Pointer,
    /// The name it has in the log, the same on all ranks.
    pub(crate) name: String,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
}

// SAFETY: `nccl` is shared and never changes. `raw` is a handle that NCCL lets any one thread use at a time;
// the type is not Sync, so a handle that was sent away is used by its new thread alone.
unsafe impl Send for Communicator {}

/// Head of `ncclConfig_t` as of 2.27; NCCL reads only the part that `size` and `version` tell it of.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
}

/// NCCL_CONFIG_UNDEF_INT
const UNSET: c_int = c_int::MIN;

impl Config {
    fn named(name: &CString) -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 22700,
            blocking: UNSET,
            cga_cluster_size: UNSET,
            min_ctas: UNSET,
            max_ctas: UNSET,
            net_name: null(),
            split_share: UNSET,
            traffic_class: UNSET,
            comm_name: name.as_ptr(),
            collnet_enable: UNSET,
            cta_policy: UNSET,
            shrink_share: UNSET,
            nvls_ctas: UNSET,
        }
    }
}

impl Communicator {
    /// ncclCommInitRank, or ncclCommInitRankConfig where a name is wanted.
    pub(crate) fn init_rank(
        nccl: &'static Nccl,
        id: UniqueId,
        rank: usize,
        ranks: usize,
        nccl_name: Option<&str>,
    ) -> anyhow::Result<Communicator> {
        let (n, me) = (int(ranks)?, int(rank)?);
        let mut raw: Pointer = null_mut();
        match nccl_name {
            None => {
                // SAFETY: NCCL writes one handle through the pointer; the rest goes by value.
                let result = unsafe { (nccl.entry.comm_init_rank)(&raw mut raw, n, id, me) };
                nccl.check("ncclCommInitRank", result)?;
            }
            Some(text) => {
                let init = nccl
                    .entry
                    .comm_init_rank_config
                    .context("--name: this NCCL has no ncclCommInitRankConfig")?;
                let name = CString::new(text).context("--name: must not contain a NUL")?;
                let mut config = Config::named(&name);
                // SAFETY: NCCL writes one handle, and reads `config` up to its `size` and the name it points
                // to, both alive until the call returns; it copies the name.
                let result = unsafe { init(&raw mut raw, n, id, me, (&raw mut config).cast()) };
                nccl.check("ncclCommInitRankConfig", result)?;
            }
        }
        Ok(Communicator::new(
            nccl,
            raw,
            "world".to_owned(),
            rank,
            ranks,
        ))
    }

    fn new(
        nccl: &'static Nccl,
        raw: Pointer,
        name: String,
        rank: usize,
        ranks: usize,
    ) -> Communicator {
        Communicator {
            nccl,
            raw,
            name,
            rank,
            ranks,
        }
    }

    /// ncclCommSplit; `name`, `rank` and `ranks` are what the caller knows the new communicator to be.
    pub(crate) fn split(
        &self,
        color: usize,
        key: c_int,
        name: String,
        rank: usize,
        ranks: usize,
    ) -> anyhow::Result<Communicator> {
        let mut raw: Pointer = null_mut();
        // SAFETY: `self.raw` is a live handle; NCCL writes one handle; a NULL configuration means "as the parent".
        let result = unsafe {
            (self.nccl.entry.comm_split)(self.raw, int(color)?, key, &raw mut raw, null_mut())
        };
        self.nccl.check("ncclCommSplit", result)?;
        Ok(Communicator::new(self.nccl, raw, name, rank, ranks))
    }

    pub(crate) fn finalize(&self) -> anyhow::Result<()> {
        // SAFETY: `self.raw` is a live handle; finalizing leaves it valid for ncclCommDestroy.
        let result = unsafe { (self.nccl.entry.comm_finalize)(self.raw) };
        self.nccl.check("ncclCommFinalize", result)
    }

    pub(crate) fn destroy(self) -> anyhow::Result<()> {
        // SAFETY: `self.raw` is a live handle and, as `self` is consumed, not used again.
        let result = unsafe { (self.nccl.entry.comm_destroy)(self.raw) };
        self.nccl.check("ncclCommDestroy", result)
    }

    pub(crate) fn abort(self) -> anyhow::Result<()> {
        // SAFETY: `self.raw` is a live handle and, as `self` is consumed, not used again.
        let result = unsafe { (self.nccl.entry.comm_abort)(self.raw) };
        self.nccl.check("ncclCommAbort", result)
    }
}

/// ncclCommInitAll: one communicator per device, rank r on device r.
pub(crate) fn comm_init_all(
    nccl: &'static Nccl,
    ranks: usize,
) -> anyhow::Result<Vec<Communicator>> {
    let mut handles: Vec<Pointer> = vec![null_mut(); ranks];
    // SAFETY: NCCL writes `ranks` handles, which is the length of the vector; no device list means 0, 1, ….
    let result = unsafe { (nccl.entry.comm_init_all)(handles.as_mut_ptr(), int(ranks)?, null()) };
    nccl.check("ncclCommInitAll", result)?;
    Ok(handles
        .into_iter()
        .enumerate()
        .map(|(rank, raw)| Communicator::new(nccl, raw, "world".to_owned(), rank, ranks))
        .collect())
}
