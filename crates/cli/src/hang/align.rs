//! Which operations of different ranks are the same, where the beginning of what a rank did is not kept.
//!
//! Then operations cannot be counted from the first. But NCCL numbers the collectives of each function and communicator,
//! and all ranks call them in one order: one number that two ranks have in common says how all the others lie.
//!
//! ```text
//!  kept of rank 0    AllReduce 40  AllReduce 41  Broadcast 7  AllReduce 42
//!  kept of rank 1                                Broadcast 7  AllReduce 42  Broadcast 8
//!  kept of rank 2    AllReduce 40                                                        has not called AllReduce 41
//!  position               0             1             2            3             4
//! ```
//!
//! Ranks that have no number in common can still be told to be before or behind each other, by the numbers of a function
//! that both have called.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::job::{Call, Comm};
use super::judge::Lane;
use super::tail::{Place, Tail};

/// What NCCL counts by itself: a function, and whether a copy engine does it.
type Function = (Arc<str>, bool);

/// Numbers of operations, with where these are.
type Numbers<At = i64> = BTreeMap<Function, BTreeMap<u64, At>>;

/// Gives the ranks of a communicator whose beginning is not kept their places.
pub(crate) fn align(comm: &mut Comm) {
    for lane in [Lane::Calls, Lane::Replays] {
        let tails = comm.ranks.values_mut().map(|rank| lane.of_mut(rank));
        align_tails(tails.collect());
    }
}

/// A rank of which only the end is kept.
struct Kept<'a> {
    tail: &'a mut Tail,
    numbers: Numbers,
    /// The position of the first in the list.
    first: Option<i64>,
}

fn function(call: &Call) -> Function {
    (Arc::clone(&call.what.func), call.by_copy_engine)
}

fn length(list: &[Call]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

/// Where in the list each number is. One that is there twice says nothing: launches of CUDA graphs do not always count.
fn numbers(list: &[Call]) -> Numbers {
    let mut places: Numbers<Vec<i64>> = BTreeMap::new();
    for (at, call) in (0..).zip(list) {
        if let Some(sequence) = call.sequence {
            let numbers = places.entry(function(call)).or_default();
            numbers.entry(sequence).or_default().push(at);
        }
    }
    let once = |numbers: BTreeMap<u64, Vec<i64>>| {
        let numbers = numbers.into_iter();
        numbers.filter_map(|(number, places)| match places.as_slice() {
            &[at] => Some((number, at)),
            _ => None,
        })
    };
    let functions = places.into_iter();
    functions
        .map(|(function, numbers)| (function, once(numbers).collect()))
        .collect()
}

/// The rank to begin with: one that has what most have, and of those the one that has most.
fn first_to_place<'a, 'b>(cut: &'a mut [Kept<'b>]) -> Option<&'a mut Kept<'b>> {
    let mut ranks_with: Numbers<usize> = BTreeMap::new();
    for (function, numbers) in cut.iter().flat_map(|kept| &kept.numbers) {
        let ranks = ranks_with.entry(function.clone()).or_default();
        for number in numbers.keys() {
            *ranks.entry(*number).or_default() += 1;
        }
    }
    cut.iter_mut().rev().max_by_key(|kept| {
        let ranks = kept.numbers.iter().filter_map(|(function, numbers)| {
            let ranks = ranks_with.get(function)?;
            numbers.keys().filter_map(|number| ranks.get(number)).max()
        });
        let how_many: usize = kept.numbers.values().map(BTreeMap::len).sum();
        (ranks.max().copied(), how_many)
    })
}

/// The operations that have a place.
#[derive(Default)]
struct Order {
    numbers: Numbers<(i64, Place)>,
    /// Behind the last of them.
    end: i64,
}

impl Order {
    fn add(&mut self, numbers: &Numbers, first: i64, place: Place, length: i64) {
        for (function, numbers) in numbers {
            let known = self.numbers.entry(function.clone()).or_default();
            for (number, at) in numbers {
                known.entry(*number).or_insert((first + at, place));
            }
        }
        self.end = self.end.max(first + length);
    }

