//! The verdict in one sentence, and what it is based on. A run that did not end has a cause of its own: operations that
//! were open when the recording ended, and the ranks without a recorded call of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::read::archive::Trace;
use crate::read::{NO_SEQUENCE, Operation, Tables};
use crate::results::{Cause, CauseKind, Clocks, Finding, Rank, Run, Verdict};
use crate::statistics::anomalies::Inputs;
use crate::statistics::causes::{LEAST_OTHERS, LEAST_SHARE};
use crate::statistics::collectives::{Incomparable, Instance, Instances};
use crate::statistics::lateness::IMPROBABLE;
use crate::units;
use crate::units::{count, plural, real, time};
use nccl_events::Kind;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::schema::Statements;
use nccl_events::sort::Gather;
use otf2::RegionRef;

/// Below this comparable share of the matched collectives, "nothing stands out" would overstate the result.
const LEAST_COMPARABLE: f64 = 0.5;
/// A p-value below this is small, but not small enough to name a rank.
const UNLIKELY: f64 = 0.05;
/// A p-value above this is printed as 1.00.
const LIKELY: f64 = 0.995;

pub(super) fn verdict(inputs: &Inputs<'_>, causes: &[Cause], clocks: &Clocks, statements: &Statements) -> Verdict {
    let (tables, instances, budget) = (inputs.tables, inputs.instances, &inputs.waiting.total);
    let matched = instances.all.len() as u64;
    let comparable = instances.all.iter().filter(|instance| instance.is_comparable()).count() as u64;
    let share = |ns: u64| real(ns) * 100.0 / real(budget.operations_ns.max(1));
    let is_partial = statements.is_partial() || statements.collectives_unmatched.get() > 0;
    let is_unclear = real(comparable) < LEAST_COMPARABLE * real(matched);
    // If few collectives are comparable, "for an unknown reason" is no answer.
    let main = causes.first().filter(|cause| cause.kind != CauseKind::Unknown || !is_unclear);
    let (finding, sentence) = match main {
        Some(cause) if cause.kind == CauseKind::Unfinished => (Finding::Unfinished, cause.sentence.clone()),
        Some(cause) => (Finding::Causes, format!("{}{}", late_ranks(inputs, causes), cause.sentence)),
        None if tables.operations.is_empty() => (Finding::Nothing, no_operations(statements)),
        None if budget.operations_ns == budget.not_compared_ns && matched == 0 => {
            let sentence = "No collective or message of several ranks was timed: there is nothing to compare.";
            (Finding::Nothing, sentence.to_owned())
        }
        None if matched == 0 && budget.unclear_ns > budget.operations_ns / 2 => {
            let sentence = format!(
                "The recording does not show who came late: {:.1} % of the time in sends and receives is unclear, \
                 because of clocks, timing or an end that was not recorded.",
                share(budget.unclear_ns)
            );
            (Finding::Unclear, sentence)
        }
        None if is_unclear => (Finding::Unclear, unclear(instances, matched)),
        None => {
            let sentence = format!(
                "{} Ranks wait for each other {:.1} % of their {} in operations.",
                nothing(inputs, statements),
                share(budget.waiting_ns),
                time(budget.operations_ns)
            );
            (Finding::Healthy, sentence)
        }
    };
    let mut basis = Vec::new();
    if matched > 0 {
        basis.push(format!(
            "Arrivals could be compared in {} of {}.",
            count(comparable),
            plural(matched, "collective", "collectives")
        ));
    }
    basis.push(clocks.sentence.clone());
    if budget.operations_ns > 0 {
        basis.push(format!(
            "Of the time of all ranks in operations, {}, {:.1} % were waiting for a later rank, {:.1} % transfer, \
             {:.1} % unclear, {:.1} % not compared.",
            time(budget.operations_ns),
            share(budget.waiting_ns),
            share(budget.transfer_ns),
            share(budget.unclear_ns),
            share(budget.not_compared_ns),
        ));
    }
    basis.extend(worse(inputs, causes));
    basis.extend(warm_up(inputs));
    if causes.len() > 1 {
        basis.push(format!("{} causes are named in all. Lost times overlap: they do not add up.", causes.len()));
    }
    if main.is_some_and(|cause| cause.kind == CauseKind::Unfinished) {
        basis.push("`nccl-otf2 hang` says who waited for whom, and why. No table has what did not end.".to_owned());
    }
    basis.extend(limits(statements));
    if statements.is_cut() {
        let sentence = "The recording is not complete: what is missing is counted, `nccl-otf2 info` says where.";
        basis.push(sentence.to_owned());
    } else if statements.unfinished() > 0 {
        let unfinished = plural(statements.unfinished(), "event", "events");
        basis.push(format!("No event was lost; {unfinished} had not ended when the recording did."));
    } else if statements.collectives_unmatched.get() > 0 {
        let unmatched = plural(statements.collectives_unmatched.get(), "collective is", "collectives are");
        basis.push(format!("No event was lost; {unmatched} not on all recorded ranks."));
    }
    basis.extend(impossible_ranks(statements));
    let is_judged = matches!(finding, Finding::Unfinished | Finding::Causes | Finding::Healthy);
    Verdict { finding, sentence, is_partial, basis, rest: is_judged.then(|| rest(inputs, causes, statements)) }
}

