//! How much longer the steps of a connection take than those of the better connections that do the same.
//!
//! A *connection* is a pair of ranks on a channel. The connections of a *class* are alike: within a host or between
//! hosts, over interfaces of one speed, in communicators of one size, with the same functions. For a function and a size
//! of steps, the *reference* is all steps of the better third of the connections of the class, of two pairs of ranks at
//! least where there are four. A connection is compared with it quantile by quantile, so that steps that are slow once
//! in a while count fully.

use std::collections::{BTreeMap, BTreeSet};

use crate::lateness::chance::{Table, exchange};
use crate::links::slow::Places;
use crate::read::archive::in_parallel;
use crate::read::{NO_SEQUENCE, NONE, Tables};
use crate::statistics::messages::Pairing;
use crate::statistics::network::{ConnectionKey, RankPair, SentStep, busy_ns, key};
use crate::statistics::numeric::{median, quantile};
use crate::units::real;
use nccl_events::ids::{index as large, index_u32 as small};
use nccl_events::sort::Gather;

/// A connection with fewer steps is not judged.
const LEAST_STEPS: usize = 20;
/// A step is slow beyond the 99 % quantile of the reference times this.
const SLOW_STEP: f64 = 1.5;
/// One of this many connections is in the reference: the fastest.
const BETTER: usize = 3;
/// With at least this many pairs of ranks, the reference has steps of two: a single pair may be fast only because one of
/// its ranks is late.
const SEVERAL_PAIRS: usize = 4;
/// The most values of a reference.
const MOST_VALUES: usize = 1 << 16;

/// What an operation of a connection is of: an instance of a collective, or a message by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Occasion {
    Instance(u32),
    Message(u32),
}

/// Connections that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// Whether both ends are on one host; `None` if the receiver is not recorded.
    is_on_host: Option<bool>,
    /// The speed of the sender's interface, in bytes per second; 0 if unknown.
    speed: u64,
    ranks: u32,
    functions: Vec<u32>,
}

/// Function and size class of steps.
type Kind = (u32, u32);
/// Function and number of an operation: what connections did at the same time, or at the same place.
type Row = (u32, u64);
/// The mean of a connection's steps by row, in times of the reference's median.
type Means = BTreeMap<Row, f64>;

fn kind(tables: &Tables, step: &SentStep) -> Kind {
    let function = match step.operation {
        NONE => NONE,
        operation => tables.operations.function[large(operation)].get(),
    };
    (function, size_class(step.bytes()))
}

/// The steps of the better connections.
#[derive(Debug)]
struct Reference {
    median_ns: f64,
    slow_ns: f64,
    /// Sorted.
    times: Vec<f64>,
}

/// A connection that was compared with others of its class.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionTimes {
    pub(crate) key: ConnectionKey,
    pub(crate) is_on_host: Option<bool>,
    pub(crate) steps: u64,
    /// Steps that take far longer than nearly all of the reference.
    pub(crate) slow_steps: u64,
    /// In how many operations these are.
    pub(crate) slow_operations: u64,
    /// The time of its steps, and what they would take if distributed as the reference is.
    pub(crate) ns: f64,
    pub(crate) usual_ns: f64,
    /// Median of the time of a step ÷ the reference's median.
    pub(crate) typical: f64,
    /// The least probability that chance put its long steps on its pair, its channel or itself.
    pub(crate) chance: f64,
    /// How far the ratios of the better connections of its class spread.
    pub(crate) spread: f64,
    /// Whether most of its steps are in operations whose arrivals the clocks order. If not, a late receiver looks slow.
    pub(crate) is_clear: bool,
    /// How much longer than the reference's median its steps take in each operation, as they follow each other.
    pub(crate) excess: Vec<(Occasion, f64)>,
}

impl ConnectionTimes {
    pub(crate) fn ratio(&self) -> f64 {
        if self.usual_ns > 0.0 { self.ns / self.usual_ns } else { 1.0 }
    }
}

