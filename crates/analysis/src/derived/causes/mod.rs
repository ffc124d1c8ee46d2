//! The largest losses of time. A cause is reported only if chance does not explain it.

mod links;
mod nics;
mod stalls;

pub(super) use links::LEAST_OTHERS;

use super::anomalies::Inputs;
use super::instances::Instance;
use super::lateness::Late;
use super::maths::sample::{real, whole};
use super::messages::Waited;
use crate::report::{Anomaly, Cause, CauseKind, CausePhase, Rank};
pub(super) use crate::units::capital;
use crate::units::{count, plural, time};
use nccl_events::ids::{index as large, index_u32 as small};

/// A loss below this share of all ranks' time in operations is not reported.
pub(super) const LEAST_SHARE: f64 = 0.02;
/// A rank became late if others waited at least this many times as long for it in each collective after the change.
const RISE: f64 = 3.0;

impl Inputs<'_> {
    /// Causes that affect many operations, sorted by lost time, followed by those that affect few.
    pub(super) fn causes(&self, anomalies: &[Anomaly]) -> Vec<Cause> {
        let ranks = self.ranks.iter().zip(self.late).enumerate();
        let mut causes: Vec<Cause> = ranks.filter_map(|(at, (rank, late))| self.late(at, rank, late)).collect();
        causes.extend(self.slow_links());
        causes.extend(self.stalls(anomalies, &causes));
        causes.retain(|cause| cause.share.map_or(cause.lost_ns > 0, |share| share >= LEAST_SHARE));
        nccl_events::sort::sort_by_key(&mut causes, |cause| {
            (cause.is_stall, std::cmp::Reverse(cause.lost_ns), cause.kind)
        });
        causes
    }

    fn late(&self, number: usize, rank: &Rank, late: &Late) -> Option<Cause> {
        if !late.is_certain() {
            return None;
        }
        let share = self.share(late.lost_ns);
        let Waited { receives_ns, sends_ns, collectives_ns } = late.waited;
        let (kind, what) = match () {
            () if collectives_ns >= receives_ns.max(sends_ns) => (CauseKind::LateRank, "comes late"),
            () if receives_ns >= sends_ns => (CauseKind::LateSender, "sends late"),
            () => (CauseKind::LateReceiver, "receives late"),
        };
        // Late for most of the run, or since a change.
        let changed = rank.change.filter(|change| change.after > change.before && change.after > rank.lateness_ns);
        let changed = changed.filter(|change| self.loss_begins(number, change.at_ns));
        let since_ns = changed.filter(|_| kind == CauseKind::LateRank).map(|change| change.at_ns);
        let since = since_ns.map(|at_ns| format!(" from {} on", time(at_ns))).unwrap_or_default();
        let often = match kind {
            CauseKind::LateRank if real(rank.last) > rank.last_expected => format!(
                " It came last in {} of {} collectives{} (about {} expected by chance).",
                count(rank.last),
                count(rank.instances),
                if self.waiting.warm_up.operations_ns > 0 { " after the warm-up" } else { "" },
                count(whole(rank.last_expected)),
            ),
            _ => format!(" They waited for {} of its operations.", count(late.times)),
        };
        let awaited = self.waiting.blame.ranks.get(number).into_iter().flat_map(|awaited| &awaited.operations);
        let times = awaited.map(|it| (it.since_ns.min(it.came_ns), it.came_ns)).collect();
        let phase = self.phase(small(number), times);
        let meanwhile = phase.as_ref().map(CausePhase::sentence).unwrap_or_default();
        let sentence = format!(
            "{} {what}{since}: {} waited {} for it{}. It spent {} more outside of operations than they did.{meanwhile}{often}",
            capital(&rank.name),
            plural(late.ranks, "rank", "ranks"),
            time(late.lost_ns),
            of_all(share),
            time(late.more_ns),
        );
        Some(Cause {
            kind,
            rank: Some(small(number)),
            since_ns,
            phase,
            lost_ns: late.lost_ns,
            share,
            instances: if kind == CauseKind::LateRank { rank.last } else { late.times },
            sentence,
            ..Cause::default()
        })
    }

    /// The range of the program that a rank was in at these times.
    fn phase(&self, rank: u32, times: Vec<(u64, u64)>) -> Option<CausePhase> {
        self.tables.during(self.trace, rank, times)
    }

    /// Whether others began to wait for a rank at a time: most of the waiting comes after it. The rank's usual lateness
    /// may also change where it costs nothing; such a change does not count.
    fn loss_begins(&self, rank: usize, at_ns: u64) -> bool {
        let operations = self.waiting.blame.ranks.get(rank).map(|awaited| &awaited.operations);
        let lost_ns = |is_before: bool| {
            let of_side = operations.into_iter().flatten().filter(|it| (it.came_ns < at_ns) == is_before);
            real(of_side.map(|it| it.ns).sum())
        };
        let is_own = |instance: &&Instance| {
            let mut rows = self.instances.operations(instance).iter();
            rows.any(|row| large(self.tables.job_rank(*row)) == rank)
        };
        let own = self.instances.all.iter().filter(|it| it.is_comparable() && !it.is_warm_up).filter(is_own);
        let (before, after): (Vec<u64>, Vec<u64>) = own.map(|it| it.arrivals.last_ns).partition(|ns| *ns < at_ns);
        let mean_ns = |is_before, collectives: &[u64]| lost_ns(is_before) / real(collectives.len().max(1) as u64);
        lost_ns(false) > lost_ns(true) && mean_ns(false, &after) >= RISE * mean_ns(true, &before)
    }

    /// The lost share of all ranks' time in operations; `None` if no operation was measured.
    fn share(&self, lost_ns: u64) -> Option<f64> {
        let operations_ns = self.waiting.total.operations_ns;
        (operations_ns > 0).then(|| real(lost_ns) / real(operations_ns))
    }
}

/// For example ", 12.3 % of the time of all ranks in operations".
fn of_all(share: Option<f64>) -> String {
    share.map(|share| format!(", {:.1} % of the time of all ranks in operations", share * 100.0)).unwrap_or_default()
}