    /// The position of the first of a list, by the first number that has a place: where ranks call different things
    /// numbers differ from there on.
    fn first_of(&self, numbers: &Numbers) -> Option<(i64, Place)> {
        let common = numbers.iter().filter_map(|(function, own)| {
            let known = self.numbers.get(function)?;
            let common = own.iter();
            let common = common.filter_map(|(number, at)| Some((at, known.get(number)?)));
            common.min_by_key(|(at, _)| **at)
        });
        let (at, (position, place)) = common.min_by_key(|(at, _)| **at)?;
        let is_apart = *place == Place::Apart;
        let place = if is_apart {
            Place::Apart
        } else {
            Place::Aligned
        };
        Some((position - at, place))
    }

    /// The position of the first of a list that has no number with a place: as near as it can be.
    fn nearest_of(&self, numbers: &Numbers, length: i64) -> Option<i64> {
        let mut behind: Option<i64> = None;
        let mut ahead: Option<i64> = None;
        for (function, own) in numbers {
            let Some(known) = self.numbers.get(function) else {
                continue;
            };
            let ends = (own.first_key_value()?, own.last_key_value()?);
            let known = (known.first_key_value()?, known.last_key_value()?);
            if ends.1.0 < known.0.0 {
                // It has not called the first of these, nor those between.
                let between = i64::try_from(known.0.0 - ends.1.0 - 1).ok()?;
                let first = known.0.1.0.checked_sub(between)?.checked_sub(length)?;
                behind = Some(behind.map_or(first, |other| other.min(first)));
            } else if ends.0.0 > known.1.0 {
                let between = i64::try_from(ends.0.0 - known.1.0 - 1).ok()?;
                let first = self.end.checked_add(between)?.checked_sub(*ends.0.1)?;
                ahead = Some(ahead.map_or(first, |other| other.max(first)));
            } else {
                return None;
            }
        }
        behind.xor(ahead)
    }
}

fn align_tails(tails: Vec<&mut Tail>) {
    let mut order = Order::default();
    let (cut, mut counted): (Vec<_>, Vec<_>) =
        tails.into_iter().partition(|tail| !tail.is_placed());
    for tail in &counted {
        if let Ok(first) = i64::try_from(tail.before) {
            order.add(
                &numbers(&tail.list),
                first,
                Place::Counted,
                length(&tail.list),
            );
        }
    }
    let is_counted = counted.iter().any(|tail| !tail.list.is_empty());
    let cut = cut.into_iter().filter(|tail| !tail.list.is_empty());
    let mut cut: Vec<Kept<'_>> = cut
        .map(|tail| Kept {
            numbers: numbers(&tail.list),
            tail,
            first: None,
        })
        .collect();
    if cut.is_empty() {
        return;
    }
    if !is_counted && let Some(kept) = first_to_place(&mut cut) {
        kept.put(&mut order, 0, Place::Aligned);
    }
    while put_some(&mut cut, &mut order) {}
    let lowest = cut.iter().filter_map(|kept| kept.first).min().unwrap_or(0);
    let origin = if is_counted { 0 } else { lowest };
    let is_alone = !is_counted && cut.iter().filter(|kept| kept.first.is_some()).count() == 1;
    let says_nothing = is_alone && cut.len() > 1;
    for kept in &mut cut {
        let before = kept
            .first
            .and_then(|first| u64::try_from(first - origin).ok());
        match before.filter(|_| !says_nothing) {
            Some(before) => kept.tail.before = before,
            None => kept.tail.place = Place::Unknown,
        }
    }
    if !is_counted {
        // Their number is from the communicator's beginning, which is not where positions begin.
        let counted = counted.iter_mut().filter(|tail| tail.before > 0);
        counted.for_each(|tail| tail.place = Place::Unknown);
    }
}

/// Gives some of those that have no place one. Whether there may be more.
fn put_some(cut: &mut [Kept<'_>], order: &mut Order) -> bool {
    let mut is_new = false;
    for kept in cut.iter_mut().filter(|kept| kept.first.is_none()) {
        if let Some((first, place)) = order.first_of(&kept.numbers) {
            kept.put(order, first, place);
            is_new = true;
        }
    }
    if is_new {
        return true;
    }
    for kept in cut.iter_mut().filter(|kept| kept.first.is_none()) {
        if let Some(first) = order.nearest_of(&kept.numbers, length(&kept.tail.list)) {
            kept.put(order, first, Place::Apart);
            return true;
        }
    }
    false
}

impl Kept<'_> {
    fn put(&mut self, order: &mut Order, first: i64, place: Place) {
        order.add(&self.numbers, first, place, length(&self.tail.list));
        self.first = Some(first);
        self.tail.place = place;
    }
}