fn impossible_ranks(statements: &Statements) -> Option<String> {
    let number = statements.ranks_impossible.number.get();
    let communicators = plural(number, "communicator", "communicators");
    (number > 0).then(|| {
        format!(
            "For {communicators}, NCCL stated a rank or size that cannot be: none of their messages are in the archive, \
             and their ranks are not compared."
        )
    })
}

fn no_operations(statements: &Statements) -> String {
    let calls = [Kind::CollApi, Kind::P2pApi].map(|kind| statements.counts.kinds.get(kind).written).iter().sum();
    match calls {
        0 => "There are no operations of NCCL in this archive.".to_owned(),
        // NCCL 2.29 and later report nothing but calls for broadcasts, unless NCCL_ALLGATHERV_ENABLE=0.
        calls => format!(
            "There are no operations of NCCL in this archive, only {}: `nccl-otf2 info` says which events were recorded, \
             and what NCCL does not report below a call.",
            plural(calls, "call", "calls"),
        ),
    }
}

/// What was not to be recorded.
fn limits(statements: &Statements) -> Option<String> {
    let missing = "is missing, and steps and phases without operations may have had some";
    match statements.steps.shown().as_slice() {
        _ if !statements.was_switched() => None,
        [] => Some(format!("Recording was switched off at times: what ran then {missing}.")),
        steps => {
            Some(format!("Recording was limited to steps {}: what ran outside of them {missing}.", steps.join("; ")))
        }
    }
}

/// The qualification of a verdict that found nothing; empty if the whole run was recorded.
fn among(statements: &Statements) -> &'static str {
    match () {
        () if statements.is_cut() || statements.was_switched() => " in what was recorded, which is not all",
        () if statements.unfinished() > 0 => " among what ended",
        () if statements.collectives_unmatched.get() > 0 => " among what all recorded ranks called",
        () => "",
    }
}

fn rest(inputs: &Inputs<'_>, causes: &[Cause], statements: &Statements) -> String {
    let nothing = if causes.is_empty() { "Nothing stands out" } else { "Nothing else stands out" };
    match (among(statements), statements.counts.lost()) {
        ("", _) if !inputs.links.has_steps => {
            format!("{nothing}; all that was seen is here, and connections were not measured.")
        }
        ("", _) => format!("{nothing}; all that was seen is here."),
        (among, 0) => format!("{nothing}{among}."),
        (among, lost) => format!("{nothing}{among}; events lost: {}.", count(lost)),
    }
}

fn late_ranks(inputs: &Inputs<'_>, causes: &[Cause]) -> String {
    const SEVERAL: usize = 3;
    let late: Vec<&Cause> = causes.iter().filter(|cause| cause.is_late() && !cause.is_stall).collect();
    if late.len() < SEVERAL || !causes.first().is_some_and(Cause::is_late) {
        return String::new();
    }
    let ranks = || late.iter().filter_map(|cause| inputs.ranks.get(large(cause.rank?)));
    let mut hosts: Vec<&str> = ranks().map(|rank| rank.host.as_str()).collect();
    nccl_events::sort::sort(&mut hosts);
    hosts.dedup();
    let ranks_of_host = |host: &str| inputs.ranks.iter().filter(|rank| rank.host == host).count();
    let which = match hosts.as_slice() {
        [host] if ranks_of_host(host) == late.len() && ranks_of_host(host) < inputs.ranks.len() => {
            format!("all ranks of {host}")
        }
        _ => {
            let mut names: Vec<&str> = ranks().map(|rank| rank.name.as_str()).take(SEVERAL).collect();
            names.extend((late.len() > SEVERAL).then_some("…"));
            names.join(", ")
        }
    };
    format!("{} of {} ranks are late ({which}). ", late.len(), inputs.ranks.len())
}

