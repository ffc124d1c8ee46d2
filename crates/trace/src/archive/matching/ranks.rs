//! The ranks of a communicator: those whose calls can be compared, and why others cannot.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Member, Sequence};
use super::step_ranges;
use crate::archive::processes::Process;
use crate::part::calls::{CallLists, Digest, RankDigest, StepRanges};
use crate::part::manifest::Manifest;
use nccl_events::Kind;

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

    pub(super) fn load(&self, basis: Basis) -> Option<Sequence> {
        let lists = CallLists::read(&self.process.directory)?;
        let mut ranks = lists.ranks.into_iter();
        // A part has at most one such rank in a communicator.
        let of_rank = ranks.find(|rank| (rank.comm, rank.rank) == (self.digest.comm, self.digest.rank))?;
        let order = match basis {
            Basis::Called => of_rank.called,
            Basis::Enqueued => of_rank.enqueued,
        };
        Some(Sequence { calls: lists.calls, order: order? })
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
    fn of(ranks: &BTreeMap<u32, Source<'_>>) -> Self {
        let called = || ranks.values().map(|source| source.digest.called);
        let has_some = called().flatten().any(|called| called.count > 0);
        match called().all(|called| called.is_some()) && has_some {
            true => Self::Called,
            false => Self::Enqueued,
        }
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

pub(super) struct Ranks<'a> {
    pub(super) basis: Basis,
    /// The step ranges that were recorded; `None` for everything.
    pub(super) ranges: Option<&'a StepRanges>,
    /// The ranks that can be compared.
    pub(super) known: Vec<Member<Source<'a>>>,
    pub(super) unknown: Vec<(&'static str, BTreeSet<u32>)>,
}

impl<'a> Ranks<'a> {
    pub(super) fn of(ranks: &BTreeMap<u32, Source<'a>>) -> Self {
        const LOST: &str = "records were lost";
        const REMOVED: &str = "only the end was to be kept";
        const SWITCHED: &str = "recording was switched";
        const OTHER_RANGES: &str = "other collectives were to be recorded";
        const REPLAYED: &str = "CUDA graphs were replayed";
        let basis = Basis::of(ranks);
        let judged = ranks.iter().filter(|(_, source)| !source.is_cut_unknown());
        let judged = judged.map(|(&rank, source)| (rank, source.digest.step_ranges.as_ref()));
        let (of_other_ranges, ranges) = step_ranges::sort_out(judged);
        let mut known = Vec::new();
        let mut unknown: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (&rank, &source) in ranks {
            let manifest = &source.process.manifest;
            let why = match basis.digest(source.digest) {
                _ if manifest.counts.removed > 0 => REMOVED,
                _ if source.is_cut_unknown() => SWITCHED,
                _ if of_other_ranges.contains(&rank) => OTHER_RANGES,
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
