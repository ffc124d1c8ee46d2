//! A program with NVTX that pushes and pops ranges of one name.

use std::ffi::CString;

use anyhow::Error;
use c_double::nvtx::{Nvtx, Registered};
use libloading::os::unix::Library;

pub(super) struct Ranges {
    nvtx: Nvtx,
    name: Name,
}

enum Name {
    Registered(Registered),
    /// As it comes.
    Text(CString),
}

impl Ranges {
    /// Has the plugin take the functions over. Without a name, one is registered.
    pub(super) fn begin(library: &Library, name: CString) -> anyhow::Result<Self> {
        let nvtx = Nvtx::of(library).map_err(Error::msg)?;
        let registered = || Name::Registered(nvtx.registered(c"bench", c"forward"));
        let name = if name.is_empty() { registered() } else { Name::Text(name) };
        Ok(Self { nvtx, name })
    }

    #[inline]
    pub(super) fn push(&self) {
        match &self.name {
            Name::Registered(range) => self.nvtx.push_registered(range),
            Name::Text(name) => self.nvtx.push(name),
        }
    }

    #[inline]
    pub(super) fn pop(&self) {
        match &self.name {
            Name::Registered(range) => self.nvtx.pop_registered(range),
            Name::Text(_) => self.nvtx.pop(),
        }
    }

    pub(super) fn push_and_pop(&self) {
        self.push();
        self.pop();
    }
}
