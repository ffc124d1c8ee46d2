//! Matches the operations of different ranks if the beginning of a rank's recording is not kept.
//!
//! Such operations cannot be counted from the first. But NCCL numbers the collectives of each function and
//! communicator, and all ranks call them in the same order: one number that two ranks have in common gives the
//! positions of all their other operations.
//!
//! ```text
//!  kept of rank 0    AllReduce 40  AllReduce 41  Broadcast 7  AllReduce 42
//!  kept of rank 1                                Broadcast 7  AllReduce 42  Broadcast 8
//!  kept of rank 2    AllReduce 40                                                        has not called AllReduce 41
//!  position               0             1             2            3             4
//! ```
//!
//! Ranks without a common number can still be ordered by the numbers of a function that both have called.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::job::{Comm, Positions, Sequence, Tail};
use nccl_events::sort::Gather;

/// The unit of NCCL's numbering: a function, and whether a copy engine does it.
type Function = (Arc<str>, bool);

type Numbers<At = i64> = BTreeMap<Function, BTreeMap<u64, At>>;

/// Finds the positions of a communicator's ranks whose beginning is not kept.
pub(crate) fn align(comm: &mut Comm) {
    for sequence in Sequence::ALL {
        align_tails(comm.ranks.values_mut().map(|rank| sequence.tail_mut(rank)).collect());
    }
}

/// The last operations of a rank whose first operations are not kept.
struct CutTail<'a> {
    tail: &'a mut Tail,
    /// Index in the list, by number.
    numbers: Numbers,
    /// The position of the first operation in the list.
    first: Option<i64>,
}

impl CutTail<'_> {
    fn put(&mut self, order: &mut Order, first: i64, positions: Positions) {
        order.add(&self.numbers, first, positions, length(self.tail));
        self.first = Some(first);
        self.tail.positions = positions;
    }
}

fn length(tail: &Tail) -> i64 {
    i64::try_from(tail.list.len()).unwrap_or(i64::MAX)
}

/// The index of each number in the list, without repeated numbers: launches of CUDA graphs do not always count.
fn numbers(tail: &Tail) -> Numbers {
    let mut all: Numbers<Option<i64>> = BTreeMap::new();
    for (index, call) in (0..).zip(&tail.list) {
        if let Some(sequence) = call.sequence {
            let numbers = all.entry((Arc::clone(&call.what.func), call.by_copy_engine)).or_default();
            numbers.entry(sequence).and_modify(|index| *index = None).or_insert(Some(index));
        }
    }
    let unique = |numbers: BTreeMap<u64, Option<i64>>| {
        numbers.into_iter().filter_map(|(number, index)| Some((number, index?))).gather()
    };
    all.into_iter().map(|(function, numbers)| (function, unique(numbers))).gather()
}

/// The tail to start with: it has the number that most ranks have, and among such tails the most numbers.
fn first_to_put<'a, 'b>(cut: &'a mut [CutTail<'b>]) -> Option<&'a mut CutTail<'b>> {
    let mut ranks_with: Numbers<usize> = BTreeMap::new();
    for (function, numbers) in cut.iter().flat_map(|tail| &tail.numbers) {
        let ranks = ranks_with.entry(function.clone()).or_default();
        for number in numbers.keys() {
            *ranks.entry(*number).or_default() += 1;
        }
    }
    cut.iter_mut().rev().max_by_key(|tail| {
        let ranks = tail.numbers.iter().filter_map(|(function, numbers)| {
            let ranks = ranks_with.get(function)?;
            numbers.keys().filter_map(|number| ranks.get(number)).max()
        });
        let n: usize = tail.numbers.values().map(BTreeMap::len).sum();
        (ranks.max().copied(), n)
    })
}

#[derive(Default)]
struct Order {
    numbers: Numbers<(i64, Positions)>,
    /// The position after the last operation.
    end: i64,
}

impl Order {
    fn add(&mut self, numbers: &Numbers, first: i64, positions: Positions, length: i64) {
        for (function, numbers) in numbers {
            let known = self.numbers.entry(function.clone()).or_default();
            for (number, index) in numbers {
                known.entry(*number).or_insert((first + index, positions));
            }
        }
        self.end = self.end.max(first + length);
    }

