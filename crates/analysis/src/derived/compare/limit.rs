//! Is B slower by more than a limit? "No" needs data that would show it.

use super::sentences::{did_not_end, what};
use crate::derived::maths::sample::real;
use crate::report::{Answer, Comparison, Finding, Group, Kind, Limit, Outcome};
use crate::units::plural;

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
        return Some(format!("could not see {}. {}", percent(share), comparison.sentence));
    }
    reasons.extend(uncompared(comparison, share));
    let at_most = |group: &Group| group.median.and_then(|it| it.slower_at_most).unwrap_or(f64::INFINITY);
    let compared = groups.iter().filter(|it| it.outcome != Outcome::Unclear);
    let open: Vec<&Group> = compared.filter(|group| at_most(group) >= share).collect();
    reasons.extend(open.iter().copied().max_by(|a, b| at_most(a).total_cmp(&at_most(b))).map(|group| {
        let number = plural(groups.len() as u64, "group of operations", "groups of operations");
        format!("in {} of {number}, {}", open.len(), reach(group, open.len()))
    }));
    (!reasons.is_empty()).then(|| format!("could not see {}: {}", percent(share), reasons.join("; ")))
}

/// Operations of B that did not end: their full duration is unknown.
fn unfinished(comparison: &Comparison) -> Option<String> {
    let [_, b] = &comparison.runs;
    let kinds = comparison.groups.iter().map(|it| &it.b).chain(&comparison.only_b);
    let unfinished: u64 = kinds.map(|kind| kind.unfinished).sum();
    match b.verdict.finding {
        Finding::Unfinished => Some(did_not_end("B", b)),
        _ if unfinished == 0 => None,
        _ => Some(format!("{} of B had not ended", plural(unfinished, "operation", "operations"))),
    }
}

/// Operations of B that cannot be compared, if they take at least `share` of its time.
fn uncompared(comparison: &Comparison, share: f64) -> Option<String> {
    let groups = comparison.groups.iter();
    let unclear = groups.clone().filter(|it| it.outcome == Outcome::Unclear);
    let unclear = unclear.map(|it| (&it.b, it.reason.as_deref().unwrap_or("the data does not allow it")));
    let uncompared = || unclear.clone().chain(comparison.only_b.iter().map(|kind| (kind, "A has no such operations")));
    let time = |kind: &Kind| kind.total_ns.map_or(f64::INFINITY, real);
    let lost: f64 = uncompared().map(|(kind, _)| time(kind)).sum();
    let all: f64 = groups.map(|it| &it.b).chain(&comparison.only_b).filter_map(|kind| kind.total_ns).map(real).sum();
    let (kind, reason) = uncompared().max_by(|(a, _), (b, _)| time(a).total_cmp(&time(b)))?;
    let how_much = match lost.is_finite() {
        true if lost < share * all || all <= 0.0 => return None,
        true => format!("{} of the time in operations of B", percent(lost / all.max(1.0))),
        false => "an unknown part of the time in operations of B".to_owned(),
    };
    Some(format!("{how_much} cannot be compared, most of it {}: {reason}", what(kind)))
}

/// For example "ncclAllReduce of 1 MiB on 8 ranks, B may be slower by up to 12.0 %: the smallest change that …".
fn reach(group: &Group, groups: usize) -> String {
    let what = what(&group.b);
    let most = if groups > 1 { "most in " } else { "" };
    let Some((median, (at_most, resolution))) =
        group.median.and_then(|it| Some((it, it.slower_at_most.zip(it.resolution)?)))
    else {
        return format!("{most}{what}, the median of A is 0");
    };
    let of_clocks = median.error_ns.filter(|_| median.a_ns > 0.0).map_or(0.0, |ns| real(ns) / median.a_ns);
    let way_out = match of_clocks > resolution / 2.0 {
        true => format!("{} of that is the clocks' error", percent(of_clocks)),
        false => format!("record more collectives in both runs ({} and {} now)", group.a.count, group.b.count),
    };
    format!(
        "{most}{what}, B may be slower by up to {}. The smallest change that these runs show there is {}: {way_out}",
        percent(at_most),
        percent(resolution),
    )
}
