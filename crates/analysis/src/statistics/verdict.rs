//! The verdict in one line, and what it is based on. Of a job that hung, `hang` has the verdict.

use std::collections::BTreeSet;

use crate::lateness::chance::IMPROBABLE;
use crate::lateness::late::{LEAST_SHARE, Late, OwnTime, Pauses};
use crate::links::slow::Shared;
use crate::names::{MOST_COLUMNS, columns, shortened};
use crate::read::Tables;
use crate::read::archive::{Trace, is_nccl};
use crate::results::{Cause, CauseKind, Clocks, Finding, Rank, Verdict};
use crate::statistics::anomalies::Inputs;
use crate::statistics::collectives::{Filter, Incomparable, Instances};
use crate::statistics::lines::{LISTED, late_line, percent, percents, who};
use crate::units;
use crate::units::{count, plural, real, time, whole};
use nccl_events::Kind;
use nccl_events::archive::Timing;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::schema::Statements;
use nccl_events::sort::Gather;
use nccl_events::versions::ALLGATHERV_WORKAROUND;

/// Below this comparable share of the matched collectives, "nothing stands out" would overstate the result.
const LEAST_COMPARABLE: f64 = 0.5;

pub(super) fn verdict(inputs: &Inputs<'_>, causes: &[Cause], clocks: &Clocks, statements: &Statements) -> Verdict {
    let (tables, instances, budget) = (inputs.tables, inputs.instances, &inputs.waiting.total);
    let matched = instances.all.len() as u64;
    let comparable = instances.all.iter().filter(|instance| instance.is_comparable()).count() as u64;
    let is_partial = statements.is_partial() || statements.collectives_unmatched.get() > 0;
    let is_unclear = real(comparable) < LEAST_COMPARABLE * real(matched);
    // If few collectives are comparable, "for an unknown reason" is no answer.
    let main = causes.first().filter(|cause| cause.kind != CauseKind::Unknown || !is_unclear);
    let (finding, line) = match main {
        Some(cause) if cause.is_late() => {
            let late: Vec<&Cause> = causes.iter().filter(|cause| cause.is_late()).collect();
            (Finding::Causes, late_line(inputs.ranks, &late))
        }
        Some(cause) => (Finding::Causes, cause.sentence.clone()),
        None if tables.operations.is_empty() => (Finding::Nothing, no_operations(inputs.trace)),
        None if budget.operations_ns == budget.not_compared_ns && matched == 0 => {
            let sentence = "No collective or message of several ranks was timed: there is nothing to compare";
            (Finding::Nothing, sentence.to_owned())
        }
        None if inputs.most_operations < FEWEST && !is_mostly_incomparable(instances) => {
            (Finding::Unclear, too_few(inputs))
        }
        None => without_cause(inputs, statements),
    };
    let mut basis = evidence(inputs, causes);
    if inputs.lateness.by_lengths > 0 {
        basis.push(format!(
            "In {} the clocks do not show who came last: the shortest operation does.",
            plural(inputs.lateness.by_lengths, "collective", "collectives")
        ));
    }
    if comparable == 0 && matched > 0 && clocks.unknown.is_empty() {
        basis.push("Arrivals could not be compared in any collective.".to_owned());
    } else if comparable > 0 && comparable < matched {
        basis.push(format!(
            "Arrivals could be compared in only {} of {}.",
            count(comparable),
            plural(matched, "collective", "collectives")
        ));
    }
    if clocks.uncertainty_ns.is_some() || !clocks.unknown.is_empty() || statements.has_assumed_ticks() {
        basis.push(clocks.sentence.clone());
    }
    if budget.operations_ns > 0 {
        let parts = [
            (budget.waiting_ns, "waiting"),
            (budget.transfer_ns, "transfer"),
            (budget.unclear_ns, "unclear"),
            (budget.not_compared_ns, "not compared"),
        ];
        let shares = percents(&parts.map(|(ns, _)| ns));
        let parts = parts.into_iter().zip(shares).filter(|((ns, _), _)| *ns > 0);
        let parts: Vec<String> = parts.map(|((_, part), share)| format!("{share} {part}")).collect();
        let after = if inputs.waiting.warm_up.operations_ns > 0 { " after warm-up" } else { "" };
        let all = time(budget.operations_ns);
        basis.push(format!("All ranks spent {all} in operations{after}: {}.", parts.join(", ")));
    }
    basis.extend(perhaps_late(inputs, main));
    basis.extend(warm_up(inputs));
    basis.extend(limits(statements));
    if statements.is_cut() {
        let sentence = "The recording is incomplete: `nccl-otf2 info` lists what is missing.";
        basis.push(sentence.to_owned());
    } else if statements.unfinished() > 0 {
        let unfinished = plural(statements.unfinished(), "event", "events");
        basis.push(format!("No events were lost; {unfinished} had not ended when the recording ended."));
    } else if statements.collectives_unmatched.get() > 0 {
        let unmatched = plural(statements.collectives_unmatched.get(), "collective is", "collectives are");
        basis.push(format!("No events were lost; {unmatched} not on all recorded ranks."));
    }
    basis.extend(impossible_ranks(statements));
    let is_judged = !matches!(finding, Finding::Unclear | Finding::Nothing);
    Verdict {
        finding,
        line: shortened(&line, MOST_COLUMNS),
        is_partial,
        basis,
        rest: is_judged.then(|| rest(inputs, causes, statements)),
    }
}

