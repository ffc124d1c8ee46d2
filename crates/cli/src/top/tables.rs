//! Turns a snapshot into the tables of `top`.

use std::collections::BTreeMap;

use crate::finalize::{AFTER_SECONDS, ns};
use crate::output::{Cell, NumberTable};
use analysis::units::{plural, real, time};
use live::{Operation, Process, ProcessState, Rank, Snapshot};
use nccl_events::sort::Gather;

type Member = (usize, u32);

#[derive(Debug, Default)]
pub(crate) struct EarlierTotals {
    /// How often each rank was last, and the waiting it caused, in ns.
    ranks: BTreeMap<Member, [u64; 2]>,
    /// Proxy waiting times in ns: GPU, peer, network.
    proxies: BTreeMap<Member, [u64; 3]>,
}

impl EarlierTotals {
    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Self {
        let ranks =
            snapshot.ranks.iter().map(|rank| ((rank.communicator, rank.rank), [rank.last, rank.caused_waiting_ns]));
        let proxies = snapshot.proxies.iter();
        let proxies = proxies
            .map(|proxy| ((proxy.communicator, proxy.rank), [proxy.gpu_wait_ns, proxy.peer_wait_ns, proxy.network_ns]));
        Self { ranks: ranks.gather(), proxies: proxies.gather() }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: &'a Snapshot,
    pub(crate) before: &'a EarlierTotals,
    pub(crate) only: Option<usize>,
}

struct TableRow<'a, T> {
    view: View<'a>,
    subject: T,
    operations: Vec<&'a Operation>,
}

impl<T> TableRow<'_, T> {
    fn per_second(&self) -> Cell {
        match self.view.now.interval_ns {
            0 => Cell::None,
            interval_ns => Cell::Number(real(self.ended()) * 1e9 / real(interval_ns)),
        }
    }

    fn ended(&self) -> u64 {
        self.sum(|operation| operation.window.count)
    }

    fn sum(&self, get: fn(&Operation) -> u64) -> u64 {
        self.operations.iter().map(|operation| get(operation)).sum()
    }

    fn most(&self) -> Option<&Operation> {
        most(&self.operations)
    }

    /// The rate of the operation class that moved most bytes.
    fn rate(&self, get: fn(&Operation) -> Option<f64>) -> Cell {
        rate(
            self.operations.iter().filter(|operation| self.most().is_some_and(|most| key(operation) == key(most))),
            get,
        )
    }
}

/// A rank with its process, and its proxies' waiting as shares of the time: GPU, peer, network.
struct RankLine<'a> {
    rank: &'a Rank,
    process: Option<&'a Process>,
    waits: [u64; 3],
}

impl TableRow<'_, RankLine<'_>> {
    fn share(&self, at: usize) -> Cell {
        match (self.subject.waits.get(at), self.subject.waits.iter().sum()) {
            (None, _) | (_, 0) => Cell::None,
            (Some(part), whole) => Cell::Share(real(*part) / real(whole)),
        }
    }

    fn since(&self, since_ns: u64) -> Cell {
        Cell::Time(real(self.view.until_ns(self.subject.rank).saturating_sub(since_ns)))
    }
}

impl<'a> View<'a> {
    pub(crate) fn communicators(self) -> NumberTable {
        let rows = self.now.communicators.iter().enumerate().map(|(index, communicator)| {
            let view = Self { only: Some(index), ..self };
            TableRow { view, subject: communicator, operations: view.operations().collect() }
        });
        NumberTable::from_rows(
            "communicators",
            rows,
            &[
                ("communicator", |of| text(&of.subject.name)),
                ("ranks", |of| {
                    let (here, all) = (of.subject.here, of.subject.ranks);
                    text(if here == all { all.to_string() } else { format!("{here}/{all}") })
                }),
                ("oldest_open", |of| {
                    let oldest = of.view.ranks().filter_map(|rank| Some((rank.oldest.as_ref()?, rank)));
                    let oldest = oldest.min_by_key(|((_, since_ns), _)| *since_ns);
                    oldest.map_or(Cell::None, |((function, since_ns), rank)| {
                        text(format!("{} {function}", of.view.age(rank, *since_ns)))
                    })
                }),
                ("ops_per_s", TableRow::per_second),
                ("busbw", |of| of.rate(|row| row.window.busbw)),
                ("last", |of| {
                    let last = of.view.ranks().map(|rank| (of.view.since(rank), rank.rank)).max();
                    let last = last.filter(|(since, _)| since[0] > 0);
                    last.map_or(Cell::None, |(since, rank)| text(format!("rank {rank}: {}", since[0])))
                }),
                ("waiting", |of| some_time(of.view.ranks().map(|rank| of.view.since(rank)[1]).sum())),
                ("function", |of| of.most().map_or(Cell::None, |row| text(&row.function))),
                ("algbw", |of| of.rate(|row| row.window.algbw)),
            ],
        )
    }

