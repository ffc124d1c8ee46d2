//! Which ranks of a communicator did the same, and where the others first differ.

use std::collections::{BTreeMap, BTreeSet};

use super::lists::{Call, CallLists};
use super::{Digest, Kind};
use crate::tables::place::index;

/// How many ways to differ are looked into: each takes the whole list of a rank.
pub(super) const MOST_GROUPS: usize = 16;

/// A rank as its sidecar tells of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<T> {
    pub(super) rank: u32,
    pub(super) digest: Digest,
    /// Where its list is.
    pub(super) source: T,
}

/// A rank's collectives.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    pub(super) calls: Vec<Call>,
    pub(super) order: Vec<u32>,
}

impl List {
    fn get(&self, place: usize) -> Option<&Call> {
        self.calls.get(index(*self.order.get(place)?))
    }
}

/// Ranks of which none contradicts another: what one called is how the longest of them begins.
#[derive(Debug)]
pub(super) struct Group {
    /// With the number of their calls.
    pub(super) ranks: BTreeMap<u32, u64>,
    list: List,
}

impl Group {
    /// Who came to this call.
    fn at(&self, place: u64) -> BTreeSet<u32> {
        let ranks = self.ranks.iter().filter(|(_, count)| **count > place);
        ranks.map(|(rank, _)| *rank).collect()
    }
}

/// The ranks of a communicator, sorted out.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Most ranks first.
    pub(super) all: Vec<Group>,
    /// Ranks that differ from these, nobody knows where: their lists cannot be read, or there are too many ways.
    pub(super) unclear: BTreeSet<u32>,
}

/// The first place where groups differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) kind: Kind,
    /// Counted from 0.
    pub(super) place: u64,
    /// Who called what there.
    pub(super) said: BTreeMap<Call, BTreeSet<u32>>,
}

impl Groups {
    /// Sorts the ranks; `load` gives the list of a rank.
    pub(super) fn of<T: Copy>(
        members: &[Member<T>],
        load: impl Fn(&Member<T>) -> Option<List>,
    ) -> Self {
        let mut groups = Self::default();
        let mut rest = members.to_vec();
        rest.sort_by_key(|member| (std::cmp::Reverse(member.digest.count), member.rank));
        while let Some(reference) = rest.first().copied() {
            if groups.all.len() == MOST_GROUPS {
                groups.unclear.extend(rest.iter().map(|member| member.rank));
                break;
            }
            let all_same = rest.iter().all(|m| m.digest == reference.digest);
            let list = if all_same && groups.all.is_empty() && groups.unclear.is_empty() {
                // Nobody will ask what they called.
                Some(List::default())
            } else {
                load(&reference).filter(|list| is_whole(list, reference.digest))
            };
            let same = |member: &Member<T>| member.digest == reference.digest;
            let Some(list) = list else {
                let unclear = rest.iter().filter(|member| same(member));
                groups.unclear.extend(unclear.map(|member| member.rank));
                rest.retain(|member| !same(member));
                continue;
            };
            let prefixes = prefixes(&list, &rest);
            let agrees =
                |m: &Member<T>| same(m) || prefixes.get(&m.digest.count) == Some(&m.digest.hash);
            let ranks = rest.iter().filter(|member| agrees(member));
            let ranks = ranks.map(|member| (member.rank, member.digest.count));
            groups.all.push(Group {
                ranks: ranks.collect(),
                list,
            });
            rest.retain(|member| !agrees(member));
        }
        groups
            .all
            .sort_by_key(|group| (std::cmp::Reverse(group.ranks.len()), group.ranks.clone()));
        groups
    }

    /// The first differences from what most did, in order.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let Some((most, others)) = self.all.split_first() else {
            return Vec::new();
        };
        let mut found: Vec<Difference> = Vec::new();
        for other in others {
            let Some((kind, place)) = first_difference(&most.list, &other.list) else {
                continue;
            };
            let same = |known: &&mut Difference| (known.kind, known.place) == (kind, place);
            if let Some(known) = found.iter_mut().find(same) {
                say(&mut known.said, other, place);
                continue;
            }
            let mut said = BTreeMap::new();
            say(&mut said, most, place);
            say(&mut said, other, place);
            found.push(Difference { kind, place, said });
        }
        found.sort_by_key(|difference| (difference.place, difference.kind));
        found
    }
}

fn say(said: &mut BTreeMap<Call, BTreeSet<u32>>, group: &Group, place: u64) {
    if let Some(call) = group.list.get(usize::try_from(place).unwrap_or(usize::MAX)) {
        said.entry(call.clone())
            .or_default()
            .extend(group.at(place));
    }
}

/// Whether a list is what the sidecar says: the file may be older, or damaged.
fn is_whole(list: &List, digest: Digest) -> bool {
    let hashes: Vec<u64> = list.calls.iter().map(Call::hash).collect();
    CallLists::digest(&hashes, &list.order) == digest
}

/// The hashes of the beginnings of a list that others are as long as.
fn prefixes<T>(list: &List, members: &[Member<T>]) -> BTreeMap<u64, u64> {
    let wanted: BTreeSet<u64> = members.iter().map(|member| member.digest.count).collect();
    let hashes: Vec<u64> = list.calls.iter().map(Call::hash).collect();
    let mut digest = Digest::default();
    let mut prefixes = BTreeMap::new();
    let mut keep = |digest: Digest| {
        if wanted.contains(&digest.count) {
            prefixes.insert(digest.count, digest.hash);
        }
    };
    keep(digest);
    for &call in &list.order {
        digest = digest.and(hashes.get(index(call)).copied().unwrap_or(0));
        keep(digest);
    }
    prefixes
}

