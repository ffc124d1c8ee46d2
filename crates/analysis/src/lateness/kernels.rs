//! What the GPUs of a job ran, and what each waited for there.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::read::NONE;
use nccl_events::collective::Flow;
use nccl_events::ids::{index as large, index_u32 as small};

/// An operation on the GPU of a rank. The messages of one kernel are one.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) rank: u32,
    /// What follows each other on one GPU: a stream of CUDA's, or a communicator where streams are not recorded.
    pub(crate) stream: u32,
    pub(crate) communicator: u32,
    /// A number of what it does: kernels of peers that do the same are compared.
    pub(crate) function: u32,
    /// The collective that it is part of; [`NONE`] for messages, and for what is not compared across ranks.
    pub(crate) collective: u32,
    pub(crate) is_root: bool,
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    /// How long it waited for others.
    pub(crate) wait_ns: u64,
    /// When its launch began; 0 if that is not recorded.
    pub(crate) launched_ns: u64,
    /// The kernel of its rank that it follows, or [`NONE`].
    pub(crate) before: u32,
    /// A kernel of another stream that was launched earlier and had ended, too: it does not begin before that ends.
    pub(crate) after: u32,
    /// The other ends of its messages: places in [`Kernels::ends`].
    pub(crate) ends: (u32, u32),
}

impl Kernel {
    /// When all that it waited for had come.
    pub(crate) const fn base_ns(&self) -> u64 {
        self.start_ns + self.wait_ns
    }

    /// From the end of the kernel before to its start, in ns.
    pub(crate) fn gap_ns(&self, kernels: &[Self]) -> u64 {
        let before = kernels.get(large(self.before));
        before.map_or(0, |before| self.start_ns.saturating_sub(before.stop_ns))
    }
}

/// The other end of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) kernel: u32,
    /// Whether the kernel that has this end sends the message.
    pub(crate) is_send: bool,
    /// How far the clocks of both may be apart; `None` if unknown.
    pub(crate) error_ns: Option<u64>,
}

/// A collective of several ranks.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) communicator: u32,
    pub(crate) flow: Flow,
    /// Its kernels: places in [`Kernels::members`].
    pub(crate) members: (u32, u32),
    /// Whether each rank of the communicator has a measured operation in it.
    pub(crate) is_whole: bool,
    pub(crate) is_warm_up: bool,
    /// How far the ranks' clocks may be apart; `None` if unknown.
    pub(crate) error_ns: Option<u64>,
    /// Whether the lengths of its operations say who came last, because the clocks cannot.
    pub(crate) is_by_lengths: bool,
}

/// The kernels of a job, sorted by rank and start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernels {
    pub(crate) all: Vec<Kernel>,
    pub(crate) collectives: Vec<Collective>,
    /// The kernels of collectives, one collective after another.
    pub(crate) members: Vec<u32>,
    /// The other ends of messages, one kernel after another.
    pub(crate) ends: Vec<End>,
    /// By rank: its kernels.
    pub(crate) ranks: Vec<Range<usize>>,
    /// By rank: when it called NCCL for operations that NCCL does not report, sorted.
    pub(crate) unreported: Vec<Vec<u64>>,
    /// By rank: when operations of it were not recorded, which others took part in or recording was off; sorted, apart.
    pub(crate) unrecorded: Vec<Vec<(u64, u64)>>,
    /// In messages and collectives with a root: for how long it is not known whether ranks waited, because of the clocks.
    pub(crate) unclear_ns: u64,
}

/// The kernels that ended last before another one begins, of which one is taken for the one that it follows.
const CANDIDATES: usize = 6;

impl Kernels {
    pub(crate) fn members_of(&self, collective: &Collective) -> &[u32] {
        &self.members[large(collective.members.0)..large(collective.members.1)]
    }

    pub(crate) fn is_warm_up(&self, kernel: &Kernel) -> bool {
        self.collectives.get(large(kernel.collective)).is_some_and(|collective| collective.is_warm_up)
    }

    pub(crate) fn of_rank(&self, rank: u32) -> &[Kernel] {
        &self.all[self.ranks[large(rank)].clone()]
    }

    /// The kernels of a rank that begin in a time, with their numbers; none if it has no length.
    pub(crate) fn between(&self, rank: u32, from_ns: u64, to_ns: u64) -> Range<usize> {
        let range = self.ranks[large(rank)].clone();
        let kernels = &self.all[range.clone()];
        let at = |ns: u64| range.start + kernels.partition_point(|kernel| kernel.start_ns < ns);
        at(from_ns)..at(to_ns.max(from_ns))
    }

