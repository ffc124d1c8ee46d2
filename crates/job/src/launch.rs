//! Infers the kernel launch of an operation. NCCL does not report it: a launch names the API group, as the operation's
//! call does, and a group has a launch for each plan (kernel) of each communicator.
//!
//! ```text
//!  GroupApi ──┬── KernelLaunch 1     Group 1 ── Coll, Coll     the k-th plan has the k-th launch
//!             └── KernelLaunch 2     Group 2 ── P2p
//! ```
//!
//! Plans are mostly reported right after their launch, but all later, by CUDA's callback thread, if the host stream is
//! busy or launches block. So order decides, and time only if the numbers of plans and launches differ: because
//! something was lost, or does not name its plan.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At<R> {
    pub start: u64,
    pub of: R,
}

/// Whether the k-th plan of a group on a communicator has the k-th launch: both are equally many, sorted by time, and
/// each launch precedes its plan. If `more_may_come`, there may be fewer plans than launches.
pub fn in_order<R>(launches: &[At<R>], plans: impl ExactSizeIterator<Item = u64>, more_may_come: bool) -> bool {
    let as_many = plans.len() == launches.len() || more_may_come && plans.len() < launches.len();
    as_many && launches.iter().zip(plans).all(|(launch, plan)| launch.start <= plan)
}

/// The last launch that began at or before `time`; `launches` is sorted by time.
pub fn last_before<R>(launches: &[At<R>], time: u64) -> Option<&At<R>> {
    launches.get(launches.partition_point(|launch| launch.start <= time).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launches(starts: &[u64]) -> Vec<At<u64>> {
        starts.iter().map(|&start| At { start, of: start }).collect()
    }

    #[test]
    fn the_order_counts_where_there_are_as_many() {
        let is = |starts: &[u64], plans: &[u64], more| in_order(&launches(starts), plans.iter().copied(), more);
        assert!(is(&[1, 2], &[5, 6], false));
        assert!(!is(&[1, 2], &[5], false), "a plan was lost: it may be either");
        assert!(is(&[1, 2], &[5], true), "the second one is not reported yet");
        assert!(!is(&[1], &[5, 6], true), "a launch was lost");
        assert!(!is(&[1, 6], &[2, 5], false), "launched after it was reported");
    }

    #[test]
    fn else_it_is_the_last_one_before() {
        let of = |time| last_before(&launches(&[3, 5, 5]), time).map(|launch| launch.of);
        assert_eq!([2, 3, 4, 9].map(of), [None, Some(3), Some(3), Some(5)]);
    }
}
