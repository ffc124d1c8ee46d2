//! Compares the bus bandwidth of a job's collectives with another measurement: an archive, or output of nccl-tests.
//!
//! ```text
//!  MeasuredBandwidth  a bandwidth, with the collective, the size and the placement of ranks that it was measured for
//!  nccl_tests         reads the output of nccl-tests, as text or JSON
//!  Curve              interpolates the bandwidth between measured sizes
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::results::{Communicator, OperationClass, Report};
use crate::units::{bandwidth, bytes, real, whole};
use crate::{Placement, results};
use nccl_events::collective::{Collective, Function};
use nccl_events::ids::index;

mod nccl_tests;

/// The verdict names collectives below [`LOW`] of the baseline that lose at least [`LEAST_TIME`] of the job's time.
const LOW: f64 = 0.7;
const LEAST_TIME: f64 = 0.05;

#[derive(Debug)]
pub struct Baseline {
    measured: Vec<MeasuredBandwidth>,
}

impl Baseline {
    /// Reads the output of nccl-tests, of one test or several.
    ///
    /// # Errors
    ///
    /// If the text has no measurements of collectives, or does not state which test or which ranks they are of.
    pub fn from_text(text: &str) -> Result<Self, String> {
        nccl_tests::read(text).map(|measured| Self { measured })
    }

    pub fn from_report(report: &Report) -> Self {
        let bandwidth_of_class = |class: &OperationClass| {
            Some(MeasuredBandwidth {
                collective: collective(class)?,
                place: RankPlacement::Shape(shape(report, class)?),
                bytes: size(report, class)?,
                busbw: class.busbw?.median,
                transfer: class.transfer_busbw.map(|quantiles| quantiles.median),
            })
        };
        Self { measured: report.operations.iter().filter_map(bandwidth_of_class).collect() }
    }

    /// Sets the baseline of each class of a report. `name` is what the verdict calls the baseline.
    pub fn add_to_report(&self, report: &mut Report, name: &str) {
        let found: Vec<_> = report.operations.iter().map(|class| self.baseline_of_class(report, class)).collect();
        for (class, found) in report.operations.iter_mut().zip(found) {
            class.baseline = found;
        }
        let classes = || report.operations.iter().filter(|class| class.busbw.is_some());
        let (all, compared) = (classes().count(), classes().filter(|class| class.baseline.is_some()).count());
        let mut sentence = format!(
            "{name} has bus bandwidths for {compared} of {all} classes of collectives; data types are not \
                compared"
        );
        sentence += &match compared {
            0 => format!(": it has {}.", self.described()),
            _ => ".".to_owned(),
        };
        let low = low(&report.operations, &report.communicators, report.budget.operations_ns);
        report.verdict.basis.extend([sentence].into_iter().chain(low));
        report.show_names();
    }

    fn baseline_of_class(&self, report: &Report, class: &OperationClass) -> Option<results::Baseline> {
        let (collective, shape, bytes) = (collective(class)?, shape(report, class)?, size(report, class)?);
        let fitting =
            || self.measured.iter().filter(|measured| measured.collective == collective && measured.place.fits(&shape));
        let against = |own: Option<results::Quantiles>, curve: Curve, is_transfer| {
            let (own, busbw) = (own?.median, curve.at(bytes)?);
            (busbw > 0.0).then(|| results::Baseline { busbw, share: own / busbw, is_transfer })
        };
        let transfer = Curve::new(fitting().filter_map(|measured| Some((measured.bytes, measured.transfer?))));
        let whole = Curve::new(fitting().map(|measured| (measured.bytes, measured.busbw)));
        against(class.transfer_busbw, transfer, true).or_else(|| against(class.busbw, whole, false))
    }

