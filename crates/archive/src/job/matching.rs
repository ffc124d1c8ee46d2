//! Checks that all ranks of a communicator call the same collectives in the same order.
//!
//! ```text
//!  part     each rank's calls in order ─► parts/<p>/collectives (all of them)
//!                                      └► manifest (their number and a hash)
//!  archive  hashes of the ranks of a communicator ─ equal ─► no finding
//!                                      └ not equal ─► the calls of a few ranks ─► the first difference
//! ```
//!
//! If nothing is wrong, only manifests are read.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::job::communicators::Communicators;
use crate::job::processes::Process;
use crate::part::calls::{Call, CallLists, Digest, RankDigest, StepRanges};
use crate::part::manifest::Manifest;
use nccl_events::Kind;
use nccl_events::ids::index;
use nccl_events::rank_list;
use nccl_events::schema::{Listed, Statements};
use nccl_events::sort::Gather;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallKind {
    Function,
    Count,
    Datatype,
    Root,
    /// The same calls in another order.
    Order,
}

impl CallKind {
    const ALL: [Self; 5] = [Self::Function, Self::Count, Self::Datatype, Self::Root, Self::Order];

    fn between(one: &Call, other: &Call) -> Self {
        if one.func != other.func {
            Self::Function
        } else if one.root != other.root {
            Self::Root
        } else if one.datatype != other.datatype {
            Self::Datatype
        } else {
            Self::Count
        }
    }
}

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
        Digest::new(&self.hashes(), &self.order)
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

    fn first_difference(&self, other: &Self) -> Option<(CallKind, u64)> {
        let (one, other) = (self.sequence.as_ref()?, other.sequence.as_ref()?);
        let pairs = || (0..).map_while(|at| Some((at, one.get(at)?, other.get(at)?)));
        let (at, a, b) = pairs().find(|(_, a, b)| a != b)?;
        let difference = if is_other_order(pairs().skip(at).map(|(_, a, b)| (a, b))) {
            CallKind::Order
        } else {
            CallKind::between(a, b)
        };
        Some((difference, at as u64))
    }
}

/// The ranks of a communicator, grouped by whether their calls agree.
///
/// A rank that stopped earlier agrees with ranks whose calls begin like its own. Digests of whole sequences are
/// compared first: they suffice for a thousand equal ranks. Only one sequence is loaded for each group that differs.
#[derive(Debug)]
pub(super) struct Groups {
    /// Largest group first.
    pub all: Vec<Group>,
    /// Ranks that differ at an unknown position, because there are too many groups.
    pub unclear: BTreeSet<u32>,
    /// The same, because their calls are lost.
    pub lost: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub kind: CallKind,
    /// Index of the call, from 0.
    pub position: u64,
    pub calls: BTreeMap<Call, BTreeSet<u32>>,
}

impl Groups {
    /// Groups the ranks; `load` reads the calls of a rank, `None` if they are lost.
    pub(super) fn new<T: Copy>(
        members: &[Member<T>],
        load: impl Fn(&Member<T>) -> Result<Option<Sequence>, Error>,
    ) -> Result<Self, Error> {
        let mut groups = Self { all: Vec::new(), unclear: BTreeSet::new(), lost: BTreeSet::new() };
        let mut rest = members.to_vec();
        nccl_events::sort::sort_by_key(&mut rest, |member| (std::cmp::Reverse(member.digest.count), member.rank));
        while let Some(longest) = rest.first().copied() {
            if groups.all.len() == MOST_GROUPS {
                groups.unclear.extend(rest.iter().map(|member| member.rank));
                break;
            }
            let is_equal = |member: &Member<T>| member.digest == longest.digest;
            let is_only = groups.all.is_empty() && groups.lost.is_empty();
            let sequence = if is_only && rest.iter().all(is_equal) {
                // All ranks are equal, so nobody will look at the calls.
                None
            } else {
                // The file may be older than the digest, or damaged.
                let loaded = load(&longest)?.filter(|sequence| sequence.digest() == longest.digest);
                if loaded.is_none() {
                    groups.lost.extend(rest.extract_if(.., |member| is_equal(member)).map(|member| member.rank));
                    continue;
                }
                loaded
            };
            let beginnings = sequence.as_ref().map(|sequence| sequence.beginnings(&rest));
            let agrees = |Member { digest, .. }: &Member<T>| {
                let key = (digest.count, digest.hash);
                *digest == longest.digest || beginnings.as_ref().is_some_and(|beginnings| beginnings.contains(&key))
            };
            let ranks = rest.extract_if(.., |member| agrees(member)).map(|member| (member.rank, member.digest.count));
            let ranks = ranks.gather();
            groups.all.push(Group { ranks, sequence });
        }
        nccl_events::sort::sort_by_key(&mut groups.all, |group| {
            (std::cmp::Reverse(group.ranks.len()), group.ranks.clone())
        });
        Ok(groups)
    }

