//! Compares what ranks called at equal positions: what differs first, and which calls a rank that differs left out or
//! added.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::graph::parts::{Described, Key};
use crate::job::{Call, Comm, Job, Rank, Sequence, Signature};
use analysis::units::count;
use nccl_events::collective::Collective;
use nccl_events::sort::Gather;

/// The first difference between calls that belong to one operation, in the order of comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    Function,
    Datatype,
    Count,
    Root,
    Reduction,
    Bytes,
    Algorithm,
    Protocol,
    Channels,
}

impl Difference {
    /// What differs, in the plural.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Function => "functions",
            Self::Datatype => "data types",
            Self::Count => "counts",
            Self::Root => "roots",
            Self::Reduction => "reduction operations",
            Self::Bytes => "sizes",
            Self::Algorithm => "algorithms",
            Self::Protocol => "protocols",
            Self::Channels => "numbers of channels",
        }
    }

    /// Whether NCCL, not the program, chose what differs.
    pub(crate) const fn is_of_nccl(self) -> bool {
        matches!(self, Self::Algorithm | Self::Protocol | Self::Channels)
    }
}

/// Where a call's arguments come from. Below the API, counts are not the program's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Api,
    Below,
    Range,
}

const fn level(call: &Call) -> Level {
    match call {
        Call { from_api: true, .. } => Level::Api,
        Call { what: Signature { tuning: Some(_), .. }, .. } => Level::Below,
        Call { sequence: Some(_), .. } => Level::Below,
        _ => Level::Range,
    }
}

/// The arguments that are compared, `None` where they are not known of all.
fn comparable<'a>(difference: Difference, call: &'a Call, levels: &[Level]) -> Option<Comparable<'a>> {
    let what = &call.what;
    let is_one_level = levels.windows(2).all(|pair| matches!(pair, [one, other] if one == other));
    let has_arguments = is_one_level && levels.first() != Some(&Level::Range);
    // These move bytes, of whatever type.
    let only_moves = Collective::named(&*what.func).is_some_and(Collective::moves_bytes);
    let tuning = what.tuning.as_ref();
    match difference {
        Difference::Function => Some(Comparable::Text(&what.func)),
        Difference::Datatype => (has_arguments && !only_moves).then_some(Comparable::Text(&what.datatype)),
        Difference::Count if only_moves => has_arguments.then_some(what.bytes).flatten().map(Comparable::Number),
        Difference::Count => has_arguments.then_some(Comparable::Number(what.count)),
        Difference::Root => what.root.map(|root| Comparable::Number(u64::from(root.cast_unsigned()))),
        Difference::Reduction => what.reduction.as_deref().map(Comparable::Text),
        Difference::Bytes => {
            let is_stated = is_one_level || !levels.contains(&Level::Below);
            what.bytes.filter(|_| is_stated).map(Comparable::Number)
        }
        Difference::Algorithm => tuning.map(|tuning| Comparable::Text(&tuning.algorithm)),
        Difference::Protocol => tuning.map(|tuning| Comparable::Text(&tuning.protocol)),
        Difference::Channels => tuning.map(|tuning| Comparable::Number(tuning.channels.into())),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Comparable<'a> {
    Text(&'a str),
    Number(u64),
}

const ALL: [Difference; 9] = [
    Difference::Function,
    Difference::Datatype,
    Difference::Count,
    Difference::Root,
    Difference::Reduction,
    Difference::Bytes,
    Difference::Algorithm,
    Difference::Protocol,
    Difference::Channels,
];

/// What differs first between the calls of ranks that belong to one operation.
pub(crate) fn difference(calls: &[(u32, Described<'_>)]) -> Option<Difference> {
    let collectives: Vec<&Call> = calls
        .iter()
        .filter_map(|(_, call)| if let Described::Collective(call) = call { Some(*call) } else { None })
        .collect();
    if collectives.len() != calls.len() {
        let sizes = calls.iter().map(|(_, call)| match call {
            Described::Message(message) => message.bytes,
            Described::Collective(_) => None,
        });
        let sizes: Option<Vec<u64>> = sizes.collect();
        let differ = sizes.is_some_and(|sizes| sizes.windows(2).any(|pair| matches!(pair, [a, b] if a != b)));
        return differ.then_some(Difference::Bytes);
    }
    let levels: Vec<Level> = {
        let mut levels: Vec<Level> = Vec::new();
        for one in collectives.iter().map(|call| level(call)) {
            if !levels.contains(&one) {
                levels.push(one);
            }
        }
        levels
    };
    ALL.into_iter().find(|difference| {
        let mut values = collectives.iter().map(|call| comparable(*difference, call, &levels));
        let Some(first) = values.next().flatten() else { return false };
        let mut differs = false;
        for value in values {
            match value {
                Some(value) => differs |= value != first,
                None => return false,
            }
        }
        differs
    })
}

/// Ranks with different calls at one position of a communicator's order, or the two ends of a message.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    pub(crate) key: Key,
    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) from_beginning: bool,
    pub(crate) difference: Difference,
    /// What was called, and by whom; the largest group first.
    pub(crate) groups: Vec<(String, Vec<u32>)>,
    pub(crate) explanation: Option<Explanation>,
    /// Whether what ranks called after the same calls before says who differs.
    pub(crate) is_by_habit: bool,
}

/// How the calls of a rank that differs become those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explanation {
    /// Only this call differs.
    OnlyThis,
    LeftOut,
    OneTooMany,
    Swapped,
}

