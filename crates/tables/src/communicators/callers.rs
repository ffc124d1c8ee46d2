//! Which threads made calls, launches and operations for which communicators.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::{
    Coll, CollApi, ContextName, Event, Fields, GroupApi, KernelLaunch, P2p, P2pApi, Tables, Thread, ThreadKey,
};
use nccl_events::ids::index;
use nccl_events::sort::Gather;

/// Pairs of context and thread, without duplicates.
pub(super) type Callers = FxHashSet<(ContextName, u32)>;

fn add<F: Fields>(callers: &mut Callers, events: &[Event<F>]) {
    let mut last = None;
    for event in events {
        let caller = (event.context, event.thread);
        // Fast path: consecutive events usually have the same caller.
        if last != Some(caller) {
            callers.insert(caller);
            last = Some(caller);
        }
    }
}

pub(super) fn of_calls(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<GroupApi>(&mut callers, &tables.events.group_apis);
    add::<CollApi>(&mut callers, &tables.events.coll_apis);
    add::<P2pApi>(&mut callers, &tables.events.p2p_apis);
    callers
}

pub(super) fn of_launches(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<KernelLaunch>(&mut callers, &tables.events.kernel_launches);
    callers
}

pub(super) fn of_operations(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<Coll>(&mut callers, &tables.events.colls);
    add::<P2p>(&mut callers, &tables.events.p2ps);
    callers
}

/// CUDA's own threads: they call the host functions that NCCL puts into streams and graphs. In these, NCCL reports the
/// operations of a replay, or of a launch on a busy stream.
///
/// Inferred, as no event marks them. A program thread that reports operations has called NCCL or launched (nonblocking
/// communicators); a thread that has done neither is CUDA's. Needs the calls and launches of NCCL 2.28 or later.
pub fn callback_threads(tables: &Tables) -> BTreeSet<ThreadKey> {
    let key = |thread: u32| tables.threads.get(index(thread)).map(Thread::key);
    let threads = |callers: Callers| -> BTreeSet<ThreadKey> {
        callers.into_iter().filter_map(|(_, thread)| key(thread)).gather()
    };
    let mut callers = threads(of_calls(tables));
    let launchers = threads(of_launches(tables));
    if callers.is_empty() || launchers.is_empty() {
        return BTreeSet::new();
    }
    callers.extend(launchers);
    callers.extend(tables.comm_calls.iter().filter_map(|call| key(call.thread)));
    threads(of_operations(tables)).difference(&callers).copied().gather()
}
