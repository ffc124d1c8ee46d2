//! Sets of event kinds, as bits by the number of [`Kind`].

use nccl_events::Kind;
use nccl_events::Wanted;

pub(super) const EVERY_KIND: u32 = u32::MAX;

/// The kinds to record. A job's initial set lets through what NCCL starts without being asked. A set that was changed
/// later does not, nor does a set that NCCL's mask unites with those of chained plugins.
pub(super) const fn wanted_kinds(wanted: Wanted, asked: u32, is_shared: bool) -> u32 {
    if !wanted.is_on {
        0
    } else if wanted.events == asked && !is_shared {
        EVERY_KIND
    } else {
        with_parents(wanted.events) | 1 << Kind::Unknown as u32
    }
}

/// Adds the kinds' parents: NCCL starts them too, and without them the children would have no place in the trace.
const fn with_parents(events: u32) -> u32 {
    let (mut all, mut before) = (events, 0);
    while all != before {
        before = all;
        let mut rest = Kind::ALL.as_slice();
        while let [kind, others @ ..] = rest {
            if before & kind.mask() != 0 {
                all |= parents(*kind);
            }
            rest = others;
        }
    }
    all
}

/// The parent kinds of a kind.
const fn parents(kind: Kind) -> u32 {
    const TASKS: u32 = Kind::Coll.mask() | Kind::P2p.mask();
    match kind {
        Kind::KernelPhase => Kind::KernelCh.mask(),
        Kind::NetPlugin => Kind::ProxyStep.mask(),
        Kind::ProxyStep => Kind::ProxyOp.mask(),
        Kind::KernelCh | Kind::ProxyOp => TASKS,
        Kind::CeSync | Kind::CeBatch => Kind::CeColl.mask(),
        Kind::Coll | Kind::CeColl => Kind::Group.mask() | Kind::GroupApi.mask() | Kind::CollApi.mask(),
        Kind::P2p => Kind::Group.mask() | Kind::GroupApi.mask() | Kind::P2pApi.mask(),
        Kind::CollApi | Kind::P2pApi | Kind::KernelLaunch => Kind::GroupApi.mask(),
        Kind::Group | Kind::GroupApi | Kind::ProxyCtrl | Kind::Unknown => 0,
    }
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