struct AwaitedRank<'a> {
    rank: &'a Rank,
    /// Share of all ranks' time in operations.
    share: f64,
    by_chance: String,
}

/// The rank that others waited longest for, among ranks that are not named as a cause.
fn longest_awaited<'a>(inputs: &Inputs<'a>, causes: &[Cause]) -> Option<AwaitedRank<'a>> {
    let is_named = |rank: u32| causes.iter().any(|cause| cause.rank == Some(rank) && cause.is_late());
    let others = (0..).zip(inputs.ranks).filter(|(number, _)| !is_named(*number));
    // Ranks that wait for another do not know that it had waited itself.
    let waited_ns = |rank: &Rank| rank.awaited_ns + rank.inherited_ns;
    let (number, rank) = others.max_by_key(|(_, rank)| waited_ns(rank))?;
    let share = real(waited_ns(rank)) / real(inputs.waiting.total.operations_ns.max(1));
    Some(AwaitedRank { rank, share, by_chance: by_chance(inputs, number, rank) })
}

fn nothing(inputs: &Inputs<'_>, statements: &Statements) -> String {
    let among = among(statements);
    let is_measured = inputs.links.has_steps;
    let compared = inputs.links.pairs.iter().filter(|pair| pair.slowdown.is_some()).count();
    let links = match () {
        () if !is_measured => Run::CONNECTIONS_NOT_MEASURED.to_owned(),
        () if compared <= LEAST_OTHERS => "there are too few connections to compare".to_owned(),
        () => "no pair of ranks or channel is slow beside the others".to_owned(),
    };
    match longest_awaited(inputs, &[]).filter(|awaited| awaited.share >= LEAST_SHARE) {
        Some(AwaitedRank { rank, share, by_chance }) => format!(
            "{}{among}: the others waited longest for {}, {:.1} % of the time of all ranks in operations, {by_chance}; \
             {links}.",
            if are_too_few(rank.instances, inputs.ranks.len() as u64) {
                "Too little was recorded"
            } else {
                "Nothing stands out beyond chance"
            },
            rank.name,
            share * 100.0,
        ),
        None => {
            format!("Nothing stands out{among}: no rank loses 2 % of the time of all ranks in operations; {links}.")
        }
    }
}

fn by_chance(inputs: &Inputs<'_>, number: u32, rank: &Rank) -> String {
    let (more_ns, others) = inputs.late.get(large(number)).map_or((0, 0), |late| (late.more_ns, late.ranks));
    match rank.p_value {
        _ if rank.inherited_ns > rank.awaited_ns => {
            "because it had itself waited or transferred for longer before".to_owned()
        }
        _ if more_ns == 0 => "though it was outside of operations no longer than they were".to_owned(),
        _ if more_ns.saturating_mul(others) < rank.awaited_ns / 2 => {
            format!("though it was outside of operations only {} longer than they were", time(more_ns))
        }
        _ if are_too_few(rank.instances, inputs.ranks.len() as u64) => {
            format!(
                "but {} to tell chance from a cause",
                match rank.instances {
                    1 => "one collective is too few".to_owned(),
                    few => format!("{few} collectives are too few"),
                }
            )
        }
        // The rank is late, but by too little.
        ..IMPROBABLE => "as they wait for others".to_owned(),
        p_value @ ..UNLIKELY => format!("which may be chance (p = {})", probability(p_value)),
        p_value @ ..LIKELY => format!("which chance explains (p = {p_value:.2})"),
        _ => "as expected by chance".to_owned(),
    }
}

/// Three digits would round a value just above [`IMPROBABLE`] to it.
fn probability(p_value: f64) -> String {
    format!("{p_value:.*}", if p_value < 0.01 { 4 } else { 3 })
}

