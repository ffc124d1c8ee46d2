//! Compares sequences of calls: groups the ranks whose calls agree and finds where the others first differ.
//!
//! A rank that stopped earlier agrees with ranks whose calls begin like its own. Digests of whole sequences are
//! compared first: they suffice for a thousand equal ranks. Only one sequence is loaded for each group that differs.

use std::collections::{BTreeMap, BTreeSet};

use super::Kind;
use crate::part::calls::{Call, Digest};
use nccl_events::ids::index;
use nccl_events::sort::Gather;

/// How many groups are distinguished: each keeps a whole sequence in memory.
pub(super) const MOST_GROUPS: usize = 16;

/// What is known about a rank without its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<T> {
    pub rank: u32,
    pub digest: Digest,
    pub source: T,
}

#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// Distinct calls.
    pub calls: Vec<Call>,
    pub order: Vec<u32>,
}

impl Sequence {
    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.hashes(), &self.order)
    }

    fn hashes(&self) -> Vec<u64> {
        self.calls.iter().map(Call::hash).collect()
    }

    fn get(&self, position: usize) -> Option<&Call> {
        self.calls.get(index(*self.order.get(position)?))
    }

    /// The digests of the prefixes that are as long as another member's sequence.
    fn beginnings<T>(&self, members: &[Member<T>]) -> BTreeSet<(u64, u64)> {
        let lengths: BTreeSet<u64> = members.iter().map(|member| member.digest.count).gather();
        let hashes = self.hashes();
        let mut digest = Digest::default();
        let mut beginnings: BTreeSet<(u64, u64)> = [(0, digest.hash)].into_iter().gather();
        for &call in &self.order {
            digest = digest.and(hashes.get(index(call)).copied().unwrap_or(0));
            if lengths.contains(&digest.count) {
                beginnings.insert((digest.count, digest.hash));
            }
        }
        beginnings
    }
}

/// Ranks that agree: the calls of each are a prefix of the longest sequence.
#[derive(Debug)]
pub(super) struct Group {
    /// Ranks, with the number of their calls.
    pub ranks: BTreeMap<u32, u64>,
    /// The longest sequence; `None` if all ranks are equal.
    sequence: Option<Sequence>,
}

impl Group {
    /// The call at a position, and the ranks that reached it.
    fn at(&self, position: u64) -> Option<(&Call, BTreeSet<u32>)> {
        let call = self.sequence.as_ref()?.get(usize::try_from(position).ok()?)?;
        Some((call, self.ranks.iter().filter(|(_, count)| **count > position).map(|(rank, _)| *rank).gather()))
    }

    fn first_difference(&self, other: &Self) -> Option<(Kind, u64)> {
        let (one, other) = (self.sequence.as_ref()?, other.sequence.as_ref()?);
        let pairs = || (0..).map_while(|at| Some((at, one.get(at)?, other.get(at)?)));
        let (at, a, b) = pairs().find(|(_, a, b)| a != b)?;
        let difference = match is_other_order(pairs().skip(at).map(|(_, a, b)| (a, b))) {
            true => Kind::Order,
            false => Kind::between(a, b),
        };
        Some((difference, at as u64))
    }
}

#[derive(Debug)]
pub(super) struct Groups {
    /// Largest group first.
    pub all: Vec<Group>,
    /// Ranks that differ at an unknown position: their calls cannot be read, or there are too many groups.
    pub unclear: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub kind: Kind,
    /// Index of the call, from 0.
    pub position: u64,
    pub calls: BTreeMap<Call, BTreeSet<u32>>,
}

impl Groups {
    /// Groups the ranks; `load` reads the calls of a rank.
    pub(super) fn of<T: Copy>(members: &[Member<T>], load: impl Fn(&Member<T>) -> Option<Sequence>) -> Self {
        let mut groups = Self { all: Vec::new(), unclear: BTreeSet::new() };
        let mut rest = members.to_vec();
        nccl_events::sort::sort_by_key(&mut rest, |member| (std::cmp::Reverse(member.digest.count), member.rank));
        while let Some(longest) = rest.first().copied() {
            if groups.all.len() == MOST_GROUPS {
                groups.unclear.extend(rest.iter().map(|member| member.rank));
                break;
            }
            let is_equal = |member: &Member<T>| member.digest == longest.digest;
            let is_only = groups.all.is_empty() && groups.unclear.is_empty();
            let sequence = if is_only && rest.iter().all(is_equal) {
                // All ranks are equal, so nobody will look at the calls.
                None
            } else {
                // The file may be older than the digest, or damaged.
                let loaded = load(&longest).filter(|it| it.digest() == longest.digest);
                if loaded.is_none() {
                    groups.unclear.extend(rest.extract_if(.., |member| is_equal(member)).map(|member| member.rank));
                    continue;
                }
                loaded
            };
            let beginnings = sequence.as_ref().map(|it| it.beginnings(&rest));
            let agrees = |Member { digest, .. }: &Member<T>| {
                let key = (digest.count, digest.hash);
                *digest == longest.digest || beginnings.as_ref().is_some_and(|it| it.contains(&key))
            };
            let ranks = rest.extract_if(.., |member| agrees(member)).map(|member| (member.rank, member.digest.count));
            let ranks = ranks.gather();
            groups.all.push(Group { ranks, sequence });
        }
        nccl_events::sort::sort_by_key(&mut groups.all, |group| {
            (std::cmp::Reverse(group.ranks.len()), group.ranks.clone())
        });
        groups
    }

