//! Collectives that NCCL makes of sends and receives: what their members come to.

use job::interval::{Interval, around};
use journal::format::record::Symbol;
use nccl_events::collective::Pattern;
use rustc_hash::FxHashMap;

/// A call that NCCL made into sends and receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DerivedCall {
    pub(crate) pattern: Pattern,
    pub(crate) context: u32,
    /// Elements to or from each rank.
    pub(crate) count: u64,
    pub(crate) datatype: Symbol,
    /// This rank, and how many there are.
    pub(crate) rank: i32,
    pub(crate) ranks: usize,
}

/// One execution of it.
#[derive(Debug)]
struct Execution {
    call: DerivedCall,
    interval: Interval,
    /// Function and peer of its members.
    seen: Vec<(Symbol, i32)>,
    /// Whether its members are those of another call after all.
    is_other: bool,
    last: u64,
}

/// An execution that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCollective {
    pub(crate) call: DerivedCall,
    pub(crate) interval: Interval,
    /// Whether all of its sends and receives are known.
    pub(crate) is_whole: bool,
}

/// Executions that are not summed up, by group and replay.
#[derive(Debug, Default)]
pub(crate) struct Derived(FxHashMap<(u64, u64), Execution>);

impl Derived {
    /// A member ended: of which group and replay, its function and peer, and when the last record of it was made.
    pub(crate) fn add(
        &mut self,
        (group, replay): (u64, u64),
        call: DerivedCall,
        (func, peer): (Symbol, i32),
        (interval, last): (Interval, u64),
    ) {
        let new = || Execution { call, interval, seen: Vec::new(), is_other: false, last };
        let one = self.0.entry((group, replay)).or_insert_with(new);
        one.interval = around([one.interval, interval].into_iter()).unwrap_or(interval);
        one.last = last.max(one.last);
        let is_member = usize::try_from(peer).is_ok_and(|peer| peer < call.ranks);
        one.is_other |= !is_member || one.seen.contains(&(func, peer));
        one.seen.push((func, peer));
    }

    /// Those of which nothing came since then.
    pub(crate) fn take(&mut self, before: u64) -> Vec<EndedCollective> {
        let over = self.0.extract_if(|_, one| one.last < before).filter(|(_, one)| !one.is_other);
        let mut over: Vec<_> = over.map(|(key, one)| (key, one.ended())).collect();
        over.sort_unstable_by_key(|(key, _)| *key);
        over.into_iter().map(|(_, ended)| ended).collect()
    }
}

impl Execution {
    fn ended(&self) -> EndedCollective {
        let own = self.seen.iter().filter(|(_, peer)| *peer == self.call.rank).count();
        // What a rank sends to itself in place NCCL leaves out: both ends of it.
        let is_whole = self.seen.len() - own == self.call.pattern.transfers(self.call.ranks) && own % 2 == 0;
        EndedCollective { call: self.call, interval: self.interval, is_whole }
    }
}
