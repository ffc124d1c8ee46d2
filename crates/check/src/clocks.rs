//! Clock offsets: the values that readers add to the times of a location's event file, and the archive's statements on
//! the clocks of its processes and hosts.
//!
//! Each offset applies at one timestamp. Between two timestamps readers interpolate, after the last one the line
//! continues, and before the first libotf2 adds nothing. The resulting clock must run forward, span the events, and be
//! the same wherever a clock is shared.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use crate::rules::{Findings, Rule};
use analysis::{Boot, Trace, is_merged, is_nccl};
use nccl_events::schema::definition::{
    ClockAnchors, ClockCorrection, ClockDrift, ClockRelation, ClockUncertainty, ClockViolations, ClockWorstViolation,
};
use nccl_events::sort::Gather;
use otf2::{ClockOffset, LocationGroupRef, LocationRef};

/// The clock offsets of a location. Their times increase: libotf2 reads no others.
type Clock = Rc<[ClockOffset]>;

pub(crate) struct ClockOffsets<'a> {
    trace: &'a Trace,
    /// Whether processes, hosts and statements are checked; not in a merged archive, which keeps them unchanged.
    is_ours: bool,
    /// The file read last, which the locations of a process share. `None` for a clock with a fault.
    file: Option<((u64, u64), Option<Clock>)>,
    current: Option<Current>,
    /// The clock of each process, from the first of its locations that has events.
    processes: BTreeMap<LocationGroupRef, (LocationRef, Clock)>,
}

struct Current {
    location: LocationRef,
    clock: Clock,
    span: Option<(u64, u64)>,
}

impl<'a> ClockOffsets<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            is_ours: is_nccl(&trace.archive) && !is_merged(&trace.archive),
            file: None,
            current: None,
            processes: BTreeMap::new(),
        }
    }

    pub(crate) fn next_location(&mut self, location: LocationRef, findings: &mut Findings) {
        self.settle(findings);
        self.current = self.read(location, findings).map(|clock| Current { location, clock, span: None });
    }

    pub(crate) fn event(&mut self, time: u64) {
        if let Some(current) = &mut self.current {
            current.span = Some((current.span.map_or(time, |span| span.0), time));
        }
    }

    pub(crate) fn end(&mut self, findings: &mut Findings) {
        self.settle(findings);
        if self.is_ours {
            let clocks: Clocks<'_> = self.processes.iter().map(|(process, (_, clock))| (*process, &**clock)).gather();
            check(self.trace, &clocks, findings);
        }
    }

    /// The clock of a location, if it is sound. An unreadable file is reported with its events.
    fn read(&mut self, location: LocationRef, findings: &mut Findings) -> Option<Clock> {
        let metadata = self.trace.archive.definition_file(location).metadata().ok()?;
        let identity = (metadata.dev(), metadata.ino());
        if let Some((_, clock)) = self.file.as_ref().filter(|(file, _)| *file == identity) {
            return clock.clone();
        }
        let local = self.trace.archive.local_definitions(location).ok()?;
        let clock = self.check_offsets(location, local.clock_offsets.into(), findings);
        self.file = Some((identity, clock.clone()));
        clock
    }

    fn check_offsets(&self, location: LocationRef, clock: Clock, findings: &mut Findings) -> Option<Clock> {
        let mut find = |rule, time, message: String| {
            findings.at((self.trace, location), Some(time), rule, message);
        };
        if let [alone] = &*clock
            && alone.offset != 0
        {
            find(Rule::ClockForward, alone.time, format!("the only clock offset, {}: it has no effect", alone.offset));
            return None;
        }
        let mut is_clock = true;
        for (from, to) in pieces(&clock) {
            if corrected(to) < corrected(from) {
                let message =
                    format!("the clock offsets {} and {} from {} on turn time back", from.offset, to.offset, from.time);
                find(Rule::ClockForward, to.time, message);
                is_clock = false;
            } else if self.is_ours && is_too_fast(from, to) {
                let message = format!(
                    "{} ns of drift are corrected within {} ns, more than {MOST_PPM} ppm",
                    i128::from(to.offset) - i128::from(from.offset),
                    to.time.abs_diff(from.time)
                );
                find(Rule::ClockDrift, to.time, message);
            }
        }
        is_clock.then_some(clock)
    }

    fn settle(&mut self, findings: &mut Findings) {
        let Some(Current { location, clock: own, span: Some((first, last)) }) =
            self.current.take().filter(|_| self.is_ours)
        else {
            return;
        };
        let place = (self.trace, location);
        if let [begin, .., end] = &*own {
            let (begin, end) = (corrected(begin), corrected(end));
            if i128::from(first) < begin || i128::from(last) > end {
                let message = format!("its events are from {first} to {last}, its clock offsets from {begin} to {end}");
                findings.at(place, None, Rule::ClockSpan, message);
            }
        }
        let process = self.trace.process(self.trace.group(location));
        let (of, clock) = self.processes.entry(process).or_insert_with(|| (location, Rc::clone(&own)));
        if !is_same(clock, &own) {
            let message = format!("its clock offsets are not those of location {} of the same process", of.get());
            findings.at(place, None, Rule::ClockShared, message);
        }
    }
}

