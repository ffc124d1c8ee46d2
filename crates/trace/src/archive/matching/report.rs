//! What the archive says about it: properties `NCCL::MISMATCH…`, `NCCL::RANKS_BEHIND…`, `NCCL::MATCHING_UNKNOWN…`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::compare::{Groups, List, Member};
use super::windows;
use super::{CallLists, Digest, RankDigest};
use crate::archive::job::Process;
use crate::archive::members::Members;
use crate::part::sidecar::Sidecar;
use crate::tables::place::index;
use nccl_events::Kind as EventKind;

/// How many lines of one kind are told in full.
const MOST_LINES: usize = 100;
/// How many different ends of ranks of one communicator are told in full.
const MOST_ENDS: usize = 8;

/// In what ranks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The function.
    Function,
    /// The number of elements.
    Count,
    /// Their type.
    Datatype,
    /// The root.
    Root,
    /// The order of the same calls.
    Order,
}

impl Kind {
    /// All, in order.
    pub const ALL: [Self; 5] = [
        Self::Function,
        Self::Count,
        Self::Datatype,
        Self::Root,
        Self::Order,
    ];

    /// What it is called in the archive.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Count => "count",
            Self::Datatype => "datatype",
            Self::Root => "root",
            Self::Order => "order",
        }
    }
}

/// What is known of the collectives of all communicators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// Where ranks differ.
    pub mismatches: Vec<(Kind, String)>,
    /// Which ranks stopped before others.
    pub behind: Vec<String>,
    /// How many ranks those are.
    pub ranks_behind: u64,
    /// Of which communicators nothing, or not everything, can be said, and why.
    pub unknown: Vec<String>,
}

/// A rank of a communicator of the archive.
#[derive(Clone, Copy)]
struct Source<'a> {
    process: &'a Process,
    digest: &'a RankDigest,
}

impl Source<'_> {
    /// Whether it is not known which of its calls are there.
    fn is_cut_unknown(&self) -> bool {
        let sidecar = &self.process.sidecar;
        sidecar.breaks_order() || (sidecar.has_windows() && self.digest.windows.is_none())
    }
}

/// Which of the two lists of a rank.
#[derive(Clone, Copy)]
enum Basis {
    Called,
    Enqueued,
}

impl Basis {
    const fn digest(self, digest: &RankDigest) -> Option<Digest> {
        match self {
            Self::Called => digest.called,
            Self::Enqueued => digest.enqueued,
        }
    }

    /// Whether some of the events it rests on are not in the recording.
    fn is_incomplete(self, sidecar: &Sidecar) -> bool {
        let lost = |kind| sidecar.counts.kinds.get(kind).lost > 0;
        let is_lost = match self {
            Self::Called => lost(EventKind::CollApi),
            Self::Enqueued => lost(EventKind::Coll) || lost(EventKind::CeColl),
        };
        is_lost || sidecar.counts.communicators_lost > 0 || !sidecar.problems.is_empty()
    }
}

impl Matching {
    /// Compares the ranks of all communicators.
    #[must_use]
    pub fn of(processes: &[Process], members: &Members) -> Self {
        let mut of_comm: BTreeMap<u32, BTreeMap<u32, Source<'_>>> = BTreeMap::new();
        for (process, map) in processes.iter().zip(&members.maps) {
            for digest in &process.sidecar.collectives {
                let Some(&comm) = map.get(index(digest.comm)) else {
                    continue;
                };
                let ranks = of_comm.entry(comm).or_default();
                // The first that claims a rank has it, as with lanes.
                ranks
                    .entry(digest.rank)
                    .or_insert(Source { process, digest });
            }
        }
        let mut matching = Self::default();
        for (comm, ranks) in of_comm {
            let name = members
                .comms
                .get(index(comm))
                .map(|comm| comm.name.as_str());
            if ranks.len() > 1 {
                matching.compare(name.unwrap_or("?"), &ranks);
            }
        }
        matching
    }

