//! Compares two runs of a program: what is slower, beyond chance and the clocks' error.
//!
//! ```text
//!  tables, instances ─► difference::samples     a value for each collective, by shape, function and size
//!     of A and of B  ─► QuantileDifference      of medians and p99, with intervals; in words
//!                    ─► is_slower_by            whether B is slower by more than that
//!  ranges            ─► difference::changes     of medians by path
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::read::Tables;
use crate::read::archive::Trace;
use crate::results::{Answer, Compared, Comparison, Finding, Group, Kind, Limit, Outcome, Report};
use crate::statistics::collectives::{Filter, Instances};
use crate::statistics::difference;
use crate::statistics::difference::{Class, QuantileDifference, Sample, did_not_end, kind_text, samples};
use crate::units::{plural, real, whole};
use nccl_events::sort::Gather;
use nccl_events::visible;

pub use crate::statistics::difference::Placement;

/// The probability that all intervals of a comparison contain their true values.
const CONFIDENCE: f64 = 0.99;

#[derive(Clone, Debug)]
pub struct RunSamples {
    compared: Compared,
    samples: BTreeMap<(Placement, Class), Sample>,
    ranges: difference::Durations,
}

impl RunSamples {
    /// Built from what [`crate::analyse`] returned for the same filter.
    pub fn new(trace: &Trace, tables: &Tables, instances: &Instances, report: &Report, filter: &Filter) -> Self {
        Self {
            compared: Compared {
                run: report.run.clone(),
                ranks: report.ranks.len() as u64,
                verdict: report.verdict.clone(),
            },
            samples: samples(trace, tables, instances, report, filter),
            ranges: difference::durations(tables, filter),
        }
    }
}

struct SamplePair<'a> {
    a: &'a Sample,
    b: &'a Sample,
    /// For the median, p99, waiting and transfer, in this order.
    estimates: [Option<QuantileDifference>; 4],
}

pub fn compare(a: &RunSamples, b: &RunSamples) -> Comparison {
    let shapes = matching(a, b);
    let mut pairs: Vec<SamplePair<'_>> = Vec::new();
    let mut only_b: Vec<Kind> = Vec::new();
    let mut left: BTreeSet<&(Placement, Class)> = a.samples.keys().gather();
    for ((shape, class), sample) in &b.samples {
        let key = shapes.get(shape).map(|shape| ((*shape).clone(), class.clone()));
        match key.and_then(|key| a.samples.get_key_value(&key)) {
            Some((key, sample_a)) => {
                left.remove(key);
                pairs.push(SamplePair::new(sample_a, sample));
            }
            None => only_b.push(sample.kind.clone()),
        }
    }
    let only_a = left.into_iter().filter_map(|key| a.samples.get(key)).map(|sample| sample.kind.clone()).collect();
    // Bonferroni correction: the more intervals there are, the more likely one misses by chance.
    let ranges = difference::pairs(&a.ranges, &b.ranges);
    let intervals = pairs.iter().map(SamplePair::intervals).sum::<usize>() + ranges.len();
    let miss = (1.0 - CONFIDENCE) / real(intervals.max(1) as u64);
    let mut groups: Vec<Group> = pairs.iter().map(|pair| pair.group(miss)).collect();
    nccl_events::sort::sort_by_key(&mut groups, |group| {
        let is_shown = matches!(group.outcome, Outcome::Slower | Outcome::Faster);
        // How much time the difference costs B, summed over ranks.
        let cost_ns = group.median.map_or(0.0, |difference| difference.difference_ns * real(group.b.operations));
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
        ranges: difference::changes(&ranges, miss),
        only_a,
        only_b,
        limit: None,
    };
    comparison.sentence = visible(&difference::sentence(&comparison)).into_owned();
    comparison.basis = difference::basis(&comparison).iter().map(|line| visible(line).into_owned()).collect();
    comparison
}

/// Maps each placement of B to one of A: an equal one, else one that agrees as far as both are known.
fn matching<'a>(a: &'a RunSamples, b: &'a RunSamples) -> BTreeMap<&'a Placement, &'a Placement> {
    let mut placements_a: BTreeSet<&Placement> = a.samples.keys().map(|(shape, _)| shape).gather();
    let placements_b: BTreeSet<&Placement> = b.samples.keys().map(|(shape, _)| shape).gather();
    let mut found: BTreeMap<&Placement, &Placement> =
        placements_b.intersection(&placements_a).map(|shape| (*shape, *shape)).gather();
    placements_a.retain(|shape| !found.contains_key(shape));
    for shape in placements_b {
        if !found.contains_key(shape)
            && let Some(fitting) = placements_a.iter().copied().find(|placement| placement.fits(shape))
        {
            placements_a.remove(fitting);
            found.insert(shape, fitting);
        }
    }
    found
}