pub(crate) type Clocks<'c> = BTreeMap<LocationGroupRef, &'c [ClockOffset]>;

/// Between offsets closer than this, rounding exceeds any drift.
const SHORT_NS: u64 = 900_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Statement<'a> {
    /// `None` on a single host.
    relation: Option<&'a str>,
    correction_ns: i64,
    drift_ppb: i64,
    violations: u64,
    worst_violation_ns: u64,
    uncertainty_ns: Option<u64>,
}

struct Process<'a> {
    group: LocationGroupRef,
    name: &'a str,
    boot: Boot<'a>,
    statement: Statement<'a>,
    /// CLOCK_MONOTONIC when the clocks were first read, and how far CLOCK_REALTIME was ahead.
    read: Option<(u64, i128)>,
}

/// Compares the archive's statements on the clocks of its processes and hosts with their clock offsets.
///
/// A process's clock is CLOCK_MONOTONIC. Its offsets convert it to CLOCK_REALTIME of its host, as the first process of
/// that boot read both, and then to the clock of the reference host, by the stated correction.
pub(crate) fn check(trace: &Trace, clocks: &Clocks<'_>, findings: &mut Findings) {
    let processes = processes(trace);
    let mut boots: BTreeMap<&Boot<'_>, Vec<&Process<'_>>> = BTreeMap::new();
    for process in &processes {
        boots.entry(&process.boot).or_default().push(process);
    }
    for boot_processes in boots.values() {
        shared(boot_processes, clocks, findings);
        let wall_clock = wall_clock(boot_processes);
        for process in boot_processes {
            if let Some(clock) = clocks.get(&process.group) {
                for wrong in process.wrong(clock, &wall_clock) {
                    findings.general(Rule::ClockStatement, format!("{}: {wrong}", process.name));
                }
            }
        }
    }
    sums(trace, &boots, findings);
}

fn processes(trace: &Trace) -> Vec<Process<'_>> {
    let process = |reference| {
        let anchors = trace.group_property(reference, ClockAnchors).unwrap_or_default();
        Some(Process {
            group: reference,
            name: trace.group_name(reference),
            boot: trace.boot(reference)?,
            statement: Statement {
                relation: trace.group_property(reference, ClockRelation),
                correction_ns: trace.group_property(reference, ClockCorrection).unwrap_or(0),
                drift_ppb: trace.group_property(reference, ClockDrift).unwrap_or(0),
                violations: trace.group_property(reference, ClockViolations).unwrap_or(0),
                worst_violation_ns: trace.group_property(reference, ClockWorstViolation).unwrap_or(0),
                uncertainty_ns: trace.group_property(reference, ClockUncertainty),
            },
            read: anchors
                .first()
                .map(|first| (first.monotonic_ns, i128::from(first.realtime_ns) - i128::from(first.monotonic_ns))),
        })
    };
    trace.processes().filter_map(process).collect()
}