fn impossible_ranks(statements: &Statements) -> Option<String> {
    let number = statements.ranks_impossible.number.get();
    let communicators = plural(number, "communicator", "communicators");
    (number > 0).then(|| {
        format!(
            "For {communicators}, NCCL stated an impossible rank or size: none of their messages are in the archive, \
            and their ranks are not compared."
        )
    })
}

fn no_operations(trace: &Trace) -> String {
    if !is_nccl(&trace.archive) {
        let creator = Some(trace.archive.creator()).filter(|creator| !creator.is_empty());
        return format!("An archive of {}, without NCCL operations", creator.unwrap_or("another program"));
    }
    no_calls(&trace.statements)
}

fn no_calls(statements: &Statements) -> String {
    let calls = [Kind::CollApi, Kind::P2pApi].map(|kind| statements.counts.kinds.get(kind).written).iter().sum();
    match calls {
        0 => "This archive has no NCCL operations".to_owned(),
        // NCCL 2.29 and later report nothing but calls for broadcasts, unless NCCL_ALLGATHERV_ENABLE=0.
        calls => format!(
            "This archive has no NCCL operations, only {}: see `nccl-otf2 info`",
            plural(calls, "call", "calls"),
        ),
    }
}

/// What was not to be recorded.
fn limits(statements: &Statements) -> Option<String> {
    let missing = "is missing, and steps and phases without operations may have had some";
    match statements.steps.shown().as_slice() {
        _ if !statements.was_switched() => None,
        [] => Some(format!("Recording was switched off at times: what ran during those times {missing}.")),
        steps => {
            Some(format!("Recording was limited to steps {}: what ran outside of them {missing}.", steps.join("; ")))
        }
    }
}

/// The qualification of a verdict that found nothing; empty if the whole run was recorded.
fn among(statements: &Statements) -> &'static str {
    match () {
        () if statements.is_cut() || statements.was_switched() => " in the part that was recorded",
        () if statements.unfinished() > 0 => " among what ended",
        () if statements.collectives_unmatched.get() > 0 => " among what all recorded ranks called",
        () => "",
    }
}

fn rest(inputs: &Inputs<'_>, causes: &[Cause], statements: &Statements) -> String {
    let nothing = if causes.is_empty() { "Nothing stands out" } else { "Nothing else stands out" };
    match (among(statements), statements.counts.lost()) {
        ("", _) if !inputs.links.has_steps => {
            format!("{nothing}; no event was lost, but links were not measured.")
        }
        ("", _) => format!("{nothing}; no event was lost."),
        (among, 0) => format!("{nothing}{among}."),
        (among, lost) => format!("{nothing}{among}; events lost: {}.", count(lost)),
    }
}

/// What supports the first causes, and what all late ranks cost.
fn evidence(inputs: &Inputs<'_>, causes: &[Cause]) -> Vec<String> {
    let evidence = |is_late: bool| {
        let causes = causes.iter().take(LISTED).filter(move |cause| cause.is_late() == is_late);
        causes.filter_map(|cause| cause.evidence.clone())
    };
    let mut lines: Vec<String> = evidence(true).chain(gain(inputs)).chain(evidence(false)).collect();
    lines.extend(unreported_broadcasts(inputs));
    let named = causes.iter().filter(|cause| cause.evidence.is_some() && !cause.is_late() && !cause.is_stall).count();
    let slow = inputs.links.slow.iter().filter(|slow| slow.shared != Shared::Kind).count();
    if slow > named {
        let more = if named > 0 { ("more link is", "more links are") } else { ("link is", "links are") };
        let links = plural((slow - named) as u64, more.0, more.1);
        lines.push(format!("{links} slow at a cost below 2 %: see `nccl-otf2 stats --by pairs`."));
    }
    if !inputs.links.has_steps && (inputs.links.has_transfers || inputs.spans_hosts()) {
        lines.push("Links were not measured: record with `--events standard,ProxyStep` to compare them.".to_owned());
    }
    let kinds = inputs.links.slow.iter().filter(|slow| slow.shared == Shared::Kind);
    lines.extend(kinds.map(|slow| {
        format!(
            "{} links between groups of hosts take {:.1} times as long as the others: a different kind of link, not a \
            cause.",
            count(slow.pairs),
            slow.ratio
        )
    }));
    lines
}

