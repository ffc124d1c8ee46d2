//! Which rank caused each wait in the end. Since the waiting rank and the awaited one last met, the awaited rank was
//! longer outside operations, waited longer, or transferred longer; the differences add up to the wait. Longer transfer
//! is nobody's fault. Longer waiting is passed on to the ranks it waited for, and longer time outside is its own fault.
//! But if it was as much longer outside before it waited, too (a pipeline stage), a faster rank would merely have
//! waited instead: then the larger part is charged with everything.

use std::collections::{BTreeMap, BinaryHeap};
use std::iter;

use nccl_events::collective::Flow;

use super::compared::Messages;
use super::ranks::{Wait, Waits, WaitsIn};
use crate::derived::instances::Instances;
use crate::parallel::in_parallel;
use crate::tables::{NONE, Tables};
use nccl_events::ids::{index as large, index_u32 as small};

/// For one wait, at most this many of the awaited rank's most recent waits are examined. Earlier ones are ignored.
const MOST: usize = 64;
/// Number of waits whose shares all cores compute at a time.
const BATCH: usize = 1 << 13;
/// A wait is shared among at most this many late ranks, the last to arrive.
const MOST_MISSING: usize = 4;

/// How long ranks waited in receives, in sends and in collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::derived) struct Waited {
    pub(in crate::derived) receives_ns: u64,
    pub(in crate::derived) sends_ns: u64,
    pub(in crate::derived) collectives_ns: u64,
}

impl Waited {
    pub(in crate::derived) const fn all_ns(&self) -> u64 {
        self.receives_ns + self.sends_ns + self.collectives_ns
    }

    fn add(&mut self, waits_in: WaitsIn, ns: u64) {
        *match waits_in {
            WaitsIn::Receive => &mut self.receives_ns,
            WaitsIn::Send => &mut self.sends_ns,
            WaitsIn::Collective(_) => &mut self.collectives_ns,
        } += ns;
    }
}

#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Awaited {
    pub(in crate::derived) sum: Waited,
    /// How long each rank of the job waited for this one; only ranks that waited.
    pub(in crate::derived) by: BTreeMap<u32, u64>,
    /// This rank's operations that others waited for, by their start.
    pub(in crate::derived) operations: Vec<AwaitedOperation>,
}

impl Awaited {
    /// Adds what others waited; those that waited for one operation follow each other.
    fn add(&mut self, more: AwaitedOperation) {
        match self.operations.last_mut().filter(|it| it.came_ns == more.came_ns) {
            Some(known) => known.add(&more),
            None => self.operations.push(more),
        }
    }

    fn arrange(&mut self) {
        self.operations.sort_by_key(|it| it.came_ns);
        self.operations.dedup_by(|more, known| {
            let is_same = more.came_ns == known.came_ns;
            if is_same {
                known.add(more);
            }
            is_same
        });
    }
}