/// How far a boot's wall clock is ahead of CLOCK_MONOTONIC, by the first readings. Empty if unknown.
fn wall_clock(boot_processes: &[&Process<'_>]) -> Vec<i128> {
    let read: Option<Vec<(u64, i128)>> = boot_processes.iter().map(|process| process.read).collect();
    let read = read.unwrap_or_default();
    let first = read.iter().map(|(monotonic, _)| *monotonic).min();
    read.iter().filter(|(monotonic, _)| Some(*monotonic) == first).map(|(_, ahead)| *ahead).collect()
}

fn shared(boot_processes: &[&Process<'_>], clocks: &Clocks<'_>, findings: &mut Findings) {
    let mut with_clock = boot_processes.iter().filter_map(|process| Some((process.name, clocks.get(&process.group)?)));
    let Some((first, expected)) = with_clock.next() else {
        return;
    };
    for (name, clock) in with_clock {
        if !is_same(clock, expected) {
            let message = format!("{name}: its clock offsets are not those of {first} on the same host");
            findings.general(Rule::ClockShared, message);
        }
    }
}

impl Process<'_> {
    fn wrong(&self, clock: &[ClockOffset], wall_clock: &[i128]) -> Vec<String> {
        let statement = &self.statement;
        let mut wrong = Vec::new();
        let Some(first) = clock.first() else {
            if statement.relation.is_some() || self.read.is_some() {
                wrong.push("it has no clock offsets to the clock that the archive states".to_owned());
            }
            return wrong;
        };
        let found = i128::from(first.offset);
        let expected = |ahead: &i128| ahead + i128::from(statement.correction_ns);
        if let Some(ahead) = wall_clock.first()
            && !wall_clock.iter().any(|ahead| expected(ahead) == found)
        {
            let corrected = found - ahead;
            wrong.push(format!(
                "a correction of {} ns is stated, but its first clock offset is {corrected} ns",
                statement.correction_ns
            ));
        }
        match statement.relation {
            None if !is_same(clock, &[*first]) => wrong
                .push("its clock offsets differ, but the archive does not say that clocks were corrected".to_owned()),
            None => {}
            Some(_) => wrong.extend(drift(clock, statement.drift_ppb)),
        }
        wrong.extend(statement.deviation(clock));
        wrong
    }
}

/// Checks that the stated mean drift lies within the drifts of the pieces.
fn drift(clock: &[ClockOffset], stated_ppb: i64) -> Option<String> {
    let is_long = |(from, to): &(&ClockOffset, &ClockOffset)| to.time.abs_diff(from.time) >= SHORT_NS;
    let has_long = pieces(clock).any(|piece| is_long(&piece));
    let limits = pieces(clock).filter(|piece| is_long(piece) || !has_long).map(|(from, to)| {
        let run = i128::from(to.time.abs_diff(from.time).max(1));
        let rise = i128::from(to.offset) - i128::from(from.offset);
        let ppb = rise * 1_000_000_000 / run;
        // Offsets are whole ns, and drifts are stated by the common clock, not by this one.
        let room = 2_000_000_000 / run + ppb.abs() * 3 / 2000 + 1;
        (ppb - room, ppb + room)
    });
    let (least, most) = limits.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    (!(least..=most).contains(&i128::from(stated_ppb))).then(|| {
        format!(
            "a drift of {stated_ppb} ppb is stated, but its clock offsets correct one between {least} and {most} \
            ppb"
        )
    })
}

impl Statement<'_> {
    /// Checks standard deviations of offsets against the stated uncertainty, which includes the process's own clock.
    #[expect(clippy::cast_precision_loss, reason = "an uncertainty does not need 64 bits of its ns")]
    fn deviation(&self, clock: &[ClockOffset]) -> Option<String> {
        let most = clock.iter().map(|offset| offset.standard_deviation).fold(0.0_f64, f64::max) * 3.0_f64.sqrt();
        // Nothing is stated if the length of a tick is unknown.
        if let Some(stated) = self.uncertainty_ns.filter(|stated| most > *stated as f64 + 1.0) {
            return Some(format!(
                "an uncertainty of {stated} ns is stated, but its clock offsets have one of {most:.0} ns"
            ));
        }
        (self.relation == Some("bounded") && most <= 0.0)
            .then(|| "its clock is bounded, but its clock offsets are said to be exact".to_owned())
    }
}

