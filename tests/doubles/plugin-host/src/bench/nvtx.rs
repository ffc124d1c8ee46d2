//! A program with NVTX that pushes and pops ranges of one name.

use std::ffi::CString;

use anyhow::Error;
use c_double::nvtx::{Nvtx, Registered};
use libloading::os::unix::Library;

pub(super) struct Ranges {
    nvtx: Nvtx,
    /// As it comes, unless a name is registered.
    name: CString,
    registered: Option<Registered>,
}

impl Ranges {
    /// Has the plugin take the functions over. Without a name, one is registered.
    pub(super) fn begin(library: &Library, name: CString) -> anyhow::Result<Self> {
        let nvtx = Nvtx::from_library(library).map_err(Error::msg)?;
        let registered = name.is_empty().then(|| nvtx.registered(c"bench", c"forward"));
        Ok(Self { nvtx, name, registered })
    }

    #[inline]
    pub(super) fn push(&self) {
        match &self.registered {
            Some(range) => self.nvtx.push_registered(range),
            None => self.nvtx.push(&self.name),
        }
    }

    #[inline]
    pub(super) fn pop(&self) {
        match &self.registered {
            Some(range) => self.nvtx.pop_registered(range),
            None => self.nvtx.pop(),
        }
    }

    pub(super) fn push_and_pop(&self) {
        self.push();
        self.pop();
    }
}