    /// Where the other groups first differ from the largest, in order.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let Some((most, others)) = self.all.split_first() else {
            return Vec::new();
        };
        let mut found: BTreeMap<(u64, CallKind), BTreeMap<Call, BTreeSet<u32>>> = BTreeMap::new();
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

#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) process: &'a Process,
    pub(super) digest: &'a RankDigest,
}

impl Source<'_> {
    /// Whether it is unknown which of the rank's calls were recorded.
    fn is_cut_unknown(&self) -> bool {
        let manifest = &self.process.manifest;
        manifest.breaks_order() || (manifest.has_step_ranges() && self.digest.step_ranges.is_none())
    }

    pub(super) fn load(&self, basis: Basis) -> Result<Option<Sequence>, Error> {
        let lists = CallLists::read(&self.process.directory)?;
        Ok(lists.and_then(|lists| {
            let mut ranks = lists.ranks.into_iter();
            // A part has at most one such rank in a communicator.
            let rank_calls = ranks.find(|rank| (rank.comm, rank.rank) == (self.digest.comm, self.digest.rank))?;
            let order = match basis {
                Basis::Called => rank_calls.called,
                Basis::Enqueued => rank_calls.enqueued,
            };
            Some(Sequence { calls: lists.calls, order: order? })
        }))
    }
}

/// Which of the two lists of a rank is compared.
#[derive(Clone, Copy)]
pub(super) enum Basis {
    Called,
    Enqueued,
}

impl Basis {
    /// `Called` if all ranks recorded their calls.
    fn from_ranks(ranks: &BTreeMap<u32, Source<'_>>) -> Self {
        let called = || ranks.values().map(|source| source.digest.called);
        let has_some = called().flatten().any(|called| called.count > 0);
        if called().all(|called| called.is_some()) && has_some { Self::Called } else { Self::Enqueued }
    }

    const fn digest(self, digest: &RankDigest) -> Option<Digest> {
        match self {
            Self::Called => digest.called,
            Self::Enqueued => digest.enqueued,
        }
    }

    /// Whether some of the events that the basis needs are missing from the recording.
    fn is_incomplete(self, manifest: &Manifest) -> bool {
        let lost = |kind| manifest.counts.kinds.get(kind).lost > 0;
        let is_lost = match self {
            Self::Called => lost(Kind::CollApi),
            Self::Enqueued => lost(Kind::Coll) || lost(Kind::CeColl),
        };
        is_lost || manifest.counts.communicators_lost > 0 || !manifest.problems.is_empty()
    }
}

/// The ranks of a communicator: those whose calls can be compared, and why others cannot.
pub(super) struct Ranks<'a> {
    pub(super) basis: Basis,
    /// The step ranges that were recorded; `None` for everything.
    pub(super) ranges: Option<&'a StepRanges>,
    /// The ranks that can be compared.
    pub(super) known: Vec<Member<Source<'a>>>,
    pub(super) unknown: Vec<(&'static str, BTreeSet<u32>)>,
}