    fn compare(&mut self, comm: &str, ranks: &BTreeMap<u32, Source<'_>>) {
        let sources = || ranks.values().map(|source| source.digest);
        let have_calls = sources().all(|digest| digest.called.is_some())
            && sources().any(|digest| digest.called.is_some_and(|called| called.count > 0));
        let basis = if have_calls {
            Basis::Called
        } else {
            Basis::Enqueued
        };
        let mut known = Vec::new();
        let mut lost = BTreeSet::new();
        let mut not_kept = BTreeSet::new();
        let mut switched = BTreeSet::new();
        let mut replayed = BTreeSet::new();
        let judged = ranks.iter().filter(|(_, source)| !source.is_cut_unknown());
        let judged = judged.map(|(&rank, source)| (rank, source.digest.windows.as_ref()));
        let (other_windows, windows) = windows::sort_out(judged);
        for (&rank, &source) in ranks {
            match basis.digest(source.digest) {
                _ if source.process.sidecar.counts.not_kept > 0 => {
                    not_kept.insert(rank);
                }
                _ if source.is_cut_unknown() => {
                    switched.insert(rank);
                }
                _ if other_windows.contains(&rank) => {}
                _ if basis.is_incomplete(&source.process.sidecar) => {
                    lost.insert(rank);
                }
                None => {
                    replayed.insert(rank);
                }
                Some(digest) => known.push(Member {
                    rank,
                    digest,
                    source,
                }),
            }
        }
        let groups = Groups::of(&known, |member| load(member, basis));
        for (ranks, why) in [
            (&lost, "records were lost"),
            (&not_kept, "only the end was to be kept"),
            (&switched, "recording was switched"),
            (&other_windows, "other collectives were to be recorded"),
            (&replayed, "CUDA graphs were replayed"),
            (&groups.unclear, "differs, it is not known where"),
        ] {
            if !ranks.is_empty() {
                let line = format!("{comm}: {}: {why}", those(ranks));
                self.unknown.push(line);
            }
        }
        for found in groups.differences() {
            let number = windows.map_or(found.place + 1, |windows| windows.number(found.place));
            let mut line = format!("{comm}: collective {number}: ");
            let said = found.said.iter().map(|(call, ranks)| {
                let mut said = String::new();
                let _infallible = write!(said, "{} {call}", those(ranks));
                said
            });
            let said: Vec<String> = said.collect();
            line.push_str(&said.join("; "));
            self.mismatches.push((found.kind, line));
        }
        let most = known.iter().map(|member| member.digest.count).max();
        let most = most.unwrap_or(0);
        let mut ends: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for member in known.iter().filter(|member| member.digest.count < most) {
            ends.entry(member.digest.count)
                .or_default()
                .insert(member.rank);
        }
        self.ranks_behind += ends.values().map(|ranks| ranks.len() as u64).sum::<u64>();
        let told = ends.iter().take(MOST_ENDS);
        let of = windows.map_or(String::new(), |windows| format!(" of {windows}"));
        self.behind.extend(told.map(|(count, ranks)| {
            format!(
                "{comm}: {} ended after {count} of {most} collectives{of}",
                those(ranks)
            )
        }));
        if ends.len() > MOST_ENDS {
            let more = ends.values().skip(MOST_ENDS).map(BTreeSet::len);
            let line = format!(
                "{comm}: and {} other ranks before {most}",
                more.sum::<usize>()
            );
            self.behind.push(line);
        }
    }

    /// The properties: name and value.
    pub(crate) fn properties(&self) -> Vec<(String, String)> {
        let mut list = Vec::new();
        let mut add = |name: &str, value: String| list.push((format!("NCCL::{name}"), value));
        let lines = |lines: &mut dyn Iterator<Item = String>| -> String {
            lines.take(MOST_LINES).collect::<Vec<String>>().join("\n")
        };
        for kind in Kind::ALL {
            let mut of_kind = self.mismatches.iter().filter(|(other, _)| *other == kind);
            let number = of_kind.clone().count();
            if number > 0 {
                let name = format!("MISMATCH::{}", kind.name().to_ascii_uppercase());
                add(&name, number.to_string());
                let told = lines(&mut of_kind.by_ref().map(|(_, line)| line.clone()));
                add(&format!("{name}::LIST"), told);
            }
        }
        if self.ranks_behind > 0 {
            add("RANKS_BEHIND", self.ranks_behind.to_string());
            add(
                "RANKS_BEHIND::LIST",
                lines(&mut self.behind.iter().cloned()),
            );
        }
        if !self.unknown.is_empty() {
            add("MATCHING_UNKNOWN", self.unknown.len().to_string());
            add(
                "MATCHING_UNKNOWN::LIST",
                lines(&mut self.unknown.iter().cloned()),
            );
        }
        list
    }
}

fn load(member: &Member<Source<'_>>, basis: Basis) -> Option<List> {
    let Source { process, digest } = member.source;
    let lists = CallLists::read(&process.directory)?;
    let mut ranks = lists.ranks.into_iter();
    // A part can have a rank only once under this number of a communicator.
    let of_rank = ranks.find(|rank| (rank.comm, rank.rank) == (digest.comm, digest.rank))?;
    let order = match basis {
        Basis::Called => of_rank.called,
        Basis::Enqueued => of_rank.enqueued,
    };
    Some(List {
        calls: lists.calls,
        order: order?,
    })
}

/// Ranks in few words: `rank 3`, `ranks 0-2, 5`.
fn those(ranks: &BTreeSet<u32>) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match spans.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => spans.push((rank, rank)),
        }
    }
    let spans = spans.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    let spans: Vec<String> = spans.collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", spans.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_in_few_words() {
        assert_eq!(those(&BTreeSet::from([4])), "rank 4");
        assert_eq!(
            those(&BTreeSet::from([0, 1, 2, 5, 7, 8])),
            "ranks 0-2, 5, 7-8"
        );
    }
}
