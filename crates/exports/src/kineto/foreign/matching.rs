//! Matches the kernels of a foreign trace with the archive's.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nccl_events::collective::Function;
use nccl_events::ids::index;

use super::read::{Foreign, Kernel};
use crate::kineto::job::Job;
use crate::kineto::pytorch;
use crate::line::Line;

/// How far apart two recorders' times of one kernel can be, in addition to the host clock's error: recording takes time
/// around a kernel, and clocks are read one after the other.
const SLACK_NS: i128 = 50_000;
/// Maximum time from a launch to the enqueueing of its operation.
const ENQUEUED_NS: i128 = 1_000_000;

pub(super) struct Matching<'a> {
    job: &'a Job<'a>,
    /// By member of a communicator: measured kernels sorted by start, the others by launch.
    members: Vec<Member>,
    is_taken: Vec<bool>,
    slack_ns: i128,
}

struct Member {
    size: usize,
    ranks: Option<Vec<u32>>,
    measured: Vec<u32>,
    enqueued: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Matched {
    /// Pairs of the index of a foreign event and the number of the archive's kernel.
    pub(super) pairs: Vec<(u64, u32)>,
    /// The number of the trace's kernels for which several pairs are possible.
    pub(super) uncertain: u64,
}

/// A kernel of the trace and one of the archive that can be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    event: u64,
    number: u32,
    is_other_size: bool,
    /// Whether they ran at the same time.
    is_together: bool,
    distance_ns: i128,
}

impl Pair {
    /// Whether it is so much better than another one that this cannot be it.
    fn beats(&self, other: &Self) -> bool {
        let size = other.is_other_size.cmp(&self.is_other_size);
        let time = self.is_together.cmp(&other.is_together);
        match (size, time) {
            (Ordering::Equal, Ordering::Equal) => !self.is_together && 2 * self.distance_ns < other.distance_ns,
            (size, time) => size.is_ge() && time.is_ge(),
        }
    }
}

struct Wanted<'k> {
    kernel: &'k Kernel,
    start_ns: i128,
    stop_ns: i128,
    launched_ns: i128,
}

impl<'a> Matching<'a> {
    pub(super) fn of(job: &'a Job<'a>, rank: u32) -> Self {
        let kernels = &job.kernels;
        let job_rank = &job.tables.members.job_ranks[index(rank)];
        let slack_ns = SLACK_NS + i128::from(job_rank.clock_uncertainty_ns().unwrap_or(0));
        let members = job_rank.members.iter().map(|row| {
            let communicator = job.tables.members.row(*row).communicator;
            let numbers = kernels.of_member(*row).filter_map(|at| u32::try_from(at).ok());
            let (measured, mut enqueued): (Vec<u32>, Vec<u32>) =
                numbers.partition(|number| kernels.get(*number).is_measured);
            enqueued.sort_by_key(|number| kernels.get(*number).launched_ns);
            let ranks = job.members_of(communicator);
            Member { size: job.tables.members.size(communicator), ranks, measured, enqueued }
        });
        Self { job, members: members.collect(), is_taken: vec![false; kernels.all.len()], slack_ns }
    }

    /// Finds the archive's kernel for each of the trace's. One of which several can be it is left out.
    pub(super) fn matched(&mut self, foreign: &Foreign, clock: &Line) -> Matched {
        let mut pairs: Vec<Pair> = Vec::new();
        for kernel in &foreign.kernels {
            let [start_ns, stop_ns] = kernel.times_ns.map(|at_ns| clock.at(at_ns));
            let launched_ns = kernel.launched_ns.map_or(start_ns, |at_ns| clock.at(at_ns));
            self.add_pairs(&Wanted { kernel, start_ns, stop_ns, launched_ns }, &mut pairs);
        }
        let mut of_number: BTreeMap<u32, Vec<Pair>> = BTreeMap::new();
        for pair in &pairs {
            of_number.entry(pair.number).or_default().push(*pair);
        }
        let mut found = Matched::default();
        for of_kernel in pairs.chunk_by(|a, b| a.event == b.event) {
            // One that beats all others is the least.
            let best = of_kernel.iter().min_by_key(|pair| (pair.is_other_size, !pair.is_together, pair.distance_ns));
            let certain = best.filter(|best| {
                let others = of_kernel.iter().chain(of_number.get(&best.number).into_iter().flatten());
                others.filter(|other| other != best).all(|other| best.beats(other))
            });
            let taken = match certain {
                Some(pair) => {
                    found.pairs.push((pair.event, pair.number));
                    std::slice::from_ref(pair)
                }
                None => {
                    found.uncertain += 1;
                    of_kernel
                }
            };
            taken.iter().for_each(|pair| self.is_taken[index(pair.number)] = true);
        }
        found.pairs.sort_unstable();
        found
    }