/// In what two lists first differ, and where; `None` if one is how the other begins.
fn first_difference(one: &List, other: &List) -> Option<(Kind, u64)> {
    let pairs = || (0..).map_while(|place| Some((place, one.get(place)?, other.get(place)?)));
    let (place, a, b) = pairs().find(|(_, a, b)| a != b)?;
    let kind = if is_other_order(pairs().skip(place).map(|(_, a, b)| (a, b))) {
        Kind::Order
    } else if a.func != b.func {
        Kind::Function
    } else if a.root != b.root {
        Kind::Root
    } else if a.datatype != b.datatype {
        Kind::Datatype
    } else {
        Kind::Count
    };
    Some((kind, place as u64))
}

/// Whether both call the same from here on for a while, in another order.
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

    /// A letter for each call: its function; in lower case on another root; a digit: the number of elements of A.
    fn call(letter: char) -> Call {
        let (func, count) = match letter.to_digit(10) {
            Some(count) => ("A".to_owned(), count.into()),
            None => (letter.to_uppercase().to_string(), 100),
        };
        Call {
            func,
            count,
            datatype: if letter == '!' { "x" } else { "" }.to_owned(),
            root: i32::from(letter.is_lowercase()),
        }
    }

    fn list(text: &str) -> List {
        let calls: BTreeSet<Call> = text.chars().map(call).collect();
        let calls: Vec<Call> = calls.into_iter().collect();
        let place = |letter| calls.iter().position(|known| *known == call(letter));
        let order = text.chars().map(|letter| {
            let place = place(letter).expect("known");
            u32::try_from(place).expect("few")
        });
        List {
            order: order.collect(),
            calls,
        }
    }

    fn members<'a>(ranks: &[&'a str]) -> Vec<Member<&'a str>> {
        let members = (0..).zip(ranks).map(|(rank, text)| {
            let list = list(text);
            let hashes: Vec<u64> = list.calls.iter().map(Call::hash).collect();
            Member {
                rank,
                digest: CallLists::digest(&hashes, &list.order),
                source: *text,
            }
        });
        members.collect()
    }

    fn shown(ranks: &[&str]) -> Vec<String> {
        let groups = Groups::of(&members(ranks), |member| Some(list(member.source)));
        assert!(groups.unclear.is_empty());
        let found = groups.differences().into_iter().map(|found| {
            let said = found.said.iter().map(|(call, ranks)| {
                let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
                format!("{}{}: {}", call.func, call.count, ranks.join(","))
            });
            let said: Vec<String> = said.collect();
            format!("{:?} at {}: {}", found.kind, found.place, said.join("; "))
        });
        found.collect()
    }

    #[test]
    fn the_first_difference_is_named_with_who_says_what() {
        assert_eq!(shown(&["ABAB", "ABAB"]), [""; 0]);
        assert_eq!(
            shown(&["AAAA", "AABA", "AAAA"]),
            ["Function at 2: A100: 0,2; B100: 1"]
        );
        assert_eq!(
            shown(&["AAA", "A7A", "A8A", "AAA"]),
            ["Count at 1: A7: 1; A8: 2; A100: 0,3"]
        );
        assert_eq!(shown(&["BA", "bA"]), ["Root at 0: B100: 0; B100: 1"],);
    }

    #[test]
    fn the_same_calls_in_another_order_are_another_order() {
        assert_eq!(
            shown(&["XABCX", "XABCX", "XCABX"]),
            ["Order at 1: A100: 0,1; C100: 2"]
        );
        assert_eq!(
            shown(&["XAB", "XAB", "XBA", "XBB"]),
            [
                "Function at 1: A100: 0,1; B100: 3",
                "Order at 1: A100: 0,1; B100: 2"
            ]
        );
    }

    #[test]
    fn who_stopped_earlier_differs_in_nothing() {
        assert_eq!(shown(&["ABCABC", "ABCA", "", "ABC"]), [""; 0]);
        let groups = Groups::of(&members(&["ABCABC", "ABCA", ""]), |m| Some(list(m.source)));
        assert_eq!(groups.all.len(), 1);
        let counts: Vec<u64> = groups.all[0].ranks.values().copied().collect();
        assert_eq!(counts, [6, 4, 0]);
        // Those that stopped before the difference say nothing about it.
        assert_eq!(
            shown(&["ABXX", "ABY", "AB", "ABX", "ABX"]),
            ["Function at 2: X100: 0,3,4; Y100: 1"]
        );
    }

    #[test]
    fn lists_are_read_only_where_digests_differ() {
        let read = Cell::new(0);
        let load = |member: &Member<&str>| {
            read.set(read.get() + 1);
            Some(list(member.source))
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
            (member.source != "AC").then(|| list(member.source))
        });
        assert_eq!(groups.unclear, BTreeSet::from([2]));
        // A list that is not what the sidecar says is as good as none.
        let groups = Groups::of(&members(&["AB", "AC"]), |_| Some(list("AB")));
        assert_eq!(groups.unclear, BTreeSet::from([1]));
        let many: Vec<String> = (0..20_u8)
            .map(|n| char::from(b'A' + n).to_string())
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let groups = Groups::of(&members(&many), |member| Some(list(member.source)));
        assert_eq!((groups.all.len(), groups.unclear.len()), (MOST_GROUPS, 4));
    }
}