impl AwaitedOperation {
    fn add(&mut self, more: &Self) {
        self.ns += more.ns;
        self.since_ns = self.since_ns.min(more.since_ns);
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::derived) struct AwaitedOperation {
    pub(in crate::derived) came_ns: u64,
    pub(in crate::derived) row: u32,
    /// How long others waited.
    pub(in crate::derived) ns: u64,
    /// When the first of them began to.
    pub(in crate::derived) since_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Blame {
    /// By rank of the job.
    pub(in crate::derived) ranks: Vec<Awaited>,
    /// By communicator, sender and receiver: how long the receiver waited for the sender, and vice versa.
    pub(in crate::derived) pairs: BTreeMap<(u32, u32, u32), (u64, u64)>,
}

impl Blame {
    /// `waits` holds each job rank's waits. Several `late` ranks share a wait.
    pub(in crate::derived) fn of(
        tables: &Tables,
        instances: &Instances,
        messages: &Messages,
        waits: &[Waits],
        late: &[bool],
    ) -> Self {
        let mut found = Self { ranks: vec![Awaited::default(); waits.len()], ..Self::default() };
        let times = Times { tables, instances, messages, waits };
        // By a rank and the index of its wait: whose waits were passed on to it, with the kind of wait and the time.
        let mut passed_on: BTreeMap<(usize, usize), BTreeMap<(u32, WaitsIn), u64>> = BTreeMap::new();
        let last = |rank: usize, number: usize| {
            let at = number.checked_sub(1)?;
            Some((waits[rank].times.at(at).1, rank, at))
        };
        // Latest wait first, because a wait passes its blame on to earlier ones.
        let mut next: BinaryHeap<_> = (0..waits.len()).filter_map(|rank| last(rank, waits[rank].times.len())).collect();
        let shared = |waits: &[(u64, usize, usize)]| {
            let mut missing = Missing { tables, instances, late, of_communicator: BTreeMap::new() };
            let shared = waits.iter().map(|(_, rank, at)| {
                let wait = times.wait(*rank, *at);
                let shares = missing.shares(&wait).into_iter().map(|(wait, ns)| (wait, ns, times.parts(*rank, &wait)));
                (*rank, *at, wait, shares.collect::<Vec<(Wait, u64, Parts)>>())
            });
            shared.collect::<Vec<_>>()
        };
        let batches = iter::from_fn(|| {
            let one = |_| next.pop().inspect(|(_, rank, at)| next.extend(last(*rank, *at)));
            let batch: Vec<_> = (0..BATCH).map_while(one).collect();
            (!batch.is_empty()).then(|| in_parallel(batch.chunks(BATCH / 64), shared).into_iter().flatten())
        });
        for (rank, at, wait, shares) in batches.flatten() {
            found.add_pair(tables, &wait);
            let mut ranks = passed_on.remove(&(rank, at)).unwrap_or_default();
            let waits_in = match wait.waits_in {
                WaitsIn::Collective(_) => WaitsIn::Collective(NONE),
                waits_in => waits_in,
            };
            let wait_ns = wait.stop_ns - wait.start_ns;
            *ranks.entry((small(rank), waits_in)).or_default() += wait_ns;
            for (wait, part_ns, parts) in shares {
                let awaited = tables.job_rank(wait.other);
                let came_ns = tables.operations.start_ns[large(wait.other)];
                for ((waits, waits_in), ns) in &ranks {
                    let ns = share(*ns, part_ns, wait_ns);
                    let own_ns = parts.of(ns, parts.own_ns);
                    if own_ns > 0 && *waits != awaited {
                        let blamed = &mut found.ranks[large(awaited)];
                        blamed.sum.add(*waits_in, own_ns);
                        *blamed.by.entry(*waits).or_default() += own_ns;
                        let since_ns = wait.start_ns;
                        blamed.add(AwaitedOperation { came_ns, row: wait.other, ns: own_ns, since_ns });
                    }
                    for (earlier, part_ns) in &parts.waits {
                        let part_ns = parts.of(ns, *part_ns);
                        if part_ns > 0 {
                            let to = passed_on.entry((large(awaited), *earlier)).or_default();
                            *to.entry((*waits, *waits_in)).or_default() += part_ns;
                        }
                    }
                }
            }
        }
        found.ranks.iter_mut().for_each(Awaited::arrange);
        found
    }

    fn add_pair(&mut self, tables: &Tables, wait: &Wait) {
        let is_send = match wait.waits_in {
            WaitsIn::Send => true,
            WaitsIn::Receive => false,
            WaitsIn::Collective(_) => return,
        };
        let operation = tables.operations.row(large(wait.row));
        let member = tables.members.row(operation.member);
        let ends = if is_send { (member.rank, operation.partner) } else { (operation.partner, member.rank) };
        let pair = self.pairs.entry((member.communicator, ends.0, ends.1)).or_default();
        let waited = if is_send { &mut pair.1 } else { &mut pair.0 };
        *waited += wait.stop_ns - wait.start_ns;
    }
}

/// The late ranks that a collective was missing.
struct Missing<'a> {
    tables: &'a Tables,
    instances: &'a Instances,
    late: &'a [bool],
    /// By communicator: the instance last asked for (its waits follow each other), and its late ranks' arrivals.
    of_communicator: BTreeMap<u32, (u32, Vec<(u64, u32)>)>,
}

impl Missing<'_> {
    /// Splits a wait by missing rank: each part ends when that rank arrived, and has its share of the wait. Ranks
    /// missing at the same time share equally. If many were missing, the first to arrive get nothing.
    fn shares(&mut self, wait: &Wait) -> Vec<(Wait, u64)> {
        let whole_ns = wait.stop_ns - wait.start_ns;
        let WaitsIn::Collective(number) = wait.waits_in else {
            return vec![(*wait, whole_ns)];
        };
        let (tables, instances, late) = (self.tables, self.instances, self.late);
        let instance = &instances.all[large(number)];
        let (known, came) = self.of_communicator.entry(instance.communicator).or_insert((NONE, Vec::new()));
        if *known != number {
            *known = number;
            let rows = instances.operations(instance).iter().copied();
            // In other flows only one rank is awaited.
            let rows = rows.filter(|row| instance.flow == Flow::AllToAll && late[large(tables.job_rank(*row))]);
            came.clear();
            came.extend(rows.map(|row| (tables.operations.start_ns[large(row)], row)));
            came.sort_unstable();
        }
        let from = came.partition_point(|(ns, _)| *ns <= wait.start_ns);
        let behind = came.partition_point(|(ns, _)| *ns < wait.stop_ns);
        let mut missing: Vec<(u64, u32)> =
            came[from.max(behind.saturating_sub(MOST_MISSING))..behind.max(from)].to_vec();
        missing.retain(|(_, row)| *row != wait.other);
        missing.push((wait.stop_ns, wait.other));
        let (mut before_ns, mut share_ns) = (wait.start_ns, 0);
        let count = missing.len() as u64;
        let shares = (0..count).zip(missing).map(|(at, (stop_ns, other))| {
            share_ns += (stop_ns - before_ns) / (count - at);
            before_ns = stop_ns;
            (Wait { stop_ns, other, ..*wait }, share_ns)
        });
        shares.collect()
    }
}

