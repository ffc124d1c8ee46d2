//! Pairs sends with receives, and finds which rank waits for which, in messages and in collectives.
//!
//! ```text
//!  Pairing      the n-th send of a rank to another is the n-th receive there
//!   └► WaitEnd    until when each end waits for the other, or that this is unknown
//!       └► RankWaits   the same per rank over time: a kernel waits for the last of its partners
//!           └► Blame      the rank at the end of a chain of waits, which does not wait itself
//! ```

use std::collections::{BTreeMap, BinaryHeap};
use std::iter;
use std::ops::Range;

use crate::read::archive::{Trace, in_parallel};
use crate::read::{NO_SEQUENCE, NONE, Operations, Tables};
use crate::statistics::collectives::{Filter, Instances};
use crate::statistics::numeric::{DisjointIntervals, subtract, union};
use nccl_events::collective::{Flow, Function};
use nccl_events::ids::{index as large, index_u32 as small};

/// For one wait, at most this many of the awaited rank's most recent waits are examined. Earlier ones are ignored.
const MOST: usize = 64;
/// Number of waits whose shares all cores compute at a time.
const BATCH: usize = 1 << 13;
/// A wait is shared among at most this many late ranks, the last to arrive.
const MOST_MISSING: usize = 4;

/// How long ranks waited in receives, in sends and in collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitSums {
    pub(crate) receives_ns: u64,
    pub(crate) sends_ns: u64,
    pub(crate) collectives_ns: u64,
}

