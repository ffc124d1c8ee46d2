//! Turns a snapshot into the tables of `top`.

use std::collections::BTreeMap;

use crate::output::{Cell, Sheet};
use analysis::units::{real, time};
use live::{Operation, Process, ProcessState, Rank, Snapshot};
use nccl_events::sort::Gather;

type Member = (usize, u32);

#[derive(Debug, Default)]
pub(crate) struct Before {
    /// How often each rank was last, and the waiting it caused, in ns.
    ranks: BTreeMap<Member, [u64; 2]>,
    /// Proxy waiting times in ns: GPU, peer, network.
    proxies: BTreeMap<Member, [u64; 3]>,
}

impl Before {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let ranks = snapshot.ranks.iter().map(|it| ((it.communicator, it.rank), [it.last, it.caused_waiting_ns]));
        let proxies = snapshot.proxies.iter();
        let proxies = proxies.map(|it| ((it.communicator, it.rank), [it.gpu_wait_ns, it.peer_wait_ns, it.network_ns]));
        Self { ranks: ranks.gather(), proxies: proxies.gather() }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: &'a Snapshot,
    pub(crate) before: &'a Before,
    pub(crate) only: Option<usize>,
}

struct Of<'a, T> {
    view: View<'a>,
    it: T,
    operations: Vec<&'a Operation>,
}

impl<T> Of<'_, T> {
    fn per_second(&self) -> Cell {
        match self.view.now.interval_ns {
            0 => Cell::None,
            interval_ns => Cell::Number(real(self.ended()) * 1e9 / real(interval_ns)),
        }
    }

    fn ended(&self) -> u64 {
        self.sum(|it| it.window.count)
    }

    fn sum(&self, get: fn(&Operation) -> u64) -> u64 {
        self.operations.iter().map(|it| get(it)).sum()
    }

    fn most(&self) -> Option<&Operation> {
        most(&self.operations)
    }

    /// The rate of the operation class that moved most bytes.
    fn rate(&self, get: fn(&Operation) -> Option<f64>) -> Cell {
        rate(self.operations.iter().filter(|it| self.most().is_some_and(|most| key(it) == key(most))), get)
    }
}

/// A rank with its process, and its proxies' waiting as shares of the time: GPU, peer, network.
struct RankLine<'a> {
    rank: &'a Rank,
    process: Option<&'a Process>,
    waits: [u64; 3],
}

impl Of<'_, RankLine<'_>> {
    fn share(&self, at: usize) -> Cell {
        match (self.it.waits.get(at), self.it.waits.iter().sum()) {
            (None, _) | (_, 0) => Cell::None,
            (Some(part), whole) => Cell::Share(real(*part) / real(whole)),
        }
    }

    fn since(&self, since_ns: u64) -> Cell {
        Cell::Time(real(self.view.until_ns(self.it.rank).saturating_sub(since_ns)))
    }
}

impl<'a> View<'a> {
    pub(crate) fn communicators(self) -> Sheet {
        let rows = self.now.communicators.iter().enumerate().map(|(index, it)| {
            let view = Self { only: Some(index), ..self };
            Of { view, it, operations: view.operations().collect() }
        });
        Sheet::of(
            "communicators",
            rows,
            &[
                ("communicator", |of| text(&of.it.name)),
                ("ranks", |of| {
                    let (here, all) = (of.it.here, of.it.ranks);
                    text(if here == all { all.to_string() } else { format!("{here}/{all}") })
                }),
                ("oldest_open", |of| {
                    let oldest = of.view.ranks().filter_map(|rank| Some((rank.oldest.as_ref()?, rank)));
                    let oldest = oldest.min_by_key(|((_, since_ns), _)| *since_ns);
                    oldest.map_or(Cell::None, |((function, since_ns), rank)| {
                        text(format!("{} {function}", of.view.age(rank, *since_ns)))
                    })
                }),
                ("ops_per_s", Of::per_second),
                ("busbw", |of| of.rate(|it| it.window.busbw)),
                ("last", |of| {
                    let last = of.view.ranks().map(|rank| (of.view.since(rank), rank.rank)).max();
                    let last = last.filter(|(since, _)| since[0] > 0);
                    last.map_or(Cell::None, |(since, rank)| text(format!("rank {rank}: {}", since[0])))
                }),
                ("waiting", |of| some_time(of.view.ranks().map(|rank| of.view.since(rank)[1]).sum())),
                ("function", |of| of.most().map_or(Cell::None, |it| text(&it.function))),
                ("algbw", |of| of.rate(|it| it.window.algbw)),
            ],
        )
    }

