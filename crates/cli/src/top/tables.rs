//! From a snapshot to tables.

use std::collections::BTreeMap;

use live::{Operation, Process, ProcessState, Rank, Snapshot};

use crate::sheet::{Cell, Sheet};
use crate::units::time;

/// A rank of a communicator.
type Member = (usize, u32);

/// Sums at the beginning of the interval.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// How often a rank was last, and what it caused.
    ranks: BTreeMap<Member, [u64; 2]>,
    /// What proxies waited for: GPU, peer, network.
    proxies: BTreeMap<Member, [u64; 3]>,
}

impl Before {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let ranks = snapshot.ranks.iter().map(|it| ((it.communicator, it.rank), [it.last, it.caused_waiting_ns]));
        let proxies = snapshot.proxies.iter();
        let proxies = proxies.map(|it| ((it.communicator, it.rank), [it.gpu_wait_ns, it.peer_wait_ns, it.network_ns]));
        Self { ranks: ranks.collect(), proxies: proxies.collect() }
    }
}

/// A snapshot, and what was before.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) now: &'a Snapshot,
    pub(super) before: &'a Before,
    /// Only this communicator.
    pub(super) only: Option<usize>,
}

impl<'a> View<'a> {
    /// A line for each communicator, in their order.
    pub(super) fn communicators(self) -> Sheet {
        let columns =
            ["communicator", "ranks", "oldest_open", "ops_per_s", "busbw", "last", "waiting", "function", "algbw"];
        let mut sheet = Sheet::new("communicators", &columns);
        for (index, communicator) in self.now.communicators.iter().enumerate() {
            let view = Self { only: Some(index), ..self };
            let ranks: Vec<&Rank> = view.ranks().collect();
            let operations: Vec<&Operation> = view.operations().collect();
            let oldest = ranks.iter().filter_map(|it| Some((it.oldest.as_ref()?, it)));
            let oldest = oldest.min_by_key(|((_, since_ns), _)| *since_ns);
            let last = ranks.iter().map(|it| (view.since(it), it.rank)).max().filter(|(since, _)| since[0] > 0);
            let most = most(&operations);
            let class = |it: &&&Operation| most.is_some_and(|most| key(it) == key(most));
            let of_class: Vec<&Operation> = operations.iter().filter(class).copied().collect();
            let (here, all) = (communicator.here, communicator.ranks);
            sheet.rows.push(vec![
                text(&communicator.name),
                text(if here == all { all.to_string() } else { format!("{here}/{all}") }),
                oldest.map_or(Cell::None, |((function, since_ns), rank)| {
                    text(format!("{} {function}", self.age(rank, *since_ns)))
                }),
                self.per_second(operations.iter().map(|it| it.window.count).sum()),
                rate(&of_class, |it| it.window.busbw),
                last.map_or(Cell::None, |(since, rank)| text(format!("rank {rank}: {}", since[0]))),
                some_time(ranks.iter().map(|it| view.since(it)[1]).sum()),
                most.map_or(Cell::None, |it| text(&it.function)),
                rate(&of_class, |it| it.window.algbw),
            ]);
        }
        sheet
    }

    /// A line for each rank.
    pub(super) fn ranks_table(self) -> Sheet {
        let columns = [
            "rank",
            "state",
            "open_for",
            "oldest_open",
            "ops_per_s",
            "busbw",
            "last",
            "caused",
            "gpu_wait",
            "peer_wait",
            "network",
            "idle",
            "process",
            "communicator",
        ];
        let mut sheet = Sheet::new("ranks", &columns);
        let proxies = self.now.proxies.iter();
        let proxies: BTreeMap<Member, _> =
            proxies.map(|it| ((it.communicator, it.rank), [it.gpu_wait_ns, it.peer_wait_ns, it.network_ns])).collect();
        let mut operations: BTreeMap<Member, Vec<&Operation>> = BTreeMap::new();
        for operation in self.operations() {
            operations.entry((operation.communicator, operation.rank)).or_default().push(operation);
        }
        let mut ranks: Vec<&Rank> = self.ranks().collect();
        ranks.sort_by_key(|it| (it.communicator, it.rank));
        for rank in ranks {
            let member = (rank.communicator, rank.rank);
            let process = self.now.processes.get(rank.process);
            let operations = operations.get(&member).map_or(&[][..], Vec::as_slice);
            let most = most(operations);
            let [last, caused_ns] = self.since(rank);
            let before = self.before.proxies.get(&member).copied().unwrap_or_default();
            let waits = proxies.get(&member).map(|now| difference(*now, before)).unwrap_or_default();
            let share = |part: u64| match waits.iter().sum() {
                0 => Cell::None,
                whole => Cell::Share(float(part) / float(whole)),
            };
            let since = |since_ns: u64| Cell::Time(float(self.until_ns(rank).saturating_sub(since_ns)));
            sheet.rows.push(vec![
                Cell::Count(rank.rank.into()),
                process.map_or(Cell::None, |it| text(state(it))),
                rank.oldest.as_ref().map_or(Cell::None, |(_, since_ns)| since(*since_ns)),
                rank.oldest.as_ref().map_or(Cell::None, |(function, _)| text(function)),
                self.per_second(operations.iter().map(|it| it.window.count).sum()),
                most.and_then(|it| it.window.busbw).map_or(Cell::None, Cell::Rate),
                if last > 0 { Cell::Count(last) } else { Cell::None },
                some_time(caused_ns),
                share(waits[0]),
                share(waits[1]),
                share(waits[2]),
                rank.last_event_ns.filter(|_| !rank.is_finalized).map_or(Cell::None, since),
                process.map_or(Cell::None, |it| text(&it.part)),
                text(self.name(rank.communicator)),
            ]);
        }
        sheet
    }

