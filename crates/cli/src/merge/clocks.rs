//! The clock of every location of NCCL's in the merged archive, and whether it can be believed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, Result, bail};
use clocks::piecewise::Piecewise;
use otf2::{ClockOffset, LocationGroupRef, LocationRef};

use super::clock::{self, Timer};
use super::nccl::{self, Nccl};
use super::pairing::Pair;
use super::scorep::{self, ScoreP};

/// How much later than Score-P's last event, or earlier than its first, a process may have called NCCL.
const MARGIN_SECONDS: u64 = 5;
/// How much the rate of a counter may differ from the trace's and still be that of the same machine.
const MOST_PPM: u64 = 1000;

/// Locations of an archive of NCCL's that have the same local definitions.
#[derive(Debug)]
pub(super) struct Local {
    /// Whether they are of a trace of Score-P's.
    pub(super) is_scorep: bool,
    /// The process, by its group; none for ranks without a part.
    pub(super) process: Option<LocationGroupRef>,
    /// Its locations: the first of them has the file that is read.
    pub(super) locations: Vec<LocationRef>,
    /// How many events they have.
    pub(super) events: u64,
    /// The clock offsets in the file.
    pub(super) before: Vec<ClockOffset>,
    /// Those in the merged archive.
    pub(super) after: Vec<ClockOffset>,
}

impl Local {
    /// First and last tick in the merged archive that its events can have.
    fn span(&self) -> Option<(i128, i128)> {
        if self.events == 0 {
            return None;
        }
        let (first, last) = (self.before.first()?, self.before.last()?);
        Some((clock::applied(&self.after, first.time), clock::applied(&self.after, last.time)))
    }
}

/// From the common time of an archive of NCCL's to the ticks of Score-P's timer in a process, as its events have them.
#[derive(Debug)]
pub(super) struct OwnTicks {
    common: Piecewise,
    ticks: Piecewise,
    /// From the process's ticks to those of the trace; none where they are the same.
    correction: Option<Piecewise>,
}

impl OwnTicks {
    /// For the events of these locations.
    pub(super) fn of(scorep: &ScoreP, process: &scorep::Process, local: &Local) -> Result<Option<Self>> {
        let curves = clock::common_curve(&local.before).zip(clock::common_curve(&local.after));
        let correction = scorep.correction(process)?.offsets().and_then(clock::common_curve);
        Ok(curves.map(|(common, ticks)| Self { common, ticks, correction }))
    }

    pub(super) fn at(&self, time: u64) -> u64 {
        let tick = self.ticks.nearest(self.common.inverse(i128::from(time)));
        let own = self.correction.as_ref().map_or(tick, |curve| curve.inverse(tick));
        u64::try_from(own.max(0)).unwrap_or(u64::MAX)
    }
}

/// The locations of an archive by the process that they are of.
#[derive(Debug)]
pub(super) struct ByProcess<'a>(BTreeMap<LocationGroupRef, Vec<&'a Local>>);

impl<'a> ByProcess<'a> {
    pub(super) fn of(locals: &'a [Local]) -> Self {
        let mut processes: BTreeMap<LocationGroupRef, Vec<&Local>> = BTreeMap::new();
        for local in locals {
            if let Some(process) = local.process {
                processes.entry(process).or_default().push(local);
            }
        }
        Self(processes)
    }

    pub(super) fn with_events(&self, process: LocationGroupRef) -> impl Iterator<Item = &'a Local> {
        let of_process = self.0.get(&process).into_iter().flatten();
        of_process.copied().filter(|local| local.events > 0)
    }
}

