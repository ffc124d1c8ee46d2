//! A safe view of the NCCL library that was given at run time.
//!
//! Safe code cannot pass NCCL a wrong pointer or length: buffers come as `DeviceSlice`s, which know their
//! length and type, and a [`Communicator`] knows how many ranks it has. What remains is NCCL's own rule that
//! an operation may still run after the call has returned: the memory of a `DeviceSlice` is only given back
//! after its stream was waited for (`cuda::Buffer`).

mod communicator;
mod entry;

pub(crate) use communicator::{Communicator, Wanted, comm_init_all};
use entry::Entry;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId([u8; 128]);

impl UniqueId {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<UniqueId> {
        Some(UniqueId(bytes.try_into().ok()?))
    }
}

/// NCCL's version code, e.g. 22809 for 2.28.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) c_int);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.0 / 10000,
            self.0 / 100 % 100,
            self.0 % 100
        )
    }
}

/// The operators used here, with the codes of `ncclRedOp_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Reduction {
    Sum = 0,
    Max = 2,
    Avg = 4,
}

/// ncclInProgress: what a call on a nonblocking communicator returns before it is done.
const IN_PROGRESS: c_int = 7;

/// A type of elements that NCCL knows.
pub(crate) trait Element: Copy + PartialEq + fmt::Debug + Default + 'static {
    /// Code of `ncclDataType_t`.
    const CODE: c_int;
    /// NCCL's name.
    const NAME: &'static str;
}

impl Element for i32 {
    const CODE: c_int = 2;
    const NAME: &'static str = "ncclInt32";
}

impl Element for f32 {
    const CODE: c_int = 7;
    const NAME: &'static str = "ncclFloat32";
}

/// A mapped NCCL library. It stays mapped until the process ends.
#[derive(Debug)]
pub(crate) struct Nccl {
    pub(crate) entry: Entry,
}

impl Nccl {
    /// Maps the library.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Nccl> {
        Ok(Nccl {
            entry: Entry::load(path)?,
        })
    }

    pub(crate) fn version(&self) -> anyhow::Result<Version> {
        let mut code: c_int = 0;
        // SAFETY: NCCL writes one int through the pointer, which is valid for that.
        let result = unsafe { (self.entry.get_version)(&raw mut code) };
        self.check("ncclGetVersion", result)?;
        Ok(Version(code))
    }

    pub(crate) fn unique_id(&self) -> anyhow::Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: NCCL writes the 128 bytes of an ncclUniqueId, which is what the pointer points to.
        let result = unsafe { (self.entry.get_unique_id)(&raw mut id) };
        self.check("ncclGetUniqueId", result)?;
        Ok(id)
    }

    pub(crate) fn group_start(&self) -> anyhow::Result<()> {
        // SAFETY: takes nothing; the group is kept per thread by NCCL.
        let result = unsafe { (self.entry.group_start)() };
        self.check("ncclGroupStart", result)
    }

    /// Ends a group of calls on one communicator.
    pub(crate) fn group_end(&self, of: &Communicator) -> anyhow::Result<()> {
        // SAFETY: takes nothing; the operations of the group were checked when they were called.
        let result = unsafe { (self.entry.group_end)() };
        of.settle("ncclGroupEnd", result)
    }

    /// Whether the three collectives that came with 2.28 are there.
    pub(crate) fn has_calls_of_2_28(&self) -> bool {
        self.entry.all_to_all.is_some()
            && self.entry.gather.is_some()
            && self.entry.scatter.is_some()
    }

    fn check(&self, call: &'static str, result: c_int) -> anyhow::Result<()> {
        if result == 0 {
            return Ok(());
        }
        crate::cuda::give_up();
        // SAFETY: takes any code by value and returns a pointer to a constant text, NULL never.
        let text: *const c_char = unsafe { (self.entry.get_error_string)(result) };
        // SAFETY: see above: a constant, NUL-terminated text inside the library, which stays mapped.
        let text = unsafe { CStr::from_ptr(text) };
        anyhow::bail!("{call}: {} ({result})", text.to_string_lossy())
    }
}

/// NCCL takes ranks as int; there are never more than `pattern::MAX_RANKS`.
pub(crate) fn int(rank: usize) -> anyhow::Result<c_int> {
    Ok(c_int::try_from(rank)?)
}