    /// For example "AllReduce on 8 ranks (4 + 4), …".
    fn described(&self) -> String {
        let names: BTreeSet<String> = self
            .measured
            .iter()
            .map(|measured| {
                let hosts = measured.place.hosts().unwrap_or_default();
                let ranks: u32 = hosts.iter().sum();
                let hosts: Vec<String> = hosts.iter().map(u32::to_string).collect();
                format!("{} on {ranks} ranks ({} by host)", measured.collective.name(), hosts.join(" + "))
            })
            .collect();
        const SHOWN: usize = 4;
        let more = names.len().saturating_sub(SHOWN);
        let mut names: Vec<String> = names.into_iter().take(SHOWN).collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

fn collective(class: &OperationClass) -> Option<Collective> {
    Function::from_region(&class.function)?.collective()
}

fn shape(report: &Report, class: &OperationClass) -> Option<Placement> {
    Some(Placement::new(report.communicators.get(index(class.communicator))?, &report.ranks))
}

/// The size of a class's larger buffer: the geometric mean of its smallest and its largest.
fn size(report: &Report, class: &OperationClass) -> Option<u64> {
    let ranks = report.communicators.get(index(class.communicator))?.ranks;
    let middle = whole((real(class.bytes_min) * real(class.bytes_max)).sqrt());
    Some(collective(class)?.buffer_bytes(middle.clamp(class.bytes_min, class.bytes_max), ranks.into()))
}

/// Collectives of one function, size and number of ranks, on all communicators.
#[derive(Default)]
struct BandwidthSum {
    spent_ns: f64,
    /// The part of `spent_ns` that the baseline would have taken.
    baseline_ns: f64,
    /// The baseline's bandwidth times the time, to weight it.
    busbw_ns: f64,
    bytes: u64,
    is_transfer: bool,
}

/// A sentence on the collectives that lose most time against the baseline, if they lose much.
fn low(classes: &[OperationClass], communicators: &[Communicator], operations_ns: u64) -> Option<String> {
    let mut sums: BTreeMap<(&str, u32, u32), BandwidthSum> = BTreeMap::new();
    for class in classes {
        let (Some(baseline), Some(communicator)) = (class.baseline, communicators.get(index(class.communicator)))
        else {
            continue;
        };
        let whole_ns = class.duration_ns.map_or(0.0, |quantiles| quantiles.total);
        let spent_ns = if baseline.is_transfer { real(class.budget.transfer_ns) } else { whole_ns };
        let key = (class.function.as_str(), class.bytes_max.max(1).ilog2(), communicator.ranks);
        let sum = sums.entry(key).or_default();
        sum.spent_ns += spent_ns;
        sum.baseline_ns += spent_ns * baseline.share;
        sum.busbw_ns += spent_ns * baseline.busbw;
        sum.bytes = sum.bytes.max(class.bytes_max);
        sum.is_transfer |= baseline.is_transfer;
    }
    let lost_ns = |sum: &BandwidthSum| sum.spent_ns - sum.baseline_ns;
    let is_low =
        |sum: &BandwidthSum| sum.baseline_ns < LOW * sum.spent_ns && lost_ns(sum) >= LEAST_TIME * real(operations_ns);
    let low = sums.iter().filter(|(_, sum)| is_low(sum));
    let ((function, _, ranks), sum) = low.max_by(|(_, a), (_, b)| lost_ns(a).total_cmp(&lost_ns(b)))?;
    let (share, busbw) = (sum.baseline_ns / sum.spent_ns, sum.busbw_ns / sum.spent_ns);
    Some(format!(
        "{function} of {} on {ranks} ranks reaches {:.0} % of the baseline's bus bandwidth, {} of {}{}.",
        bytes(sum.bytes),
        share * 100.0,
        bandwidth(share * busbw),
        bandwidth(busbw),
        if sum.is_transfer { ", not counting the wait for the last rank" } else { "" }
    ))
}

/// A size outside of the measured ones takes the bandwidth of the nearest, up to this factor away.
const OUTSIDE: u64 = 2;

/// The best bandwidth that was measured for each size.
#[derive(Debug)]
pub(crate) struct Curve(BTreeMap<u64, f64>);

impl Curve {
    pub(crate) fn new(measured: impl Iterator<Item = (u64, f64)>) -> Self {
        let mut best = BTreeMap::new();
        for (bytes, rate) in measured.filter(|(bytes, rate)| *bytes > 0 && rate.is_finite() && *rate > 0.0) {
            let known = best.entry(bytes).or_insert(rate);
            *known = rate.max(*known);
        }
        Self(best)
    }

    /// The bandwidth at a size: a straight line between the two nearest sizes, of the logarithms of both.
    pub(crate) fn at(&self, bytes: u64) -> Option<f64> {
        let below = self.0.range(..=bytes).next_back();
        let above = self.0.range(bytes..).next();
        match (below, above) {
            (Some((least, low)), Some((most, high))) if least < most => {
                let place = (real(bytes) / real(*least)).ln() / (real(*most) / real(*least)).ln();
                Some(low * (high / low).powf(place))
            }
            (Some((nearest, rate)), None) => (bytes <= nearest.saturating_mul(OUTSIDE)).then_some(*rate),
            (None, Some((nearest, rate))) => (bytes.saturating_mul(OUTSIDE) >= *nearest).then_some(*rate),
            (Some((_, rate)), Some(_)) => Some(*rate),
            (None, None) => None,
        }
    }
}

/// A measured bandwidth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredBandwidth {
    pub(crate) collective: Collective,
    pub(crate) place: RankPlacement,
    /// Size of the larger buffer of a rank.
    pub(crate) bytes: u64,
    pub(crate) busbw: f64,
    /// Bus bandwidth without the time in which ranks waited for each other; `None` if that time is unknown.
    pub(crate) transfer: Option<f64>,
}

/// Where the ranks of a communicator were.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RankPlacement {
    Shape(Placement),
    /// The number of ranks on each host, descending.
    Hosts(Vec<u32>),
}