impl Mismatch {
    pub(crate) const fn is_message(&self) -> bool {
        matches!(self.key, Key::Message { .. })
    }

    /// The ranks outside of the largest group.
    pub(crate) fn deviants(&self) -> Vec<u32> {
        self.groups.iter().skip(1).flat_map(|(_, ranks)| ranks.iter().copied()).collect()
    }

    /// Whether the calls after it no longer belong together.
    pub(crate) fn shifts_what_follows(&self) -> bool {
        let is_shifted = matches!(self.explanation, Some(Explanation::LeftOut | Explanation::OneTooMany));
        is_shifted || self.explanation.is_none() && self.difference == Difference::Function
    }

    /// Whether no group has most of the ranks, so that nothing says which is right.
    pub(crate) fn is_tie(&self) -> bool {
        let largest = self.groups.first().map_or(0, |(_, ranks)| ranks.len());
        let all: usize = self.groups.iter().map(|(_, ranks)| ranks.len()).sum();
        2 * largest <= all
    }
}

/// The arguments of a call that matter beside a difference.
pub(crate) fn signature(call: &Described<'_>, difference: Difference) -> String {
    let call = match call {
        Described::Collective(call) => call,
        Described::Message(message) => {
            let size = match (message.datatype.is_empty(), message.bytes) {
                (true, Some(bytes)) => format!("{} bytes", count(bytes)),
                _ => format!("{} {}", count(message.count), message.datatype),
            };
            return format!("{} of {size}", message.func());
        }
    };
    let what = &call.what;
    let mut text = format!("nccl{}", what.func);
    if !what.datatype.is_empty() {
        text += &format!(" of {} {}", count(what.count), what.datatype);
    } else if let Some(bytes) = what.bytes {
        text += &format!(" of {} bytes", count(bytes));
    }
    let tuning = what.tuning.clone().unwrap_or_default();
    match (difference, &what.reduction) {
        (_, _) if what.root.is_some() => text += &what.root.map_or_else(String::new, |root| format!(", root {root}")),
        (Difference::Reduction, Some(reduction)) => text += &format!(", {reduction}"),
        (Difference::Algorithm, _) => text += &format!(", algorithm {}", tuning.algorithm),
        (Difference::Protocol, _) => text += &format!(", protocol {}", tuning.protocol),
        (Difference::Channels, _) => text += &format!(", {} channels", tuning.channels),
        _ => {}
    }
    text
}

