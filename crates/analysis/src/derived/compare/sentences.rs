//! Describes a comparison in words.

use nccl_events::archive::path_of_ranges;

use crate::derived::maths::sample::{real, whole};
use crate::report::Compared;
use crate::report::{Comparison, Difference, Finding, Group, Kind, Outcome, RangeChange, Run};
use crate::units::{bytes, plural, time};

/// For example "ncclAllReduce of 1 MiB on 8 ranks of 2 hosts".
pub(super) fn what(kind: &Kind) -> String {
    let size = if kind.bytes_min == kind.bytes_max {
        bytes(kind.bytes_max)
    } else {
        format!("{} to {}", bytes(kind.bytes_min), bytes(kind.bytes_max))
    };
    format!("{} of {size} on {}", kind.function, shape(kind))
}

fn shape(kind: &Kind) -> String {
    let ranks = plural(kind.ranks.into(), "rank", "ranks");
    if kind.hosts > 1 { format!("{ranks} of {} hosts", kind.hosts) } else { ranks }
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0).replace('-', "−")
}

fn deciding(group: &Group) -> Option<(&'static str, Difference)> {
    let measures = [("median", group.median), ("p99", group.p99)];
    let measures = measures.into_iter().filter_map(|(name, it)| Some((name, it?)));
    measures.into_iter().find(|(_, it)| it.outcome == group.outcome)
}

/// For example "the median is 1.2 ms instead of 1.0 ms, +20.1 % (+19.5 % to +20.7 %), in transfer".
fn change(group: &Group) -> String {
    let Some((name, it)) = deciding(group) else {
        return String::new();
    };
    let is_so = |part: Option<Difference>| part.is_some_and(|part| part.outcome == group.outcome);
    let whither = match (is_so(group.waiting), is_so(group.transfer)) {
        (true, true) => ", in waiting and transfer",
        (true, false) => ", in waiting for the last rank",
        (false, true) => ", in transfer",
        (false, false) => "",
    };
    of_median(name, &it) + whither
}

/// For example "the median is 1.2 ms instead of 1.0 ms, +20.1 % (+19.5 % to +20.7 %)".
fn of_median(name: &str, it: &Difference) -> String {
    let mut text = format!("the {name} is {} instead of {}", time(whole(it.b_ns)), time(whole(it.a_ns)));
    if let (Some(share), Some([low, high])) = (it.share, it.interval_ns) {
        let interval = format!("{} to {}", percent(low / it.a_ns), percent(high / it.a_ns));
        text.push_str(&format!(", {} ({interval})", percent(share)));
    }
    text
}

/// For example "B did not end: HANG: …".
pub(super) fn did_not_end(name: &str, run: &Compared) -> String {
    format!("{name} did not end: {}", run.verdict.sentence)
}

/// The run that did not end; B if neither did.
fn stuck(of: &Comparison) -> Option<(&'static str, &Compared)> {
    let [a, b] = &of.runs;
    [("B", b), ("A", a)].into_iter().find(|(_, run)| run.verdict.finding == Finding::Unfinished)
}

/// The answer: a run that did not end is reported before differences in operations that ended.
pub(super) fn sentence(of: &Comparison) -> String {
    stuck(of).map_or_else(|| differences(of), |(name, run)| did_not_end(name, run))
}

