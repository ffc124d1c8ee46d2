//! What is known of NCCL before it calls `init`: from 2.27 on it does so when the ranks of a communicator have met.

use std::env;
use std::ffi::CString;

use crate::host::version;
use in_process::Object;
use nccl_events::{CommInit, Name, Table};
use settings::{ENV_PLUGIN, PLUGIN, are_settings_awaited};

/// The file that NCCL loads where no variable names one.
const DEFAULT: &str = "libnccl-profiler.so";

/// The communicator that is being made; `None` unless NCCL will call this plugin for it.
pub(super) fn communicator() -> Option<CommInit<'static>> {
    version::learn_from_noted();
    let nccl_version = version::current();
    let table = Table::of_release(nccl_version)?;
    let is_expected = !version::is_rccl() && is_profiler() && !are_settings_awaited();
    is_expected.then_some(CommInit { table, comm_id: 0, name: Name::NONE, nodes: 0, ranks: 0, rank: -1, nccl_version })
}

/// Whether what NCCL will load as profiler plugin is this library, which is loaded as NVTX's injection.
fn is_profiler() -> bool {
    if env::var_os(ENV_PLUGIN).is_some_and(|plugin| !plugin.is_empty() && plugin != "none") {
        return false;
    }
    let names = match env::var(PLUGIN).unwrap_or_default() {
        asked if asked.is_empty() => vec![DEFAULT.to_owned()],
        asked => vec![format!("libnccl-profiler-{asked}.so"), asked],
    };
    let mut loaded = names.into_iter().filter_map(|name| {
        let name = CString::new(name).ok()?;
        Object::of_symbol(&name, c"ncclProfiler_v1")
    });
    let own = Object::of((is_profiler as *const ()).addr());
    own.is_some_and(|own| loaded.any(|object| object.base == own.base))
}