    /// The other ends that a kernel waited for: a send that ended before its receive began was buffered.
    pub(crate) fn waited_for(&self, kernel: &Kernel) -> impl Iterator<Item = u32> {
        let stop_ns = kernel.stop_ns;
        let ends = self.ends[large(kernel.ends.0)..large(kernel.ends.1)].iter();
        let is_waited = move |end: &&End| !(end.is_send && stop_ns < self.all[large(end.kernel)].start_ns);
        ends.filter(is_waited).map(|end| end.kernel)
    }

    /// Finds what each kernel waited for, and which one it follows.
    pub(crate) fn relate(&mut self) {
        self.find_waits();
        self.find_kernels_before();
    }

    fn find_waits(&mut self) {
        for at in 0..self.collectives.len() {
            let collective = &self.collectives[at];
            let members = large(collective.members.0)..large(collective.members.1);
            if !collective.is_whole || members.len() < 2 {
                continue;
            }
            let kernels = || self.members[members.clone()].iter().map(|kernel| &self.all[large(*kernel)]);
            let length_ns = |kernel: &Kernel| kernel.stop_ns - kernel.start_ns;
            let shortest_ns = kernels().map(length_ns).min().unwrap_or(0);
            let last_ns = kernels().map(|kernel| kernel.start_ns).max().unwrap_or(0);
            let skew_ns = last_ns - kernels().map(|kernel| kernel.start_ns).min().unwrap_or(0);
            let root_ns = kernels().find(|kernel| kernel.is_root).map(|root| root.start_ns);
            let (flow, error_ns) = (collective.flow, collective.error_ns);
            // The clocks' error matters if it is not small beside the operation, unless the skew is far larger.
            let is_by_lengths = flow == Flow::AllToAll
                && error_ns.is_none_or(|error_ns| {
                    error_ns > 0 && error_ns.saturating_mul(20) >= shortest_ns && skew_ns < error_ns.saturating_mul(4)
                });
            let until =
                |kernel: &Kernel, awaited_ns: u64| awaited_ns.min(kernel.stop_ns).saturating_sub(kernel.start_ns);
            let is_clear = |ns: u64| error_ns.is_some_and(|error_ns| error_ns < ns);
            let wait_ns = |kernel: &Kernel| match flow {
                Flow::AllToAll if is_by_lengths => length_ns(kernel) - shortest_ns,
                Flow::AllToAll => until(kernel, last_ns),
                Flow::FromRoot => match root_ns {
                    Some(root_ns) if is_clear(root_ns.abs_diff(kernel.start_ns)) => until(kernel, root_ns),
                    _ => 0,
                },
                Flow::ToRoot if kernel.is_root && is_clear(last_ns - kernel.start_ns) => until(kernel, last_ns),
                Flow::ToRoot => 0,
            };
            // How long the clocks do not show whether a member waited for the root, or the root for the last member.
            let unclear_ns = |kernel: &Kernel| match (flow, root_ns) {
                (Flow::FromRoot, Some(root_ns)) if !kernel.is_root && !is_clear(root_ns.abs_diff(kernel.start_ns)) => {
                    error_ns.map_or_else(|| length_ns(kernel), |_| until(kernel, root_ns))
                }
                (Flow::ToRoot, _) if kernel.is_root && !is_clear(last_ns - kernel.start_ns) => {
                    error_ns.map_or_else(|| length_ns(kernel), |_| until(kernel, last_ns))
                }
                _ => 0,
            };
            let waits: Vec<u64> = kernels().map(wait_ns).collect();
            let unclear_ns: u64 = kernels().map(unclear_ns).sum();
            for (member, wait_ns) in members.zip(waits) {
                self.all[large(self.members[member])].wait_ns = wait_ns;
            }
            self.collectives[at].is_by_lengths = is_by_lengths;
            self.unclear_ns += unclear_ns;
        }
        for at in 0..self.all.len() {
            let kernel = &self.all[at];
            if kernel.ends.0 < kernel.ends.1 {
                let (wait_ns, unclear_ns) = self.wait_of_message(kernel);
                self.unclear_ns += unclear_ns;
                self.all[at].wait_ns = wait_ns;
            }
        }
    }