/// What steps are compared with.
#[derive(Debug, Default)]
pub(crate) struct References {
    classes: BTreeMap<ConnectionKey, u32>,
    references: BTreeMap<(u32, Kind), Reference>,
}

/// What the steps of connections belong to.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) places: &'a Places<'a>,
    pub(crate) pairing: &'a Pairing,
    pub(crate) sent: &'a BTreeMap<ConnectionKey, Vec<SentStep>>,
    /// The speed of a connection's interface, if it is known.
    pub(crate) speed: &'a (dyn Fn(ConnectionKey) -> Option<f64> + Sync),
}

/// How many of these connections, the fastest first, are the better ones.
fn better(connections: impl Iterator<Item = ConnectionKey> + Clone) -> usize {
    let third = (connections.clone().count() / BETTER).max(1);
    let pairs: BTreeSet<RankPair> = connections.clone().map(|(pair, _)| pair).collect();
    let first = connections.clone().next().map(|(pair, _)| pair);
    let of_first = connections.take_while(|(pair, _)| Some(*pair) == first).count();
    if pairs.len() < SEVERAL_PAIRS { third } else { third.max(of_first + 1) }
}

/// Sizes that differ by less than an eighth share a class.
pub(crate) fn size_class(bytes: u64) -> u32 {
    let magnitude = u64::BITS - bytes.leading_zeros();
    let eighths = (bytes << bytes.leading_zeros().min(63)) >> 60 & 7;
    magnitude << 3 | u32::try_from(eighths).unwrap_or(0)
}

/// A step as it is compared.
struct ComparedStep {
    kind: Kind,
    ns: f64,
    operation: u32,
}

impl Steps<'_> {
    /// When the receiver began, and how far the clocks of both may be apart.
    fn receiver(&self, connection: ConnectionKey, operation: u32) -> Option<(u64, u64)> {
        let ((_, _, to), _) = connection;
        let tables = self.places.tables;
        let other = match self.places.instances.instance_of_operation(operation) {
            Some(number) => {
                let instance = &self.places.instances.all[large(number)];
                let rank = |row: &u32| tables.members.row(tables.operations.member[large(*row)]).rank;
                *self.places.instances.operations(instance).iter().find(|row| rank(row) == to)?
            }
            None => self.pairing.other(operation)?,
        };
        let receiver = tables.operations.row(large(other));
        receiver.is_known().then_some((receiver.start_ns, tables.error_ns(operation, other)?))
    }

    /// The steps of a connection, without what they wait for the receiver's kernel; and whether the clocks show that.
    fn compared(&self, connection: ConnectionKey) -> (Vec<ComparedStep>, bool) {
        let mut known: (u32, Option<(u64, u64)>) = (NONE, None);
        let mut clear = 0;
        let sent = self.sent.get(&connection).map_or(&[][..], Vec::as_slice);
        let steps = sent.iter().map(|step| {
            if step.operation != known.0 {
                let receiver = (step.operation != NONE).then(|| self.receiver(connection, step.operation));
                known = (step.operation, receiver.flatten());
            }
            let is_ordered = |(start_ns, error_ns): &(u64, u64)| start_ns.abs_diff(step.at_ns) > *error_ns;
            let receiver = known.1.filter(is_ordered);
            clear += usize::from(receiver.is_some());
            let from_ns = receiver.map_or(step.at_ns, |(start_ns, _)| start_ns.max(step.at_ns));
            ComparedStep {
                kind: kind(self.places.tables, step),
                ns: real(step.end_ns().saturating_sub(from_ns)),
                operation: step.operation,
            }
        });
        let steps: Vec<ComparedStep> = steps.collect();
        let is_clear = 2 * clear >= steps.len();
        (steps, is_clear)
    }

    fn class(&self, connection: ConnectionKey) -> Class {
        let (pair, _) = connection;
        let ends = key(self.places.tables, pair);
        let host = |rank| self.places.host(rank);
        let functions: BTreeSet<u32> =
            self.sent[&connection].iter().map(|step| kind(self.places.tables, step).0).collect();
        Class {
            is_on_host: host(ends.from).zip(host(ends.to)).map(|(from, to)| from == to),
            speed: (self.speed)(connection).map_or(0, crate::units::whole),
            ranks: small(self.places.tables.members.size(pair.0)),
            functions: functions.into_iter().collect(),
        }
    }

    /// Rows in which connections are compared: of collectives, the same one; of messages, those at the same place.
    fn row(&self, operation: u32, places: &mut BTreeMap<u32, u64>) -> Row {
        let operation = self.places.tables.operations.row(large(operation));
        let function = operation.function.get();
        let place = places.entry(function).or_default();
        *place += 1;
        (function, if operation.sequence == NO_SEQUENCE { *place } else { operation.sequence })
    }
}