struct Times<'a> {
    tables: &'a Tables,
    instances: &'a Instances,
    messages: &'a Messages,
    waits: &'a [Waits],
}

/// The parts of a wait; all zero if nobody is to blame.
#[derive(Default)]
struct Parts {
    /// What the awaited rank itself is to blame for.
    own_ns: u64,
    /// What is passed on, by index of the awaited rank's wait.
    waits: Vec<(usize, u64)>,
    /// The whole wait, including transfer, which is nobody's fault.
    all_ns: u64,
}

impl Parts {
    fn of(&self, ns: u64, part_ns: u64) -> u64 {
        share(ns, part_ns, self.all_ns)
    }
}

impl Times<'_> {
    fn wait(&self, rank: usize, at: usize) -> Wait {
        self.waits[rank].at(self.instances, &self.messages.pairing, at)
    }

    fn parts(&self, rank: usize, wait: &Wait) -> Parts {
        let awaited = large(self.tables.job_rank(wait.other));
        let ranks = (small(rank), small(awaited));
        if !matches!(wait.waits_in, WaitsIn::Collective(_)) && self.messages.is_first(ranks, wait.start_ns) {
            return Parts::default();
        }
        let its = &self.waits[awaited].times;
        let behind = its.ended(wait.stop_ns);
        let first = behind.saturating_sub(MOST);
        // Both ranks are compared over the same period, whatever its start.
        let met_ns = self.messages.last_met_ns(self.tables, (ranks.0, wait.start_ns), (ranks.1, wait.stop_ns));
        let since_ns = if first > 0 { met_ns.max(its.at(first - 1).1.min(wait.start_ns)) } else { met_ns };
        let recent =
            (first..behind).rev().map(|at| (at, its.at(at))).take_while(|(_, (_, stop_ns))| *stop_ns > since_ns);
        let recent: Vec<(usize, u64)> =
            recent.map(|(at, (start_ns, stop_ns))| (at, stop_ns - start_ns.max(since_ns))).collect();
        let recent_ns = recent.iter().map(|(_, ns)| ns).sum();
        let own_waiting_ns = self.waits[rank].times.within(since_ns, wait.start_ns);
        let theirs = (awaited, wait.stop_ns, recent_ns);
        let own = (rank, wait.start_ns, own_waiting_ns);
        let [theirs, own] = [theirs, own].map(|(rank, until_ns, waiting_ns)| {
            let inside_ns = self.messages.inside[rank].within(since_ns, until_ns);
            [until_ns - since_ns - inside_ns, waiting_ns, inside_ns.saturating_sub(waiting_ns)]
        });
        let [outside_ns, waiting_ns, other_ns] = [0, 1, 2].map(|part| theirs[part].saturating_sub(own[part]));
        let blamed_ns = outside_ns + waiting_ns;
        let (own_ns, passed_on_ns) = match recent.last() {
            Some((first, _)) if self.longer_before_ns(rank, awaited, &self.wait(awaited, *first)) < outside_ns => {
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

    /// How much longer than `rank` the awaited rank was outside operations before one of its own waits, since it last
    /// met the rank it waited for then. Had it been faster, that wait would have been longer.
    fn longer_before_ns(&self, rank: usize, awaited: usize, its: &Wait) -> u64 {
        let (awaited_rank, other) = (small(awaited), self.tables.job_rank(its.other));
        let since_ns = self.messages.last_met_ns(self.tables, (awaited_rank, its.start_ns), (other, its.start_ns));
        let outside = |rank: usize| its.start_ns - since_ns - self.messages.inside[rank].within(since_ns, its.start_ns);
        outside(awaited).saturating_sub(outside(rank))
    }
}

fn share(ns: u64, part_ns: u64, all_ns: u64) -> u64 {
    let share = u128::from(ns) * u128::from(part_ns) / u128::from(all_ns.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
