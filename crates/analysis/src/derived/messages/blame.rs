//! Who is waited for in the end. What a rank did since it last met the one that waits for it, and what that one did in
//! the same time, differ by the wait: the rank was longer outside of operations, it waited longer, or it transferred
//! longer. The last is nobody's fault. What it waited longer is passed on to those that it waited for, and what it was
//! longer outside is its own. But where it was as much longer outside before it waited, too (a stage of a pipeline), it
//! would have waited instead had it been faster: then the larger part has all.

use std::collections::{BTreeMap, BinaryHeap};

use super::compared::{Messages, job_rank};
use super::ranks::Wait;
use crate::derived::maths::sample::{real, whole};
use crate::derived::maths::union::Covered;
use crate::tables::{Tables, large, small};

/// The most recent waits of the awaited rank that are examined for one wait. Earlier ones are ignored.
const MOST: usize = 64;

/// An operation that others waited for.
#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Meeting {
    /// How long each rank of the job waited, where it did.
    pub(in crate::derived) waited: BTreeMap<u32, u64>,
    /// How long they waited in receives, summed over them.
    pub(in crate::derived) for_send_ns: u64,
    /// How long they waited in sends.
    pub(in crate::derived) for_receive_ns: u64,
}

impl Meeting {
    /// How long they waited.
    pub(in crate::derived) fn lost_ns(&self) -> u64 {
        self.for_send_ns + self.for_receive_ns
    }

    /// The effective number of ranks that waited: the sum of their waits divided by the longest.
    pub(in crate::derived) fn count(&self) -> u64 {
        let longest_ns = self.waited.values().copied().max().unwrap_or(0);
        whole(real(self.lost_ns()) / real(longest_ns.max(1)))
    }
}

/// For what was waited, by the rank of the job and when it came.
#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Blame {
    pub(in crate::derived) meetings: BTreeMap<(u32, u64), Meeting>,
    /// By communicator, sender and receiver there: how long the receiver waited for the sender, and the other way.
    pub(in crate::derived) pairs: BTreeMap<(u32, u32, u32), (u64, u64)>,
}

impl Blame {
    /// Of what each rank of the job waited: in order and apart.
    pub(in crate::derived) fn of(tables: &Tables, messages: &Messages, waits: &[Vec<Wait>]) -> Self {
        let mut found = Self::default();
        let waited = waits.iter().map(|waits| Covered::of(waits.iter().map(|it| (it.start_ns, it.stop_ns)).collect()));
        let times = Times { tables, messages, waits, waited: waited.collect() };
        // By a rank and the number of its wait: the ranks to which this wait was passed on, and how long they waited.
        let mut passed_on: BTreeMap<(usize, usize), BTreeMap<u32, u64>> = BTreeMap::new();
        let last = |rank: usize, number: usize| {
            let (at, _) = waits[rank][..number].iter().enumerate().next_back()?;
            Some((waits[rank][at].stop_ns, rank, at))
        };
        // The last wait first: what it passes on goes to earlier ones.
        let mut next: BinaryHeap<_> = (0..waits.len()).filter_map(|rank| last(rank, waits[rank].len())).collect();
        while let Some((_, rank, at)) = next.pop() {
            next.extend(last(rank, at));
            let wait = &waits[rank][at];
            found.add_pair(tables, wait);
            let mut ranks = passed_on.remove(&(rank, at)).unwrap_or_default();
            *ranks.entry(small(rank)).or_default() += wait.stop_ns - wait.start_ns;
            let awaited = job_rank(tables, wait.other);
            let parts = times.parts(rank, large(awaited), wait);
            for (waits, ns) in ranks {
                let own_ns = parts.of(ns, parts.own_ns);
                if own_ns > 0 && waits != awaited {
                    let came_ns = tables.operations.start_ns[large(wait.other)];
                    let meeting = found.meetings.entry((awaited, came_ns)).or_default();
                    *meeting.waited.entry(waits).or_default() += own_ns;
                    let sum = if wait.is_send { &mut meeting.for_receive_ns } else { &mut meeting.for_send_ns };
                    *sum += own_ns;
                }
                for (earlier, part_ns) in &parts.waits {
                    let part_ns = parts.of(ns, *part_ns);
                    if part_ns > 0 {
                        *passed_on.entry((large(awaited), *earlier)).or_default().entry(waits).or_default() += part_ns;
                    }
                }
            }
        }
        found
    }

