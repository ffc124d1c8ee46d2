//! Communicators: how they come and go.

use super::Nccl;
use super::entry::Pointer;
use super::values::{IN_PROGRESS, UniqueId, int};
use anyhow::Context as _;
use c_double::count;
use std::ffi::{CString, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// One rank's handle of a communicator. It has no destructor: how a communicator ends is part of a run, and
/// a handle of a failed run must not be touched again.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) nccl: &'static Nccl,
    pub(crate) raw: Pointer,
    /// The name it has in the log, the same on all ranks.
    pub(crate) name: String,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    nonblocking: bool,
}

// SAFETY: `nccl` is shared and never changes. `raw` is a handle that NCCL lets any one thread use at a time;
// the type is not Sync, so a handle that was sent away is used by its new thread alone.
unsafe impl Send for Communicator {}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommOptions<'a> {
    /// Its name (2.27 and later).
    pub(crate) name: Option<&'a str>,
    /// Calls return before they are done.
    pub(crate) nonblocking: bool,
}

const POLL: Duration = Duration::from_micros(200);

/// Head of `ncclConfig_t` as of 2.27, in words; NCCL reads only the part that its first two members, size and version,
/// cover. `name` must outlive it.
fn config(name: Option<&CString>, nonblocking: bool) -> [u64; 9] {
    const MAGIC_AND_VERSION: u64 = 22700 << 32 | 0xcafe_beef;
    /// Two members that are NCCL_CONFIG_UNDEF_INT.
    const UNSET: u64 = 0x8000_0000_8000_0000;
    let blocking = if nonblocking { UNSET << 32 } else { UNSET };
    let name = name.map_or(0, |name| name.as_ptr().expose_provenance() as u64);
    // size, magic and version, blocking …, CTAs, netName, splitShare …, commName, four others
    [size_of::<[u64; 9]>() as u64, MAGIC_AND_VERSION, blocking, UNSET, 0, UNSET, name, UNSET, UNSET]
}

impl Communicator {
    /// The result of a call. On a nonblocking communicator it may not be done yet, whatever it returned: waits.
    pub(crate) fn settle(&self, call: &'static str, mut result: c_int) -> anyhow::Result<()> {
        if self.nonblocking && result == 0 {
            result = IN_PROGRESS;
        }
        while result == IN_PROGRESS {
            // SAFETY: `self.raw` is a live handle; NCCL writes one code through the pointer.
            let asked = unsafe { (self.nccl.entry.comm_get_async_error)(self.raw, &raw mut result) };
            self.nccl.check("ncclCommGetAsyncError", asked)?;
            if result == IN_PROGRESS {
                std::thread::sleep(POLL);
            }
        }
        self.nccl.check(call, result)
    }

    /// A call that takes the communicator away: a nonblocking one cannot be asked any more whether it is done.
    fn ends(self, call: &'static str, result: c_int) -> anyhow::Result<()> {
        match result {
            IN_PROGRESS => Ok(()),
            result => self.nccl.check(call, result),
        }
    }

    /// ncclCommInitRank, or ncclCommInitRankConfig where something is wanted.
    pub(crate) fn init_rank(
        nccl: &'static Nccl,
        id: UniqueId,
        rank: usize,
        ranks: usize,
        wanted: CommOptions<'_>,
    ) -> anyhow::Result<Communicator> {
        let comm = Communicator::start_init_rank(nccl, id, rank, ranks, wanted)?;
        comm.settle("ncclCommInitRankConfig", 0)?;
        Ok(comm)
    }

