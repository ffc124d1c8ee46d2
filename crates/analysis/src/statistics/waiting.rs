//! How ranks spent their time in operations.

use std::collections::BTreeMap;

use crate::read::archive::Trace;
use crate::read::{NONE, Tables};
use crate::results::Budget;
use crate::statistics::collectives::{Classes, Filter, Instances, Split};
use crate::statistics::messages::{Messages, RankWaits, Wait, WaitsIn};
use crate::statistics::numeric::subtract;
use crate::statistics::program::Steps;
use nccl_events::ids::index as large;

/// A part of a rank's time: parts of a rank do not overlap, so operations that share a kernel count once.
#[derive(Clone, Copy, Debug)]
struct TimePart {
    /// `None` if the operation is not compared across ranks.
    instance: Option<u32>,
    class: u32,
    budget: Budget,
    row: u32,
}

/// Sums over the ranks of an instance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InstanceTime {
    /// Excludes time charged to other operations in the same kernel.
    pub(super) time_ns: u64,
    pub(super) waiting_ns: u64,
}

/// Time by rank, by class and by the rank that was waited for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Sum over all ranks, without warm-up. Every share of lost time is relative to its `operations_ns`.
    pub(super) total: Budget,
    /// Time in the first collectives of communicators, which is in none of the other times but those of the program.
    pub(super) warm_up: Budget,
    pub(super) ranks: Vec<Budget>,
    pub(super) classes: Vec<Budget>,
    /// For each rank, in ns: how long others waited in collectives to which it came last.
    pub(super) caused: Vec<u64>,
    pub(super) instances: Vec<InstanceTime>,
    /// Keyed by communicator, sender and receiver: ns that the receiver waited for the sender, and vice versa.
    pub(super) pairs: BTreeMap<(u32, u32, u32), (u64, u64)>,
    /// Indexed by the path of ranges around the call ([`Tables::paths`]). The last element is for calls without ranges.
    pub(super) paths: Vec<Budget>,
    /// By step of the program.
    pub(super) steps: Vec<Budget>,
}

impl Waiting {
    pub(super) fn new(
        trace: &Trace,
        tables: &Tables,
        filter: &Filter,
        instances: &Instances,
        messages: &Messages,
        classes: &Classes,
        steps: &Steps,
    ) -> Self {
        let ranks = tables.members.job_ranks.len();
        let mut found = Self {
            ranks: vec![Budget::default(); ranks],
            classes: vec![Budget::default(); classes.all.len()],
            caused: vec![0; ranks],
            instances: vec![InstanceTime::default(); instances.all.len()],
            paths: vec![Budget::default(); tables.paths.texts().len() + 1],
            steps: vec![Budget::default(); steps.count()],
            ..Self::default()
        };
        let mut rank_rows: Vec<MeasuredRows> = Vec::new();
        rank_rows.resize_with(ranks, MeasuredRows::default);
        for (row, operation) in (0..).zip(tables.operations.rows()) {
            if operation.is_known() {
                let rows = &mut rank_rows[large(tables.job_rank(row))];
                if instances.instance_of_operation(row).is_some() {
                    rows.compared.push(row);
                } else if filter.wants(trace, &tables.members, &operation) {
                    rows.others.push(row);
                }
            }
        }
        let at_once = rayon::current_num_threads().max(1);
        let mut in_messages = Vec::new().into_iter();
        for (rank, rows) in rank_rows.into_iter().enumerate() {
            if rank % at_once == 0 {
                in_messages = messages.waits(tables, rank..ranks.min(rank + at_once)).into_iter();
            }
            let message_waits = in_messages.next().unwrap_or_default();
            let waits = rows.parts(tables, instances, classes, messages, message_waits, |part| {
                found.add(tables, instances, rank, &part);
                found.add_to_program(tables, steps, rank, &part);
            });
            waits.iter().for_each(|wait| found.add_pair(tables, wait));
        }
        found
    }

    /// Sum over all ranks, with warm-up.
    pub(super) fn all(&self) -> Budget {
        let mut all = self.total;
        all += self.warm_up;
        all
    }