    /// A line for each class of operations: counts and bytes since each process began, the rest of the interval.
    pub(super) fn operations_table(self) -> Sheet {
        let columns = [
            "function",
            "size",
            "count",
            "bytes",
            "mean",
            "busbw",
            "ops_per_s",
            "algbw",
            "timing",
            "algorithm",
            "communicator",
        ];
        let mut sheet = Sheet::new("operations, counted on every rank; sizes from this power of two on", &columns);
        let mut classes: BTreeMap<_, Vec<&Operation>> = BTreeMap::new();
        for operation in self.operations() {
            classes.entry((operation.communicator, key(operation))).or_default().push(operation);
        }
        for ((communicator, (function, size, timing, algorithm)), class) in classes {
            let sum = |get: fn(&Operation) -> u64| class.iter().map(|it| get(it)).sum::<u64>();
            let ended = sum(|it| it.window.count);
            sheet.rows.push(vec![
                text(function),
                Cell::Bytes(size),
                Cell::Count(sum(|it| it.count)),
                Cell::Bytes(sum(|it| it.bytes)),
                match ended {
                    0 => Cell::None,
                    ended => Cell::Time(float(sum(|it| it.window.duration_ns)) / float(ended)),
                },
                rate(&class, |it| it.window.busbw),
                self.per_second(ended),
                rate(&class, |it| it.window.algbw),
                text(timing),
                text(algorithm),
                text(self.name(communicator)),
            ]);
        }
        sheet
    }

    /// A line for each process: how far it is read, and what is missing.
    pub(super) fn processes_table(self) -> Sheet {
        let columns = [
            "process",
            "pid",
            "state",
            "records",
            "behind",
            "behind_for",
            "lost",
            "discarded",
            "damaged",
            "late",
            "problem",
        ];
        let mut sheet = Sheet::new("processes", &columns);
        for it in &self.now.processes {
            let behind_for = some_time(it.behind_ns);
            sheet.rows.push(vec![
                text(&it.part),
                text(it.pid.to_string()),
                text(state(it)),
                Cell::Count(it.records),
                Cell::Bytes(it.behind_bytes),
                behind_for,
                Cell::Count(it.lost_events),
                Cell::Bytes(it.discarded_bytes),
                Cell::Count(it.damaged),
                Cell::Count(it.late_events),
                it.problem.as_ref().map_or(Cell::None, text),
            ]);
        }
        sheet
    }

    fn ranks(self) -> impl Iterator<Item = &'a Rank> {
        self.now.ranks.iter().filter(move |it| self.only.is_none_or(|only| it.communicator == only))
    }

    fn operations(self) -> impl Iterator<Item = &'a Operation> {
        self.now.operations.iter().filter(move |it| self.only.is_none_or(|only| it.communicator == only))
    }

    pub(super) fn name(self, communicator: usize) -> &'a str {
        self.now.communicators.get(communicator).map_or("", |it| &it.name)
    }

    /// How old something of a rank is.
    pub(super) fn age(self, rank: &Rank, since_ns: u64) -> String {
        time(self.until_ns(rank).saturating_sub(since_ns))
    }

    /// Until when it is known what a rank did: of a process that is over, until its last record.
    fn until_ns(self, rank: &Rank) -> u64 {
        let process = self.now.processes.get(rank.process);
        let over = process.filter(|it| matches!(it.state, ProcessState::Finished | ProcessState::Gone));
        over.and_then(|it| it.last_record_ns).unwrap_or(self.now.at_ns)
    }

    /// How often a rank was last in the interval, and what it caused.
    fn since(self, rank: &Rank) -> [u64; 2] {
        let before = self.before.ranks.get(&(rank.communicator, rank.rank)).copied().unwrap_or_default();
        difference([rank.last, rank.caused_waiting_ns], before)
    }

    fn per_second(self, count: u64) -> Cell {
        match self.now.interval_ns {
            0 => Cell::None,
            interval_ns => Cell::Number(float(count) * 1e9 / float(interval_ns)),
        }
    }
}

/// The one that moved most bytes in the interval, of those with a bandwidth.
fn most<'a>(operations: &[&'a Operation]) -> Option<&'a Operation> {
    let timed = operations.iter().filter(|it| it.window.busbw.is_some());
    timed.max_by_key(|it| it.window.bytes).copied()
}

/// What operations have in common that are counted together.
fn key(operation: &Operation) -> (&str, u64, &'static str, &str) {
    (&operation.function, operation.size_class, operation.timing, &operation.algorithm)
}

fn difference<const N: usize>(now: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(before[at]))
}

/// The median of the ranks.
fn rate(operations: &[&Operation], get: fn(&Operation) -> Option<f64>) -> Cell {
    let mut rates: Vec<f64> = operations.iter().filter_map(|it| get(it)).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).map_or(Cell::None, |rate| Cell::Rate(*rate))
}

fn some_time(ns: u64) -> Cell {
    if ns > 0 { Cell::Time(float(ns)) } else { Cell::None }
}

pub(super) fn state(process: &Process) -> &'static str {
    match process.state {
        ProcessState::Running => "running",
        ProcessState::Stopped => "stopped",
        ProcessState::Finished => "finished",
        ProcessState::Gone => "gone",
        ProcessState::Unknown => "unknown",
    }
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

#[expect(clippy::cast_precision_loss, reason = "people read few digits")]
fn float(number: u64) -> f64 {
    number as f64
}