impl References {
    /// The reference of each class, and the connections that were compared with it.
    pub(crate) fn new(steps: &Steps<'_>) -> (Self, Vec<ConnectionTimes>) {
        let judged = steps.sent.iter().filter(|(_, sent)| sent.len() >= LEAST_STEPS).map(|(connection, _)| *connection);
        let judged: Vec<ConnectionKey> = judged.collect();
        let mut by_class: BTreeMap<Class, Vec<ConnectionKey>> = BTreeMap::new();
        for (connection, class) in in_parallel(&judged, |connection| (*connection, steps.class(*connection))) {
            by_class.entry(class).or_default().push(connection);
        }
        let (mut references, mut found) = (Self::default(), Vec::new());
        for (number, (class, connections)) in (0..).zip(by_class) {
            references.classes.extend(connections.iter().map(|connection| (*connection, number)));
            references.add_references(steps, number, &connections);
            found.extend(references.compare(steps, class.is_on_host, number, &connections));
        }
        (references, found)
    }

    fn add_references(&mut self, steps: &Steps<'_>, class: u32, connections: &[ConnectionKey]) {
        let means = in_parallel(connections, |connection| {
            let mut sums: BTreeMap<Kind, (f64, u64)> = BTreeMap::new();
            for step in steps.compared(*connection).0 {
                let sum = sums.entry(step.kind).or_default();
                *sum = (sum.0 + step.ns, sum.1 + 1);
            }
            sums
        });
        let mut by_kind: BTreeMap<Kind, Vec<(f64, ConnectionKey)>> = BTreeMap::new();
        for (connection, sums) in connections.iter().zip(means) {
            for (kind, (ns, count)) in sums {
                by_kind.entry(kind).or_default().push((ns / real(count), *connection));
            }
        }
        let mut wanted: BTreeMap<ConnectionKey, Vec<Kind>> = BTreeMap::new();
        for (kind, mut means) in by_kind {
            means.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            means.truncate(better(means.iter().map(|(_, connection)| *connection)));
            means.into_iter().for_each(|(_, connection)| wanted.entry(connection).or_default().push(kind));
        }
        let mut times: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
        for (connection, kinds) in wanted {
            for step in steps.compared(connection).0.into_iter().filter(|step| kinds.contains(&step.kind)) {
                times.entry(step.kind).or_default().push(step.ns);
            }
        }
        for (kind, mut times) in times {
            times.sort_unstable_by(f64::total_cmp);
            let every = times.len().div_ceil(MOST_VALUES).max(1);
            let times: Vec<f64> = times.into_iter().step_by(every).collect();
            let of = |order| quantile(&times, order);
            let (median_ns, slow_ns) = (of(0.5).max(1.0), SLOW_STEP * of(0.99));
            self.references.insert((class, kind), Reference { median_ns, slow_ns, times });
        }
    }