/// All locations of an archive, those with the same file together: of a process they are links to one file.
pub(super) fn locals(nccl: &Nccl) -> Result<Vec<Local>> {
    let mut known: BTreeMap<(Option<LocationGroupRef>, u64, u64), Local> = BTreeMap::new();
    let processes = nccl.processes.iter().map(|process| process.group);
    let processes: BTreeSet<LocationGroupRef> = processes.collect();
    for (location, definition) in &nccl.definitions.locations {
        let file = nccl.archive.definition_file(*location);
        let metadata = std::fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let process = nccl.process_of(*location);
        let process = process.filter(|process| processes.contains(process));
        let key = (process, metadata.dev(), metadata.ino());
        if let Some(local) = known.get_mut(&key) {
            local.locations.push(*location);
            local.events += definition.number_of_events;
            continue;
        }
        let read = nccl.archive.local_definitions(*location);
        let mut before = read.context("cannot read local definitions")?.clock_offsets;
        before.sort_by_key(|offset| offset.time);
        let local = Local {
            is_scorep: false,
            process,
            locations: vec![*location],
            events: definition.number_of_events,
            before,
            after: Vec::new(),
        };
        known.insert(key, local);
    }
    Ok(known.into_values().collect())
}

/// Brings all locations onto the clock of the trace, by the anchors of their processes.
pub(super) fn by_anchors(scoreps: &[ScoreP], nccls: &[Nccl], pairs: &[Pair], locals: &mut [Vec<Local>]) -> Result<()> {
    let mut of_process: BTreeMap<(usize, LocationGroupRef), Vec<&mut Local>> = BTreeMap::new();
    for (archive, local) in (0..)
        .zip(locals)
        .flat_map(|(archive, all)| all.iter_mut().filter(|local| local.events > 0).map(move |local| (archive, local)))
    {
        if let Some(process) = local.process {
            of_process.entry((archive, process)).or_default().push(local);
        }
    }
    for pair in pairs {
        let (Some(scorep), Some(nccl)) = (scoreps.get(pair.scorep.0), nccls.get(pair.nccl.0)) else {
            continue;
        };
        let theirs = scorep.processes.get(pair.scorep.1);
        let (Some(theirs), Some(ours)) = (theirs, nccl.processes.get(pair.nccl.1)) else {
            continue;
        };
        let curve = local_curve(scorep, ours)?;
        let correction = scorep.correction(theirs)?;
        let of_process = of_process.get_mut(&(pair.nccl.0, ours.group));
        for local in of_process.into_iter().flatten() {
            let (Some(first), Some(last)) = (local.before.first(), local.before.last()) else {
                continue;
            };
            let covered = (first.time, last.time);
            local.after = clock::composed(&curve, &correction, covered);
            if let Some(span) = local.span() {
                fits(scorep, ours, span)?;
            }
        }
    }
    Ok(())
}

pub(super) fn local_curve(scorep: &ScoreP, ours: &nccl::Process) -> Result<Piecewise> {
    let name = &ours.name;
    let timer = scorep.timer;
    if ours.anchors.is_empty() {
        bail!(
            "{name}: the archive does not say what its clocks showed (an older version wrote it); write it again with \
             `nccl-otf2 finalize`, or guess with --align-start"
        );
    }
    if timer == Timer::Counter && !ours.has_counter {
        bail!(
            "{name}: Score-P's timer is the processor's counter, which NCCL's recording did not read; measure with \
             SCOREP_TIMER=clock_gettime, or guess with --align-start"
        );
    }
    let Some(curve) = clock::local_curve(timer, &ours.anchors) else {
        bail!("{name}: its clocks were read only once, which does not say how fast they run; guess with --align-start");
    };
    if timer == Timer::Counter && !is_same_rate(scorep, ours) {
        bail!(
            "{name}: its counter does not run at the {} ticks per second of Score-P's trace: they were recorded on \
             different machines. --align-start lays one over the other by a guess",
            scorep.ticks_per_second
        );
    }
    Ok(curve)
}