impl<'a> Ranks<'a> {
    pub(super) fn new(ranks: &BTreeMap<u32, Source<'a>>) -> Self {
        const LOST: &str = "records were lost";
        const REMOVED: &str = "only the end of the recording was kept";
        const SWITCHED: &str = "recording was switched off or on";
        const OTHER_RANGES: &str = "a different range of collectives was selected";
        const REPLAYED: &str = "CUDA graphs were replayed";
        let basis = Basis::from_ranks(ranks);
        let judged = ranks.iter().filter(|(_, source)| !source.is_cut_unknown());
        let judged = judged.map(|(&rank, source)| (rank, source.digest.step_ranges.as_ref()));
        let (ranks_with_other_ranges, ranges) = sort_out(judged);
        let mut known = Vec::new();
        let mut unknown: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (&rank, &source) in ranks {
            let manifest = &source.process.manifest;
            let why = match basis.digest(source.digest) {
                _ if manifest.counts.removed > 0 => REMOVED,
                _ if source.is_cut_unknown() => SWITCHED,
                _ if ranks_with_other_ranges.contains(&rank) => OTHER_RANGES,
                _ if basis.is_incomplete(manifest) => LOST,
                None => REPLAYED,
                Some(digest) => {
                    known.push(Member { rank, digest, source });
                    continue;
                }
            };
            unknown.entry(why).or_default().insert(rank);
        }
        let unknown = [LOST, REMOVED, SWITCHED, OTHER_RANGES, REPLAYED].map(|why| Some((why, unknown.remove(why)?)));
        Self { basis, ranges, known, unknown: unknown.into_iter().flatten().collect() }
    }
}

/// Limit on the distinct ends that are listed for the ranks of a communicator.
const MOST_ENDS: usize = 8;

/// The archive's statements about matching: `NCCL::MISMATCH…`, `NCCL::RANKS_BEHIND…`, `NCCL::MATCHING_UNKNOWN…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matching {
    pub(crate) mismatches: Vec<(CallKind, String)>,
    behind: Vec<String>,
    ranks_behind: u64,
    /// Communicators that cannot be judged, or not completely, and why.
    unknown: Vec<String>,
}

impl Matching {
    pub(crate) fn new(processes: &[Process], communicators: &Communicators) -> Result<Self, Error> {
        let mut by_comm: BTreeMap<u32, BTreeMap<u32, Source<'_>>> = BTreeMap::new();
        for (process, map) in processes.iter().zip(&communicators.maps) {
            for digest in &process.manifest.collectives {
                let Some(&comm) = map.get(index(digest.comm)) else {
                    continue;
                };
                let ranks = by_comm.entry(comm).or_default();
                // The first part that has a rank counts, as with locations.
                let source = Source { process, digest };
                ranks.entry(digest.rank).or_insert(source);
            }
        }
        let mut matching = Self::default();
        for (comm, ranks) in by_comm.into_iter().filter(|(_, ranks)| ranks.len() > 1) {
            matching.compare(communicators.all.get(index(comm)).map_or("?", |comm| comm.name.as_str()), &ranks)?;
        }
        Ok(matching)
    }

    fn compare(&mut self, comm: &str, ranks: &BTreeMap<u32, Source<'_>>) -> Result<(), Error> {
        let mut ranks = Ranks::new(ranks);
        let basis = ranks.basis;
        let groups = Groups::new(&ranks.known, |member| member.source.load(basis))?;
        if !groups.unclear.is_empty() {
            ranks.unknown.push(("differs, it is not known where", groups.unclear.clone()));
        }
        if !groups.lost.is_empty() {
            let why = "differs, it is not known where: the file `collectives` of its part is missing or damaged";
            ranks.unknown.push((why, groups.lost.clone()));
        }
        self.unknown.extend(ranks.unknown.iter().map(|(why, ranks)| format!("{comm}: {}: {why}", rank_names(ranks))));
        self.mismatches.extend(
            groups.differences().iter().map(|difference| (difference.kind, mismatch(comm, difference, ranks.ranges))),
        );
        self.add_behind(comm, &ranks);
        Ok(())
    }