impl WaitSums {
    pub(crate) const fn all_ns(&self) -> u64 {
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
pub(crate) struct WaitsForRank {
    pub(crate) sum: WaitSums,
    /// How long each rank of the job waited for this one; only ranks that waited.
    pub(crate) by: BTreeMap<u32, u64>,
    /// This rank's operations that others waited for, sorted by start.
    pub(crate) operations: Vec<AwaitedOperation>,
}

impl WaitsForRank {
    /// Adds waiting for an operation. Waits for the same operation mostly arrive one after another, and are summed.
    fn add(&mut self, more: AwaitedOperation) {
        match self.operations.last_mut().filter(|operation| operation.came_ns == more.came_ns) {
            Some(known) => known.add(&more),
            None => self.operations.push(more),
        }
    }

    fn arrange(&mut self) {
        self.operations.sort_by_key(|operation| operation.came_ns);
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
pub(crate) struct AwaitedOperation {
    pub(crate) came_ns: u64,
    pub(crate) row: u32,
    /// How long others waited.
    pub(crate) ns: u64,
    /// When the first of the others began to wait, in ns.
    pub(crate) since_ns: u64,
}

/// Which rank ultimately caused each wait.
///
/// Since the waiting rank and the awaited one last met, the awaited rank was longer outside operations, waited longer,
/// or transferred longer; the differences add up to the wait. No rank is blamed for longer transfer. Blame for longer
/// waiting is passed on to the ranks that the awaited rank waited for. The awaited rank itself is blamed for its longer
/// time outside. In a pipeline, a stage may have been outside for as much longer before it waited, too. A faster stage
/// would have waited instead, so both parts are then charged where the larger one belongs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blame {
    /// By rank of the job.
    pub(crate) ranks: Vec<WaitsForRank>,
    /// Keyed by communicator, sender and receiver: ns that the receiver waited for the sender, and vice versa.
    pub(crate) pairs: BTreeMap<(u32, u32, u32), (u64, u64)>,
}

impl Blame {
    /// `waits` holds each job rank's waits. Several `late` ranks share a wait.
    pub(crate) fn new(
        tables: &Tables,
        instances: &Instances,
        messages: &Messages,
        waits: &[Waits],
        late: &[bool],
    ) -> Self {
        let mut found = Self { ranks: vec![WaitsForRank::default(); waits.len()], ..Self::default() };
        let times = WaitOrigins { tables, instances, messages, waits };
        // Keyed by rank and index of its wait: ns of blame passed on to that wait, by waiting rank and kind of wait.
        let mut passed_on: BTreeMap<(usize, usize), BTreeMap<(u32, WaitsIn), u64>> = BTreeMap::new();
        let last = |rank: usize, number: usize| {
            let at = number.checked_sub(1)?;
            Some((waits[rank].times.at(at).1, rank, at))
        };
        // Latest wait first, because a wait passes its blame on to earlier ones.
        let mut next: BinaryHeap<_> = (0..waits.len()).filter_map(|rank| last(rank, waits[rank].times.len())).collect();
        let shared = |waits: &[(u64, usize, usize)]| {
            let mut missing = MissingRanks { tables, instances, late, of_communicator: BTreeMap::new() };
            let shared = waits.iter().map(|(_, rank, at)| {
                let wait = times.wait(*rank, *at);
                let shares = missing.shares(&wait).into_iter().map(|(wait, ns)| (wait, ns, times.parts(*rank, &wait)));
                (*rank, *at, wait, shares.collect::<Vec<(Wait, u64, WaitParts)>>())
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
                    let own_ns = parts.share_of(ns, parts.own_ns);
                    if own_ns > 0 && *waits != awaited {
                        let blamed = &mut found.ranks[large(awaited)];
                        blamed.sum.add(*waits_in, own_ns);
                        *blamed.by.entry(*waits).or_default() += own_ns;
                        let since_ns = wait.start_ns;
                        blamed.add(AwaitedOperation { came_ns, row: wait.other, ns: own_ns, since_ns });
                    }
                    for (earlier, part_ns) in &parts.waits {
                        let part_ns = parts.share_of(ns, *part_ns);
                        if part_ns > 0 {
                            let to = passed_on.entry((large(awaited), *earlier)).or_default();
                            *to.entry((*waits, *waits_in)).or_default() += part_ns;
                        }
                    }
                }
            }
        }
        found.ranks.iter_mut().for_each(WaitsForRank::arrange);
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

/// Finds the late ranks that a collective waited for.
struct MissingRanks<'a> {
    tables: &'a Tables,
    instances: &'a Instances,
    late: &'a [bool],
    /// For each communicator, the arrivals of late ranks in the instance that was asked for last. Waits in one instance
    /// follow each other.
    of_communicator: BTreeMap<u32, (u32, Vec<(u64, u32)>)>,
}

impl MissingRanks<'_> {
    /// Splits a wait among the late ranks, each part up to the arrival of one of them. Ranks that are late at the same
    /// time share equally. Only the last [`MOST_MISSING`] arrivals get a share.
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
            // If data flows from or to a root, only one rank is awaited.
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

struct WaitOrigins<'a> {
    tables: &'a Tables,
    instances: &'a Instances,
    messages: &'a Messages,
    waits: &'a [Waits],
}

/// The parts of a wait, in ns; all zero if no rank is to blame.
#[derive(Default)]
struct WaitParts {
    /// The part that the awaited rank itself is blamed for.
    own_ns: u64,
    /// Blame that is passed on: the index of a wait of the awaited rank, and its part.
    waits: Vec<(usize, u64)>,
    /// The whole wait, including longer transfer, which no rank is blamed for.
    all_ns: u64,
}

impl WaitParts {
    fn share_of(&self, ns: u64, part_ns: u64) -> u64 {
        share(ns, part_ns, self.all_ns)
    }
}

impl WaitOrigins<'_> {
    fn wait(&self, rank: usize, at: usize) -> Wait {
        self.waits[rank].at(self.instances, &self.messages.pairing, at)
    }

    fn parts(&self, rank: usize, wait: &Wait) -> WaitParts {
        let awaited = large(self.tables.job_rank(wait.other));
        let ranks = (small(rank), small(awaited));
        if !matches!(wait.waits_in, WaitsIn::Collective(_)) && self.messages.is_first(ranks, wait.start_ns) {
            return WaitParts::default();
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
        let own_waiting_ns = self.waits[rank].times.covered_ns(since_ns, wait.start_ns);
        let theirs = (awaited, wait.stop_ns, recent_ns);
        let own = (rank, wait.start_ns, own_waiting_ns);
        let [theirs, own] = [theirs, own].map(|(rank, until_ns, waiting_ns)| {
            let inside_ns = self.messages.inside[rank].covered_ns(since_ns, until_ns);
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
        WaitParts {
            own_ns,
            waits: recent.into_iter().map(|(at, ns)| (at, share(passed_on_ns, ns, recent_ns))).collect(),
            all_ns: blamed_ns + other_ns,
        }
    }

    /// By how many ns the awaited rank was outside operations for longer than `rank` before its own wait `its`, since
    /// it last met the rank that it then waited for. A faster rank would have had a longer wait instead.
    fn longer_before_ns(&self, rank: usize, awaited: usize, its: &Wait) -> u64 {
        let (awaited_rank, other) = (small(awaited), self.tables.job_rank(its.other));
        let since_ns = self.messages.last_met_ns(self.tables, (awaited_rank, its.start_ns), (other, its.start_ns));
        let outside =
            |rank: usize| its.start_ns - since_ns - self.messages.inside[rank].covered_ns(since_ns, its.start_ns);
        outside(awaited).saturating_sub(outside(rank))
    }
}

fn share(ns: u64, part_ns: u64, all_ns: u64) -> u64 {
    let share = u128::from(ns) * u128::from(part_ns) / u128::from(all_ns.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitsIn {
    Receive,
    Send,
    Collective(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    pub(crate) row: u32,
    /// The row of the other end, or of the rank that came last.
    pub(crate) other: u32,
    pub(crate) waits_in: WaitsIn,
}

/// The waits of a rank, sorted and disjoint. Takes half of the memory of [`Wait`]s, whose other fields follow from the
/// waiting operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    pub(super) times: DisjointIntervals,
    rows: Vec<u32>,
}

impl Waits {
    pub(crate) fn from_waits(waits: &[Wait]) -> Self {
        let times: Vec<(u64, u64)> = waits.iter().map(|wait| (wait.start_ns, wait.stop_ns)).collect();
        Self { times: DisjointIntervals::new(&times), rows: waits.iter().map(|wait| wait.row).collect() }
    }

    pub(super) fn at(&self, instances: &Instances, pairing: &Pairing, at: usize) -> Wait {
        let ((start_ns, stop_ns), row) = (self.times.at(at), self.rows[at]);
        let (other, waits_in) = match instances.instance_of_operation(row) {
            Some(number) => (instances.all[large(number)].awaited, WaitsIn::Collective(number)),
            None if pairing.is_send(row) => (pairing.other(row).unwrap_or(NONE), WaitsIn::Send),
            None => (pairing.other(row).unwrap_or(NONE), WaitsIn::Receive),
        };
        Wait { start_ns, stop_ns, row, other, waits_in }
    }
}

/// A rank's waits in messages. The operations of a kernel count as one, which waits for the last of its peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankWaits {
    /// Sorted and disjoint.
    pub(crate) waits: Vec<Wait>,
    /// Periods in which it is unknown whether the rank waited; disjoint from `waits`.
    pub(crate) unclear: Vec<(u64, u64)>,
}

impl RankWaits {
    pub(super) fn new(tables: &Tables, pairing: &Pairing, mut rows: Vec<u32>) -> Self {
        let operations = &tables.operations;
        let kernel = |row: &u32| {
            let at = large(*row);
            (operations.start_ns[at], operations.stop_ns[at], operations.member[at])
        };
        rows.sort_unstable_by_key(|row| (kernel(row), *row));
        let mut waits: Vec<Wait> = Vec::new();
        let mut unclear: Vec<(u64, u64)> = Vec::new();
        for rows in rows.chunk_by(|a, b| kernel(a) == kernel(b)) {
            let mut last: Option<Wait> = None;
            let mut unclear_ns = 0;
            for row in rows {
                let (start_ns, end_ns, _) = kernel(row);
                match WaitEnd::new(tables, pairing, *row, rows.len() == 1) {
                    WaitEnd::Never => {}
                    WaitEnd::Unclear(until_ns) => unclear_ns = until_ns.min(end_ns).max(unclear_ns),
                    WaitEnd::Other(until_ns) => {
                        let stop_ns = until_ns.min(end_ns);
                        let waits_in = if pairing.is_send(*row) { WaitsIn::Send } else { WaitsIn::Receive };
                        let is_later = last.is_none_or(|last| last.stop_ns < stop_ns);
                        if let Some(other) = pairing.other(*row).filter(|_| is_later) {
                            last = Some(Wait { start_ns, stop_ns, row: *row, other, waits_in });
                        }
                    }
                }
            }
            if let Some((start_ns, ..)) = rows.first().map(kernel).filter(|(start_ns, ..)| unclear_ns > *start_ns) {
                unclear.push((start_ns, unclear_ns));
            }
            waits.extend(last);
        }
        let waits = apart(waits);
        let waited: Vec<(u64, u64)> = waits.iter().map(|wait| (wait.start_ns, wait.stop_ns)).collect();
        Self { unclear: subtract(&union(unclear), &waited), waits }
    }
}

/// Makes waits disjoint: of overlapping waits, the one that ends last counts. `waits` are sorted by start.
fn apart(waits: Vec<Wait>) -> Vec<Wait> {
    let mut found: Vec<Wait> = Vec::new();
    for mut wait in waits {
        if let Some(last) = found.last_mut() {
            if wait.stop_ns <= last.stop_ns {
                continue;
            }
            wait.start_ns = wait.start_ns.max(last.start_ns);
            last.stop_ns = last.stop_ns.min(wait.start_ns);
            if last.start_ns == last.stop_ns {
                found.pop();
            }
        }
        found.push(wait);
    }
    found
}

/// Which sends and receives belong together.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// Indexed by row, like `others`. Both are empty without messages.
    ends: Vec<MessageEnd>,
    /// The row of the other end; [`NONE`] if it is unknown.
    others: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageEnd {
    /// Not a send or receive, or part of a collective that is compared as a whole.
    None,
    Send,
    Receive,
}

/// Keyed by communicator, sender and receiver: rows of the sends, and of the receives.
type MessagesByPair = BTreeMap<(u32, u32, u32), [Vec<u32>; 2]>;

impl Pairing {
    /// NCCL matches messages in order. If records are missing, both ranks must have equally many.
    pub(super) fn new(trace: &Trace, tables: &Tables) -> Self {
        let operations = &tables.operations;
        let mut found = Self::default();
        let mut ends = MessagesByPair::new();
        let collectives = Collectives::new(trace, tables);
        for row in 0..small(operations.len()) {
            let operation = operations.row(large(row));
            let is_send = trace.function(operation.function).and_then(Function::is_send);
            let Some(is_send) = is_send.filter(|_| operation.partner != NONE) else {
                continue;
            };
            if collectives.have(operation.member, (operation.start_ns, operation.stop_ns)) {
                continue;
            }
            let member = tables.members.row(operation.member);
            let (from, to) = if is_send { (member.rank, operation.partner) } else { (operation.partner, member.rank) };
            ends.entry((member.communicator, from, to)).or_default()[usize::from(!is_send)].push(row);
            if found.ends.is_empty() {
                found = Self { ends: vec![MessageEnd::None; operations.len()], others: vec![NONE; operations.len()] };
            }
            found.ends[large(row)] = if is_send { MessageEnd::Send } else { MessageEnd::Receive };
        }
        let is_whole = is_whole(trace);
        for [mut sends, mut receives] in ends.into_values() {
            for rows in [&mut sends, &mut receives] {
                rows.sort_unstable_by_key(|row| (operations.start_ns[large(*row)], operations.event.get(large(*row))));
            }
            let bytes = |row: u32| operations.bytes.get(large(row));
            let is_clear = is_whole || sends.len() == receives.len();
            let pairs = sends.into_iter().zip(receives).filter(|_| is_clear);
            // After sizes differ once, later pairs are unreliable.
            for (send, receive) in pairs.take_while(|(send, receive)| bytes(*send) == bytes(*receive)) {
                (found.others[large(send)], found.others[large(receive)]) = (receive, send);
            }
        }
        found
    }

    fn end(&self, row: u32) -> MessageEnd {
        self.ends.get(large(row)).copied().unwrap_or(MessageEnd::None)
    }

    pub(crate) fn is_message(&self, row: u32) -> bool {
        self.end(row) != MessageEnd::None
    }

    pub(super) fn is_send(&self, row: u32) -> bool {
        self.end(row) == MessageEnd::Send
    }

    pub(crate) fn other(&self, row: u32) -> Option<u32> {
        self.others.get(large(row)).copied().filter(|other| *other != NONE)
    }
}

/// Whether the archive contains all messages of every rank, up to its end.
fn is_whole(trace: &Trace) -> bool {
    !trace.statements.missing_data().any(|lack| {
        use nccl_events::schema::Lack::{Beginning, Callbacks, Places, Processes, WhileOff};
        matches!(lack, Callbacks(_) | Processes(_) | Places(_) | Beginning | WhileOff)
    })
}

/// Intervals of collectives made of sends and receives, keyed by member. Their messages are not compared in pairs.
struct Collectives(BTreeMap<u32, Vec<(u64, u64)>>);

impl Collectives {
    fn new(trace: &Trace, tables: &Tables) -> Self {
        let mut found: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for operation in
            tables.operations.rows().filter(|operation| operation.sequence == NO_SEQUENCE && operation.partner == NONE)
        {
            if trace.function(operation.function).and_then(Function::collective).is_some() {
                found.entry(operation.member).or_default().push((operation.start_ns, operation.stop_ns));
            }
        }
        found.values_mut().for_each(|times| times.sort_unstable());
        Self(found)
    }

    fn have(&self, member: u32, (start_ns, stop_ns): (u64, u64)) -> bool {
        self.0.get(&member).is_some_and(|times| {
            let after = times.partition_point(|(begin_ns, _)| *begin_ns <= start_ns);
            after.checked_sub(1).is_some_and(|at| times[at].1 >= stop_ns)
        })
    }
}

/// An archive's sends and receives, compared with their other ends.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) pairing: Pairing,
    /// For each rank of the job, rows of the measured sends and receives that the filter selects.
    rows: Vec<Vec<u32>>,
    /// Times at which both ends of messages between two job ranks had arrived; ascending.
    met: BTreeMap<(u32, u32), Vec<u64>>,
    /// Keyed by member: rows of the operations other than messages, sorted by end.
    others: BTreeMap<u32, Vec<u32>>,
    /// The periods each job rank spent in operations.
    pub(crate) inside: Vec<DisjointIntervals>,
}

impl Messages {
    pub(crate) fn new(trace: &Trace, tables: &Tables, filter: &Filter) -> Self {
        let count = tables.members.job_ranks.len();
        let mut found = Self { pairing: Pairing::new(trace, tables), rows: vec![Vec::new(); count], ..Self::default() };
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            let rank = tables.job_rank(row);
            rows[large(rank)].push(row);
            if !operation.is_known() {
                continue;
            }
            if !found.pairing.is_message(row) {
                found.others.entry(operation.member).or_default().push(row);
                continue;
            }
            let is_known = |row: &u32| tables.operations.row(large(*row)).is_known();
            if let Some(other) = found.pairing.other(row).filter(|_| found.pairing.is_send(row)).filter(is_known) {
                let both_ns = operation.start_ns.max(tables.operations.start_ns[large(other)]);
                found.met.entry(in_order((rank, tables.job_rank(other)))).or_default().push(both_ns);
            }
            if filter.wants(trace, &tables.members, &operation) {
                found.rows[large(rank)].push(row);
            }
        }
        let Operations { start_ns, stop_ns, .. } = &tables.operations;
        found.met.values_mut().for_each(|times| times.sort_unstable());
        found.others.values_mut().for_each(|rows| rows.sort_by_key(|row| stop_ns[large(*row)]));
        let interval = |row: u32| (start_ns[large(row)], stop_ns[large(row)].max(start_ns[large(row)]));
        found.inside =
            in_parallel(rows, |rows| DisjointIntervals::new(&union(rows.into_iter().map(interval).collect())));
        found
    }

    /// The waits in messages of some ranks of the job. To save memory, callers ask for a few ranks at a time.
    pub(crate) fn waits(&self, tables: &Tables, ranks: Range<usize>) -> Vec<RankWaits> {
        in_parallel(&self.rows[ranks], |rows| RankWaits::new(tables, &self.pairing, rows.clone()))
    }

    pub(crate) fn into_pairing(self) -> Pairing {
        self.pairing
    }

    /// Whether two ranks exchanged no message before `before_ns`. NCCL delays the first one by connecting the ranks.
    pub(super) fn is_first(&self, ranks: (u32, u32), before_ns: u64) -> bool {
        self.met.get(&in_order(ranks)).and_then(|times| times.first()).is_none_or(|ns| *ns > before_ns)
    }

    /// When two job ranks last met in a message or a collective, each before the time that is given with it, in ns.
    pub(super) fn last_met_ns(&self, tables: &Tables, a: (u32, u64), b: (u32, u64)) -> u64 {
        let collective = self.last_ends_ns(tables, a, b).map(|ends| ends.0.min(ends.1));
        collective.max(last(self.met.get(&in_order((a.0, b.0))), a.1.min(b.1))).unwrap_or(0)
    }

    /// When the last common collective of two job ranks ended on each, before the time given with it.
    fn last_ends_ns(&self, tables: &Tables, a: (u32, u64), b: (u32, u64)) -> Option<(u64, u64)> {
        let members = |rank: u32| tables.members.job_ranks[large(rank)].members.iter().copied();
        let communicator = |member: u32| tables.members.row(member).communicator;
        let both = members(a.0).flat_map(|a| members(b.0).map(move |b| (a, b)));
        let both = both.filter(|(a, b)| communicator(*a) == communicator(*b));
        let stops = &tables.operations.stop_ns;
        let last_ns = |member: u32, before_ns: u64| {
            let rows = self.others.get(&member)?;
            let ended = rows.partition_point(|row| stops[large(*row)] <= before_ns);
            Some(stops[large(*rows[..ended].last()?)])
        };
        let ends = both
            .filter_map(|(operation_a, operation_b)| Some((last_ns(operation_a, a.1)?, last_ns(operation_b, b.1)?)));
        ends.max_by_key(|ends| ends.0.min(ends.1))
    }
}

/// The last of ascending times that is not after `before_ns`.
fn last(times: Option<&Vec<u64>>, before_ns: u64) -> Option<u64> {
    let times = times.map_or(&[][..], Vec::as_slice);
    times[..times.partition_point(|ns| *ns <= before_ns)].last().copied()
}

const fn in_order((a, b): (u32, u32)) -> (u32, u32) {
    if a < b { (a, b) } else { (b, a) }
}

/// Until when a send or receive waits for its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    Never,
    /// Until the other end arrived.
    Other(u64),
    /// Unknown until this time; `u64::MAX` if the other end was not found.
    Unclear(u64),
}

impl WaitEnd {
    /// For a send or receive. `is_alone`: no other operation shares its kernel.
    pub(crate) fn new(tables: &Tables, pairing: &Pairing, row: u32, is_alone: bool) -> Self {
        let operations = &tables.operations;
        let operation = operations.row(large(row));
        if tables.members.row(operation.member).rank == operation.partner {
            return Self::Never;
        }
        let other = pairing.other(row).filter(|other| operations.row(large(*other)).is_known());
        let known = other.and_then(|other| Some((operations.start_ns[large(other)], tables.error_ns(row, other)?)));
        let Some((other_ns, error_ns)) = known else {
            return Self::Unclear(u64::MAX);
        };
        let is_send = pairing.is_send(row);
        if other_ns <= operation.start_ns {
            Self::Never
        } else if operation.stop_ns.saturating_add(error_ns) < other_ns {
            // A send may end early, into a buffer. A receive cannot end before its sender has arrived.
            if is_send { Self::Never } else { Self::Unclear(u64::MAX) }
        } else if other_ns - operation.start_ns <= error_ns {
            Self::Unclear(other_ns)
        } else if is_send && (!is_alone || operation.stop_ns <= other_ns.saturating_add(error_ns)) {
            // The data may have gone into a buffer: another operation of the kernel may have ended later, or the clocks
            // cannot tell.
            Self::Unclear(other_ns)
        } else {
            Self::Other(other_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_overlap_count_once() {
        let wait = |start_ns, stop_ns, other| Wait { start_ns, stop_ns, row: 0, other, waits_in: WaitsIn::Receive };
        let all = vec![wait(0, 10, 1), wait(2, 8, 2), wait(4, 20, 3), wait(30, 31, 4), wait(30, 35, 5)];
        assert_eq!(apart(all), [wait(0, 4, 1), wait(4, 20, 3), wait(30, 35, 5)]);
    }
}
