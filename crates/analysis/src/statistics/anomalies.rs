//! Instances that took far longer than others of their class, with the cause that the recording shows.

use std::collections::BTreeMap;

use crate::lateness::late::Lateness;
use crate::read::archive::Trace;
use crate::read::{Operation, Tables};
use crate::results::{Anomaly, CauseKind, LinkKey, Rank};
use crate::statistics::collectives::{Classes, Filter, Instance, Instances};
use crate::statistics::network;
use crate::statistics::network::{InstanceTraffic, Links, Traffic};
use crate::statistics::numeric::{center, median};
use crate::statistics::waiting::Waiting;
use crate::units::{real, time, whole};
use nccl_events::ids::index as large;
use nccl_events::sort::Gather;

const MOST: usize = 100;
/// A class with fewer instances has no typical duration.
const LEAST: usize = 20;
/// An anomaly takes longer than the median by this many deviations, and by at least half of the median.
const DEVIATIONS: f64 = 8.0;

pub(super) struct Outlier {
    pub(super) instance: u32,
    class: u32,
    median_ns: f64,
    longest_ns: f64,
    lost_ns: u64,
    /// How much more its ranks waited than is usual in the class.
    waiting_ns: f64,
}

pub(super) struct Inputs<'a> {
    pub(super) filter: &'a Filter,
    pub(super) trace: &'a Trace,
    pub(super) tables: &'a Tables,
    pub(super) instances: &'a Instances,
    pub(super) classes: &'a Classes,
    pub(super) waiting: &'a Waiting,
    pub(super) lateness: &'a Lateness,
    pub(super) links: &'a Links,
    pub(super) ranks: &'a [Rank],
    /// On the rank that has most, after warm-up.
    pub(super) most_operations: u64,
}

impl Inputs<'_> {
    pub(super) fn anomalies(&self, outliers: &[Outlier], traffic: &Traffic<'_>) -> Vec<Anomaly> {
        let usual = self.usual(traffic);
        let nothing = InstanceTraffic::default();
        let anomalies = outliers.iter().map(|outlier| {
            let instance_traffic = traffic.instances.get(&outlier.instance).unwrap_or(&nothing);
            self.anomaly(outlier, instance_traffic, usual.get(&outlier.class))
        });
        anomalies.collect()
    }

    /// How long proxies waited for GPUs and for receivers, on average in an instance of each class.
    fn usual(&self, traffic: &Traffic<'_>) -> BTreeMap<u32, [f64; 2]> {
        let mut instances: BTreeMap<u32, u64> = BTreeMap::new();
        for instance in self.instances.all.iter().filter(|_| !traffic.classes.is_empty()) {
            let first = self.instances.operations(instance).first();
            if let Some(class) = first.and_then(|row| self.classes.number(self.tables, *row)) {
                *instances.entry(class).or_default() += 1;
            }
        }
        let mean = |class: u32, ns: u64| real(ns) / real(instances.get(&class).copied().unwrap_or(1));
        let means = traffic.classes.iter().map(|(class, waits)| {
            let waited = [waits.send_gpu_ns + waits.recv_gpu_ns, waits.send_peer_ns];
            (*class, waited.map(|ns| mean(*class, ns)))
        });
        means.gather()
    }

    fn anomaly(&self, outlier: &Outlier, network: &InstanceTraffic, usual: Option<&[f64; 2]>) -> Anomaly {
        let instance = &self.instances.all[large(outlier.instance)];
        let longer_ns = outlier.longest_ns - outlier.median_ns;
        let late = instance.last.filter(|_| outlier.waiting_ns > real(outlier.lost_ns) / 2.0);
        let excess = network.sent.iter().filter_map(|(connection, steps)| {
            let excess = steps.iter().filter_map(|step| self.links.excess_ns(self.tables, *connection, step));
            let mut excess = excess.peekable();
            excess.peek().is_some().then(|| (connection, excess.sum::<f64>()))
        });
        let slowest = excess.max_by(|a, b| a.1.total_cmp(&b.1));
        let slowest = slowest.filter(|(_, excess_ns)| *excess_ns > longer_ns * 0.3);
        let [gpu_ns, peer_ns] = usual.copied().unwrap_or_default();
        let waits = &network.waits;
        let gpu_ns = real(waits.send_gpu_ns + waits.recv_gpu_ns) - gpu_ns;
        let peer_ns = real(waits.send_peer_ns) - peer_ns;
        let mut rank = None;
        let mut link = None;
        let (kind, reason) = if let Some(late) = late {
            let late = self.tables.members.row(late).job_rank;
            rank = Some(late);
            let behind_ns = time(instance.arrivals.last_ns - instance.arrivals.median_ns);
            (CauseKind::LateRank, format!("{} arrived {behind_ns} after the median rank", self.name(late)))
        } else if let Some(((pair, channel), excess_ns)) = slowest {
            link = Some(LinkKey { channel: Some(*channel), ..network::key(self.tables, *pair) });
            let excess = time(whole(excess_ns));
            let text = format!("steps from {} to {} on channel {channel} took {excess} longer", pair.1, pair.2);
            (CauseKind::SlowConnection, text)
        } else if gpu_ns > longer_ns * 0.3 && gpu_ns >= peer_ns {
            (
                CauseKind::WaitedForGpu,
                format!("proxies waited {} longer for GPUs, summed over steps", time(whole(gpu_ns))),
            )
        } else if peer_ns > longer_ns * 0.3 {
            (
                CauseKind::WaitedForPeer,
                format!("proxies waited {} longer for receivers, summed over steps", time(whole(peer_ns))),
            )
        } else {
            (CauseKind::Unknown, "the recording does not say why".to_owned())
        };
        let class = &self.classes.all[large(outlier.class)];
        let place = self.instances.rows(self.tables, instance).max_by_key(Operation::duration_ns);
        Anomaly {
            kind,
            rank,
            link,
            class: outlier.class,
            sequence: instance.sequence,
            start_ns: instance.arrivals.first_ns,
            end_ns: instance.arrivals.end_ns,
            median_ns: outlier.median_ns,
            skew_ns: instance.skew_ns(),
            // A rank cannot cost others more than they waited for it.
            lost_ns: late.map_or(outlier.lost_ns, |_| {
                outlier.lost_ns.min(self.waiting.instances[large(outlier.instance)].waiting_ns)
            }),
            location: place.as_ref().map_or(0, |operation| self.tables.members.row(operation.member).location.get()),
            event: place.map(|operation| operation.event).filter(|event| *event > 0),
            sentence: format!(
                "{} at {} took {} instead of {}: {reason}.",
                class.function,
                time(instance.arrivals.first_ns),
                time(whole(outlier.longest_ns)),
                time(whole(outlier.median_ns)),
            ),
        }
    }

    /// Whether ranks are on several hosts, so that links between them matter.
    pub(super) fn spans_hosts(&self) -> bool {
        self.ranks.windows(2).any(|pair| pair[0].host != pair[1].host)
    }

    fn name(&self, rank: u32) -> &str {
        self.ranks.get(large(rank)).map_or("a rank", |rank| rank.name.as_str())
    }
}