/// Whether a rank that is last in all of these collectives could still be so by chance.
fn are_too_few(collectives: u64, ranks: u64) -> bool {
    let always_last = real(ranks).powf(1.0 - real(collectives));
    collectives > 0 && always_last >= IMPROBABLE
}

/// A rank not named as a cause that others waited longer for than for a named one.
fn worse(inputs: &Inputs<'_>, causes: &[Cause]) -> Option<String> {
    let least_ns = causes.iter().filter(|cause| cause.is_late()).map(|cause| cause.lost_ns).min()?;
    let AwaitedRank { rank, by_chance, .. } =
        longest_awaited(inputs, causes).filter(|awaited| awaited.rank.awaited_ns > least_ns)?;
    Some(format!("The others also waited {} for {}, {by_chance}.", time(rank.awaited_ns), rank.name))
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
        format!(
            "{} on {} took {} of all ranks, counted as warm-up, in which nobody is late.",
            match first.len() {
                1 => "The first collective".to_owned(),
                number => format!("The first collectives of each function ({})", count(number as u64)),
            },
            plural(communicators.len() as u64, "communicator", "communicators"),
            time(time_ns),
        )
    })
}

fn unclear(instances: &Instances, matched: u64) -> String {
    let number = |why| instances.all.iter().filter(|instance| instance.arrivals.error_ns == Err(why)).count() as u64;
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
        "{who} not show who came late: in {} of {}, {reason}.",
        count(most),
        plural(matched, "collective", "collectives"),
    )
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
            "The clock readings of at least one process are lost: its times and durations \
            are wrong, and no arrivals of ranks are compared with it."
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

/// Shorter waits are not reported, because ranks of a healthy job that is killed also wait in their last operations.
const LEAST_NS: u64 = 1_000_000_000;

/// A collective that did not end on all its ranks.
struct BlockedCollective<'a> {
    instance: &'a Instance,
    /// Rows in [`crate::read::Members`] of the ranks that had not left the collective.
    inside: Vec<u32>,
    longest_ns: u64,
    waited_ns: u64,
    /// Rows in [`crate::read::Members`] of the recorded ranks without a recorded call of the collective.
    absent: Vec<u32>,
    unrecorded: u64,
}

/// What the ranks of the job waited for when the recording ended; `None` if no rank had waited for long. The cause has
/// no share: shares refer to the time of operations that ended.
pub(super) fn cause(trace: &Trace, tables: &Tables, instances: &Instances, ranks: &[Rank]) -> Option<Cause> {
    let open: Vec<(u32, Operation)> = open(tables).collect();
    let waiting: BTreeSet<u32> = open.iter().map(|(_, operation)| job_rank(tables, operation.member)).gather();
    let mut numbers: Vec<u32> = open.iter().filter_map(|(row, _)| instances.instance_of_operation(*row)).collect();
    nccl_events::sort::sort(&mut numbers);
    numbers.dedup();
    let blocked = numbers.iter().filter_map(|number| instances.all.get(large(*number)));
    let blocked = blocked.map(|instance| BlockedCollective::new(tables, instances, instance));
    let blocked: Vec<BlockedCollective<'_>> = blocked.filter(|collective| collective.longest_ns >= LEAST_NS).collect();
    // Only the first blocked collective of a communicator counts: later ones wait for it.
    let mut begun_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for instance in blocked.iter().map(|collective| collective.instance) {
        let first_ns = begun_ns.entry(instance.communicator).or_insert(instance.arrivals.first_ns);
        *first_ns = instance.arrivals.first_ns.min(*first_ns);
    }
    let is_first = |collective: &&BlockedCollective<'_>| {
        begun_ns.get(&collective.instance.communicator) == Some(&collective.instance.arrivals.first_ns)
    };
    // A rank that is absent from one communicator may wait in another. An absent rank that waits nowhere holds up all.
    let waits_nowhere = |row: &u32| !waiting.contains(&job_rank(tables, *row));
    let holds_up = |collective: &BlockedCollective<'_>| collective.absent.iter().any(waits_nowhere);
    let first = blocked
        .iter()
        .filter(is_first)
        .max_by_key(|collective| (holds_up(collective), !collective.absent.is_empty(), collective.longest_ns));
    let Some(first) = first else {
        return message(trace, tables, &open, ranks);
    };
    let mut behind: Vec<u32> = first.absent.clone();
    behind.retain(|row| !holds_up(first) || waits_nowhere(row));
    let elsewhere = match (holds_up(first), is_cycle(tables, &blocked, first)) {
        (true, _) => WaitElsewhere::None,
        (false, true) => WaitElsewhere::ForEachOther,
        (false, false) => WaitElsewhere::All,
    };
    Some(Cause {
        kind: CauseKind::Unfinished,
        // Ranks that wait for each other are not blamed individually.
        rank: behind.iter().find(|row| waits_nowhere(row)).map(|row| job_rank(tables, *row)),
        since_ns: Some(first.instance.arrivals.first_ns),
        lost_ns: first.waited_ns,
        instances: blocked.len() as u64,
        sentence: first.sentence(trace, tables, ranks, &behind, elsewhere),
        ..Cause::default()
    })
}