    /// The same, but does not wait until a nonblocking one is made: [`Communicator::settle`] does.
    pub(crate) fn start_init_rank(
        nccl: &'static Nccl,
        id: UniqueId,
        rank: usize,
        ranks: usize,
        wanted: CommOptions<'_>,
    ) -> anyhow::Result<Communicator> {
        let (n, me) = (int(ranks)?, int(rank)?);
        let mut raw: Pointer = null_mut();
        let made =
            |raw| Communicator { nccl, raw, name: "world".to_owned(), rank, ranks, nonblocking: wanted.nonblocking };
        if wanted.name.is_none() && !wanted.nonblocking {
            count("ncclCommInitRank", 1);
            // SAFETY: NCCL writes one handle through the pointer; the rest goes by value.
            let result = unsafe { (nccl.entry.comm_init_rank)(&raw mut raw, n, id, me) };
            nccl.check("ncclCommInitRank", result)?;
            return Ok(made(raw));
        }
        let init = nccl
            .entry
            .comm_init_rank_config
            .context("--name, --nonblocking: this NCCL has no ncclCommInitRankConfig")?;
        let name = wanted.name.map(CString::new).transpose().context("--name: must not contain a NUL")?;
        let mut config = config(name.as_ref(), wanted.nonblocking);
        count("ncclCommInitRankConfig", 1);
        // SAFETY: NCCL writes one handle, and reads `config` up to its `size` and the name it points to, both
        // alive until the call returns; it copies both.
        let result = unsafe { init(&raw mut raw, n, id, me, (&raw mut config).cast()) };
        if result != IN_PROGRESS {
            nccl.check("ncclCommInitRankConfig", result)?;
        }
        Ok(made(raw))
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
        count("ncclCommSplit", 1);
        // A nonblocking one writes it later, from a thread of its own: it stays where it is for good.
        let made: &'static AtomicPtr<c_void> = Box::leak(Box::new(AtomicPtr::new(null_mut())));
        // SAFETY: `self.raw` is a live handle; NCCL writes one handle into memory that stays; a NULL
        // configuration means "as the parent".
        let result = unsafe { (self.nccl.entry.comm_split)(self.raw, int(color)?, key, made.as_ptr(), null_mut()) };
        self.settle("ncclCommSplit", result)?;
        while made.load(Ordering::Acquire).is_null() {
            std::thread::sleep(POLL);
        }
        let raw = made.load(Ordering::Acquire);
        let comm = Communicator { nccl: self.nccl, raw, name, rank, ranks, nonblocking: self.nonblocking };
        // It is as nonblocking as its parent, and done when it says so itself.
        comm.settle("ncclCommSplit", 0)?;
        Ok(comm)
    }

    pub(crate) fn finalize(&self) -> anyhow::Result<()> {
        count("ncclCommFinalize", 1);
        // SAFETY: `self.raw` is a live handle; finalizing leaves it valid for ncclCommDestroy.
        let result = unsafe { (self.nccl.entry.comm_finalize)(self.raw) };
        self.settle("ncclCommFinalize", result)
    }

    pub(crate) fn destroy(self) -> anyhow::Result<()> {
        count("ncclCommDestroy", 1);
        // SAFETY: `self.raw` is a live handle and, as `self` is consumed, not used again.
        let result = unsafe { (self.nccl.entry.comm_destroy)(self.raw) };
        self.ends("ncclCommDestroy", result)
    }

    pub(crate) fn abort(self) -> anyhow::Result<()> {
        count("ncclCommAbort", 1);
        // SAFETY: `self.raw` is a live handle and, as `self` is consumed, not used again.
        let result = unsafe { (self.nccl.entry.comm_abort)(self.raw) };
        self.ends("ncclCommAbort", result)
    }
}

impl Nccl {
    pub(crate) fn group_end(&self, of: &Communicator) -> anyhow::Result<()> {
        count("ncclGroupEnd", 1);
        // SAFETY: takes nothing; the operations of the group were checked when they were called.
        let result = unsafe { (self.entry.group_end)() };
        of.settle("ncclGroupEnd", result)
    }
}

/// ncclCommInitAll: one communicator per device, rank r on device r.
pub(crate) fn comm_init_all(nccl: &'static Nccl, ranks: usize) -> anyhow::Result<Vec<Communicator>> {
    count("ncclCommInitAll", 1);
    let mut handles: Vec<Pointer> = vec![null_mut(); ranks];
    // SAFETY: NCCL writes `ranks` handles, which is the length of the vector; no device list means 0, 1, ….
    let result = unsafe { (nccl.entry.comm_init_all)(handles.as_mut_ptr(), int(ranks)?, null()) };
    nccl.check("ncclCommInitAll", result)?;
    Ok(handles
        .into_iter()
        .enumerate()
        .map(|(rank, raw)| Communicator { nccl, raw, name: "world".to_owned(), rank, ranks, nonblocking: false })
        .collect())
}
