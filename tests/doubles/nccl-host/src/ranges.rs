//! The ranges that the job names through NVTX, as a training program does (`--ranges`).

use c_double::count;
use c_double::nvtx::Nvtx;
use std::ffi::{CStr, CString};

pub(crate) const SETUP: &CStr = c"setup";
pub(crate) const FORWARD: &CStr = c"forward";
pub(crate) const BACKWARD: &CStr = c"backward";
pub(crate) const OPTIMIZER: &CStr = c"optimizer";
pub(crate) const GROUPS: &CStr = c"build groups";

#[derive(Debug)]
pub(crate) struct Ranges {
    nvtx: Option<Nvtx>,
}

impl Ranges {
    /// NVTX's functions, unless nobody wants ranges.
    pub(crate) fn new(wanted: bool) -> Ranges {
        Ranges { nvtx: wanted.then(Nvtx::of_environment).flatten() }
    }

    /// Does something in a range.
    pub(crate) fn within<R>(&self, name: &'static CStr, body: impl FnOnce() -> R) -> R {
        self.range(name, name, body)
    }

    /// Does something in the range of a step.
    pub(crate) fn step<R>(&self, number: u64, body: impl FnOnce() -> R) -> R {
        // Without a NUL.
        let name = CString::new(format!("step {number}")).unwrap_or_default();
        self.range(c"step #", &name, body)
    }

    /// Counted under the name that it has without numbers.
    fn range<R>(&self, counted: &'static CStr, name: &CStr, body: impl FnOnce() -> R) -> R {
        let Some(nvtx) = &self.nvtx else {
            return body();
        };
        count(counted.to_str().unwrap_or_default(), 1);
        nvtx.push(name);
        let done = body();
        nvtx.pop();
        done
    }
}