    pub(crate) fn ranks_table(self) -> Sheet {
        let proxies = Before::of(self.now).proxies;
        let mut operations: BTreeMap<Member, Vec<&Operation>> = BTreeMap::new();
        for operation in self.operations() {
            operations.entry((operation.communicator, operation.rank)).or_default().push(operation);
        }
        let mut ranks: Vec<&Rank> = self.ranks().collect();
        nccl_events::sort::sort_by_key(&mut ranks, |it| (it.communicator, it.rank));
        let rows = ranks.into_iter().map(|rank| {
            let member = (rank.communicator, rank.rank);
            // A rank without a proxy has no waits.
            let [now, before] =
                [&proxies, &self.before.proxies].map(|all| all.get(&member).copied().unwrap_or_default());
            let it = RankLine { rank, process: self.now.processes.get(rank.process), waits: difference(now, before) };
            Of { view: self, it, operations: operations.remove(&member).unwrap_or_default() }
        });
        Sheet::of(
            "ranks",
            rows,
            &[
                ("rank", |of| Cell::Count(of.it.rank.rank.into())),
                ("state", |of| of.it.process.map_or(Cell::None, |it| text(state(it)))),
                ("open_for", |of| of.it.rank.oldest.as_ref().map_or(Cell::None, |(_, since_ns)| of.since(*since_ns))),
                ("oldest_open", |of| of.it.rank.oldest.as_ref().map_or(Cell::None, |(function, _)| text(function))),
                ("ops_per_s", Of::per_second),
                ("busbw", |of| of.most().and_then(|it| it.window.busbw).map_or(Cell::None, Cell::Rate)),
                ("last", |of| match of.view.since(of.it.rank) {
                    [0, _] => Cell::None,
                    [last, _] => Cell::Count(last),
                }),
                ("caused", |of| some_time(of.view.since(of.it.rank)[1])),
                ("gpu_wait", |of| of.share(0)),
                ("peer_wait", |of| of.share(1)),
                ("network", |of| of.share(2)),
                ("idle", |of| {
                    let last_ns = of.it.rank.last_event_ns.filter(|_| !of.it.rank.is_finalized);
                    last_ns.map_or(Cell::None, |since_ns| of.since(since_ns))
                }),
                ("process", |of| of.it.process.map_or(Cell::None, |it| text(&it.part))),
                ("communicator", |of| text(of.view.name(of.it.rank.communicator))),
            ],
        )
    }

    /// One line per class of operations: counts and bytes since each process began; the other columns for the interval.
    pub(crate) fn operations_table(self) -> Sheet {
        let mut classes: BTreeMap<_, Vec<&Operation>> = BTreeMap::new();
        for operation in self.operations() {
            classes.entry((operation.communicator, key(operation))).or_default().push(operation);
        }
        let rows = classes.into_iter().map(|(it, operations)| Of { view: self, it, operations });
        let mut sheet = Sheet::of(
            "operations, counted on every rank; sizes from this power of two on",
            rows,
            &[
                ("function", |of| text(of.it.1.0)),
                ("size", |of| Cell::Bytes(of.it.1.1)),
                ("count", |of| Cell::Count(of.sum(|it| it.count))),
                ("bytes", |of| Cell::Bytes(of.sum(|it| it.bytes))),
                ("mean", |of| match of.ended() {
                    0 => Cell::None,
                    ended => Cell::Time(real(of.sum(|it| it.window.duration_ns)) / real(ended)),
                }),
                ("busbw", |of| rate(of.operations.iter(), |it| it.window.busbw)),
                ("ops_per_s", Of::per_second),
                ("algbw", |of| rate(of.operations.iter(), |it| it.window.algbw)),
                ("timing", |of| text(of.it.1.2)),
                ("algorithm", |of| text(of.it.1.3)),
                ("communicator", |of| text(of.view.name(of.it.0))),
            ],
        );
        sheet.empty = "none has ended yet";
        sheet
    }