    /// How long a kernel of messages waited, and for how long that is not known.
    fn wait_of_message(&self, kernel: &Kernel) -> (u64, u64) {
        let (mut wait_ns, mut unclear_ns) = (0, 0);
        for end in &self.ends[large(kernel.ends.0)..large(kernel.ends.1)] {
            let came_ns = self.all[large(end.kernel)].start_ns;
            let Some(error_ns) = end.error_ns else {
                unclear_ns = kernel.stop_ns - kernel.start_ns;
                continue;
            };
            let late_ns = came_ns.min(kernel.stop_ns).saturating_sub(kernel.start_ns);
            match end.is_send && kernel.stop_ns < came_ns {
                true => {}
                false if came_ns.saturating_sub(kernel.start_ns) > error_ns => wait_ns = late_ns.max(wait_ns),
                false => unclear_ns = late_ns.max(unclear_ns),
            }
        }
        (wait_ns, unclear_ns.saturating_sub(wait_ns))
    }

    /// A kernel follows the last kernel of its rank that ended before it began. A collective on another stream counts
    /// only if it ended first on every rank that both share, and before its members did the same next: otherwise both
    /// run at the same time.
    fn find_kernels_before(&mut self) {
        let mut candidates: Vec<[u32; CANDIDATES]> = vec![[NONE; CANDIDATES]; self.all.len()];
        for range in &self.ranks {
            let mut ended: Vec<usize> = range.clone().collect();
            ended.sort_unstable_by_key(|at| (self.all[*at].stop_ns, *at));
            let mut count = 0;
            for at in range.clone() {
                let start_ns = self.all[at].start_ns;
                count += ended[count..].iter().take_while(|other| self.all[**other].stop_ns <= start_ns).count();
                let last = ended[..count].iter().rev().filter(|other| **other != at).take(CANDIDATES);
                for (place, other) in candidates[at].iter_mut().zip(last) {
                    *place = small(*other);
                }
            }
        }
        for (at, candidates) in candidates.iter().enumerate() {
            self.all[at].before = candidates[0];
        }
        let mut runs_beside: BTreeMap<(u32, u32), bool> = BTreeMap::new();
        for collective in &self.collectives {
            if collective.members.1 - collective.members.0 < 2 {
                continue;
            }
            let members = &self.members[large(collective.members.0)..large(collective.members.1)];
            // Members are in the order of their ranks, because kernels are.
            let start_ns = |rank: u32| {
                let at = members.binary_search_by_key(&rank, |kernel| self.all[large(*kernel)].rank).ok()?;
                Some(self.all[large(members[at])].start_ns)
            };
            let mut seen: Vec<(u32, bool)> = Vec::new();
            let mut found: Vec<(u32, u32)> = Vec::with_capacity(members.len());
            for member in members {
                let Kernel { stream, function, launched_ns, .. } = self.all[large(*member)];
                let known = candidates[large(*member)].iter().copied().filter(|kernel| *kernel != NONE);
                let known: Vec<u32> = known.collect();
                let mut is_before = |kernel: &u32| {
                    let other = &self.all[large(*kernel)];
                    if other.collective == NONE || other.stream == stream {
                        return true;
                    }
                    if let Some((_, is_before)) = seen.iter().find(|(number, _)| *number == other.collective) {
                        return *is_before;
                    }
                    let others = self.members_of(&self.collectives[large(other.collective)]).iter();
                    let is_before = others
                        .map(|other| &self.all[large(*other)])
                        .all(|other| start_ns(other.rank).is_none_or(|start_ns| other.stop_ns <= start_ns));
                    let runs_beside = runs_beside.entry((other.collective, function));
                    let is_before =
                        is_before && !*runs_beside.or_insert_with(|| self.runs_beside(other.collective, function));
                    seen.push((other.collective, is_before));
                    is_before
                };
                let before = known.iter().copied().find(&mut is_before);
                let is_earlier = |kernel: &u32| {
                    let other = &self.all[large(*kernel)];
                    other.stream != stream && (1..launched_ns).contains(&other.launched_ns)
                };
                let after = known.iter().copied().find(|kernel| is_earlier(kernel) && is_before(kernel));
                let before = before.or(known.last().copied()).unwrap_or(NONE);
                found.push((before, after.filter(|after| *after != before).unwrap_or(NONE)));
            }
            let members = large(collective.members.0)..large(collective.members.1);
            for (member, (before, after)) in self.members[members].iter().zip(found) {
                let kernel = &mut self.all[large(*member)];
                (kernel.before, kernel.after) = (before, after);
            }
        }
    }