    fn add_behind(&mut self, comm: &str, ranks: &Ranks<'_>) {
        let most = ranks.known.iter().map(|member| member.digest.count).max().unwrap_or(0);
        let mut ends: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for member in &ranks.known {
            if member.digest.count < most {
                ends.entry(member.digest.count).or_default().insert(member.rank);
            }
        }
        self.ranks_behind += ends.values().map(|ranks| ranks.len() as u64).sum::<u64>();
        let of = ranks.ranges.map_or(String::new(), |ranges| format!(" of {ranges}"));
        let listed = ends.iter().take(MOST_ENDS).map(|(count, ranks)| {
            let ranks = rank_names(ranks);
            format!("{comm}: {ranks} had called {count} of {most} collectives{of} when the recording ended")
        });
        self.behind.extend(listed);
        let more: usize = ends.values().skip(MOST_ENDS).map(BTreeSet::len).sum();
        if more > 0 {
            let line = format!("{comm}: and {more} other ranks before {most}");
            self.behind.push(line);
        }
    }

    pub(crate) fn add_to_statements(&self, statements: &mut Statements) {
        for kind in CallKind::ALL {
            let lines: Vec<&String> =
                self.mismatches.iter().filter(|(other, _)| *other == kind).map(|(_, line)| line).collect();
            let kind_list = match kind {
                CallKind::Function => &mut statements.mismatch_function,
                CallKind::Count => &mut statements.mismatch_count,
                CallKind::Datatype => &mut statements.mismatch_datatype,
                CallKind::Root => &mut statements.mismatch_root,
                CallKind::Order => &mut statements.mismatch_order,
            };
            *kind_list = Listed::some(lines.len() as u64, lines);
        }
        statements.ranks_behind = Listed::some(self.ranks_behind, &self.behind);
        statements.matching_unknown = Listed::some(self.unknown.len() as u64, &self.unknown);
    }
}

fn mismatch(comm: &str, difference: &Difference, ranges: Option<&StepRanges>) -> String {
    let position = difference.position;
    let number = ranges.map_or(position + 1, |ranges| collective_number(ranges, position));
    let calls: Vec<String> =
        difference.calls.iter().map(|(call, ranks)| format!("{} {call}", rank_names(ranks))).collect();
    format!("{comm}: collective {number}: {}", calls.join("; "))
}

/// A short list of ranks: `rank 3`, `ranks 0-2, 5`.
fn rank_names(ranks: &BTreeSet<u32>) -> String {
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", rank_list(ranks))
}

/// The number, from 1, of the collective at `position`, from 0, within the ranges.
pub(super) fn collective_number(ranges: &StepRanges, position: u64) -> u64 {
    let mut before = 0;
    for span in ranges.spans() {
        if position < before + span.len() {
            return u64::from(span.first) + position - before;
        }
        before += span.len();
    }
    position + 1
}

/// The ranks whose ranges differ from those of most ranks, and the ranges of most ranks. A rank that did not get as far
/// knows fewer ranges and still agrees, unless the program names the steps.
pub(super) fn sort_out<'a>(
    ranks: impl Iterator<Item = (u32, Option<&'a StepRanges>)>,
) -> (BTreeSet<u32>, Option<&'a StepRanges>) {
    let mut with: BTreeMap<Option<&StepRanges>, BTreeSet<u32>> = BTreeMap::new();
    for (rank, ranges) in ranks {
        with.entry(ranges).or_default().insert(rank);
    }
    let agrees = |one: Option<&StepRanges>, other: Option<&StepRanges>| match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) if one.is_named || other.is_named => one == other,
        (Some(one), Some(other)) => one.spans.starts_with(&other.spans),
        _ => false,
    };
    let followers = |longest: Option<&StepRanges>| -> usize {
        with.iter().filter(|(one, _)| agrees(longest, **one)).map(|(_, ranks)| ranks.len()).sum()
    };
    let most = with.keys().max_by_key(|&&one| followers(one)).copied().flatten();
    (with.iter().filter(|(one, _)| !agrees(most, **one)).flat_map(|(_, ranks)| ranks.iter().copied()).gather(), most)
}