    /// The number of a rank's operations within a time span that no kernel can be.
    pub(super) fn unmatched(&self, from_ns: i128, to_ns: i128) -> u64 {
        let measured = self.members.iter().flat_map(|member| &member.measured);
        let left = measured.filter(|number| !self.is_taken[index(**number)]).map(|it| self.job.kernels.get(*it));
        let within = left.filter(|it| i128::from(it.start_ns) >= from_ns && i128::from(it.stop_ns) <= to_ns);
        within.map(|it| u64::from(it.operations)).sum()
    }

    fn add_pairs(&self, wanted: &Wanted<'_>, pairs: &mut Vec<Pair>) {
        let kernels = &self.job.kernels;
        for member in self.members.iter().filter(|member| member.can_be(wanted.kernel)) {
            let begun = |it: &u32| i128::from(kernels.get(*it).start_ns) <= wanted.stop_ns + self.slack_ns;
            let running = |it: &&u32| i128::from(kernels.get(**it).stop_ns) + self.slack_ns >= wanted.start_ns;
            let measured = member.measured[..member.measured.partition_point(begun)].iter().rev().take_while(running);
            let launch = |it: &u32| i128::from(kernels.get(*it).launched_ns.unwrap_or(0));
            let before = member.enqueued.partition_point(|it| launch(it) < wanted.launched_ns - ENQUEUED_NS);
            let near = |it: &&u32| launch(it) <= wanted.launched_ns + ENQUEUED_NS;
            let enqueued = member.enqueued[before..].iter().take_while(near);
            for number in measured.chain(enqueued).copied() {
                let Some(is_other_size) = self.differs(number, wanted.kernel) else {
                    continue;
                };
                let (distance_ns, is_together) = self.distance(number, wanted);
                pairs.push(Pair { event: wanted.kernel.event, number, is_other_size, is_together, distance_ns });
            }
        }
    }

    /// How far apart they are, and whether most of the shorter one is within the other.
    fn distance(&self, number: u32, wanted: &Wanted<'_>) -> (i128, bool) {
        let kernel = self.job.kernels.get(number);
        if !kernel.is_measured {
            return ((i128::from(kernel.launched_ns.unwrap_or(0)) - wanted.launched_ns).abs(), false);
        }
        let (start_ns, stop_ns) = (i128::from(kernel.start_ns), i128::from(kernel.stop_ns));
        let common_ns = stop_ns.min(wanted.stop_ns) - start_ns.max(wanted.start_ns) + 1;
        let shorter_ns = (stop_ns - start_ns).min(wanted.stop_ns - wanted.start_ns) + 1;
        ((start_ns - wanted.start_ns).abs() + (stop_ns - wanted.stop_ns).abs(), 2 * common_ns > shorter_ns)
    }

    /// Whether the size differs; `None` if the function differs.
    fn differs(&self, number: u32, wanted: &Kernel) -> Option<bool> {
        let kernel = self.job.kernels.get(number);
        let operation = self.job.tables.operations.row(index(kernel.operation));
        let name = self.job.source.trace.region_name(operation.function);
        let is_other = wanted.family.is_some() && pytorch::family(&name) != wanted.family;
        // A kernel of several functions is named after any one of them.
        if is_other && kernel.operations == 1 {
            return None;
        }
        let member = self.job.tables.members.row(kernel.member);
        let size = self.job.tables.members.size(member.communicator) as u64;
        let (bytes, is_root) = (operation.bytes, operation.partner == member.rank);
        let own = Function::of_region(&name).map_or((bytes, bytes), |it| it.elements(bytes, size, is_root));
        let is_size = wanted.bytes.is_none_or(|bytes| kernel.operations > 1 || bytes == [own.0, own.1]);
        Some(is_other || !is_size)
    }
}

impl Member {
    fn can_be(&self, wanted: &Kernel) -> bool {
        let is_size = wanted.group_size.is_none_or(|size| usize::try_from(size) == Ok(self.size));
        let are_ranks = match &self.ranks {
            Some(ranks) if !wanted.ranks.is_empty() => ranks.starts_with(&wanted.ranks),
            _ => true,
        };
        is_size && are_ranks
    }
}

#[cfg(test)]
mod tests {
    use super::Pair;

    #[test]
    fn only_what_nothing_speaks_against_is_matched() {
        let pair = |is_other_size, is_together, distance_ns| Pair {
            event: 0,
            number: 0,
            is_other_size,
            is_together,
            distance_ns,
        };
        for (a, b, wanted) in [
            (pair(false, true, 900), pair(false, false, 10_000), true),
            (pair(false, true, 900), pair(true, true, 100), true),
            (pair(true, true, 900), pair(false, false, 10_000), false),
            (pair(false, true, 10), pair(false, true, 10_000), false),
            (pair(false, false, 4_000), pair(false, false, 9_000), true),
            (pair(false, false, 4_000), pair(false, false, 7_000), false),
        ] {
            assert_eq!(a.beats(&b), wanted, "{a:?} {b:?}");
            assert!(!b.beats(&a), "{b:?} {a:?}");
        }
    }
}