    /// The position of a list's first operation, from its first number with a known position: after ranks call
    /// different functions, their numbers diverge.
    fn first_of(&self, numbers: &Numbers) -> Option<(i64, Positions)> {
        let common = numbers.iter().flat_map(|(function, own)| {
            let known = self.numbers.get(function);
            own.iter().filter_map(move |(number, index)| Some((*index, known?.get(number)?)))
        });
        let (index, (position, positions)) = common.min_by_key(|(index, _)| *index)?;
        let is_ordered = *positions == Positions::Ordered;
        Some((position - index, if is_ordered { Positions::Ordered } else { Positions::Aligned }))
    }

    /// A position for the first operation of a list without a known number, as close to the others as possible.
    fn nearest_of(&self, numbers: &Numbers, length: i64) -> Option<i64> {
        let mut behind: Option<i64> = None;
        let mut ahead: Option<i64> = None;
        for (function, own) in numbers {
            let Some(known) = self.numbers.get(function) else {
                continue;
            };
            let (own_first, own_last) = (own.first_key_value()?, own.last_key_value()?);
            let (known_first, known_last) = (known.first_key_value()?, known.last_key_value()?);
            if own_last.0 < known_first.0 {
                // The rank has called neither the first known operation nor those between.
                let between = i64::try_from(known_first.0 - own_last.0 - 1).ok()?;
                let first = known_first.1.0.checked_sub(between)?.checked_sub(length)?;
                behind = Some(behind.map_or(first, |other| other.min(first)));
            } else if own_first.0 > known_last.0 {
                let between = i64::try_from(own_first.0 - known_last.0 - 1).ok()?;
                let first = self.end.checked_add(between)?.checked_sub(*own_first.1)?;
                ahead = Some(ahead.map_or(first, |other| other.max(first)));
            } else {
                return None;
            }
        }
        behind.xor(ahead)
    }

    /// Finds the positions of some tails; returns whether another call may find more.
    fn put_some(&mut self, cut: &mut [CutTail<'_>]) -> bool {
        let mut is_new = false;
        for tail in cut.iter_mut().filter(|tail| tail.first.is_none()) {
            if let Some((first, positions)) = self.first_of(&tail.numbers) {
                tail.put(self, first, positions);
                is_new = true;
            }
        }
        if is_new {
            return true;
        }
        for tail in cut.iter_mut().filter(|tail| tail.first.is_none()) {
            if let Some(first) = self.nearest_of(&tail.numbers, length(tail.tail)) {
                tail.put(self, first, Positions::Ordered);
                return true;
            }
        }
        false
    }
}

fn align_tails(tails: Vec<&mut Tail>) {
    let mut order = Order::default();
    let (counted, cut): (Vec<_>, Vec<_>) = tails.into_iter().partition(|tail| tail.has_positions());
    for tail in &counted {
        if let Ok(first) = i64::try_from(tail.before) {
            order.add(&numbers(tail), first, Positions::Counted, length(tail));
        }
    }
    let cut = cut.into_iter().filter(|tail| !tail.list.is_empty());
    let mut cut: Vec<CutTail<'_>> = cut.map(|tail| CutTail { numbers: numbers(tail), tail, first: None }).collect();
    if cut.is_empty() {
        return;
    }
    let is_counted = counted.iter().any(|tail| !tail.list.is_empty());
    if !is_counted && let Some(tail) = first_to_put(&mut cut) {
        tail.put(&mut order, 0, Positions::Aligned);
    }
    while order.put_some(&mut cut) {}
    let put = || cut.iter().filter_map(|tail| tail.first);
    let origin = if is_counted { 0 } else { put().min().unwrap_or(0) };
    // The position of a single tail means nothing.
    let is_alone = !is_counted && put().count() == 1 && cut.len() > 1;
    for tail in &mut cut {
        let before = tail.first.filter(|_| !is_alone);
        match before.and_then(|first| u64::try_from(first - origin).ok()) {
            Some(before) => tail.tail.before = before,
            None => tail.tail.positions = Positions::Unknown,
        }
    }
    if !is_counted {
        // These were counted from the communicator's beginning, which is not the origin of positions.
        for tail in counted.into_iter().filter(|tail| tail.before > 0) {
            tail.positions = Positions::Unknown;
        }
    }
}
