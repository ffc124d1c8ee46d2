//! Compares two runs of a program: what is slower, beyond chance and the clocks' error.
//!
//! ```text
//!  tables, instances ─► sample       a value for each collective, by shape, function and size
//!     of A and of B  ─► difference   of medians, with intervals
//!                    ─► sentences, limit
//!  ranges             ─► difference of medians by path
//! ```

mod difference;
mod limit;
mod ranges;
mod sample;
mod sentences;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nccl_events::sort::Gather;

use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::derived::instances::Instances;
use crate::derived::maths::sample::{real, whole};
use crate::report::Compared;
use crate::report::{Comparison, Group, Kind, Outcome, Report};
use crate::tables::Tables;

use difference::Estimate;
use sample::{Class, Sample, samples};

pub use limit::is_slower_by;
pub use sample::Shape;

/// The probability that all intervals of a comparison contain their true values.
const CONFIDENCE: f64 = 0.99;
/// If only a larger change would be detected, "no difference" would overstate the result.
const COARSE: f64 = 0.5;

#[derive(Clone, Debug)]
pub struct Observed {
    compared: Compared,
    samples: BTreeMap<(Shape, Class), Sample>,
    ranges: ranges::Durations,
}

impl Observed {
    /// Built from what [`crate::analyse`] returned for the same filter.
    pub fn of(trace: &Trace, tables: &Tables, instances: &Instances, report: &Report, filter: &Filter) -> Self {
        Self {
            compared: Compared {
                run: report.run.clone(),
                ranks: report.ranks.len() as u64,
                verdict: report.verdict.clone(),
            },
            samples: samples(trace, tables, instances, report, filter),
            ranges: ranges::durations(tables, filter),
        }
    }
}

struct Pair<'a> {
    a: &'a Sample,
    b: &'a Sample,
    /// For the median, p99, waiting and transfer, in this order.
    estimates: [Option<Estimate>; 4],
}

pub fn compare(a: &Observed, b: &Observed) -> Comparison {
    let shapes = matching(a, b);
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let mut only_b: Vec<Kind> = Vec::new();
    let mut left: BTreeSet<&(Shape, Class)> = a.samples.keys().gather();
    for ((shape, class), sample) in &b.samples {
        let key = shapes.get(shape).map(|shape| ((*shape).clone(), class.clone()));
        match key.and_then(|key| a.samples.get_key_value(&key)) {
            Some((key, of_a)) => {
                left.remove(key);
                pairs.push(Pair::of(of_a, sample));
            }
            None => only_b.push(sample.kind.clone()),
        }
    }
    let only_a = left.into_iter().filter_map(|key| a.samples.get(key)).map(|it| it.kind.clone()).collect();
    // Bonferroni correction: the more intervals there are, the more likely one misses by chance.
    let ranges = ranges::pairs(&a.ranges, &b.ranges);
    let intervals = pairs.iter().map(Pair::intervals).sum::<usize>() + ranges.len();
    let miss = (1.0 - CONFIDENCE) / real(intervals.max(1) as u64);
    let mut groups: Vec<Group> = pairs.iter().map(|pair| pair.group(miss)).collect();
    nccl_events::sort::sort_by_key(&mut groups, |group| {
        let is_shown = matches!(group.outcome, Outcome::Slower | Outcome::Faster);
        // How much time the difference costs B, summed over ranks.
        let cost_ns = group.median.map_or(0.0, |it| it.difference_ns * real(group.b.operations));
        Reverse((is_shown, whole(cost_ns.abs()), group.b.operations))
    });
    let has = |outcome: &Outcome| groups.iter().any(|group| group.outcome == *outcome);
    let outcome = [Outcome::Slower, Outcome::Faster, Outcome::NoDifference].into_iter().find(has).unwrap_or_default();
    let mut comparison = Comparison {
        format: 1,
        outcome,
        sentence: String::new(),
        basis: Vec::new(),
        confidence: CONFIDENCE,
        runs: [a.compared.clone(), b.compared.clone()],
        groups,
        ranges: ranges::changes(&ranges, miss),
        only_a,
        only_b,
        limit: None,
    };
    comparison.sentence = sentences::sentence(&comparison);
    comparison.basis = sentences::basis(&comparison);
    comparison
}

/// For each shape of B the matching one of A: equal, or else compatible as far as both are known.
fn matching<'a>(a: &'a Observed, b: &'a Observed) -> BTreeMap<&'a Shape, &'a Shape> {
    let mut of_a: BTreeSet<&Shape> = a.samples.keys().map(|(shape, _)| shape).gather();
    let of_b: BTreeSet<&Shape> = b.samples.keys().map(|(shape, _)| shape).gather();
    let mut found: BTreeMap<&Shape, &Shape> = of_b.intersection(&of_a).map(|shape| (*shape, *shape)).gather();
    of_a.retain(|shape| !found.contains_key(shape));
    for shape in of_b {
        if !found.contains_key(shape)
            && let Some(fitting) = of_a.iter().copied().find(|it| it.fits(shape))
        {
            of_a.remove(fitting);
            found.insert(shape, fitting);
        }
    }
    found
}

impl<'a> Pair<'a> {
    fn of(a: &'a Sample, b: &'a Sample) -> Self {
        let durations = |q| {
            let error_ns = a.duration_error_ns.zip(b.duration_error_ns).map(|(a, b)| a + b);
            Estimate::of(&a.durations, &b.durations, q, error_ns)
        };
        let error_ns = Some(a.arrival_error_ns + b.arrival_error_ns);
        let waiting = Estimate::of(&a.waiting, &b.waiting, 0.5, error_ns);
        let transfer = Estimate::of(&a.transfer, &b.transfer, 0.5, error_ns);
        Self { a, b, estimates: [durations(0.5), durations(0.99), waiting, transfer] }
    }

    fn intervals(&self) -> usize {
        self.estimates.iter().flatten().filter(|it| it.is_exact()).count()
    }

    fn group(&self, miss: f64) -> Group {
        let made = self.estimates.each_ref().map(|estimate| estimate.as_ref().map(|it| it.difference(miss)));
        let [median, p99, waiting, transfer] = made;
        let mut outcome = median.map(|it| it.outcome).unwrap_or_default();
        if let Some(p99) = p99.filter(|it| outcome == Outcome::NoDifference && it.outcome != Outcome::Unclear) {
            outcome = p99.outcome;
        }
        let resolution = median.and_then(|it| it.resolution);
        Group {
            a: self.a.kind.clone(),
            b: self.b.kind.clone(),
            outcome,
            is_coarse: outcome == Outcome::NoDifference && resolution.is_some_and(|share| share >= COARSE),
            reason: (outcome == Outcome::Unclear).then(|| self.reason()),
            median,
            p99,
            waiting,
            transfer,
        }
    }

    fn reason(&self) -> String {
        let (of_a, of_b) = (self.a.kind.count, self.b.kind.count);
        let timing = self.a.kind.timing.as_str();
        let is_known = self.a.duration_error_ns.and(self.b.duration_error_ns).is_some();
        match timing {
            _ if of_a.min(of_b) < difference::LEAST as u64 => {
                format!("{} operations are needed, A has {of_a} and B {of_b} that ended", difference::LEAST)
            }
            _ if is_known => {
                format!("A has {of_a} and B {of_b}, too few to compare that many kinds and ranges at once")
            }
            "kernelch" => "the error of the GPU's timer is not known".to_owned(),
            _ => format!("{timing} does not time the operation itself"),
        }
    }
}
