//! Sets of event kinds, as bits by the number of [`Kind`].

use nccl_events::control::Wanted;
use nccl_events::{Kind, completed};

pub(super) const EVERY_KIND: u32 = u32::MAX;

/// The kinds to record. A job's own set lets through what NCCL starts without being asked; a set that was changed
/// meanwhile does not, nor one that NCCL's mask unites with the sets of chained plugins.
pub(super) const fn wanted_kinds(wanted: Wanted, asked: u32, is_shared: bool) -> u32 {
    if !wanted.is_on {
        0
    } else if wanted.events == asked && !is_shared {
        EVERY_KIND
    } else {
        with_parents(wanted.events) | 1 << Kind::Unknown as u32
    }
}

/// Adds the parents of the kinds: NCCL starts them too, and without them the children would have no place in the trace.
const fn with_parents(events: u32) -> u32 {
    const CHANNELS: u32 = Kind::KernelCh.mask() | Kind::KernelPhase.mask();
    const NET: u32 = Kind::ProxyOp.mask() | Kind::ProxyStep.mask() | Kind::NetPlugin.mask();
    const COPY_PARTS: u32 = Kind::CeSync.mask() | Kind::CeBatch.mask();
    const API: u32 = Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::KernelLaunch.mask();
    // From the children up: a row may add what a later row has as its child.
    const RULES: [(u32, u32); 8] = [
        (Kind::KernelPhase.mask(), Kind::KernelCh.mask()),
        (Kind::NetPlugin.mask(), Kind::ProxyStep.mask()),
        (Kind::ProxyStep.mask(), Kind::ProxyOp.mask()),
        (CHANNELS | NET, Kind::Coll.mask() | Kind::P2p.mask()),
        (COPY_PARTS, Kind::CeColl.mask()),
        (Kind::Coll.mask() | Kind::CeColl.mask(), Kind::Group.mask() | Kind::GroupApi.mask() | Kind::CollApi.mask()),
        (Kind::P2p.mask(), Kind::Group.mask() | Kind::GroupApi.mask() | Kind::P2pApi.mask()),
        (API, Kind::GroupApi.mask()),
    ];
    completed(events, &RULES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::{FULL, event_names};

    #[test]
    fn a_set_includes_the_parents_of_its_kinds() {
        let names = |mask| event_names(with_parents(mask)).join(",");
        assert_eq!(names(Kind::GroupApi.mask()), "GroupApi");
        assert_eq!(names(Kind::KernelLaunch.mask()), "GroupApi,KernelLaunch");
        assert_eq!(names(Kind::Coll.mask()), "Group,Coll,GroupApi,CollApi");
        assert_eq!(names(Kind::NetPlugin.mask()), "Group,Coll,P2p,ProxyOp,ProxyStep,NetPlugin,GroupApi,CollApi,P2pApi");
        assert_eq!(names(FULL), event_names(0xffff).join(","));
    }
}
