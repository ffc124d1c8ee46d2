//! Which range of the program a rank was in while others waited for it.

use std::collections::BTreeMap;

use super::{Threads, names_of};
use crate::archive::Trace;
use crate::derived::maths::sample::real;
use crate::derived::maths::union::{Covered, length, union};
use crate::report::CausePhase;
use crate::tables::Tables;
use nccl_events::ids::index as large;

/// A range that took less of the time is not named.
const LEAST_SHARE: f64 = 0.5;

/// By path of ranges: the time in them, with what is inside.
type Inclusive = BTreeMap<Vec<String>, u64>;

impl Tables {
    /// The innermost range that a rank was in for at least half of `times`.
    pub fn during(&self, trace: &Trace, rank: u32, times: Vec<(u64, u64)>) -> Option<CausePhase> {
        let (inclusive_ns, whole_ns) = self.inclusive(trace, rank, times)?;
        innermost(inclusive_ns, whole_ns)
    }

    /// The innermost range in which a rank spent at least half of what its times are longer than those of another one.
    pub fn longer_during(
        &self,
        trace: &Trace,
        (rank, times): (u32, Vec<(u64, u64)>),
        (other, times_of_other): (u32, Vec<(u64, u64)>),
    ) -> Option<CausePhase> {
        let (mut inclusive_ns, whole_ns) = self.inclusive(trace, rank, times)?;
        let (of_other, whole_of_other_ns) = self.inclusive(trace, other, times_of_other)?;
        for (path, ns) in &mut inclusive_ns {
            *ns = ns.saturating_sub(of_other.get(path).copied().unwrap_or(0));
        }
        innermost(inclusive_ns, whole_ns.saturating_sub(whole_of_other_ns))
    }

    /// The parts of a rank's `times` in ranges, and the length of all.
    fn inclusive(&self, trace: &Trace, rank: u32, times: Vec<(u64, u64)>) -> Option<(Inclusive, u64)> {
        if self.ranges.is_empty() {
            return None;
        }
        let threads = Threads::of(trace, self, rank)?;
        let times = union(times);
        let whole_ns = length(&times);
        let times = Covered::of(&times);
        let mut own_ns: BTreeMap<u32, u64> = BTreeMap::new();
        // Ranges of a thread are in the order of their ends: those inside a range come before it.
        let mut inside: Vec<(u64, u64)> = Vec::new();
        let mut before = None;
        for range in self.ranges.rows().filter(|range| threads.has(trace, range.location)) {
            if before.replace(range.location) != Some(range.location) {
                inside.clear();
            }
            let within_ns = times.within(range.start_ns, range.stop_ns);
            let mut inside_ns = 0;
            while let Some((_, ns)) = inside.pop_if(|(start_ns, _)| *start_ns >= range.start_ns) {
                inside_ns += ns;
            }
            *own_ns.entry(range.path).or_default() += within_ns.saturating_sub(inside_ns);
            inside.push((range.start_ns, within_ns));
        }
        // With what is inside of each range, by its path.
        let texts = self.paths.texts();
        let mut inclusive_ns = Inclusive::new();
        for (path, ns) in own_ns {
            let names = names_of(texts.get(large(path))?);
            for depth in 1..=names.len() {
                *inclusive_ns.entry(names[..depth].to_vec()).or_default() += ns;
            }
        }
        Some((inclusive_ns, whole_ns))
    }
}

fn innermost(inclusive_ns: Inclusive, whole_ns: u64) -> Option<CausePhase> {
    let share = |ns: u64| real(ns) / real(whole_ns.max(1));
    let most = inclusive_ns.into_iter().filter(|(_, ns)| *ns > 0 && share(*ns) >= LEAST_SHARE);
    let (path, ns) = most.max_by_key(|(path, ns)| (path.len(), *ns))?;
    Some(CausePhase { path, share: share(ns).min(1.0) })
}
