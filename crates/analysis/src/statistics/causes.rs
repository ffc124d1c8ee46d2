//! The largest losses of time: late ranks, slow links and network interfaces, and rare but long interruptions. A cause
//! is reported only if chance does not explain it.

use std::collections::BTreeMap;

use crate::lateness::late::{LEAST_SHARE, LateRank};
use crate::links::slow::{STEADY, Shared, SlowLink};
use crate::results::{Anomaly, Cause, CauseKind, CausePhase, LinkKey};
use crate::statistics::anomalies::Inputs;
use crate::statistics::lines::{late_evidence, late_line, link_evidence, link_line, stall_line};
use crate::statistics::network::key;
use crate::units::{plural, real, time, whole};
use nccl_events::ids::index as large;

impl Inputs<'_> {
    /// Causes that affect many operations, sorted by lost time, followed by those that affect few.
    pub(super) fn causes(&self, anomalies: &[Anomaly]) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self.lateness.late.ranks.iter().filter_map(|late| self.late(late)).collect();
        causes.extend(self.slow_links());
        causes.extend(self.stalls(anomalies, &causes));
        // Late ranks are named together, for what they cost together.
        let counts = |cause: &Cause| cause.share.map_or(cause.lost_ns > 0, |share| share >= LEAST_SHARE);
        causes.retain(|cause| cause.is_late() || counts(cause));
        nccl_events::sort::sort_by_key(&mut causes, |cause| {
            (cause.is_stall, std::cmp::Reverse(cause.lost_ns), cause.kind)
        });
        causes
    }

    fn late(&self, late: &LateRank) -> Option<Cause> {
        let rank = self.ranks.get(large(late.rank))?;
        let share = self.share(whole(late.lost_ns));
        let span = late.span();
        let (instances, _) = late.usually_longer();
        let mut cause = Cause {
            kind: CauseKind::LateRank,
            rank: Some(late.rank),
            since_ns: span.map(|(from_ns, _)| from_ns),
            until_ns: span.map(|(_, to_ns)| to_ns),
            phase: self.phase(late.rank, late.times.clone()),
            lost_ns: whole(late.lost_ns),
            share,
            instances,
            ..Cause::default()
        };
        cause.sentence = late_line(std::slice::from_ref(rank), &[&cause]);
        let series = &self.lateness.series[late.series];
        cause.evidence = Some(late_evidence(rank, late, series.own.rows() as u64, series.block_ns()));
        Some(cause)
    }

    /// The range of the program that a rank was in at these times.
    fn phase(&self, rank: u32, times: Vec<(u64, u64)>) -> Option<CausePhase> {
        self.tables.during(self.trace, rank, times)
    }

    /// The lost share of all ranks' time in operations; `None` if no operation was measured.
    fn share(&self, lost_ns: u64) -> Option<f64> {
        let operations_ns = self.waiting.total.operations_ns;
        (operations_ns > 0).then(|| real(lost_ns) / real(operations_ns))
    }
}

impl Inputs<'_> {
    pub(super) fn slow_links(&self) -> Vec<Cause> {
        self.links.slow.iter().filter(|slow| slow.shared != Shared::Kind).map(|slow| self.slow_link(slow)).collect()
    }

    fn slow_link(&self, slow: &SlowLink) -> Cause {
        let (kind, key) = match &slow.shared {
            Shared::Rank(_) | Shared::Host(_) | Shared::Kind => (CauseKind::SlowNic, None),
            Shared::Channel(communicator, channel) => {
                let key = LinkKey { communicator: *communicator, channel: Some(*channel), ..LinkKey::default() };
                (CauseKind::SlowChannel, Some(key))
            }
            Shared::Hosts(..) => (CauseKind::SlowPair, None),
            Shared::Pair(pair) => (CauseKind::SlowPair, Some(key(self.tables, *pair))),
            Shared::Connection((pair, channel)) => {
                let key = LinkKey { channel: Some(*channel), ..key(self.tables, *pair) };
                (CauseKind::SlowConnection, Some(key))
            }
        };
        let links = || self.links.pairs.iter().chain(&self.links.channels);
        let link = key.and_then(|key| links().find(|link| link.key == key));
        let changed = link.and_then(|link| link.change).filter(|change| change.after > change.before * 1.25);
        let since_ns = changed.map(|change| change.at_ns);
        let fit = link.filter(|_| kind == CauseKind::SlowPair).and_then(|link| link.all);
        let fit = fit.and_then(|fit| Some((fit.latency_ns?, fit.rate?)));
        let total = &self.waiting.total;
        let transfer_ns = real(total.operations_ns - total.waiting_ns);
        // A link that always takes twice as long makes transfers twice as long at most.
        let most = if slow.typical >= STEADY { 1.0 - 1.0 / slow.ratio.max(1.0) } else { 1.0 };
        let most_ns = transfer_ns * most;
        let lost_ns = whole(if transfer_ns > 0.0 { slow.lost_ns.min(most_ns) } else { slow.lost_ns });
        let share = self.share(lost_ns);
        let (rank, host, to_host) = match &slow.shared {
            Shared::Rank(rank) => (Some(*rank), self.ranks.get(large(*rank)).map(|rank| rank.host.clone()), None),
            Shared::Host(host) => (None, Some(host.clone()), None),
            Shared::Hosts(from, to) => (None, Some(from.clone()), Some(to.clone())),
            _ => (None, None, None),
        };
        Cause {
            kind,
            rank,
            host,
            to_host,
            link: key,
            since_ns,
            lost_ns,
            share,
            sentence: link_line(self.tables, self.ranks, slow, since_ns, share),
            evidence: Some(link_evidence(self.tables, self.ranks, slow, fit)),
            ..Cause::default()
        }
    }
}

impl Inputs<'_> {
    /// Causes that stopped operations rarely, but long enough to matter.
    pub(super) fn stalls(&self, anomalies: &[Anomaly], known: &[Cause]) -> Vec<Cause> {
        /// A stall takes this many times as long as usual.
        const STALL: f64 = 10.0;
        type CauseKey = (CauseKind, Option<u32>, Option<LinkKey>);
        let mut sums: BTreeMap<CauseKey, Vec<&Anomaly>> = BTreeMap::new();
        for anomaly in anomalies {
            // What ranks that come late cost is said of ranks, or of pauses.
            let is_known = anomaly.kind == CauseKind::LateRank || known.iter().any(|cause| explains(cause, anomaly));
            let is_stall = real(anomaly.end_ns.saturating_sub(anomaly.start_ns)) > STALL * anomaly.median_ns;
            if is_stall && !is_known && anomaly.lost_ns > 0 {
                sums.entry((anomaly.kind, anomaly.rank, anomaly.link)).or_default().push(anomaly);
            }
        }
        let causes = sums.into_iter().map(|((kind, rank, link), cause_anomalies)| {
            let lost_ns = cause_anomalies.iter().map(|anomaly| anomaly.lost_ns).sum();
            let instances = cause_anomalies.len() as u64;
            let first_ns = cause_anomalies.iter().map(|anomaly| anomaly.start_ns).min().unwrap_or(0);
            let share = self.share(lost_ns);
            let mut cause = Cause { kind, rank, link, lost_ns, share, instances, is_stall: true, ..Cause::default() };
            cause.sentence = stall_line(self.ranks, &cause);
            cause.evidence = Some(format!(
                "{} took more than ten times as long as usual, first at {}: {} were lost.",
                plural(instances, "collective", "collectives"),
                time(first_ns),
                time(lost_ns),
            ));
            cause
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