/// Whether counted ticks per second are those of the trace, as far as the anchors tell.
fn is_same_rate(scorep: &ScoreP, ours: &nccl::Process) -> bool {
    let (Some(first), Some(last)) = (ours.anchors.first(), ours.anchors.last()) else {
        return true;
    };
    let ns = last.monotonic_raw_ns.saturating_sub(first.monotonic_raw_ns);
    let ticks = u128::from(last.ticks.saturating_sub(first.ticks));
    let expected = u128::from(ns) * u128::from(scorep.ticks_per_second) / 1_000_000_000;
    let off = ticks.abs_diff(expected);
    // Of a short time the reading of the clocks is the larger part.
    let reading = u128::from(scorep.ticks_per_second) / 100_000;
    off <= reading.max(expected * u128::from(MOST_PPM) / 1_000_000)
}

fn fits(scorep: &ScoreP, ours: &nccl::Process, span: (i128, i128)) -> Result<()> {
    let margin = i128::from(MARGIN_SECONDS * scorep.ticks_per_second);
    let trace = [scorep.span.0, scorep.span.1];
    let trace = trace.map(|tick| match &scorep.onto {
        None => i128::from(tick),
        Some(onto) => clock::applied(onto, tick),
    });
    let trace = (trace[0], trace[1]);
    if span.1 >= trace.0 - margin && span.0 <= trace.1 + margin {
        return Ok(());
    }
    let per_second = i128::from(scorep.ticks_per_second.max(1));
    let seconds = (span.0 - trace.0) / per_second;
    let where_it_is = match seconds {
        0.. => format!("{seconds} s after"),
        _ => format!("{} s before", -seconds),
    };
    bail!(
        "{}: by the clocks of its host it begins {where_it_is} Score-P's trace, which is {} s long: they are not of \
         one run, or the host was started anew between them. --align-start lays one over the other by a guess",
        ours.name,
        (trace.1 - trace.0) / per_second
    )
}

/// Lays the first event of all `seconds` after the beginning of the trace: a guess.
pub(super) fn by_guess(scorep: &ScoreP, locals: &mut [Vec<Local>], seconds: f64) {
    let with_events = locals.iter().flatten().filter(|local| local.events > 0);
    let begins = with_events.filter_map(|local| {
        let first = local.before.first()?;
        Some(i128::from(first.time) + i128::from(first.offset))
    });
    let from_ns = begins.min().unwrap_or(0);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a guess by the user, not negative; a cast of a float saturates"
    )]
    let ticks = (seconds * scorep.ticks_per_second as f64) as u64;
    let to = scorep.span.0.saturating_add(ticks);
    for local in locals.iter_mut().flatten() {
        local.after = clock::guessed(&local.before, from_ns, to, scorep.ticks_per_second);
    }
}

/// The wall clock at a tick of the trace, in nanoseconds since 1970: Score-P does not say it, NCCL's archive does.
pub(super) fn began_ns(scorep: &ScoreP, locals: &[Vec<Local>], tick: u64) -> Option<u64> {
    let local = locals.iter().flatten().find(|local| local.events > 0 && !local.before.is_empty())?;
    let first = local.before.first()?;
    let later_ns = (clock::applied(&local.after, first.time) - i128::from(tick)) * 1_000_000_000
        / i128::from(scorep.ticks_per_second.max(1));
    u64::try_from(clock::applied(&local.before, first.time) - later_ns).ok()
}

/// First and last tick of everything.
pub(super) fn span(scoreps: &[ScoreP], locals: &[Vec<Local>]) -> (u64, u64) {
    let traces = scoreps.iter().map(|scorep| match &scorep.onto {
        None => scorep.span,
        Some(onto) => {
            let tick = |tick: u64| {
                let tick = clock::applied(onto, tick);
                u64::try_from(tick.max(0)).unwrap_or(u64::MAX)
            };
            (tick(scorep.span.0), tick(scorep.span.1))
        }
    });
    let first = traces.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let first = first.unwrap_or_default();
    let spans = locals.iter().flatten().filter_map(Local::span);
    spans.fold(first, |all, span| {
        let tick = |tick: i128| u64::try_from(tick.max(0)).unwrap_or(u64::MAX);
        (all.0.min(tick(span.0)), all.1.max(tick(span.1)))
    })
}
