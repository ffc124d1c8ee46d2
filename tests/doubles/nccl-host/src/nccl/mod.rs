//! A safe view of the NCCL library that was given at run time.
//!
//! Safe code cannot pass NCCL a wrong pointer or length: buffers come as `DeviceSlice`s, which know their
//! length and type, and a [`Communicator`] knows how many ranks it has. What remains is NCCL's own rule that
//! an operation may still run after the call has returned: the memory of a `DeviceSlice` is only given back
//! after its stream was waited for (`cuda::Buffer`).

mod communicator;
mod entry;
mod values;

pub(crate) use communicator::{CommOptions, Communicator, comm_init_all};
pub(crate) use values::{Element, Reduction, UniqueId, Version, int};

use entry::Entry;
use std::ffi::c_int;
use std::path::Path;

/// A mapped NCCL library. It stays mapped until the process ends.
#[derive(Debug)]
pub(crate) struct Nccl {
    pub(crate) entry: Entry,
}

impl Nccl {
    pub(crate) fn load(path: &Path) -> anyhow::Result<Nccl> {
        Ok(Nccl { entry: Entry::load(path)? })
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
        c_double::count("ncclGroupStart", 1);
        // SAFETY: takes nothing; the group is kept per thread by NCCL.
        let result = unsafe { (self.entry.group_start)() };
        self.check("ncclGroupStart", result)
    }

    pub(crate) fn has_calls_of_2_28(&self) -> bool {
        self.entry.all_to_all.is_some() && self.entry.gather.is_some() && self.entry.scatter.is_some()
    }

    fn check(&self, call: &'static str, result: c_int) -> anyhow::Result<()> {
        crate::cuda::check(call, result, self.entry.get_error_string)
    }
}