/// The longest time that a rank spent in an instance, by its own clock: differences between clocks do not matter.
fn longest_ns(tables: &Tables, instances: &Instances, instance: &Instance) -> Option<u64> {
    let durations =
        instances.rows(tables, instance).map(|operation| operation.is_known().then(|| operation.duration_ns()));
    durations.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// The instances that took far longer than others of their class, largest loss first; at most [`MOST`].
pub(super) fn outliers(tables: &Tables, instances: &Instances, classes: &Classes, waiting: &Waiting) -> Vec<Outlier> {
    let mut by_class: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
    for (number, instance) in (0..).zip(&instances.all).filter(|(_, instance)| !instance.is_warm_up) {
        let first = instances.operations(instance).first();
        let class = first.and_then(|row| classes.number(tables, *row));
        if let (Some(class), Some(longest_ns)) = (class, longest_ns(tables, instances, instance)) {
            by_class.entry(class).or_default().push((number, real(longest_ns)));
        }
    }
    let mut outliers = Vec::new();
    for (class, samples) in by_class.into_iter().filter(|(_, samples)| samples.len() >= LEAST) {
        let (median_ns, deviation) = center(&samples.iter().map(|(_, ns)| *ns).collect::<Vec<f64>>());
        let usual = classes.all[large(class)].duration_ns.map_or(0.0, |quantiles| quantiles.median);
        let waiting_ns = |number: u32| real(waiting.instances[large(number)].waiting_ns);
        let usual_waiting = median(&mut samples.iter().map(|(number, _)| waiting_ns(*number)).collect::<Vec<f64>>());
        let limit_ns = median_ns + (DEVIATIONS * deviation).max(median_ns / 2.0);
        for (instance, longest_ns) in samples.into_iter().filter(|(_, ns)| *ns > limit_ns) {
            let rows = instances.rows(tables, &instances.all[large(instance)]);
            let lost = rows.map(|operation| (real(operation.duration_ns()) - usual).max(0.0));
            // Operations that share a kernel all have its time, which is lost only once.
            let lost_ns = whole(lost.sum()).min(waiting.instances[large(instance)].time_ns);
            let waiting_ns = waiting_ns(instance) - usual_waiting;
            outliers.push(Outlier { instance, class, median_ns, longest_ns, lost_ns, waiting_ns });
        }
    }
    nccl_events::sort::sort_by_key(&mut outliers, |outlier| (std::cmp::Reverse(outlier.lost_ns), outlier.instance));
    outliers.truncate(MOST);
    outliers
}