impl<'a> SamplePair<'a> {
    fn new(a: &'a Sample, b: &'a Sample) -> Self {
        let durations = |q| {
            let error_ns = a.duration_error_ns.zip(b.duration_error_ns).map(|(a, b)| a + b);
            QuantileDifference::new(&a.durations, &b.durations, q, error_ns)
        };
        let error_ns = Some(a.arrival_error_ns + b.arrival_error_ns);
        let waiting = QuantileDifference::new(&a.waiting, &b.waiting, 0.5, error_ns);
        let transfer = QuantileDifference::new(&a.transfer, &b.transfer, 0.5, error_ns);
        Self { a, b, estimates: [durations(0.5), durations(0.99), waiting, transfer] }
    }

    fn intervals(&self) -> usize {
        self.estimates.iter().flatten().filter(|estimate| estimate.is_exact()).count()
    }

    fn group(&self, miss: f64) -> Group {
        let made =
            self.estimates.each_ref().map(|estimate| estimate.as_ref().map(|estimate| estimate.difference(miss)));
        let [median, p99, waiting, transfer] = made;
        let mut outcome = median.map(|difference| difference.outcome).unwrap_or_default();
        if let Some(p99) =
            p99.filter(|difference| outcome == Outcome::NoDifference && difference.outcome != Outcome::Unclear)
        {
            outcome = p99.outcome;
        }
        Group {
            a: self.a.kind.clone(),
            b: self.b.kind.clone(),
            outcome,
            is_coarse: outcome == Outcome::NoDifference && median.is_some_and(|difference| difference.is_coarse()),
            reason: (outcome == Outcome::Unclear).then(|| self.reason()),
            median,
            p99,
            waiting,
            transfer,
        }
    }

    fn reason(&self) -> String {
        let (count_a, count_b) = (self.a.kind.count, self.b.kind.count);
        let timing = self.a.kind.timing.as_str();
        let is_known = self.a.duration_error_ns.and(self.b.duration_error_ns).is_some();
        match timing {
            _ if count_a.min(count_b) < difference::LEAST as u64 => {
                format!("{} operations are needed, A has {count_a} and B {count_b} that ended", difference::LEAST)
            }
            _ if is_known => difference::too_few(count_a, count_b),
            "kernelch" => "the error of the GPU's timer is not known".to_owned(),
            _ => format!("{timing} does not time the operation itself"),
        }
    }
}

