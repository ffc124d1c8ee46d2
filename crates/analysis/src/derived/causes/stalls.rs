//! Rare but long interruptions of operations.

use std::collections::BTreeMap;

use super::{capital, of_all};
use crate::derived::anomalies::Inputs;
use crate::derived::maths::sample::real;
use crate::report::{Anomaly, Cause, CauseKind, CausePhase, LinkKey};
use crate::units::{plural, time};
use nccl_events::ids::index as large;

impl Inputs<'_> {
    /// Causes that stopped operations rarely, but long enough to matter.
    pub(super) fn stalls(&self, anomalies: &[Anomaly], known: &[Cause]) -> Vec<Cause> {
        /// A stall takes this many times as long as usual.
        const STALL: f64 = 10.0;
        type Key = (CauseKind, Option<u32>, Option<LinkKey>);
        let mut sums: BTreeMap<Key, Vec<&Anomaly>> = BTreeMap::new();
        for anomaly in anomalies {
            let is_known = known.iter().any(|cause| explains(cause, anomaly));
            let is_stall = real(anomaly.end_ns.saturating_sub(anomaly.start_ns)) > STALL * anomaly.median_ns;
            if is_stall && !is_known && anomaly.lost_ns > 0 {
                sums.entry((anomaly.kind, anomaly.rank, anomaly.link)).or_default().push(anomaly);
            }
        }
        let causes = sums.into_iter().map(|((kind, rank, link), of_cause)| {
            let lost_ns = of_cause.iter().map(|it| it.lost_ns).sum();
            let instances = of_cause.len() as u64;
            let first_ns = of_cause.iter().map(|it| it.start_ns).min().unwrap_or(0);
            let share = self.share(lost_ns);
            let name = |rank: Option<u32>| {
                rank.and_then(|rank| self.ranks.get(large(rank))).map_or("a rank", |rank| rank.name.as_str())
            };
            let what = match (kind, link) {
                (CauseKind::LateRank, _) => format!("{} came late to", capital(name(rank))),
                (CauseKind::SlowConnection, Some(link)) => {
                    let channel = link.channel.map(|channel| format!(" on channel {channel}")).unwrap_or_default();
                    format!("The network from {} to {}{channel} stalled in", name(link.from), name(link.to))
                }
                (CauseKind::WaitedForGpu, _) => "Proxies waited for GPUs in".to_owned(),
                (CauseKind::WaitedForPeer, _) => "Proxies waited for receivers in".to_owned(),
                _ => "For a reason that the recording does not show, time was lost in".to_owned(),
            };
            let phase = rank.filter(|_| kind == CauseKind::LateRank).and_then(|rank| {
                let until_late = |it: &&Anomaly| (it.start_ns, it.start_ns + it.skew_ns);
                self.phase(rank, of_cause.iter().map(until_late).collect())
            });
            let meanwhile = phase.as_ref().map(CausePhase::sentence).unwrap_or_default();
            let sentence = format!(
                "{what} {} that took more than ten times as long as usual, first at {}: {} were lost{}.{meanwhile}",
                plural(instances, "collective", "collectives"),
                time(first_ns),
                time(lost_ns),
                of_all(share),
            );
            Cause { kind, rank, link, phase, lost_ns, share, instances, is_stall: true, sentence, ..Cause::default() }
        });
        causes.collect()
    }
}

/// Whether a cause that is already known explains an anomaly.
fn explains(cause: &Cause, anomaly: &Anomaly) -> bool {
    if cause.kind == CauseKind::SlowNic {
        return anomaly.link.is_some_and(|link| cause.rank.is_some() && [link.from, link.to].contains(&cause.rank));
    }
    let is_rank = cause.rank.is_some() && cause.rank == anomaly.rank;
    let is_link = cause.link.zip(anomaly.link).is_some_and(|(cause, anomaly)| {
        let is_pair = cause.peer.is_none() || (cause.from, cause.peer) == (anomaly.from, anomaly.peer);
        let is_channel = cause.channel.is_none() || cause.channel == anomaly.channel;
        cause.communicator == anomaly.communicator && is_pair && is_channel
    });
    is_rank || is_link
}
