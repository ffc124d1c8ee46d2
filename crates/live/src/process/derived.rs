//! Collectives that NCCL makes of sends and receives: collects their members.

use job::derived::Members;
use job::interval::{Interval, around};
use journal::format::Symbol;
use nccl_events::collective::Pattern;
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DerivedCall {
    pub(crate) pattern: Pattern,
    pub(crate) context: u32,
    pub(crate) count: u64,
    pub(crate) datatype: Symbol,
    /// This rank, and the number of ranks.
    pub(crate) rank: i32,
    pub(crate) ranks: usize,
}

#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) call: DerivedCall,
    pub(crate) interval: Interval,
    members: Members,
    last: u64,
}

/// Executions that are not in the sums, by group and replay.
#[derive(Debug, Default)]
pub(crate) struct Derived(FxHashMap<(u64, u64), Execution>);

impl Derived {
    /// Adds a member that ended, with its group and replay, function and peer, and the ticks of its last record.
    pub(crate) fn add(
        &mut self,
        (group, replay): (u64, u64),
        call: DerivedCall,
        (func, peer): (&str, i32),
        (interval, last): (Interval, u64),
    ) {
        let new = || Execution { call, interval, members: Members::new(call.rank, call.ranks), last };
        let one = self.0.entry((group, replay)).or_insert_with(new);
        one.interval = around([one.interval, interval].into_iter()).unwrap_or(interval);
        one.last = last.max(one.last);
        one.members.add(func, peer);
    }

    /// Removes and returns executions without open members and without records since `before`, with their groups.
    pub(crate) fn take(&mut self, before: u64, has_open: impl Fn(u64) -> bool) -> Vec<(u64, Execution)> {
        let over = self.0.extract_if(|(group, _), one| one.last < before && !has_open(*group));
        let mut over: Vec<_> = over.collect();
        nccl_events::sort::sort_by_key(&mut over, |(key, _)| *key);
        over.into_iter().map(|((group, _), one)| (group, one)).collect()
    }
}

impl Execution {
    /// Whether all sends and receives are known; `None` if they belong to another call after all.
    pub(crate) fn is_whole(&self) -> Option<bool> {
        Some(self.members.missing(self.call.pattern)? == 0)
    }
}