    pub(crate) fn ranks_table(self) -> NumberTable {
        let proxies = EarlierTotals::from_snapshot(self.now).proxies;
        let mut operations: BTreeMap<Member, Vec<&Operation>> = BTreeMap::new();
        for operation in self.operations() {
            operations.entry((operation.communicator, operation.rank)).or_default().push(operation);
        }
        let mut ranks: Vec<&Rank> = self.ranks().collect();
        nccl_events::sort::sort_by_key(&mut ranks, |rank| (rank.communicator, rank.rank));
        let rows = ranks.into_iter().map(|rank| {
            let member = (rank.communicator, rank.rank);
            // A rank without a proxy has no waits.
            let [now, before] =
                [&proxies, &self.before.proxies].map(|all| all.get(&member).copied().unwrap_or_default());
            let line = RankLine { rank, process: self.now.processes.get(rank.process), waits: difference(now, before) };
            TableRow { view: self, subject: line, operations: operations.remove(&member).unwrap_or_default() }
        });
        NumberTable::from_rows(
            "ranks",
            rows,
            &[
                ("rank", |of| Cell::Count(of.subject.rank.rank.into())),
                ("state", |of| of.subject.process.map_or(Cell::None, |row| text(state(row)))),
                ("open_for", |of| {
                    of.subject.rank.oldest.as_ref().map_or(Cell::None, |(_, since_ns)| of.since(*since_ns))
                }),
                ("oldest_open", |of| {
                    of.subject.rank.oldest.as_ref().map_or(Cell::None, |(function, _)| text(function))
                }),
                ("ops_per_s", TableRow::per_second),
                ("busbw", |of| of.most().and_then(|row| row.window.busbw).map_or(Cell::None, Cell::Rate)),
                ("last", |of| match of.view.since(of.subject.rank) {
                    [0, _] => Cell::None,
                    [last, _] => Cell::Count(last),
                }),
                ("caused", |of| some_time(of.view.since(of.subject.rank)[1])),
                ("gpu_wait", |of| of.share(0)),
                ("peer_wait", |of| of.share(1)),
                ("network", |of| of.share(2)),
                ("idle", |of| {
                    let last_ns = of.subject.rank.last_event_ns.filter(|_| !of.subject.rank.is_finalized);
                    last_ns.map_or(Cell::None, |since_ns| of.since(since_ns))
                }),
                ("process", |of| of.subject.process.map_or(Cell::None, |row| text(&row.part))),
                ("communicator", |of| text(of.view.name(of.subject.rank.communicator))),
            ],
        )
    }

    /// One line per class of operations: counts and bytes since each process began; the other columns for the interval.
    pub(crate) fn operations_table(self) -> NumberTable {
        let mut classes: BTreeMap<_, Vec<&Operation>> = BTreeMap::new();
        for operation in self.operations() {
            classes.entry((operation.communicator, key(operation))).or_default().push(operation);
        }
        let rows = classes.into_iter().map(|(subject, operations)| TableRow { view: self, subject, operations });
        let mut sheet = NumberTable::from_rows(
            "operations, counted on every rank, by size from one power of two to the next",
            rows,
            &[
                ("function", |of| text(of.subject.1.0)),
                ("size", |of| Cell::Bytes(of.subject.1.1)),
                ("count", |of| Cell::Count(of.sum(|row| row.count))),
                ("bytes", |of| Cell::Bytes(of.sum(|row| row.bytes))),
                ("mean", |of| match of.ended() {
                    0 => Cell::None,
                    ended => Cell::Time(real(of.sum(|operation| operation.window.duration_ns)) / real(ended)),
                }),
                ("busbw", |of| rate(of.operations.iter(), |row| row.window.busbw)),
                ("ops_per_s", TableRow::per_second),
                ("algbw", |of| rate(of.operations.iter(), |row| row.window.algbw)),
                ("timing", |of| text(of.subject.1.2)),
                ("algorithm", |of| text(of.subject.1.3)),
                ("communicator", |of| text(of.view.name(of.subject.0))),
            ],
        );
        sheet.empty = "none has ended yet";
        sheet
    }

    pub(crate) fn processes_table(self) -> NumberTable {
        NumberTable::from_rows(
            "processes",
            &self.now.processes,
            &[
                ("process", |row| text(&row.part)),
                ("pid", |row| text(row.pid.to_string())),
                ("state", |row| text(state(row))),
                ("records", |row| Cell::Count(row.records)),
                ("behind", |row| Cell::Bytes(row.behind_bytes)),
                ("behind_for", |row| some_time(row.behind_ns)),
                ("lost", |row| Cell::Count(row.lost_events)),
                ("discarded", |row| Cell::Bytes(row.discarded_bytes)),
                ("damaged", |row| Cell::Count(row.damaged)),
                ("late", |row| Cell::Count(row.late_events)),
                ("problem", |row| row.problem.as_ref().map_or(Cell::None, text)),
            ],
        )
    }