    fn add_pair(&mut self, tables: &Tables, wait: &Wait) {
        let is_send = wait.waits_in == WaitsIn::Send;
        let operation = tables.operations.row(large(wait.row));
        let member = tables.members.row(operation.member);
        let ends = if is_send { (member.rank, operation.partner) } else { (operation.partner, member.rank) };
        let pair = self.pairs.entry((member.communicator, ends.0, ends.1)).or_default();
        let waited = if is_send { &mut pair.1 } else { &mut pair.0 };
        *waited += wait.stop_ns - wait.start_ns;
    }

    fn add_to_program(&mut self, tables: &Tables, steps: &Steps, rank: usize, part: &TimePart) {
        // The last element is for operations outside of ranges.
        let path = large(tables.operations.path[large(part.row)]).min(self.paths.len() - 1);
        self.paths[path] += part.budget;
        let event = tables.operations.event.get(large(part.row));
        let called_ns = tables.enqueued.get(&event).map(|enqueued| enqueued.at_ns);
        let called_ns = called_ns.unwrap_or(tables.operations.start_ns[large(part.row)]);
        if let Some(step) = steps.at(rank, called_ns) {
            self.steps[step] += part.budget;
        }
    }

    fn add(&mut self, tables: &Tables, instances: &Instances, rank: usize, part: &TimePart) {
        if let Some(number) = part.instance {
            let instance_time = &mut self.instances[large(number)];
            instance_time.time_ns += part.budget.operations_ns;
            instance_time.waiting_ns += part.budget.waiting_ns;
            let instance = &instances.all[large(number)];
            if instance.is_warm_up {
                self.warm_up += part.budget;
                return;
            }
            if let Some(last) = instance.last {
                self.caused[large(tables.members.row(last).job_rank)] += part.budget.waiting_ns;
            }
        }
        self.total += part.budget;
        self.ranks[rank] += part.budget;
        if let Some(class) = self.classes.get_mut(large(part.class)) {
            *class += part.budget;
        }
    }
}

/// The operations of a rank that were measured to their end.
#[derive(Debug, Default)]
struct MeasuredRows {
    /// Collectives that were matched across their ranks.
    compared: Vec<u32>,
    others: Vec<u32>,
}

impl MeasuredRows {
    /// Splits a rank's time in operations into parts, one per operation. Overlapping time goes to compared operations
    /// first. The parts add up to the union of all operations. Returns the waits in messages.
    fn parts(
        mut self,
        tables: &Tables,
        instances: &Instances,
        classes: &Classes,
        messages: &Messages,
        message_waits: RankWaits,
        mut each: impl FnMut(TimePart),
    ) -> Vec<Wait> {
        let operations = &tables.operations;
        let by_start = |rows: &mut Vec<u32>| {
            rows.sort_unstable_by_key(|row| (operations.start_ns[large(*row)], *row));
        };
        by_start(&mut self.compared);
        by_start(&mut self.others);
        let class = |row| classes.number(tables, row).unwrap_or(NONE);
        let mut taken = OccupiedTime::default();
        let mut covered_ns = 0;
        for row in self.compared {
            let (start_ns, stop_ns) = (operations.start_ns[large(row)].max(covered_ns), operations.stop_ns[large(row)]);
            let Some(number) = instances.instance_of_operation(row).filter(|_| stop_ns > start_ns) else {
                continue;
            };
            covered_ns = stop_ns;
            taken.push(start_ns, stop_ns);
            let instance = &instances.all[large(number)];
            let before = |until_ns: u64| until_ns.clamp(start_ns, stop_ns) - start_ns;
            let operations_ns = stop_ns - start_ns;
            let (waiting_ns, unclear_ns) = match instance.split(tables, row) {
                Split::Waits(until_ns) => (before(until_ns), 0),
                Split::Unclear(until_ns) => (0, before(until_ns)),
            };
            let transfer_ns = operations_ns - waiting_ns - unclear_ns;
            let budget = Budget { operations_ns, waiting_ns, transfer_ns, unclear_ns, not_compared_ns: 0 };
            each(TimePart { instance: Some(number), class: class(row), budget, row });
        }
        let in_messages: Vec<Wait> = message_waits.waits.iter().flat_map(|wait| apart(wait, &taken.all)).collect();
        let mut waiting = OccupiedTime::new(in_messages.iter().map(|wait| (wait.start_ns, wait.stop_ns)).collect());
        let mut unclear = OccupiedTime::new(subtract(&message_waits.unclear, &taken.all));
        covered_ns = 0;
        for row in self.others {
            let (start_ns, stop_ns) = (operations.start_ns[large(row)].max(covered_ns), operations.stop_ns[large(row)]);
            if stop_ns > start_ns {
                covered_ns = stop_ns;
                let operations_ns = taken.free_ns(start_ns, stop_ns);
                let [waiting_ns, unclear_ns] =
                    [&mut waiting, &mut unclear].map(|time| stop_ns - start_ns - time.free_ns(start_ns, stop_ns));
                let budget = Budget { operations_ns, waiting_ns, unclear_ns, ..Budget::default() };
                let rest_ns = operations_ns - waiting_ns - unclear_ns;
                let budget = if messages.pairing.is_message(row) {
                    Budget { transfer_ns: rest_ns, ..budget }
                } else {
                    Budget { not_compared_ns: rest_ns, ..budget }
                };
                each(TimePart { instance: None, class: class(row), budget, row });
            }
        }
        in_messages
    }
}