/// What the other ranks would gain if no rank was late, also as a share of the run.
fn gain(inputs: &Inputs<'_>) -> Option<String> {
    let Late { ranks, lost_ns, error_ns } = &inputs.lateness.late;
    let who = match ranks.as_slice() {
        [] => return None,
        [rank] => format!("{} were not", inputs.ranks.get(large(rank.rank))?.name),
        _ => "none of these ranks were".to_owned(),
    };
    let others = real(inputs.ranks.len().saturating_sub(ranks.len()).max(1) as u64);
    let [each_ns, error_ns] = [lost_ns / others, error_ns / others];
    let length_ns = real(inputs.filter.length_ns(inputs.tables.clock.length_ns(inputs.trace)).max(1));
    let is_part = inputs.filter.from_ns.is_some() || inputs.filter.to_ns.is_some();
    let whole_of = if is_part { "the selected time" } else { "the run" };
    Some(format!(
        "If {who} late, the others would spend {} (± {}) less in operations on average, {} of {whole_of}; {} in total.",
        time(whole(each_ns)),
        time(whole(error_ns)),
        percent(each_ns / length_ns),
        time(whole(*lost_ns))
    ))
}

/// How to have NCCL report what the verdict lacks.
fn unreported_broadcasts(inputs: &Inputs<'_>) -> Option<String> {
    let blind = &inputs.lateness.blind;
    let lacks_broadcasts = || {
        let unreported = inputs.trace.statements.unreported.shown();
        unreported.iter().any(|line| line.ends_with(ALLGATHERV_WORKAROUND))
    };
    let is_unclear = blind.share() > UNCLEAR && blind.unreported >= blind.unrecorded;
    (is_unclear && lacks_broadcasts()).then(|| format!("{ALLGATHERV_WORKAROUND}."))
}

/// Ranks that may be late beside another cause.
fn perhaps_late(inputs: &Inputs<'_>, main: Option<&Cause>) -> Option<String> {
    let perhaps = &inputs.lateness.perhaps;
    let ranks: Vec<&Rank> = perhaps.ranks.iter().filter_map(|late| inputs.ranks.get(large(late.rank))).collect();
    main.filter(|_| !ranks.is_empty())?;
    let share = percent(perhaps.lost_ns / real(inputs.waiting.total.operations_ns.max(1)));
    let who = who(inputs.ranks, &ranks, ("may be", "may be"));
    Some(format!("{who} late, too: {share} of communication time lost, but it may be chance."))
}

/// Why most of the collectives that cannot be compared cannot, and how many these are.
fn incomparable(instances: &Instances) -> Option<(&'static str, u64)> {
    let number = |why| instances.all.iter().filter(|instance| instance.arrivals.error_ns == Err(why)).count() as u64;
    let reasons = [
        (Incomparable::Contradiction, "a rank ended before another one arrived"),
        (Incomparable::Unfinished, "a rank had not ended"),
        (Incomparable::RankMissing, "a rank or the root was not recorded"),
        (Incomparable::NotMeasured, "only the enqueueing is known; record GPU times"),
    ];
    let reasons = reasons.map(|(why, text)| (text, number(why)));
    reasons.into_iter().max_by_key(|(_, number)| *number).filter(|(_, number)| *number > 0)
}

/// Whether another recording would compare half of the collectives.
fn is_mostly_incomparable(instances: &Instances) -> bool {
    incomparable(instances).is_some_and(|(_, number)| 2 * number >= instances.all.len() as u64)
}

fn pauses_line(inputs: &Inputs<'_>, pauses: &Pauses) -> String {
    let names = pauses.ranks.keys().filter_map(|rank| inputs.ranks.get(large(*rank)));
    let names: Vec<&str> = names.map(|rank| rank.name.as_str()).collect();
    let who = match names.as_slice() {
        [rank] => format!("all waiting for {rank}"),
        ranks => format!("waiting for {} in turn", plural(ranks.len() as u64, "rank", "ranks")),
    };
    let of = plural(pauses.of, "collective", "collectives");
    let lost = percent(pauses.lost_ns / real(inputs.waiting.total.operations_ns.max(1)));
    format!("Pauses: {lost} of communication time lost in {} of {of}, {who}", count(pauses.collectives))
}