    /// Who holds up the job, or came last most often in the interval.
    pub(crate) fn headline(self) -> String {
        if let Some((function, rank, age_ns)) = self.stuck() {
            let name = self.name(rank.communicator);
            return format!(
                "Rank {} of {name} has been in {function} for {}: `nccl-otf2 hang` says who holds it up",
                rank.rank,
                time(age_ns)
            );
        }
        let last = self.ranks().map(|rank| (self.since(rank), rank)).max_by_key(|([_, caused_ns], _)| *caused_ns);
        match last.filter(|([times, _], _)| *times > 0) {
            Some(([times, caused_ns], rank)) => format!(
                "Rank {} of {} came last in {}: the others waited {} for it",
                rank.rank,
                self.name(rank.communicator),
                plural(times, "collective", "collectives"),
                time(caused_ns)
            ),
            None => self.nobody_last().to_owned(),
        }
    }

    /// That no rank came last is known only of collectives whose ranks could be compared.
    fn nobody_last(self) -> &'static str {
        let mut shown =
            self.now.communicators.iter().enumerate().filter(|(at, _)| self.only.is_none_or(|only| *at == only));
        if self.now.skews.iter().any(|skew| skew.count > 0 && self.only.is_none_or(|only| skew.communicator == only)) {
            "No rank came last"
        } else if self.now.processes.iter().all(|process| process.records == 0) {
            "No journal can be read"
        } else if shown.all(|(_, communicator)| communicator.here < communicator.ranks) {
            "Cannot tell which rank comes last: no communicator has all its ranks on this host"
        } else {
            "Cannot tell which rank comes last: no collective of all ranks has ended so far"
        }
    }

    /// Whether an operation has been open for as long as `hang` counts as hanging.
    pub(crate) fn is_stuck(self) -> bool {
        self.stuck().is_some()
    }

    /// Whether `hang` may find a hang, by what is known without judging: an operation is open for long, a process is
    /// gone or stopped, or a rank has recorded nothing for long.
    pub(crate) fn may_hang(self) -> bool {
        let is_down = |process: &Process| matches!(process.state, ProcessState::Gone | ProcessState::Stopped);
        let is_quiet = |rank: &Rank| {
            let last_ns = rank.last_event_ns.filter(|_| !rank.is_finalized);
            last_ns.is_some_and(|last_ns| self.until_ns(rank).saturating_sub(last_ns) >= ns(AFTER_SECONDS))
        };
        self.is_stuck() || self.now.processes.iter().any(is_down) || self.ranks().any(is_quiet)
    }

    fn stuck(self) -> Option<(&'a str, &'a Rank, u64)> {
        let running = |rank: &&Rank| {
            self.now
                .processes
                .get(rank.process)
                .is_some_and(|process| matches!(process.state, ProcessState::Running | ProcessState::Stopped))
        };
        let open = self.ranks().filter(running).filter_map(|rank| {
            let (function, since_ns) = rank.oldest.as_ref()?;
            Some((function.as_str(), rank, self.until_ns(rank).saturating_sub(*since_ns)))
        });
        open.max_by_key(|(.., age_ns)| *age_ns).filter(|(.., age_ns)| *age_ns >= ns(AFTER_SECONDS))
    }

    fn ranks(self) -> impl Iterator<Item = &'a Rank> {
        self.now.ranks.iter().filter(move |rank| self.only.is_none_or(|only| rank.communicator == only))
    }

    fn operations(self) -> impl Iterator<Item = &'a Operation> {
        self.now.operations.iter().filter(move |operation| self.only.is_none_or(|only| operation.communicator == only))
    }

    pub(crate) fn name(self, communicator: usize) -> &'a str {
        self.now.communicators.get(communicator).map_or("", |communicator| &communicator.name)
    }

    pub(crate) fn age(self, rank: &Rank, since_ns: u64) -> String {
        time(self.until_ns(rank).saturating_sub(since_ns))
    }

    /// The latest known time of a rank; for a process that has ended, the time of its last record.
    fn until_ns(self, rank: &Rank) -> u64 {
        let process = self.now.processes.get(rank.process);
        let over = process.filter(|process| matches!(process.state, ProcessState::Finished | ProcessState::Gone));
        over.and_then(|process| process.last_record_ns).unwrap_or(self.now.at_ns)
    }

    /// How often a rank was last in the interval, and the waiting it caused.
    fn since(self, rank: &Rank) -> [u64; 2] {
        let before = self.before.ranks.get(&(rank.communicator, rank.rank)).copied().unwrap_or_default();
        difference([rank.last, rank.caused_waiting_ns], before)
    }
}

/// The operation with a bandwidth that moved most bytes in the interval.
fn most<'a>(operations: &[&'a Operation]) -> Option<&'a Operation> {
    operations
        .iter()
        .filter(|operation| operation.window.busbw.is_some())
        .max_by_key(|operation| operation.window.bytes)
        .copied()
}

/// Operations with equal keys are counted together.
fn key(operation: &Operation) -> (&str, u64, &'static str, &str) {
    (&operation.function, operation.size_class, operation.timing, &operation.algorithm)
}

fn difference<const N: usize>(now: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(before[at]))
}

fn rate<'a>(operations: impl Iterator<Item = &'a &'a Operation>, get: fn(&Operation) -> Option<f64>) -> Cell {
    let mut rates: Vec<f64> = operations.filter_map(|operation| get(operation)).collect();
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
        ProcessState::Finished => "ended",
        ProcessState::Gone => "gone",
        ProcessState::Unknown => "unknown",
    }
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}