impl RankPlacement {
    pub(crate) fn fits(&self, shape: &Placement) -> bool {
        match self {
            Self::Shape(own) => own.fits(shape),
            Self::Hosts(hosts) => shape.hosts().as_ref() == Some(hosts),
        }
    }

    pub(crate) fn hosts(&self) -> Option<Vec<u32>> {
        match self {
            Self::Shape(shape) => shape.hosts(),
            Self::Hosts(hosts) => Some(hosts.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    mod baseline {
        use crate::baseline::*;

        #[test]
        fn collectives_that_lose_much_are_named_over_all_communicators() {
            let class = |communicator, share, transfer_ns| OperationClass {
                function: "ncclAllReduce".to_owned(),
                communicator,
                bytes_max: 1 << 20,
                baseline: Some(results::Baseline { busbw: 4e9, share, is_transfer: true }),
                budget: results::Budget { transfer_ns, ..results::Budget::default() },
                ..OperationClass::default()
            };
            let communicators = [2, 2, 4].map(|ranks| Communicator { ranks, ..Communicator::default() });
            let classes = [class(0, 0.5, 60), class(1, 0.5, 60), class(2, 0.9, 500)];
            let wanted = "ncclAllReduce of 1 MiB on 2 ranks reaches 50 % of the baseline's bus bandwidth, 2.00 GB/s of \
                4.00 GB/s, not counting the wait for the last rank.";
            assert_eq!(low(&classes, &communicators, 1000).as_deref(), Some(wanted));
            assert_eq!(low(&classes, &communicators, 2000), None, "too little time");
            assert_eq!(low(&classes[2..], &communicators, 1000), None, "near enough");
        }
    }

    mod curve {
        use crate::baseline::Curve;

        #[test]
        fn sizes_between_have_a_value_between_and_those_far_outside_none() {
            let curve = Curve::new([(1024, 1.0), (1024, 2.0), (4096, 8.0)].into_iter());
            assert_eq!(
                [511, 512, 1024, 4096, 8192, 8193].map(|at| curve.at(at)),
                [None, Some(2.0), Some(2.0), Some(8.0), Some(8.0), None]
            );
            assert!((curve.at(2048).expect("between") - 4.0).abs() < 1e-9);
            assert_eq!(Curve::new(std::iter::empty()).at(1), None);
        }
    }
}