/// Above this share, what cannot be compared may hide anything.
const UNCLEAR: f64 = 0.1;

/// With fewer operations on each rank, only a cause that chance does not explain is said.
const FEWEST: u64 = 8;
/// With fewer, no rank is said to be late.
pub(super) const LEAST: u64 = 4;

/// The number of operations after warm-up on the rank that has most.
pub(super) fn most_operations(trace: &Trace, tables: &Tables, filter: &Filter, instances: &Instances) -> u64 {
    let mut counts = vec![0; tables.members.job_ranks.len()];
    for (row, operation) in (0..).zip(tables.operations.rows()) {
        let counts_now = match instances.instance_of_operation(row) {
            Some(number) => !instances.all[large(number)].is_warm_up,
            None => filter.wants(trace, &tables.members, &operation),
        };
        counts[large(tables.job_rank(row))] += u64::from(counts_now);
    }
    counts.into_iter().max().unwrap_or(0)
}

fn too_few(inputs: &Inputs<'_>) -> String {
    let are = if inputs.filter.is_all() { "were recorded" } else { "are selected" };
    let after = if inputs.waiting.warm_up.operations_ns > 0 { " after warm-up" } else { "" };
    let most = count(inputs.most_operations);
    format!("Cannot tell who is late: too few operations {are}, at most {most} on a rank{after}")
}

/// The finding and line of a run without a cause.
fn without_cause(inputs: &Inputs<'_>, statements: &Statements) -> (Finding, String) {
    let (judged, budget) = (inputs.lateness, &inputs.waiting.total);
    let share = |ns: f64| percent(ns / real(budget.operations_ns.max(1)));
    let launches_only = inputs.tables.operations.rows().all(|operation| operation.timing == Some(Timing::Proxy));
    if launches_only || judged.unclear > UNCLEAR || judged.series.is_empty() {
        let reason = match () {
            () if launches_only => "GPU times were not recorded; record with kernel channels".to_owned(),
            () if judged.blind.share() > UNCLEAR && judged.blind.unreported >= judged.blind.unrecorded => {
                format!("NCCL does not report {} of the work between operations", percent(judged.blind.share()))
            }
            () if judged.blind.share() > UNCLEAR => {
                format!("{} of the work between operations was not recorded", percent(judged.blind.share()))
            }
            () => match incomparable(inputs.instances) {
                Some((why, number)) => {
                    let of = plural(inputs.instances.all.len() as u64, "collective", "collectives");
                    format!("in {} of {of} {why}", count(number))
                }
                None if judged.unclear > UNCLEAR => {
                    format!("the clocks do not show who waited in {} of communication time", percent(judged.unclear))
                }
                None => "too few operations of the same ranks were recorded".to_owned(),
            },
        };
        return (Finding::Unclear, format!("Cannot tell who is late: {reason}"));
    }
    let among = among(statements);
    let perhaps: Vec<&Rank> =
        judged.perhaps.ranks.iter().filter_map(|late| inputs.ranks.get(large(late.rank))).collect();
    if let Some(pauses) = judged.pauses.as_ref().filter(|pauses| pauses.ranks.len() == 1 || perhaps.is_empty()) {
        return (Finding::Pauses, pauses_line(inputs, pauses));
    }
    if !perhaps.is_empty() {
        let who = who(inputs.ranks, &perhaps, ("may be", "may be"));
        let lost = share(judged.perhaps.lost_ns);
        let sentence = format!("{who} late: {lost} of communication time lost, but it may be chance");
        return (Finding::MayBeLate, sentence);
    }
    let waiting = share(real(budget.waiting_ns));
    let all_ns: u64 = judged.awaited_ns.iter().sum();
    let most = judged.awaited_ns.iter().zip(&judged.own).zip(inputs.ranks).max_by_key(|((ns, _), _)| **ns);
    let is_longer = |own: &OwnTime| judged.is_longer(own);
    let most = most.filter(|((ns, _), _)| 2 * **ns > all_ns);
    if let Some(((ns, own), rank)) = most
        && own.p_value.is_some_and(|p_value| p_value < IMPROBABLE)
        && real(*ns) >= LEAST_SHARE * real(budget.operations_ns)
        && is_longer(own)
    {
        let name = units::capital(&rank.name);
        let sentence = format!("{name} takes longer than its peers, but it is unclear how much time the others lose");
        return (Finding::MayBeLate, sentence);
    }
    let for_whom = match most {
        Some(((_, own), rank)) if is_longer(own) => format!("most of it for {}, which may be chance", rank.name),
        Some((_, rank)) => format!("most of it for {}, whose own time is usual", rank.name),
        None => "for several ranks".to_owned(),
    };
    let sentence = match () {
        () if budget.waiting_ns == 0 && budget.unclear_ns > 0 => {
            format!("No rank stands out{among}: the clocks do not show how long ranks wait")
        }
        () if budget.waiting_ns == 0 => format!("No rank stands out{among}: ranks do not wait for each other"),
        () => {
            let short = format!("No rank stands out{among}: {waiting} of communication time is waiting");
            let line = format!("{short}, {for_whom}");
            if columns(&line) <= MOST_COLUMNS { line } else { short }
        }
    };
    (Finding::Healthy, sentence)
}

