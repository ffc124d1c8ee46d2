//! Operations that were open when the recording ended, and the ranks without a recorded call of them.

use std::collections::{BTreeMap, BTreeSet};

use nccl_events::sort::Gather;
use otf2::RegionRef;

use super::instances::{Instance, Instances};
use crate::archive::Trace;
use crate::report::{Cause, CauseKind, Rank};
use crate::tables::{NO_SEQUENCE, Operation, Tables};
use crate::units::{plural, time};
use nccl_events::ids::{index as large, index_u32 as small};

/// Ranks of a healthy job that is killed also wait in their last operations: a shorter wait is not reported.
const LEAST_NS: u64 = 1_000_000_000;

/// A collective that did not end on all its ranks.
struct Blocked<'a> {
    instance: &'a Instance,
    /// The ranks that were in it: rows of [`crate::tables::Members`].
    inside: Vec<u32>,
    longest_ns: u64,
    waited_ns: u64,
    /// Recorded ranks without a recorded call of this operation: rows of members.
    absent: Vec<u32>,
    unrecorded: u64,
}

/// What the ranks of the job waited for when the recording ended; `None` if no rank had waited for long. The cause has
/// no share: shares refer to the time of operations that ended.
pub(super) fn cause(trace: &Trace, tables: &Tables, instances: &Instances, ranks: &[Rank]) -> Option<Cause> {
    let open: Vec<(u32, Operation)> = open(tables).collect();
    let waiting: BTreeSet<u32> = open.iter().map(|(_, it)| job_rank(tables, it.member)).gather();
    let mut numbers: Vec<u32> = open.iter().filter_map(|(row, _)| instances.of_operation(*row)).collect();
    nccl_events::sort::sort(&mut numbers);
    numbers.dedup();
    let blocked = numbers.iter().filter_map(|number| instances.all.get(large(*number)));
    let blocked = blocked.map(|instance| Blocked::of(tables, instances, instance));
    let blocked: Vec<Blocked<'_>> = blocked.filter(|it| it.longest_ns >= LEAST_NS).collect();
    // Ranks may have called later collectives of a communicator; they wait for the first that did not end.
    let mut begun_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for instance in blocked.iter().map(|it| it.instance) {
        let first_ns = begun_ns.entry(instance.communicator).or_insert(instance.arrivals.first_ns);
        *first_ns = instance.arrivals.first_ns.min(*first_ns);
    }
    let is_first = |it: &&Blocked<'_>| begun_ns.get(&it.instance.communicator) == Some(&it.instance.arrivals.first_ns);
    // A rank missing in one communicator may wait in another: the rank that waits nowhere holds up the others.
    let waits_nowhere = |row: &u32| !waiting.contains(&job_rank(tables, *row));
    let holds_up = |it: &Blocked<'_>| it.absent.iter().any(waits_nowhere);
    let first = blocked.iter().filter(is_first).max_by_key(|it| (holds_up(it), !it.absent.is_empty(), it.longest_ns));
    let Some(first) = first else {
        return message(trace, tables, &open, ranks);
    };
    let mut behind: Vec<u32> = first.absent.clone();
    behind.retain(|row| !holds_up(first) || waits_nowhere(row));
    let elsewhere = match (holds_up(first), is_cycle(tables, &blocked, first)) {
        (true, _) => Elsewhere::Nobody,
        (false, true) => Elsewhere::ForEachOther,
        (false, false) => Elsewhere::All,
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
enum Elsewhere {
    Nobody,
    All,
    /// All wait in other operations, some of them for ranks that in turn wait for them.
    ForEachOther,
}

/// Whether one of the ranks that did not arrive waits, through a chain of waits, for one that arrived.
fn is_cycle(tables: &Tables, blocked: &[Blocked<'_>], first: &Blocked<'_>) -> bool {
    let numbers = |rows: &[u32]| -> BTreeSet<u32> { rows.iter().map(|row| job_rank(tables, *row)).gather() };
    let here = numbers(&first.inside);
    let waits: Vec<_> = blocked.iter().map(|it| (numbers(&it.inside), numbers(&it.absent))).collect();
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
    tables.operations.rows().enumerate().filter(|(_, it)| it.is_unfinished).map(|(row, it)| (small(row), it))
}

impl<'a> Blocked<'a> {
    fn of(tables: &Tables, instances: &Instances, instance: &'a Instance) -> Self {
        let operations: Vec<Operation> = instances.rows(tables, instance).collect();
        let open = || operations.iter().filter(|it| it.is_unfinished);
        let waits = || open().map(Operation::duration_ns);
        let came = |member: u32| operations.iter().any(|it| it.member == member);
        let members = (0..).zip(&tables.members.all).filter(|(_, it)| it.communicator == instance.communicator);
        let absent = members.map(|(row, _)| row).filter(|row| !came(*row) && !has_later_call(tables, instance, *row));
        Self {
            instance,
            inside: open().map(|it| it.member).collect(),
            longest_ns: waits().max().unwrap_or(0),
            waited_ns: waits().fold(0, u64::saturating_add),
            absent: absent.collect(),
            unrecorded: (tables.members.size(instance.communicator) - tables.members.recorded(instance.communicator))
                as u64,
        }
    }

    fn sentence(&self, trace: &Trace, tables: &Tables, ranks: &[Rank], behind: &[u32], elsewhere: Elsewhere) -> String {
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
                    Elsewhere::Nobody => String::new(),
                    Elsewhere::All => format!(", which {verb} in another operation"),
                    Elsewhere::ForEachOther => {
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
    format!("{}{number}", trace.region_name(function))
}

fn last_call(trace: &Trace, tables: &Tables, member: u32) -> Option<String> {
    let last = tables.operations.rows().filter(|it| it.member == member).max_by_key(|it| it.start_ns)?;
    Some(call(trace, last.function, (last.sequence != NO_SEQUENCE).then_some(last.sequence)))
}

/// Whether a rank has a later call of this function: then its call of this instance was merely not recorded.
fn has_later_call(tables: &Tables, instance: &Instance, member: u32) -> bool {
    let Some(sequence) = instance.sequence else {
        return false;
    };
    let mut of_rank = tables.operations.rows().filter(|it| it.member == member && it.function == instance.function);
    of_rank.any(|it| it.sequence != NO_SEQUENCE && it.sequence > sequence)
}

fn message(trace: &Trace, tables: &Tables, open: &[(u32, Operation)], ranks: &[Rank]) -> Option<Cause> {
    let long = || open.iter().map(|(_, it)| it).filter(|it| it.duration_ns() >= LEAST_NS);
    let longest = long().max_by_key(|it| it.duration_ns())?;
    let rank = ranks.get(large(job_rank(tables, longest.member)))?;
    Some(Cause {
        kind: CauseKind::Unfinished,
        since_ns: Some(longest.start_ns),
        lost_ns: long().map(Operation::duration_ns).fold(0, u64::saturating_add),
        instances: long().count() as u64,
        sentence: format!(
            "{} had not ended {} when the recording did, after {}: the rank that it waited for is not named here.",
            super::causes::capital(&rank.name),
            trace.region_name(longest.function),
            time(longest.duration_ns())
        ),
        ..Cause::default()
    })
}