    /// Whether some rank of a collective began a kernel of a function on another stream while the collective ran.
    fn runs_beside(&self, collective: u32, function: u32) -> bool {
        /// Kernels among which the next of the function is looked for.
        const NEXT: usize = 32;
        let members = self.members_of(&self.collectives[large(collective)]).iter();
        members.map(|member| &self.all[large(*member)]).any(|kernel| {
            let all = &self.all[self.ranks[large(kernel.rank)].clone()];
            let after = all.partition_point(|other| other.start_ns <= kernel.start_ns);
            let mut next = all[after..].iter().take(NEXT);
            // What was launched earlier may follow something else.
            let is_later = |other: &Kernel| other.launched_ns >= kernel.launched_ns;
            let next =
                next.find(|other| other.function == function && other.stream != kernel.stream && is_later(other));
            next.is_some_and(|other| other.start_ns < kernel.stop_ns)
        })
    }

    /// By rank: how long others waited while it was the last to come, in ns. First collectives do not count.
    pub(crate) fn awaited_ns(&self) -> Vec<u64> {
        let mut found = vec![0; self.ranks.len()];
        let kernel = |number: &u32| &self.all[large(*number)];
        for collective in self.collectives.iter().filter(|one| one.is_whole && !one.is_warm_up) {
            let members = || self.members_of(collective).iter().map(kernel);
            let last = match collective.flow {
                Flow::AllToAll if collective.is_by_lengths => members().min_by_key(|kernel| kernel.wait_ns),
                Flow::AllToAll => members().max_by_key(|kernel| kernel.start_ns),
                Flow::FromRoot => members().find(|kernel| kernel.is_root),
                Flow::ToRoot => members().filter(|kernel| !kernel.is_root).max_by_key(|kernel| kernel.start_ns),
            };
            if let Some(last) = last {
                let others = members().filter(|kernel| kernel.rank != last.rank);
                found[large(last.rank)] += others.map(|kernel| kernel.wait_ns).sum::<u64>();
            }
        }
        for waiting in self.all.iter().filter(|kernel| kernel.ends.0 < kernel.ends.1) {
            let last = self.waited_for(waiting).max_by_key(|other| kernel(other).start_ns);
            if let Some(last) = last.map(|last| kernel(&last)).filter(|last| last.rank != waiting.rank) {
                found[large(last.rank)] += waiting.wait_ns;
            }
        }
        found
    }

    /// The ranks that work together, in collectives or messages; those that are alone are left out.
    pub(crate) fn components(&self) -> Vec<Vec<u32>> {
        let mut up: Vec<usize> = (0..self.ranks.len()).collect();
        fn top(up: &mut [usize], mut rank: usize) -> usize {
            while up[rank] != rank {
                up[rank] = up[up[rank]];
                rank = up[rank];
            }
            rank
        }
        let mut join = |a: u32, b: u32| {
            let (a, b) = (top(&mut up, large(a)), top(&mut up, large(b)));
            up[b.max(a)] = a.min(b);
        };
        for collective in &self.collectives {
            let ranks = self.members_of(collective).iter().map(|kernel| self.all[large(*kernel)].rank);
            let ranks: Vec<u32> = ranks.collect();
            ranks.windows(2).for_each(|pair| join(pair[0], pair[1]));
        }
        for kernel in &self.all {
            for end in &self.ends[large(kernel.ends.0)..large(kernel.ends.1)] {
                join(kernel.rank, self.all[large(end.kernel)].rank);
            }
        }
        let mut found: Vec<Vec<u32>> = vec![Vec::new(); up.len()];
        for rank in (0..up.len()).filter(|rank| !self.ranks[*rank].is_empty()) {
            let first = top(&mut up, rank);
            found[first].push(small(rank));
        }
        found.retain(|ranks| ranks.len() > 1);
        found
    }
}

/// How much time intervals cover, which are sorted by their starts or nearly so.
pub(crate) fn covered_ns(intervals: &mut [(f64, f64)]) -> f64 {
    if !intervals.is_sorted_by(|a, b| a.0 <= b.0) {
        intervals.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    }
    let (mut sum, mut end) = (0.0, f64::NEG_INFINITY);
    for (start, stop) in intervals.iter() {
        sum += (stop - start.max(end)).max(0.0);
        end = stop.max(end);
    }
    sum
}