/// The parts of a wait outside the `taken` intervals.
fn apart(wait: &Wait, taken: &[(u64, u64)]) -> impl Iterator<Item = Wait> + use<> {
    let first = taken.partition_point(|(_, end_ns)| *end_ns <= wait.start_ns);
    let behind = taken[first..].partition_point(|(begin_ns, _)| *begin_ns < wait.stop_ns);
    let left = subtract(&[(wait.start_ns, wait.stop_ns)], &taken[first..first + behind]);
    let wait = *wait;
    left.into_iter().map(move |(start_ns, stop_ns)| Wait { start_ns, stop_ns, ..wait })
}

/// Intervals that other parts occupy, sorted and disjoint.
#[derive(Debug, Default)]
struct OccupiedTime {
    all: Vec<(u64, u64)>,
    /// Intervals before this index end before the range last asked for.
    at: usize,
}

impl OccupiedTime {
    const fn new(all: Vec<(u64, u64)>) -> Self {
        Self { all, at: 0 }
    }

    fn push(&mut self, start_ns: u64, stop_ns: u64) {
        match self.all.last_mut() {
            Some((_, end_ns)) if *end_ns == start_ns => *end_ns = stop_ns,
            _ => self.all.push((start_ns, stop_ns)),
        }
    }

    /// How much of a range is free; each call's range begins after the previous one's.
    fn free_ns(&mut self, start_ns: u64, stop_ns: u64) -> u64 {
        self.at += self.all[self.at..].partition_point(|(_, end_ns)| *end_ns <= start_ns);
        let over = self.all[self.at..].iter().take_while(|(begin_ns, _)| *begin_ns < stop_ns);
        let taken_ns: u64 = over.map(|(begin_ns, end_ns)| stop_ns.min(*end_ns) - start_ns.max(*begin_ns)).sum();
        stop_ns - start_ns - taken_ns
    }
}

#[cfg(test)]
mod tests {
    use super::OccupiedTime;

    #[test]
    fn what_is_taken_is_not_free() {
        let mut taken = OccupiedTime::default();
        for (start_ns, stop_ns) in [(10, 20), (20, 25), (40, 50)] {
            taken.push(start_ns, stop_ns);
        }
        assert_eq!(taken.all, [(10, 25), (40, 50)]);
        let free = [(0, 12), (12, 20), (22, 45), (45, 60), (70, 80)].map(|(from, to)| taken.free_ns(from, to));
        assert_eq!(free, [10, 0, 15, 10, 10]);
    }
}
