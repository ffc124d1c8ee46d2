//! The archive's statements about matching: `NCCL::MISMATCH…`, `NCCL::RANKS_BEHIND…`, `NCCL::MATCHING_UNKNOWN…`.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Difference, Groups};
use super::ranks::{Ranks, Source};
use super::{Kind, step_ranges};
use crate::archive::communicators::Communicators;
use crate::archive::processes::Process;
use crate::part::calls::StepRanges;
use job::communicators::rank_list;
use nccl_events::ids::index;
use nccl_events::schema::{Listed, Statements};

/// Limit on the distinct ends that are listed for the ranks of a communicator.
const MOST_ENDS: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matching {
    pub(crate) mismatches: Vec<(Kind, String)>,
    behind: Vec<String>,
    ranks_behind: u64,
    /// Communicators that cannot be judged, or not completely, and why.
    unknown: Vec<String>,
}

impl Matching {
    pub(crate) fn of(processes: &[Process], communicators: &Communicators) -> Self {
        let mut of_comm: BTreeMap<u32, BTreeMap<u32, Source<'_>>> = BTreeMap::new();
        for (process, map) in processes.iter().zip(&communicators.maps) {
            for digest in &process.manifest.collectives {
                let Some(&comm) = map.get(index(digest.comm)) else {
                    continue;
                };
                let ranks = of_comm.entry(comm).or_default();
                // The first part that has a rank counts, as with locations.
                let source = Source { process, digest };
                ranks.entry(digest.rank).or_insert(source);
            }
        }
        let mut matching = Self::default();
        for (comm, ranks) in of_comm.into_iter().filter(|(_, ranks)| ranks.len() > 1) {
            matching.compare(communicators.all.get(index(comm)).map_or("?", |comm| comm.name.as_str()), &ranks);
        }
        matching
    }

    fn compare(&mut self, comm: &str, ranks: &BTreeMap<u32, Source<'_>>) {
        let mut ranks = Ranks::of(ranks);
        let basis = ranks.basis;
        let groups = Groups::of(&ranks.known, |member| member.source.load(basis));
        if !groups.unclear.is_empty() {
            ranks.unknown.push(("differs, it is not known where", groups.unclear.clone()));
        }
        self.unknown.extend(ranks.unknown.iter().map(|(why, ranks)| format!("{comm}: {}: {why}", names(ranks))));
        self.mismatches.extend(groups.differences().iter().map(|it| (it.kind, mismatch(comm, it, ranks.ranges))));
        self.add_behind(comm, &ranks);
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
            let ranks = names(ranks);
            format!("{comm}: {ranks} had called {count} of {most} collectives{of} when the recording ended")
        });
        self.behind.extend(listed);
        let more: usize = ends.values().skip(MOST_ENDS).map(BTreeSet::len).sum();
        if more > 0 {
            let line = format!("{comm}: and {more} other ranks before {most}");
            self.behind.push(line);
        }
    }

    pub(crate) fn add_to(&self, statements: &mut Statements) {
        for kind in Kind::ALL {
            let lines: Vec<&String> =
                self.mismatches.iter().filter(|(other, _)| *other == kind).map(|(_, line)| line).collect();
            let of_kind = match kind {
                Kind::Function => &mut statements.mismatch_function,
                Kind::Count => &mut statements.mismatch_count,
                Kind::Datatype => &mut statements.mismatch_datatype,
                Kind::Root => &mut statements.mismatch_root,
                Kind::Order => &mut statements.mismatch_order,
            };
            *of_kind = Listed::some(lines.len() as u64, lines);
        }
        statements.ranks_behind = Listed::some(self.ranks_behind, &self.behind);
        statements.matching_unknown = Listed::some(self.unknown.len() as u64, &self.unknown);
    }
}

fn mismatch(comm: &str, difference: &Difference, ranges: Option<&StepRanges>) -> String {
    let position = difference.position;
    let number = ranges.map_or(position + 1, |ranges| step_ranges::number(ranges, position));
    let calls: Vec<String> = difference.calls.iter().map(|(call, ranks)| format!("{} {call}", names(ranks))).collect();
    format!("{comm}: collective {number}: {}", calls.join("; "))
}

/// A short list of ranks: `rank 3`, `ranks 0-2, 5`.
fn names(ranks: &BTreeSet<u32>) -> String {
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", rank_list(ranks))
}
