//! Which threads did what for which communicators.

use rustc_hash::FxHashSet;

use crate::{Coll, CollApi, ContextName, Event, Fields, GroupApi, KernelLaunch, P2p, P2pApi, Tables};

/// Contexts and threads, each pair once, in no order.
pub type Callers = FxHashSet<(ContextName, u32)>;

fn add<F: Fields>(callers: &mut Callers, events: &[Event<F>]) {
    let mut last = None;
    for event in events {
        let caller = (event.context, event.thread);
        // Almost always the same as before.
        if last != Some(caller) {
            callers.insert(caller);
            last = Some(caller);
        }
    }
}

/// Who called NCCL's interface.
pub fn of_calls(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<GroupApi>(&mut callers, &tables.events.group_apis);
    add::<CollApi>(&mut callers, &tables.events.coll_apis);
    add::<P2pApi>(&mut callers, &tables.events.p2p_apis);
    callers
}

/// Who launched kernels.
pub fn of_launches(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<KernelLaunch>(&mut callers, &tables.events.kernel_launches);
    callers
}

/// Who enqueued operations.
pub fn of_operations(tables: &Tables) -> Callers {
    let mut callers = Callers::default();
    add::<Coll>(&mut callers, &tables.events.colls);
    add::<P2p>(&mut callers, &tables.events.p2ps);
    callers
}