#[derive(Clone, Copy)]
enum WaitElsewhere {
    None,
    All,
    /// All absent ranks wait in other operations, some of them for ranks that wait for them in turn.
    ForEachOther,
}

/// Whether one of the ranks that did not arrive waits, through a chain of waits, for one that arrived.
fn is_cycle(tables: &Tables, blocked: &[BlockedCollective<'_>], first: &BlockedCollective<'_>) -> bool {
    let numbers = |rows: &[u32]| -> BTreeSet<u32> { rows.iter().map(|row| job_rank(tables, *row)).gather() };
    let here = numbers(&first.inside);
    let waits: Vec<_> =
        blocked.iter().map(|collective| (numbers(&collective.inside), numbers(&collective.absent))).collect();
    let mut reached = numbers(&first.absent);
    let mut next: Vec<u32> = reached.iter().copied().collect();
    while let Some(rank) = next.pop() {
        if here.contains(&rank) {
            return true;
        }
        let waited_for = waits.iter().filter(|(inside, _)| inside.contains(&rank)).flat_map(|(_, absent)| absent);
        next.extend(waited_for.filter(|rank| reached.insert(**rank)));
    }
    false
}

fn job_rank(tables: &Tables, member: u32) -> u32 {
    tables.members.row(member).job_rank
}

fn open(tables: &Tables) -> impl Iterator<Item = (u32, Operation)> {
    tables
        .operations
        .rows()
        .enumerate()
        .filter(|(_, operation)| operation.is_unfinished)
        .map(|(row, operation)| (small(row), operation))
}

impl<'a> BlockedCollective<'a> {
    fn new(tables: &Tables, instances: &Instances, instance: &'a Instance) -> Self {
        let operations: Vec<Operation> = instances.rows(tables, instance).collect();
        let open = || operations.iter().filter(|operation| operation.is_unfinished);
        let waits = || open().map(Operation::duration_ns);
        let came = |member: u32| operations.iter().any(|operation| operation.member == member);
        let members = (0..).zip(&tables.members.all).filter(|(_, member)| member.communicator == instance.communicator);
        let absent = members.map(|(row, _)| row).filter(|row| !came(*row) && !has_later_call(tables, instance, *row));
        Self {
            instance,
            inside: open().map(|operation| operation.member).collect(),
            longest_ns: waits().max().unwrap_or(0),
            waited_ns: waits().fold(0, u64::saturating_add),
            absent: absent.collect(),
            unrecorded: (tables.members.size(instance.communicator) - tables.members.recorded(instance.communicator))
                as u64,
        }
    }

    fn sentence(
        &self,
        trace: &Trace,
        tables: &Tables,
        ranks: &[Rank],
        behind: &[u32],
        elsewhere: WaitElsewhere,
    ) -> String {
        let instance = self.instance;
        let communicator = tables.members.communicators.get(large(instance.communicator));
        let communicator = communicator.map(|comm| trace.comm_name(*comm)).unwrap_or_default();
        let call = call(trace, instance.function, instance.sequence);
        let what = format!("{call} of {communicator}");
        let inside = plural(self.inside.len() as u64, "rank was", "ranks were");
        let longest = time(self.longest_ns);
        let mut names: Vec<&str> = Vec::new();
        for row in behind {
            names.extend(ranks.get(large(job_rank(tables, *row))).map(|rank| rank.name.as_str()));
        }
        match names.split_first() {
            Some((first, others)) => {
                let others = match others.len() as u64 {
                    0 => String::new(),
                    number => format!(", nor for {}", plural(number, "other rank", "other ranks")),
                };
                let last = behind.first().and_then(|row| last_call(trace, tables, *row));
                let last = last.map_or_else(String::new, |last| format!("; {first}'s last there is {last}"));
                let verb = if names.len() == 1 { "waits" } else { "wait" };
                let elsewhere = match elsewhere {
                    WaitElsewhere::None => String::new(),
                    WaitElsewhere::All => format!(", which {verb} in another operation"),
                    WaitElsewhere::ForEachOther => {
                        format!(", which {verb} in another operation: ranks wait for each other")
                    }
                };
                format!(
                    "{inside} in {what} when the recording ended, for {longest}, and no call of it is recorded for \
                     {first}{others}{elsewhere}{last}."
                )
            }
            None if self.unrecorded > 0 => format!(
                "Nothing is recorded for {} of {communicator}, and {inside} in {call} when the recording ended, for {longest}.",
                plural(self.unrecorded, "rank", "ranks"),
            ),
            None => format!(
                "All recorded ranks have called {what}, and it had not ended when the recording did: {inside} in it, for \
                 {longest}."
            ),
        }
    }
}

fn call(trace: &Trace, function: RegionRef, sequence: Option<u64>) -> String {
    let number = sequence.map_or_else(String::new, |number| format!(" (sequence {number})"));
    format!("{}{number}", trace.function_name(function))
}

fn last_call(trace: &Trace, tables: &Tables, member: u32) -> Option<String> {
    let last = tables
        .operations
        .rows()
        .filter(|operation| operation.member == member)
        .max_by_key(|operation| operation.start_ns)?;
    Some(call(trace, last.function, (last.sequence != NO_SEQUENCE).then_some(last.sequence)))
}

/// Whether a rank has a later call of this function: then its call of this instance was merely not recorded.
fn has_later_call(tables: &Tables, instance: &Instance, member: u32) -> bool {
    let Some(sequence) = instance.sequence else {
        return false;
    };
    let mut rank_operations = tables
        .operations
        .rows()
        .filter(|operation| operation.member == member && operation.function == instance.function);
    rank_operations.any(|operation| operation.sequence != NO_SEQUENCE && operation.sequence > sequence)
}

fn message(trace: &Trace, tables: &Tables, open: &[(u32, Operation)], ranks: &[Rank]) -> Option<Cause> {
    let long = || open.iter().map(|(_, operation)| operation).filter(|operation| operation.duration_ns() >= LEAST_NS);
    let longest = long().max_by_key(|operation| operation.duration_ns())?;
    let rank = ranks.get(large(job_rank(tables, longest.member)))?;
    Some(Cause {
        kind: CauseKind::Unfinished,
        since_ns: Some(longest.start_ns),
        lost_ns: long().map(Operation::duration_ns).fold(0, u64::saturating_add),
        instances: long().count() as u64,
        sentence: format!(
            "{} had not ended {} when the recording did, after {}: the rank that it waited for is not named here.",
            units::capital(&rank.name),
            trace.function_name(longest.function),
            time(longest.duration_ns())
        ),
        ..Cause::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::schema::Sum;

    #[test]
    fn a_probability_above_the_limit_is_told_from_it() {
        assert_eq!([0.001_34, 0.034].map(probability), ["0.0013", "0.034"]);
    }

    /// The verdict on a killed job says no more is missing than its basis says.
    #[test]
    fn collectives_that_a_killed_rank_did_not_call_are_not_lost() {
        let mut statements = Statements { collectives_unmatched: Sum::some(1), ..Statements::default() };
        assert_eq!(among(&statements), " among what all recorded ranks called");
        statements.counts.kind_mut(Kind::Coll).unfinished = 8;
        assert_eq!(among(&statements), " among what ended");
        statements.counts.kind_mut(Kind::Coll).lost = 1;
        assert_eq!(among(&statements), " in what was recorded, which is not all");
    }

    #[test]
    fn calls_below_which_nccl_reports_nothing_are_named() {
        let mut statements = Statements::default();
        assert_eq!(no_operations(&statements), "There are no operations of NCCL in this archive.");
        statements.counts.kind_mut(Kind::CollApi).written = 80;
        let sentence = no_operations(&statements);
        assert!(sentence.contains("only 80 calls") && sentence.contains("does not report below a call"), "{sentence}");
    }
}