fn warm_up(inputs: &Inputs<'_>) -> Option<String> {
    let first: Vec<u32> = inputs
        .instances
        .all
        .iter()
        .filter(|instance| instance.is_warm_up)
        .map(|instance| instance.communicator)
        .collect();
    let communicators: BTreeSet<u32> = first.iter().copied().gather();
    let time_ns = inputs.waiting.warm_up.operations_ns;
    (time_ns > 0).then(|| {
        let first = match first.len() {
            1 => "the first collective".to_owned(),
            number => format!("the first collectives of each function ({})", count(number as u64)),
        };
        let communicators = plural(communicators.len() as u64, "communicator", "communicators");
        format!("Not judged, as warm-up: {first} on {communicators}, {} of all ranks.", time(time_ns))
    })
}

pub(super) fn clocks(statements: &Statements, tables: &Tables, instances: &Instances, ranks: &[Rank]) -> Clocks {
    let mut errors: Vec<u64> = instances.all.iter().filter_map(|instance| instance.arrivals.error_ns.ok()).collect();
    errors.sort_unstable();
    let uncertainty_ns = errors.last().copied();
    let usual_ns = errors.get(errors.len() / 2).copied().unwrap_or(0);
    let mut unknown: BTreeSet<u32> = BTreeSet::new();
    for instance in
        instances.all.iter().filter(|instance| instance.arrivals.error_ns == Err(Incomparable::ClockUnknown))
    {
        unknown.extend(instances.operations(instance).iter().map(|row| tables.job_rank(*row)));
        if small(unknown.len()) == small(ranks.len()) {
            break;
        }
    }
    let sentence = match (uncertainty_ns, unknown.is_empty()) {
        _ if statements.has_assumed_ticks() => {
            "The clock readings of at least one process are lost: its times and durations are wrong, and its arrivals \
            are not compared."
                .to_owned()
        }
        (Some(ns), true) if ns > 2 * usual_ns => format!(
            "Arrivals of ranks are known to within {} mostly, {} at worst; smaller differences are not reported.",
            time(usual_ns),
            time(ns)
        ),
        (Some(ns), true) => {
            format!("Arrivals of ranks are known to within {}; smaller differences are not reported.", time(ns))
        }
        (Some(ns), false) => format!(
            "Arrivals of ranks are known to within {}, except for {} whose clock error is unknown.",
            time(ns),
            plural(unknown.len() as u64, "rank", "ranks")
        ),
        (None, false) => "The errors of the clocks are not known: arrivals of ranks cannot be compared.".to_owned(),
        (None, true) => "No arrivals of ranks are compared.".to_owned(),
    };
    Clocks { uncertainty_ns, unknown: unknown.into_iter().collect(), sentence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::schema::Sum;

    /// The verdict on a killed job says no more is missing than its basis says.
    #[test]
    fn collectives_that_a_killed_rank_did_not_call_are_not_lost() {
        let mut statements = Statements { collectives_unmatched: Sum::some(1), ..Statements::default() };
        assert_eq!(among(&statements), " among what all recorded ranks called");
        statements.counts.kind_mut(Kind::Coll).unfinished = 8;
        assert_eq!(among(&statements), " among what ended");
        statements.counts.kind_mut(Kind::Coll).lost = 1;
        assert_eq!(among(&statements), " in the part that was recorded");
    }

    #[test]
    fn calls_below_which_nccl_reports_nothing_are_named() {
        let mut statements = Statements::default();
        assert_eq!(no_calls(&statements), "This archive has no NCCL operations");
        statements.counts.kind_mut(Kind::CollApi).written = 80;
        assert_eq!(no_calls(&statements), "This archive has no NCCL operations, only 80 calls: see `nccl-otf2 info`");
    }
}
