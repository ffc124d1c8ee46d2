//! The answer in one sentence, and what it rests on.

use super::arrivals::Incomparable;
use super::instances::Instances;
use super::maths::sample::real;
use crate::report::{Budget, Cause, CauseKind, Clocks, Finding, Rank, Verdict};
use crate::statements::Completeness;
use crate::tables::{Tables, large, small};
use crate::units::{count, plural, time};

/// Where more of the matched collectives cannot be compared, "nothing stands out" would say too much.
const LEAST_COMPARABLE: f64 = 0.5;

pub(super) fn verdict(
    tables: &Tables,
    instances: &Instances,
    causes: &[Cause],
    budget: &Budget,
    clocks: &Clocks,
    completeness: &Completeness,
) -> Verdict {
    let matched = instances.all.len() as u64;
    let comparable = instances.all.iter().filter(|it| it.is_comparable()).count() as u64;
    let share = |ns: u64| real(ns) * 100.0 / real(budget.operations_ns.max(1));
    let is_unclear = real(comparable) < LEAST_COMPARABLE * real(matched);
    // Where little can be compared, "for an unknown reason" is no answer.
    let main = causes.first().filter(|cause| cause.kind != CauseKind::Unknown || !is_unclear);
    let (finding, sentence) = match main {
        Some(cause) => (Finding::Causes, cause.sentence.clone()),
        None if tables.operations.is_empty() => {
            (Finding::Nothing, "There are no operations of NCCL in this archive.".to_owned())
        }
        None if matched == 0 => {
            (Finding::Nothing, "No collective of several ranks was recorded: there is nothing to compare.".to_owned())
        }
        None if is_unclear => (Finding::Unclear, unclear(instances, matched)),
        None => {
            let sentence = format!(
                "Nothing stands out: no rank, pair of ranks or channel loses 2 % of the time. Ranks wait for each other \
                 {:.1} % of their {} in collectives, in turn.",
                share(budget.waiting_ns),
                time(budget.operations_ns)
            );
            (Finding::Healthy, sentence)
        }
    };
    let mut basis = vec![format!(
        "Arrivals could be compared in {} of {}.",
        count(comparable),
        plural(matched, "collective", "collectives")
    )];
    basis.push(clocks.sentence.clone());
    if budget.operations_ns > 0 {
        basis.push(format!(
            "Of {} in collectives, {:.1} % were waiting for a later rank, {:.1} % transfer, {:.1} % unknown.",
            time(budget.operations_ns),
            share(budget.waiting_ns),
            share(budget.transfer_ns),
            share(budget.unclear_ns),
        ));
    }
    if causes.len() > 1 {
        basis.push(format!("{} causes are named in all. Lost times overlap: they do not add up.", causes.len()));
    }
    if completeness.is_partial() {
        basis
            .push("The recording is not complete: what is missing is counted, `nccl-otf2 info` says where.".to_owned());
    }
    Verdict { finding, sentence, basis }
}

/// Why nothing can be said.
fn unclear(instances: &Instances, matched: u64) -> String {
    let number = |why| instances.all.iter().filter(|it| it.error_ns == Err(why)).count() as u64;
    let reasons = [
        (Incomparable::Contradiction, "The recording does", "a rank ended before another one arrived"),
        (Incomparable::Unfinished, "The recording does", "a rank had not ended"),
        (Incomparable::RankMissing, "The recording does", "a rank or the root was not recorded"),
        (Incomparable::NotMeasured, "The recording does", "only the enqueueing of a rank is known"),
        (Incomparable::ClockUnknown, "The clocks do", "the error of a rank's clock is not known"),
    ];
    let reasons = reasons.map(|(why, who, text)| (number(why), who, text));
    let (most, who, reason) = reasons.into_iter().max_by_key(|(number, ..)| *number).unwrap_or_default();
    format!(
        "{who} not allow to say who came late: in {} of {}, {reason}.",
        count(most),
        plural(matched, "collective", "collectives"),
    )
}

/// What the clocks allow.
pub(super) fn clocks(tables: &Tables, instances: &Instances, ranks: &[Rank]) -> Clocks {
    let mut errors: Vec<u64> = instances.all.iter().filter_map(|it| it.error_ns.ok()).collect();
    errors.sort_unstable();
    let uncertainty_ns = errors.last().copied();
    let usual_ns = errors.get(errors.len() / 2).copied().unwrap_or(0);
    let mut unknown: Vec<u32> = Vec::new();
    for instance in instances.all.iter().filter(|it| it.error_ns == Err(Incomparable::ClockUnknown)) {
        let rows = instances.operations(instance).iter();
        unknown.extend(rows.map(|row| tables.members.row(tables.operations.member[large(*row)]).job_rank));
        unknown.sort_unstable();
        unknown.dedup();
        if small(unknown.len()) == small(ranks.len()) {
            break;
        }
    }
    let sentence = match (uncertainty_ns, unknown.is_empty()) {
        (Some(ns), true) if ns > 2 * usual_ns => format!(
            "Arrivals of ranks compare to within {} mostly, {} at most; nothing is said below that.",
            time(usual_ns),
            time(ns)
        ),
        (Some(ns), true) => format!("Arrivals of ranks compare to within {}; nothing is said below that.", time(ns)),
        (Some(ns), false) => format!(
            "Arrivals compare to within {} where the errors of clocks are known; of {} they are not.",
            time(ns),
            plural(unknown.len() as u64, "rank", "ranks")
        ),
        (None, false) => "The errors of the clocks are not known: arrivals of ranks cannot be compared.".to_owned(),
        (None, true) => "No arrivals of ranks are compared.".to_owned(),
    };
    Clocks { uncertainty_ns, unknown, sentence }
}
