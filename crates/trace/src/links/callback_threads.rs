//! Threads that are CUDA's own: they call the host functions that NCCL puts into streams and graphs, and in these NCCL
//! reports the operations of a replay, or of a launch on a busy stream.
//!
//! Nothing names them. A thread of the program that reports operations has called NCCL or has launched (nonblocking
//! communicators); one that has done neither is CUDA's. Only since calls and launches are told (2.28).

use std::collections::BTreeSet;

use tables::communicators::callers::{self, Callers};
use tables::place::index;
use tables::{Tables, Thread, ThreadKey};

/// The threads of CUDA.
#[must_use]
pub(crate) fn of(tables: &Tables) -> BTreeSet<ThreadKey> {
    let key = |thread: u32| tables.threads.get(index(thread)).map(Thread::key);
    let threads = |callers: Callers| -> BTreeSet<ThreadKey> {
        callers.into_iter().filter_map(|(_, thread)| key(thread)).collect()
    };
    let mut callers = threads(callers::of_calls(tables));
    let launchers = threads(callers::of_launches(tables));
    if callers.is_empty() || launchers.is_empty() {
        return BTreeSet::new();
    }
    callers.extend(launchers);
    callers.extend(tables.comm_calls.iter().filter_map(|call| key(call.thread)));
    let reporters = threads(callers::of_operations(tables));
    reporters.difference(&callers).copied().collect()
}