/// Checks that the statements on all clocks are sums of the statements on each.
fn sums(trace: &Trace, boots: &BTreeMap<&Boot<'_>, Vec<&Process<'_>>>, findings: &mut Findings) {
    let statements = &trace.statements;
    let mut hosts: Vec<&Statement<'_>> = Vec::new();
    let mut uncertainty_ns = 0;
    for boot_processes in boots.values() {
        let mut first: Option<&Process<'_>> = None;
        for other in boot_processes.iter().filter(|process| process.statement.relation.is_some()) {
            uncertainty_ns = uncertainty_ns.max(other.statement.uncertainty_ns.unwrap_or(0));
            let first = first.get_or_insert(other);
            // Each process has the uncertainty of its own ticks.
            if (Statement { uncertainty_ns: first.statement.uncertainty_ns, ..other.statement }) != first.statement {
                let message =
                    format!("{} and {} share a clock, but the statements on it differ", first.name, other.name);
                findings.general(Rule::ClockSums, message);
            }
        }
        hosts.extend(first.map(|first| &first.statement));
    }
    let uncorrected = hosts.iter().filter(|statement| statement.relation == Some("system"));
    let violations = hosts.iter().map(|statement| statement.violations);
    let worst = hosts.iter().map(|statement| statement.worst_violation_ns).max();
    let sums = [
        ("HOSTS", statements.hosts.number.0, hosts.len() as u64),
        ("UNCORRECTED", statements.alignment_uncorrected.0, uncorrected.count() as u64),
        // Two hosts count each violation once.
        ("VIOLATIONS", statements.alignment_violations.0, violations.fold(0, u64::saturating_add) / 2),
        ("WORST_VIOLATION_NS", statements.alignment_worst_violation_ns.0, worst.unwrap_or(0)),
        ("UNCERTAINTY_NS", statements.alignment_uncertainty_ns.0, uncertainty_ns),
    ];
    for (name, stated, found) in sums {
        // Hosts of several groups have no common uncertainty.
        let stated = match (name, stated) {
            ("UNCERTAINTY_NS", None) => continue,
            (_, stated) => stated.unwrap_or(0),
        };
        if stated != found {
            let message = format!("NCCL::CLOCK::ALIGNMENT::{name} is {stated}, but {found} according to the processes");
            findings.general(Rule::ClockSums, message);
        }
    }
}

/// The largest correction of a drift: at worst, two quartzes are off by 100 ppm each, and NTP slews each clock by up to
/// 500 ppm. Slightly more, because the drift is measured on the corrected clock.
pub(crate) const MOST_PPM: u64 = 1250;
/// Offsets and their times are whole ticks.
const ROUNDING: u64 = 2;

/// Each pair of adjacent offsets, which are joined by a line.
pub(crate) fn pieces(clock: &[ClockOffset]) -> impl Iterator<Item = (&ClockOffset, &ClockOffset)> {
    clock.iter().zip(clock.iter().skip(1))
}

pub(crate) fn corrected(offset: &ClockOffset) -> i128 {
    i128::from(offset.time) + i128::from(offset.offset)
}

pub(crate) fn is_too_fast(from: &ClockOffset, to: &ClockOffset) -> bool {
    let drift = i128::from(to.offset) - i128::from(from.offset);
    let most = u128::from(to.time.abs_diff(from.time)) * u128::from(MOST_PPM) / 1_000_000;
    drift.unsigned_abs() > most + u128::from(ROUNDING)
}

/// Whether two lists of offsets are one clock: the same corrections, or the same constant.
pub(crate) fn is_same(a: &[ClockOffset], b: &[ClockOffset]) -> bool {
    a == b || matches!((constant(a), constant(b)), (Some(a), Some(b)) if a == b)
}

fn constant(clock: &[ClockOffset]) -> Option<i64> {
    let first = clock.first()?.offset;
    clock.iter().all(|offset| offset.offset == first).then_some(first)
}