/// What differs in the operations that ended.
fn differences(of: &Comparison) -> String {
    let number = |outcome| of.groups.iter().filter(|it| it.outcome == outcome).count() as u64;
    let compared = of.groups.len() as u64 - number(Outcome::Unclear);
    let groups = plural(compared, "group of operations", "groups of operations");
    let most = of.groups.iter().find(|group| group.outcome == of.outcome);
    match (of.outcome, most) {
        (Outcome::Slower | Outcome::Faster, Some(most)) => {
            let comparative = if of.outcome == Outcome::Slower { "slower" } else { "faster" };
            let others = match number(Outcome::Faster) {
                faster if faster > 0 && of.outcome == Outcome::Slower => format!(" and faster in {faster}"),
                _ => String::new(),
            };
            let number = number(of.outcome);
            let most_of = if number > 1 { "most in " } else { "" };
            let what = what(&most.b);
            format!("B is {comparative} in {number} of {groups}{others}: {most_of}{what}, {}.", change(most))
        }
        (Outcome::NoDifference, _) => {
            let limits = of.groups.iter().filter(|group| group.outcome != Outcome::Unclear);
            let limit = limits.filter_map(|group| group.median?.resolution).max_by(f64::total_cmp);
            let (answer, only) = match of.groups.iter().any(|group| group.is_coarse) {
                true => ("The runs do not show whether they differ", "only "),
                false => ("No difference that the data shows", ""),
            };
            let shown = |share: f64| {
                format!(": {only}a change of the median by more than {:.1} % would show in each", share * 100.0)
            };
            format!("{answer} in {groups}{}.", limit.map_or_else(String::new, shown))
        }
        _ if of.groups.is_empty() => {
            "Nothing can be compared: no operations of both runs have the same shape of communicator, function, size \
             and timing."
                .to_owned()
        }
        _ => {
            let reason = of.groups.iter().find_map(|group| group.reason.as_deref()).unwrap_or_default();
            format!("The data does not allow a comparison: {reason}.")
        }
    }
}

pub(super) fn basis(of: &Comparison) -> Vec<String> {
    let mut basis = Vec::new();
    let stuck = stuck(of).map(|(name, _)| name);
    if stuck.is_some() {
        basis.push(differences(of));
    }
    basis.extend(ranges(of));
    let mut measures = of.groups.iter().flat_map(|it| [it.median, it.p99, it.waiting, it.transfer]).flatten();
    if measures.any(|it| it.interval_ns.is_some()) {
        basis.push(format!(
            "With {:.0} % confidence for all intervals together; they cover what varies during these runs, not what \
             differs from run to run.",
            of.confidence * 100.0
        ));
    }
    for (name, run) in ["A", "B"].into_iter().zip(&of.runs).filter(|(name, _)| Some(*name) != stuck) {
        basis.push(format!("{name}: {}", run.verdict.sentence));
    }
    let [a, b] = of.runs.each_ref().map(|it| &it.run);
    basis.extend(unlike("NCCL", a, b, |run| run.nccl_versions.join(", ")));
    basis.extend(unlike("recorded", a, b, |run| run.recorded.join("; ")));
    basis.extend(unlike("hosts", a, b, |run| run.hosts.len().to_string()));
    basis.extend(unlike("processes", a, b, |run| run.processes.to_string()));
    for (name, only) in [("A", &of.only_a), ("B", &of.only_b)] {
        if let Some(first) = only.first() {
            let groups = plural(only.len() as u64, "group", "groups");
            basis.push(format!("Only {name} has {groups} of operations, such as {}.", what(first)));
        }
    }
    let counts = of.groups.iter().filter(|group| group.a.count != group.b.count);
    if let Some(first) = counts.clone().next() {
        basis.push(format!(
            "Counts differ in {}: {} ran {} in A and {} in B.",
            plural(counts.count() as u64, "group", "groups"),
            what(&first.b),
            plural(first.a.count, "time", "times"),
            plural(first.b.count, "time", "times"),
        ));
    }
    basis
}

/// The ranges whose changes cost B most and save most; instead one inside of such a range if it has half of this.
fn ranges(of: &Comparison) -> Vec<String> {
    let cost = |range: &RangeChange| (range.median.difference_ns * real(range.b)).abs();
    let most = [Outcome::Slower, Outcome::Faster].into_iter().filter_map(|outcome| {
        let all = || of.ranges.iter().filter(move |it| it.median.outcome == outcome);
        let first = all().next()?;
        let inside = all().filter(|it| it.path.starts_with(&first.path) && cost(it) >= cost(first) / 2.0);
        inside.max_by_key(|it| it.path.len())
    });
    let named = most.map(|range| {
        format!("The range `{}` changed: {}.", path_of_ranges(&range.path), of_median("median", &range.median))
    });
    named.collect()
}

fn unlike(what: &str, a: &Run, b: &Run, get: impl Fn(&Run) -> String) -> Option<String> {
    let (a, b) = (get(a), get(b));
    (a != b).then(|| format!("The runs differ in {what}: A {a}, B {b}."))
}