    /// Where the other groups first differ from the largest, in order.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let Some((most, others)) = self.all.split_first() else {
            return Vec::new();
        };
        let mut found: BTreeMap<(u64, Kind), BTreeMap<Call, BTreeSet<u32>>> = BTreeMap::new();
        for other in others {
            let Some((kind, position)) = most.first_difference(other) else {
                continue;
            };
            let calls = found.entry((position, kind)).or_default();
            for (call, ranks) in [most, other].iter().filter_map(|group| group.at(position)) {
                calls.entry(call.clone()).or_default().extend(ranks);
            }
        }
        found.into_iter().map(|((position, kind), calls)| Difference { kind, position, calls }).collect()
    }
}

/// Whether both begin with the same calls in another order.
fn is_other_order<'a>(pairs: impl Iterator<Item = (&'a Call, &'a Call)>) -> bool {
    let mut more: BTreeMap<&Call, i64> = BTreeMap::new();
    for (a, b) in pairs {
        for (call, by) in [(a, 1), (b, -1)] {
            let balance = more.entry(call).or_insert(0);
            *balance += by;
            if *balance == 0 {
                more.remove(call);
            }
        }
        if more.is_empty() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A letter is a call's function, in lower case with another root; a digit is the number of elements of A.
    fn call(letter: char) -> Call {
        let (func, count) = match letter.to_digit(10) {
            Some(count) => ("A".to_owned(), count.into()),
            None => (letter.to_uppercase().to_string(), 100),
        };
        Call { func, count, datatype: String::new(), root: i32::from(letter.is_lowercase()) }
    }

    fn sequence(text: &str) -> Sequence {
        let mut calls = Vec::new();
        let order = text.chars().map(call).map(|call| {
            let number = calls.iter().position(|other| *other == call).unwrap_or_else(|| {
                calls.push(call);
                calls.len() - 1
            });
            u32::try_from(number).expect("few calls")
        });
        let order = order.collect();
        Sequence { calls, order }
    }

    fn members<'a>(ranks: &[&'a str]) -> Vec<Member<&'a str>> {
        let members =
            (0..).zip(ranks).map(|(rank, text)| Member { rank, digest: sequence(text).digest(), source: *text });
        members.collect()
    }

    fn shown(ranks: &[&str]) -> Vec<String> {
        let groups = Groups::of(&members(ranks), |member| Some(sequence(member.source)));
        assert!(groups.unclear.is_empty());
        let found = groups.differences().into_iter().map(|found| {
            let calls = found.calls.iter().map(|(call, ranks)| {
                let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
                format!("{}{}: {}", call.func, call.count, ranks.join(","))
            });
            let calls: Vec<String> = calls.collect();
            format!("{:?} at {}: {}", found.kind, found.position, calls.join("; "))
        });
        found.collect()
    }

    #[test]
    fn the_first_difference_is_named_with_who_calls_what() {
        let cases: [(&[&str], &[&str]); 8] = [
            (&["ABAB", "ABAB"], &[]),
            (&["AAAA", "AABA", "AAAA"], &["Function at 2: A100: 0,2; B100: 1"]),
            (&["AAA", "A7A", "A8A", "AAA"], &["Count at 1: A7: 1; A8: 2; A100: 0,3"]),
            (&["BA", "bA"], &["Root at 0: B100: 0; B100: 1"]),
            (&["XABCX", "XABCX", "XCABX"], &["Order at 1: A100: 0,1; C100: 2"]),
            (&["XAB", "XAB", "XBA", "XBB"], &["Function at 1: A100: 0,1; B100: 3", "Order at 1: A100: 0,1; B100: 2"]),
            // A rank that stopped before the difference has no part in it.
            (&["ABCABC", "ABCA", "", "ABC"], &[]),
            (&["ABXX", "ABY", "AB", "ABX", "ABX"], &["Function at 2: X100: 0,3,4; Y100: 1"]),
        ];
        for (ranks, differences) in cases {
            assert_eq!(shown(ranks), differences);
        }
    }

    #[test]
    fn sequences_are_loaded_only_where_digests_differ() {
        let read = Cell::new(0);
        let load = |member: &Member<&str>| {
            read.set(read.get() + 1);
            Some(sequence(member.source))
        };
        let _same = Groups::of(&members(&["ABAB"; 1000]), load);
        assert_eq!(read.take(), 0);
        let mut ranks = vec!["ABAB"; 500];
        ranks.extend(["ABA"; 499]);
        let _killed = Groups::of(&members(&ranks), load);
        assert_eq!(read.take(), 1);
        ranks.push("ABC");
        assert_eq!(Groups::of(&members(&ranks), load).all.len(), 2);
        assert_eq!(read.take(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_unclear() {
        let groups = Groups::of(&members(&["AB", "AB", "AC", "A"]), |member| {
            (member.source != "AC").then(|| sequence(member.source))
        });
        assert_eq!(groups.unclear, BTreeSet::from([2]));
        // A sequence that does not match its digest counts as unreadable.
        assert_eq!(Groups::of(&members(&["AB", "AC"]), |_| Some(sequence("AB"))).unclear, BTreeSet::from([1]));
        let many: Vec<String> = (b'A'..b'U').map(|n| char::from(n).to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let groups = Groups::of(&members(&many), |member| Some(sequence(member.source)));
        assert_eq!((groups.all.len(), groups.unclear.len()), (MOST_GROUPS, 4));
    }
}
