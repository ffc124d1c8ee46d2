//! What the time of ranks in collectives went into, and who is to blame for waiting.

use super::classes::Classes;
use super::instances::{Instances, Split};
use crate::report::Budget;
use crate::tables::{NONE, Tables, large, small};

/// A part of the time of a rank: no two of a rank overlap, so that operations that share a kernel count once.
#[derive(Clone, Copy, Debug)]
struct Part {
    instance: u32,
    class: u32,
    budget: Budget,
    /// Of the waiting, what would not have been if the last rank had come with the last but one.
    alone_ns: u64,
}

/// What time went into, by rank, by class and by whom it was waited for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) total: Budget,
    ranks: Vec<Budget>,
    classes: Vec<Budget>,
    /// For each rank of the job what others waited for it, and the same alone.
    caused: Vec<(u64, u64)>,
    /// For each instance the waiting in it.
    instances: Vec<u64>,
}

impl Waiting {
    pub(super) fn of(tables: &Tables, instances: &Instances, classes: &Classes) -> Self {
        let ranks = tables.members.job_ranks.len();
        let mut found = Self {
            ranks: vec![Budget::default(); ranks],
            classes: vec![Budget::default(); classes.all.len()],
            caused: vec![(0, 0); ranks],
            instances: vec![0; instances.all.len()],
            ..Self::default()
        };
        let mut of_rank: Vec<Vec<u32>> = vec![Vec::new(); ranks];
        for row in (0..small(tables.operations.len())).filter(|row| instances.of_operation(*row).is_some()) {
            let at = large(row);
            let is_measured = tables.operations.timing[at].is_some_and(|timing| timing.is_measured());
            if is_measured && !tables.operations.is_unfinished[at] {
                let member = tables.operations.member[at];
                of_rank[large(tables.members.row(member).job_rank)].push(row);
            }
        }
        for (rank, rows) in of_rank.into_iter().enumerate() {
            parts(tables, instances, classes, rows, |part| found.add(tables, instances, rank, &part));
        }
        found
    }

    fn add(&mut self, tables: &Tables, instances: &Instances, rank: usize, part: &Part) {
        add(&mut self.total, part.budget);
        add(&mut self.ranks[rank], part.budget);
        if let Some(class) = self.classes.get_mut(large(part.class)) {
            add(class, part.budget);
        }
        self.instances[large(part.instance)] += part.budget.waiting_ns;
        if let Some(last) = instances.all[large(part.instance)].last {
            let caused = &mut self.caused[large(tables.members.row(last).job_rank)];
            caused.0 += part.budget.waiting_ns;
            caused.1 += part.alone_ns;
        }
    }

    pub(super) fn of_rank(&self, rank: usize) -> Budget {
        self.ranks.get(rank).copied().unwrap_or_default()
    }

    pub(super) fn of_classes(&self) -> &[Budget] {
        &self.classes
    }

    /// What others waited for a rank, and what they would not have if it had come with the last but one.
    pub(super) fn caused_by(&self, rank: usize) -> (u64, u64) {
        self.caused.get(rank).copied().unwrap_or_default()
    }

    /// The waiting in an instance, summed over its ranks.
    pub(super) fn in_instance(&self, instance: usize) -> u64 {
        self.instances.get(instance).copied().unwrap_or(0)
    }
}

fn add(sum: &mut Budget, part: Budget) {
    sum.operations_ns += part.operations_ns;
    sum.waiting_ns += part.waiting_ns;
    sum.transfer_ns += part.transfer_ns;
    sum.unclear_ns += part.unclear_ns;
}

/// The time of a rank, cut at its operations.
fn parts(tables: &Tables, instances: &Instances, classes: &Classes, mut rows: Vec<u32>, mut each: impl FnMut(Part)) {
    let operations = &tables.operations;
    rows.sort_unstable_by_key(|row| (operations.start_ns[large(*row)], *row));
    let mut covered_ns = 0;
    for row in rows {
        let (start_ns, stop_ns) = (operations.start_ns[large(row)].max(covered_ns), operations.stop_ns[large(row)]);
        let Some(number) = instances.of_operation(row).filter(|_| stop_ns > start_ns) else {
            continue;
        };
        covered_ns = stop_ns;
        let instance = &instances.all[large(number)];
        let before = |until_ns: u64| until_ns.clamp(start_ns, stop_ns) - start_ns;
        let operations_ns = stop_ns - start_ns;
        let (waiting_ns, unclear_ns) = match instance.split(tables, row) {
            Split::Waits(until_ns) => (before(until_ns), 0),
            Split::Unclear(until_ns) => (0, before(until_ns)),
        };
        let alone_ns = waiting_ns.saturating_sub(before(instance.second_ns));
        let transfer_ns = operations_ns - waiting_ns - unclear_ns;
        let budget = Budget { operations_ns, waiting_ns, transfer_ns, unclear_ns };
        each(Part { instance: number, class: classes.number(tables, row).unwrap_or(NONE), budget, alone_ns });
    }
}