/// Groups calls by what differs.
pub(crate) fn groups(calls: &[(u32, Described<'_>)], difference: Difference) -> Vec<(String, Vec<u32>)> {
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (rank, call) in calls {
        groups.entry(signature(call, difference)).or_default().push(*rank);
    }
    let mut groups: Vec<(String, Vec<u32>)> = groups.into_iter().collect();
    nccl_events::sort::sort_by_key(&mut groups, |(_, ranks)| (Reverse(ranks.len()), ranks.first().copied()));
    groups
}

/// The first position in `positions` at which ranks called different things.
pub(crate) fn first_mismatch(
    job: &Job,
    (index, comm): (usize, &Comm),
    sequence: Sequence,
    positions: std::ops::Range<u64>,
) -> Option<Mismatch> {
    let whole: Vec<(u32, &Rank)> =
        sequence.ranks(comm).filter(|(_, rank)| sequence.tail(rank).has_positions() && job.is_whole(rank)).collect();
    positions.into_iter().find_map(|position| {
        let calls: Vec<(u32, Described<'_>)> = whole
            .iter()
            .filter_map(|(number, rank)| Some((*number, Described::Collective(sequence.tail(rank).at(position)?))))
            .collect();
        let difference = difference(&calls)?;
        let groups = groups(&calls, difference);
        let mut mismatch = Mismatch {
            key: Key::Collective(index, sequence, position),
            from_beginning: sequence.is_from_beginning(comm),
            difference,
            groups,
            explanation: None,
            is_by_habit: false,
        };
        explain(comm, sequence, &mut mismatch);
        Some(mismatch)
    })
}

/// How many calls after a difference are compared.
const COMPARED: usize = 64;

/// The longest run of calls that is looked for earlier.
const LONGEST_HABIT: usize = 32;

fn are_alike(one: &Call, other: &Call) -> bool {
    let both = [(0, Described::Collective(one)), (1, Described::Collective(other))];
    difference(&both).is_none_or(Difference::is_of_nccl)
}

/// The calls of a rank from the difference on.
fn following<'a>(comm: &'a Comm, sequence: Sequence, mismatch: &Mismatch, number: u32) -> Option<Vec<&'a Call>> {
    let tail = sequence.tail(comm.ranks.get(&number)?);
    let first = usize::try_from(mismatch.key.position().checked_sub(tail.before)?).ok()?;
    Some(tail.list.iter().skip(first).take(COMPARED).collect())
}

/// Explains how the calls of the only rank that differs become those of the others. If there are two ranks, what both
/// called earlier, after the same calls, tells which of them differs.
fn explain(comm: &Comm, sequence: Sequence, mismatch: &mut Mismatch) -> Option<()> {
    let [(_, usual), (_, other)] = mismatch.groups.as_slice() else { return None };
    let (&usual, &[other]) = (usual.first()?, other.as_slice()) else { return None };
    if mismatch.difference.is_of_nccl() {
        return None;
    }
    let right = following(comm, sequence, mismatch, usual)?;
    let wrong = following(comm, sequence, mismatch, other)?;
    let explanation = explanation(&right, &wrong)?;
    if !mismatch.is_tie() {
        mismatch.explanation = Some(explanation);
        return Some(());
    }
    let tail = sequence.tail(comm.ranks.get(&usual)?);
    let first = usize::try_from(mismatch.key.position().checked_sub(tail.before)?).ok()?;
    let expected = expected(tail.list.get(..first)?, are_alike)?;
    let is_usual = are_alike(expected, right.first()?);
    let is_other = are_alike(expected, wrong.first()?);
    let inverse = match explanation {
        Explanation::LeftOut => Explanation::OneTooMany,
        Explanation::OneTooMany => Explanation::LeftOut,
        Explanation::OnlyThis | Explanation::Swapped => return None,
    };
    if is_usual == is_other {
        return None;
    }
    if is_other {
        mismatch.groups.reverse();
    }
    mismatch.explanation = Some(if is_usual { explanation } else { inverse });
    mismatch.is_by_habit = true;
    Some(())
}

/// What followed the longest run of calls at the end of these that also occurred earlier.
pub(crate) fn expected<T>(before: &[T], are_alike: impl Fn(&T, &T) -> bool) -> Option<&T> {
    let count = before.len();
    let is_run = |length: usize, at: usize| {
        let (now, earlier) = (before.get(count - length..), before.get(at..at + length));
        now.zip(earlier).is_some_and(|(now, earlier)| now.iter().zip(earlier).all(|(one, other)| are_alike(one, other)))
    };
    let longest = LONGEST_HABIT.min(count.saturating_sub(1));
    (1..=longest).rev().find_map(|length| {
        let at = (0..count - length).rev().find(|at| is_run(length, *at))?;
        before.get(at + length)
    })
}

/// Under which explanation most of what follows agrees. *Only this call differs* wins every tie.
fn explanation(right: &[&Call], wrong: &[&Call]) -> Option<Explanation> {
    let score = |right: &[&Call], wrong: &[&Call]| {
        let number = |length: usize| i64::try_from(length).unwrap_or(0);
        let alike = right.iter().zip(wrong).filter(|(one, other)| are_alike(one, other)).count();
        2 * number(alike) - number(right.len().abs_diff(wrong.len()))
    };
    let (after_right, after_wrong) = (right.get(1..)?, wrong.get(1..)?);
    let mut found = vec![
        (score(after_right, after_wrong), 0, Explanation::OnlyThis),
        (score(after_right, wrong), -1, Explanation::LeftOut),
        (score(right, after_wrong), -2, Explanation::OneTooMany),
    ];
    if let ([a, b, rest @ ..], [c, d, others @ ..]) = (right, wrong)
        && are_alike(a, d)
        && are_alike(b, c)
    {
        found.push((score(rest, others) + 4, -3, Explanation::Swapped));
    }
    let (score, _, explanation) = found.into_iter().max_by_key(|(score, order, _)| (*score, *order))?;
    (score > 0 || explanation == Explanation::OnlyThis).then_some(explanation)
}

/// The mismatches of a communicator's sequences, the first of each.
pub(crate) fn mismatches(job: &Job) -> Vec<Mismatch> {
    let comms = job.comms.iter().enumerate();
    let sequences = comms.flat_map(|comm| Sequence::ALL.into_iter().map(move |sequence| (comm, sequence)));
    let found = sequences.filter_map(|((index, comm), sequence)| {
        let tails: Vec<_> = sequence.ranks(comm).map(|(_, rank)| sequence.tail(rank)).collect();
        let kept = tails.iter().filter(|tail| tail.has_positions() && !tail.list.is_empty());
        let first = kept.clone().map(|tail| tail.before).min()?;
        let end = kept.map(|tail| tail.count()).max()?;
        first_mismatch(job, (index, comm), sequence, first..end)
    });
    found.gather()
}
