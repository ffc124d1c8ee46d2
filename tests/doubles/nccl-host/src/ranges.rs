//! The ranges that the job names through NVTX, as a training program does (`--ranges`).

use c_double::count;
use c_double::nvtx::Nvtx;
use std::ffi::CString;

pub(crate) const STEP: &str = "step #";
pub(crate) const SETUP: &str = "setup";
pub(crate) const FORWARD: &str = "forward";
pub(crate) const BACKWARD: &str = "backward";
pub(crate) const OPTIMIZER: &str = "optimizer";
pub(crate) const GROUPS: &str = "build groups";

#[derive(Debug)]
pub(crate) struct Ranges {
    nvtx: Option<Nvtx>,
}

impl Ranges {
    /// NVTX's functions, unless nobody wants ranges.
    pub(crate) fn new(wanted: bool) -> Ranges {
        Ranges { nvtx: wanted.then(Nvtx::from_environment).flatten() }
    }

    /// Does something in a range. With a number, that stands in place of the name's `#`.
    pub(crate) fn within<R>(&self, name: &'static str, number: Option<u64>, body: impl FnOnce() -> R) -> R {
        let Some(nvtx) = &self.nvtx else {
            return body();
        };
        count(name, 1);
        let text = number.map_or_else(|| name.to_owned(), |number| name.replace('#', &number.to_string()));
        nvtx.push(&CString::new(text).unwrap_or_default());
        let done = body();
        nvtx.pop();
        done
    }
}