    fn compare(
        &self,
        steps: &Steps<'_>,
        is_on_host: Option<bool>,
        class: u32,
        connections: &[ConnectionKey],
    ) -> Vec<ConnectionTimes> {
        if connections.len() < 2 {
            return Vec::new();
        }
        let compared = in_parallel(connections, |connection| self.connection(steps, is_on_host, class, *connection));
        let (mut found, rows): (Vec<ConnectionTimes>, Vec<Means>) = compared.into_iter().unzip();
        let mut ratios: Vec<(f64, ConnectionKey)> = found.iter().map(|one| (one.ratio(), one.key)).collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let number = better(ratios.iter().map(|(_, connection)| *connection));
        let ratios: Vec<f64> = ratios[..number].iter().map(|(ratio, _)| *ratio).collect();
        let spread = 2.0 * crate::lateness::chance::deviation(&ratios, 0);
        for (connection, chance) in found.iter_mut().zip(chances(connections, &rows)) {
            (connection.spread, connection.chance) = (spread, chance);
        }
        found
    }

    /// A connection beside its reference, and the mean of its steps by row, in times of the reference's median.
    fn connection(
        &self,
        steps: &Steps<'_>,
        is_on_host: Option<bool>,
        class: u32,
        connection: ConnectionKey,
    ) -> (ConnectionTimes, Means) {
        let (compared, is_clear) = steps.compared(connection);
        let sent = &steps.sent[&connection];
        let mut found = ConnectionTimes {
            key: connection,
            is_on_host,
            steps: compared.len() as u64,
            slow_steps: 0,
            slow_operations: 0,
            ns: 0.0,
            usual_ns: 0.0,
            typical: 1.0,
            chance: 1.0,
            spread: 0.0,
            is_clear,
            excess: Vec::new(),
        };
        // Steps overlap: together they take less than their sum.
        let sum_ns: u64 = sent.iter().map(SentStep::ns).sum();
        let in_turn = if sum_ns > 0 { (real(busy_ns(sent)) / real(sum_ns)).min(1.0) } else { 0.0 };
        let (mut by_kind, mut slow): (BTreeMap<Kind, Vec<f64>>, BTreeSet<u32>) = Default::default();
        let (mut ratios, mut excess): (Vec<f64>, BTreeMap<Occasion, f64>) = Default::default();
        let mut rows: BTreeMap<Row, (f64, u64)> = BTreeMap::new();
        let mut places: BTreeMap<u32, u64> = BTreeMap::new();
        let mut row = (NONE, (0, 0));
        for step in &compared {
            let Some(reference) = self.references.get(&(class, step.kind)) else { continue };
            let ratio = step.ns / reference.median_ns;
            by_kind.entry(step.kind).or_default().push(step.ns);
            ratios.push(ratio);
            if step.ns > reference.slow_ns {
                found.slow_steps += 1;
                slow.insert(step.operation);
            }
            if step.operation == NONE {
                continue;
            }
            let instance = steps.places.instances.instance_of_operation(step.operation);
            let occasion = instance.map_or(Occasion::Message(step.operation), Occasion::Instance);
            *excess.entry(occasion).or_default() += (step.ns - reference.median_ns) * in_turn;
            if row.0 != step.operation {
                row = (step.operation, steps.row(step.operation, &mut places));
            }
            let mean = rows.entry(row.1).or_default();
            *mean = (mean.0 + ratio, mean.1 + 1);
        }
        for (kind, mut times) in by_kind {
            let reference = &self.references[&(class, kind)].times;
            times.sort_unstable_by(f64::total_cmp);
            let count = real(times.len() as u64);
            found.ns += times.iter().sum::<f64>();
            let at = |rank: u64| quantile(reference, (real(rank) + 0.5) / count);
            found.usual_ns += (0..times.len() as u64).map(at).sum::<f64>();
        }
        found.slow_operations = slow.len() as u64;
        found.typical = if ratios.is_empty() { 1.0 } else { median(&mut ratios) };
        found.excess = excess.into_iter().collect();
        (found, rows.into_iter().map(|(row, (sum, count))| (row, sum / real(count))).gather())
    }