    fn add_pair(&mut self, tables: &Tables, wait: &Wait) {
        let operation = tables.operations.row(large(wait.row));
        let member = tables.members.row(operation.member);
        let ends = if wait.is_send { (member.rank, operation.partner) } else { (operation.partner, member.rank) };
        let pair = self.pairs.entry((member.communicator, ends.0, ends.1)).or_default();
        let waited = if wait.is_send { &mut pair.1 } else { &mut pair.0 };
        *waited += wait.stop_ns - wait.start_ns;
    }

    /// How long others waited for a rank of the job: in receives for its sends, and in sends for its receives.
    pub(in crate::derived) fn of_rank(&self, rank: u32) -> (u64, u64) {
        let meetings = self.meetings.range((rank, 0)..=(rank, u64::MAX)).map(|(_, meeting)| meeting);
        meetings.fold((0, 0), |sum, it| (sum.0 + it.for_send_ns, sum.1 + it.for_receive_ns))
    }
}

/// What ranks did when.
struct Times<'a> {
    tables: &'a Tables,
    messages: &'a Messages,
    waits: &'a [Vec<Wait>],
    /// When each waited.
    waited: Vec<Covered>,
}

/// What a wait is made of; nothing where nobody is to blame.
#[derive(Default)]
struct Parts {
    /// What the awaited rank is to blame for.
    own_ns: u64,
    /// What is passed on: by the number of its wait.
    waits: Vec<(usize, u64)>,
    /// The whole wait, including the transfer, which is nobody's fault.
    all_ns: u64,
}

impl Parts {
    fn of(&self, ns: u64, part_ns: u64) -> u64 {
        share(ns, part_ns, self.all_ns)
    }
}

impl Times<'_> {
    /// What a wait of a rank for another one is made of.
    fn parts(&self, rank: usize, awaited: usize, wait: &Wait) -> Parts {
        let ranks = (small(rank), small(awaited));
        if self.messages.is_first(ranks, wait.start_ns) {
            return Parts::default();
        }
        let its = &self.waits[awaited];
        let behind = its.partition_point(|it| it.stop_ns < wait.stop_ns);
        let first = behind.saturating_sub(MOST);
        // Both are compared from one time on, whichever that is.
        let met_ns = self.messages.last_met_ns(self.tables, ranks, wait.start_ns);
        let since_ns = if first > 0 { met_ns.max(its[first - 1].stop_ns.min(wait.start_ns)) } else { met_ns };
        let recent = (first..behind).rev().take_while(|at| its[*at].stop_ns > since_ns);
        let recent: Vec<(usize, u64)> =
            recent.map(|at| (at, its[at].stop_ns - its[at].start_ns.max(since_ns))).collect();
        let recent_ns = recent.iter().map(|(_, ns)| ns).sum();
        let own_waiting_ns = self.waited[rank].within(since_ns, wait.start_ns);
        let theirs = (awaited, wait.stop_ns, recent_ns);
        let own = (rank, wait.start_ns, own_waiting_ns);
        let [theirs, own] = [theirs, own].map(|(rank, until_ns, waiting_ns)| {
            let inside_ns = self.messages.inside(rank).within(since_ns, until_ns);
            [until_ns - since_ns - inside_ns, waiting_ns, inside_ns.saturating_sub(waiting_ns)]
        });
        let [outside_ns, waiting_ns, other_ns] = [0, 1, 2].map(|part| theirs[part].saturating_sub(own[part]));
        let blamed_ns = outside_ns + waiting_ns;
        let (own_ns, passed_on_ns) = match recent.last() {
            Some((first, _)) if self.longer_before_ns(rank, awaited, &its[*first]) < outside_ns => {
                (outside_ns, waiting_ns)
            }
            _ if outside_ns < waiting_ns => (0, blamed_ns),
            _ => (blamed_ns, 0),
        };
        Parts {
            own_ns,
            waits: recent.into_iter().map(|(at, ns)| (at, share(passed_on_ns, ns, recent_ns))).collect(),
            all_ns: blamed_ns + other_ns,
        }
    }

    /// How much longer than a rank the awaited one was outside of operations before one of its waits, since it last met
    /// those that it waited for then: had it been faster, it would have waited for longer.
    fn longer_before_ns(&self, rank: usize, awaited: usize, its: &Wait) -> u64 {
        let ranks = (small(awaited), job_rank(self.tables, its.other));
        let since_ns = self.messages.last_met_ns(self.tables, ranks, its.start_ns);
        let outside = |rank| its.start_ns - since_ns - self.messages.inside(rank).within(since_ns, its.start_ns);
        outside(awaited).saturating_sub(outside(rank))
    }
}

/// The share of a time that a part has of all.
fn share(ns: u64, part_ns: u64, all_ns: u64) -> u64 {
    let share = u128::from(ns) * u128::from(part_ns) / u128::from(all_ns.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