    pub(crate) fn processes_table(self) -> Sheet {
        Sheet::of(
            "processes",
            &self.now.processes,
            &[
                ("process", |it| text(&it.part)),
                ("pid", |it| text(it.pid.to_string())),
                ("state", |it| text(state(it))),
                ("records", |it| Cell::Count(it.records)),
                ("behind", |it| Cell::Bytes(it.behind_bytes)),
                ("behind_for", |it| some_time(it.behind_ns)),
                ("lost", |it| Cell::Count(it.lost_events)),
                ("discarded", |it| Cell::Bytes(it.discarded_bytes)),
                ("damaged", |it| Cell::Count(it.damaged)),
                ("late", |it| Cell::Count(it.late_events)),
                ("problem", |it| it.problem.as_ref().map_or(Cell::None, text)),
            ],
        )
    }

    fn ranks(self) -> impl Iterator<Item = &'a Rank> {
        self.now.ranks.iter().filter(move |it| self.only.is_none_or(|only| it.communicator == only))
    }

    fn operations(self) -> impl Iterator<Item = &'a Operation> {
        self.now.operations.iter().filter(move |it| self.only.is_none_or(|only| it.communicator == only))
    }

    pub(crate) fn name(self, communicator: usize) -> &'a str {
        self.now.communicators.get(communicator).map_or("", |it| &it.name)
    }

    pub(crate) fn age(self, rank: &Rank, since_ns: u64) -> String {
        time(self.until_ns(rank).saturating_sub(since_ns))
    }

    /// The latest known time of a rank; for a process that has ended, the time of its last record.
    fn until_ns(self, rank: &Rank) -> u64 {
        let process = self.now.processes.get(rank.process);
        let over = process.filter(|it| matches!(it.state, ProcessState::Finished | ProcessState::Gone));
        over.and_then(|it| it.last_record_ns).unwrap_or(self.now.at_ns)
    }

    /// How often a rank was last in the interval, and the waiting it caused.
    fn since(self, rank: &Rank) -> [u64; 2] {
        let before = self.before.ranks.get(&(rank.communicator, rank.rank)).copied().unwrap_or_default();
        difference([rank.last, rank.caused_waiting_ns], before)
    }
}

/// The operation with a bandwidth that moved most bytes in the interval.
fn most<'a>(operations: &[&'a Operation]) -> Option<&'a Operation> {
    operations.iter().filter(|it| it.window.busbw.is_some()).max_by_key(|it| it.window.bytes).copied()
}

/// Operations with equal keys are counted together.
fn key(operation: &Operation) -> (&str, u64, &'static str, &str) {
    (&operation.function, operation.size_class, operation.timing, &operation.algorithm)
}

fn difference<const N: usize>(now: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(before[at]))
}

fn rate<'a>(operations: impl Iterator<Item = &'a &'a Operation>, get: fn(&Operation) -> Option<f64>) -> Cell {
    let mut rates: Vec<f64> = operations.filter_map(|it| get(it)).collect();
    nccl_events::sort::sort_by(&mut rates, f64::total_cmp);
    rates.get(rates.len() / 2).map_or(Cell::None, |rate| Cell::Rate(*rate))
}

fn some_time(ns: u64) -> Cell {
    if ns > 0 { Cell::Time(real(ns)) } else { Cell::None }
}

pub(crate) fn state(process: &Process) -> &'static str {
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
