//! Threads that are CUDA's own: they call the host functions that NCCL puts into streams and graphs, and in these NCCL
//! reports the operations of a replay, or of a launch on a busy stream.
//!
//! Nothing names them. A thread of the program that reports operations has called NCCL or has launched (nonblocking
//! communicators); one that has done neither is CUDA's. Only since calls and launches are told (2.28).

use std::collections::BTreeSet;

use crate::tables::assembly::{Assembly, Thread, ThreadKey};
use crate::tables::place::index;
use nccl_events::Kind;

const CALLS: [Kind; 3] = [Kind::GroupApi, Kind::CollApi, Kind::P2pApi];

/// The threads of CUDA.
#[must_use]
pub(crate) fn of(assembly: &Assembly) -> BTreeSet<ThreadKey> {
    let key = |thread: u32| assembly.threads.get(index(thread)).map(Thread::key);
    let threads = |kinds: &[Kind]| -> BTreeSet<ThreadKey> {
        let callers = assembly.seen.callers(kinds);
        callers.filter_map(|(_, thread)| key(thread)).collect()
    };
    let mut callers = threads(&CALLS);
    let launchers = threads(&[Kind::KernelLaunch]);
    if callers.is_empty() || launchers.is_empty() {
        return BTreeSet::new();
    }
    callers.extend(launchers);
    callers.extend(
        assembly
            .comm_calls
            .iter()
            .filter_map(|call| key(call.thread)),
    );
    let reporters = threads(&[Kind::Coll, Kind::P2p]);
    reporters.difference(&callers).copied().collect()
}