    /// The reference's median for a step; `None` if its connection was not compared.
    pub(crate) fn usual_ns(&self, tables: &Tables, connection: ConnectionKey, step: &SentStep) -> Option<f64> {
        let class = *self.classes.get(&connection)?;
        Some(self.references.get(&(class, kind(tables, step)))?.median_ns)
    }
}

/// The least probability for each connection that chance puts long steps on its pair, on its channel or on itself.
fn chances(connections: &[ConnectionKey], rows: &[Means]) -> Vec<f64> {
    /// A row counts if nine of ten connections have it.
    const PRESENT: f64 = 0.9;
    const LEAST_ROWS: usize = 4;
    /// The fewest columns of which the memory of noise is estimated.
    const LEAST_CALM: usize = 1;
    let mut counts: BTreeMap<Row, u64> = BTreeMap::new();
    rows.iter().flat_map(BTreeMap::keys).for_each(|row| *counts.entry(*row).or_default() += 1);
    let least = PRESENT * real(rows.len() as u64);
    counts.retain(|_, count| real(*count) > least);
    let mut chances = vec![1.0; connections.len()];
    if counts.len() < LEAST_ROWS {
        return chances;
    }
    let numbered = |names: Vec<(u32, u32, u32, u32)>| {
        let known: BTreeSet<_> = names.iter().copied().collect();
        let known: Vec<_> = known.into_iter().collect();
        let number = |name| known.binary_search(name).unwrap_or(0);
        (names.iter().map(number).collect::<Vec<usize>>(), known.len())
    };
    let of_pairs = connections.iter().map(|((communicator, from, to), _)| (*communicator, *from, *to, 0)).collect();
    let of_channels = connections.iter().map(|((communicator, ..), channel)| (*communicator, 0, 0, *channel)).collect();
    let singles = ((0..connections.len()).collect(), connections.len());
    for (groups, columns) in [numbered(of_pairs), numbered(of_channels), singles] {
        if columns < 2 {
            continue;
        }
        let mut table = Table::new(columns);
        for row in counts.keys() {
            let mut means = vec![(0.0, 0.0); columns];
            for (group, row) in groups.iter().zip(rows.iter().map(|rows| rows.get(row))) {
                let (sum, count) = &mut means[*group];
                row.iter().for_each(|value| (*sum, *count) = (*sum + **value, *count + 1.0));
            }
            let means: Vec<f64> =
                means.iter().map(|(sum, count)| if *count > 0.0 { sum / count } else { f64::NAN }).collect();
            // What all connections share is of no connection.
            let mut known: Vec<f64> = means.iter().copied().filter(|mean| !mean.is_nan()).collect();
            known.sort_unstable_by(f64::total_cmp);
            let shared = quantile(&known, 0.25);
            table.values.extend(means.into_iter().map(|mean| mean - shared));
        }
        for (group, p_value) in exchange(&table, &mut vec![false; columns], Some(LEAST_CALM)) {
            for (chance, _) in chances.iter_mut().zip(&groups).filter(|(_, of)| **of == group) {
                *chance = p_value.min(*chance);
            }
        }
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::{better, size_class};

    #[test]
    fn the_reference_has_two_pairs_of_many() {
        let ring = |ranks: u32| (0..2 * ranks).map(move |at| ((0, at / 2, (at / 2 + 1) % ranks), at % 2));
        assert_eq!([2, 3, 4, 8, 12].map(|ranks| better(ring(ranks))), [1, 2, 3, 5, 8]);
    }

    #[test]
    fn near_sizes_are_one() {
        assert_eq!(size_class(1 << 20), size_class((1 << 20) + 100_000));
        assert_ne!(size_class(1 << 20), size_class((1 << 20) + 140_000));
        assert_ne!(size_class(1), size_class(2));
        assert!(size_class(u64::MAX) > size_class(1 << 63));
    }
}
