//! Threads that are CUDA's own: they call the host functions that NCCL puts into streams and graphs, and in these NCCL
//! reports the operations of a replay, or of a launch on a busy stream.
//!
//! Nothing names them. A thread of the program that reports operations has called NCCL or has launched (nonblocking
//! communicators); one that has done neither is CUDA's. Only since calls and launches are told (2.28).

use std::collections::BTreeSet;

use super::assembly::{Assembly, Thread, ThreadKey};
use super::place::index;
use crate::event::Kind;

/// The threads of CUDA.
#[must_use]
pub(super) fn of(assembly: &Assembly) -> BTreeSet<ThreadKey> {
    let key = |thread: u32| assembly.threads.get(index(thread)).map(Thread::key);
    let mut callers: BTreeSet<ThreadKey> = BTreeSet::new();
    let mut reporters: BTreeSet<ThreadKey> = BTreeSet::new();
    let (mut has_calls, mut has_launches) = (false, false);
    let told = [
        Kind::GroupApi,
        Kind::CollApi,
        Kind::P2pApi,
        Kind::KernelLaunch,
        Kind::Coll,
        Kind::P2p,
    ];
    // Mostly the same thread goes on.
    let mut last = None;
    for (_, operation) in assembly.of_kinds(told) {
        if last.replace((operation.kind(), operation.thread))
            == Some((operation.kind(), operation.thread))
        {
            continue;
        }
        match operation.kind() {
            Kind::GroupApi | Kind::CollApi | Kind::P2pApi => has_calls = true,
            Kind::KernelLaunch => has_launches = true,
            Kind::Coll | Kind::P2p => {
                reporters.extend(key(operation.thread));
                continue;
            }
            _ => continue,
        }
        callers.extend(key(operation.thread));
    }
    if !has_calls || !has_launches {
        return BTreeSet::new();
    }
    callers.extend(
        assembly
            .comm_calls
            .iter()
            .filter_map(|call| key(call.thread)),
    );
    reporters.difference(&callers).copied().collect()
}