/// Whether B is slower by more than `share` of A in any group. "No" requires that in every group the interval of
/// the median, with the clocks' error, ends below `share`. Operations that cannot be compared may slow B by at most
/// the time they take, which must be less than `share` of B's total time.
pub fn is_slower_by(comparison: &Comparison, share: f64) -> Limit {
    let slower = comparison.groups.iter().filter_map(Group::slower_by).max_by(f64::total_cmp);
    let (answer, sentence) = match slower.filter(|by| *by > share) {
        Some(by) => (Answer::Slower, format!("B is slower by {}, more than {}", percent(by), percent(share))),
        None => match not_shown(comparison, share) {
            Some(sentence) => (Answer::NotShown, sentence),
            None => (Answer::NotSlower, format!("B is not slower by more than {}", percent(share))),
        },
    };
    Limit { share, answer, sentence }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Why B may be slower by more than `share`; `None` if it is not.
fn not_shown(comparison: &Comparison, share: f64) -> Option<String> {
    let groups = &comparison.groups;
    let mut reasons: Vec<String> = unfinished(comparison).into_iter().collect();
    if groups.is_empty() && reasons.is_empty() {
        return Some(format!(
            "cannot decide whether B is slower by more than {}. {}",
            percent(share),
            comparison.sentence
        ));
    }
    reasons.extend(uncompared(comparison, share));
    let at_most =
        |group: &Group| group.median.and_then(|difference| difference.slower_at_most).unwrap_or(f64::INFINITY);
    let compared = groups.iter().filter(|group| group.outcome != Outcome::Unclear);
    let open: Vec<&Group> = compared.filter(|group| at_most(group) >= share).collect();
    reasons.extend(open.iter().copied().max_by(|a, b| at_most(a).total_cmp(&at_most(b))).map(|group| {
        let number = plural(groups.len() as u64, "group of operations", "groups of operations");
        format!("in {} of {number}, {}", open.len(), reach(group, open.len()))
    }));
    let reasons = reasons.join("; ");
    (!reasons.is_empty())
        .then(|| format!("cannot decide whether B is slower by more than {}: {reasons}", percent(share)))
}

/// Operations of B that did not end: their full duration is unknown.
fn unfinished(comparison: &Comparison) -> Option<String> {
    let [_, b] = &comparison.runs;
    let kinds = comparison.groups.iter().map(|group| &group.b).chain(&comparison.only_b);
    let unfinished: u64 = kinds.map(|kind| kind.unfinished).sum();
    match b.verdict.finding {
        Finding::Unfinished => Some(did_not_end("B", b)),
        _ if unfinished == 0 => None,
        _ => Some(format!("{} of B did not end", plural(unfinished, "operation", "operations"))),
    }
}

/// Operations of B that cannot be compared, if they take at least `share` of its time.
fn uncompared(comparison: &Comparison, share: f64) -> Option<String> {
    let groups = comparison.groups.iter();
    let unclear = groups.clone().filter(|group| group.outcome == Outcome::Unclear);
    let unclear = unclear.map(|group| (&group.b, group.reason.as_deref().unwrap_or("the data is not sufficient")));
    let uncompared = || unclear.clone().chain(comparison.only_b.iter().map(|kind| (kind, "A has no such operations")));
    let time = |kind: &Kind| kind.total_ns.map_or(f64::INFINITY, real);
    let lost: f64 = uncompared().map(|(kind, _)| time(kind)).sum();
    let all: f64 =
        groups.map(|group| &group.b).chain(&comparison.only_b).filter_map(|kind| kind.total_ns).map(real).sum();
    let (kind, reason) = uncompared().max_by(|(a, _), (b, _)| time(a).total_cmp(&time(b)))?;
    let how_much = match lost.is_finite() {
        true if lost < share * all || all <= 0.0 => return None,
        true => format!("{} of the time in operations of B", percent(lost / all.max(1.0))),
        false => "an unknown part of the time in operations of B".to_owned(),
    };
    Some(format!("{how_much} cannot be compared, most of it {}: {reason}", kind_text(kind)))
}

/// For example "ncclAllReduce of 1 MiB on 8 ranks, B may be slower by up to 12.0 %: the smallest change that …".
fn reach(group: &Group, groups: usize) -> String {
    let what = kind_text(&group.b);
    let most = if groups > 1 { "most in " } else { "" };
    let Some((median, (at_most, resolution))) =
        group.median.and_then(|difference| Some((difference, difference.slower_at_most.zip(difference.resolution)?)))
    else {
        return format!("{most}{what}, the median of A is 0");
    };
    let clock_share = median.error_ns.filter(|_| median.a_ns > 0.0).map_or(0.0, |ns| real(ns) / median.a_ns);
    let workaround = if clock_share > resolution / 2.0 {
        format!("{} of that is the clocks' error", percent(clock_share))
    } else {
        format!("record more collectives in both runs ({} and {} now)", group.a.count, group.b.count)
    };
    format!(
        "{most}{what}, B may be slower by up to {}. The smallest change that these runs can show there is {}: \
        {workaround}",
        percent(at_most),
        percent(resolution),
    )
}