#[cfg(test)]
mod tests {
    mod compare {
        use crate::job::matching::*;
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

        fn grouped<'a>(members: &[Member<&'a str>], load: impl Fn(&Member<&'a str>) -> Option<Sequence>) -> Groups {
            Groups::new(members, |member| Ok(load(member))).expect("all can be read")
        }

        fn shown(ranks: &[&str]) -> Vec<String> {
            let groups = grouped(&members(ranks), |member| Some(sequence(member.source)));
            assert!(groups.unclear.is_empty() && groups.lost.is_empty());
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
                (
                    &["XAB", "XAB", "XBA", "XBB"],
                    &["Function at 1: A100: 0,1; B100: 3", "Order at 1: A100: 0,1; B100: 2"],
                ),
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
            let _same = grouped(&members(&["ABAB"; 1000]), load);
            assert_eq!(read.take(), 0);
            let mut ranks = vec!["ABAB"; 500];
            ranks.extend(["ABA"; 499]);
            let _killed = grouped(&members(&ranks), load);
            assert_eq!(read.take(), 1);
            ranks.push("ABC");
            assert_eq!(grouped(&members(&ranks), load).all.len(), 2);
            assert_eq!(read.take(), 2);
        }

        #[test]
        fn what_is_lost_is_not_compared() {
            let groups = grouped(&members(&["AB", "AB", "AC", "A"]), |member| {
                (member.source != "AC").then(|| sequence(member.source))
            });
            assert_eq!(groups.lost, BTreeSet::from([2]));
            // A sequence that does not match its digest counts as unreadable.
            assert_eq!(grouped(&members(&["AB", "AC"]), |_| Some(sequence("AB"))).lost, BTreeSet::from([1]));
            let many: Vec<String> = (b'A'..b'U').map(|n| char::from(n).to_string()).collect();
            let many: Vec<&str> = many.iter().map(String::as_str).collect();
            let groups = grouped(&members(&many), |member| Some(sequence(member.source)));
            assert_eq!((groups.all.len(), groups.unclear.len()), (MOST_GROUPS, 4));
        }
    }

    mod step_ranges {
        use crate::job::matching::*;

        fn ranges(pairs: &[(u32, u32)]) -> StepRanges {
            StepRanges { spans: pairs.to_vec(), is_named: false }
        }

        #[test]
        fn ranks_of_other_ranges_are_found() {
            let all = ranges(&[(1, 3), (7, 9)]);
            let (first, other) = (ranges(&[(1, 3)]), ranges(&[(2, 3)]));
            let sorted = |ranks: &[Option<&StepRanges>]| {
                let (others, most) = sort_out((0..).zip(ranks.iter().copied()));
                (others.into_iter().collect::<Vec<u32>>(), most.cloned())
            };
            assert_eq!(sorted(&[Some(&all), Some(&first), Some(&first)]), (vec![], Some(all.clone())));
            assert_eq!(sorted(&[Some(&all), Some(&other), Some(&all)]), (vec![1], Some(all.clone())));
            assert_eq!(sorted(&[None, Some(&all), None]), (vec![1], None));
            assert_eq!(sorted(&[None, None]), (vec![], None));
            // Between its steps a rank may have called more than others.
            let [named, fewer] = [&all, &first].map(|ranges| StepRanges { is_named: true, ..ranges.clone() });
            assert_eq!(sorted(&[Some(&named), Some(&fewer), Some(&named)]), (vec![1], Some(named.clone())));
        }
    }
}
