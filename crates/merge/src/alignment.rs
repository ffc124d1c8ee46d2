//! Determines the clock of every NCCL location in the merged archive, and checks its plausibility.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, Result, bail};
use clocks::piecewise::Piecewise;
use otf2::{LocationGroupRef, LocationRef};
use small_sort::Gather;

use crate::clock::{self, NS_PER_SECOND, Timer};
use crate::inputs::{Inputs, Local, Locals};
use crate::nccl::{self, Nccl};
use crate::pairing::Pair;
use crate::scorep::ScoreP;

/// How long after Score-P's last event, or before its first, a process may have called NCCL.
const MARGIN_SECONDS: u64 = 5;
/// How much a counter's rate may differ from the trace's rate on one machine.
const MOST_PPM: u64 = 1000;

/// Converts the common time of an NCCL archive to the ticks of Score-P's timer in a process, as in its event files.
#[derive(Debug)]
pub(crate) struct OwnTicks {
    common: Piecewise,
    ticks: Piecewise,
    /// From the process's ticks to the trace's; `None` if they are the same.
    correction: Option<Piecewise>,
}

impl OwnTicks {
    /// For the events of a location of the pair; `None` if the location has no clock.
    pub(crate) fn of(inputs: &Inputs, pair: &Pair, location: LocationRef) -> Result<Option<Self>> {
        let Some(local) = inputs.locals_of(pair).find(|local| local.locations.contains(&location)) else {
            return Ok(None);
        };
        let curves = clock::common_curve(&local.before).zip(clock::common_curve(&local.after));
        let correction = clock::common_curve(&inputs.scorep(pair).correction(inputs.theirs(pair))?);
        Ok(curves.map(|(common, ticks)| Self { common, ticks, correction }))
    }

    pub(crate) fn at(&self, time: u64) -> u64 {
        let tick = self.ticks.nearest(self.common.inverse(i128::from(time)));
        clock::saturated(self.correction.as_ref().map_or(tick, |curve| curve.inverse(tick)))
    }
}

/// Reads the clocks of an archive's locations. All locations of a process are links to one file.
pub(crate) fn locals(nccl: &Nccl) -> Result<Locals> {
    let processes: BTreeSet<LocationGroupRef> = nccl.processes.iter().map(|process| process.group).gather();
    let mut all = Locals::new();
    for (location, definition) in &nccl.trace.definitions.locations {
        let file = nccl.trace.archive.definition_file(*location);
        let metadata = std::fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let process = Some(nccl.process_of(*location)).filter(|process| processes.contains(process));
        let local = match all.entry(process).or_default().entry((metadata.dev(), metadata.ino())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let read = nccl.trace.archive.local_definitions(*location);
                let mut before = read.context("cannot read local definitions")?.clock_offsets;
                small_sort::sort_by_key(&mut before, |offset| offset.time);
                new.insert(Local { locations: Vec::new(), events: 0, before, after: Vec::new() })
            }
        };
        local.locations.push(*location);
        local.events += definition.number_of_events;
    }
    Ok(all)
}

/// Maps all locations to the clock of the trace, by the anchors of their processes.
pub(crate) fn by_anchors(inputs: &mut Inputs) -> Result<()> {
    for pair in &inputs.pairs {
        let scorep = &inputs.scoreps[pair.scorep.archive];
        let ours = &inputs.nccls[pair.nccl.archive].processes[pair.nccl.process];
        let curve = local_curve(scorep, ours)?;
        let correction = scorep.correction(&scorep.processes[pair.scorep.process])?;
        let of_process = inputs.locals[pair.nccl.archive].get_mut(&Some(ours.group));
        for local in of_process.into_iter().flat_map(|all| all.values_mut()) {
            let Some(covered) = local.covered() else {
                continue;
            };
            local.after = clock::composed(&curve, &correction, covered);
            local.span().map_or(Ok(()), |span| fits(scorep, ours, span))?;
        }
    }
    Ok(())
}

pub(crate) fn local_curve(scorep: &ScoreP, ours: &nccl::Process) -> Result<Piecewise> {
    let (name, timer) = (&ours.name, scorep.timer);
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

/// Whether the counter runs at the rate of the trace, as far as the anchors show.
fn is_same_rate(scorep: &ScoreP, ours: &nccl::Process) -> bool {
    let (Some(first), Some(last)) = (ours.anchors.first(), ours.anchors.last()) else {
        return true;
    };
    let ns = last.monotonic_raw_ns.saturating_sub(first.monotonic_raw_ns);
    let ticks = u128::from(last.ticks.saturating_sub(first.ticks));
    let expected = u128::from(ns) * u128::from(scorep.ticks_per_second) / 1_000_000_000;
    let off = ticks.abs_diff(expected);
    // Over a short time, the error of reading the clocks dominates.
    let reading = u128::from(scorep.ticks_per_second) / 100_000;
    off <= reading.max(expected * u128::from(MOST_PPM) / 1_000_000)
}

/// Refuses a process whose times are not within the trace.
fn fits(scorep: &ScoreP, ours: &nccl::Process, span: (i128, i128)) -> Result<()> {
    let margin = i128::from(MARGIN_SECONDS * scorep.ticks_per_second);
    let (begin, end) = scorep.span_in_first();
    let trace = (i128::from(begin), i128::from(end));
    if span.1 >= trace.0 - margin && span.0 <= trace.1 + margin {
        return Ok(());
    }
    let per_second = i128::from(scorep.ticks_per_second);
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

/// Places NCCL's first event `seconds` after the start of the trace: a guess.
pub(crate) fn by_guess(inputs: &mut Inputs, seconds: f64) {
    let begins = inputs.all_locals().filter(|local| local.events > 0).filter_map(|local| local.before.first());
    let from_ns = begins.map(|first| i128::from(first.time) + i128::from(first.offset)).min();
    let (to, ticks_per_second) = (inputs.first().span.0, inputs.first().ticks_per_second);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a guess by the user, not negative; a cast of a float saturates"
    )]
    let to = to.saturating_add((seconds * ticks_per_second as f64) as u64);
    // Without events there is no clock to place.
    let Some(from_ns) = from_ns else { return };
    for local in inputs.locals.iter_mut().flat_map(|all| all.values_mut()).flat_map(|all| all.values_mut()) {
        local.after = clock::guessed(&local.before, from_ns, to, ticks_per_second);
    }
}

/// The wall clock at a tick of the trace, in ns since 1970: Score-P does not state it, but NCCL's archive does. `None`
/// if the relation of the clocks is a guess.
pub(crate) fn began_ns(inputs: &Inputs, tick: u64) -> Option<u64> {
    let local = inputs.all_locals().find(|local| local.covered().is_some()).filter(|_| !inputs.is_guess)?;
    let first = local.before.first()?;
    let later = clock::applied(&local.after, first.time) - i128::from(tick);
    let later_ns = later * NS_PER_SECOND / i128::from(inputs.first().ticks_per_second);
    u64::try_from(clock::applied(&local.before, first.time) - later_ns).ok()
}

pub(crate) fn span_of_traces(inputs: &Inputs) -> (u64, u64) {
    let first = inputs.first().span;
    inputs.scoreps.iter().map(ScoreP::span_in_first).fold(first, |all, span| (all.0.min(span.0), all.1.max(span.1)))
}

pub(crate) fn span(inputs: &Inputs) -> (u64, u64) {
    inputs.all_locals().filter_map(Local::span).fold(span_of_traces(inputs), |all, span| {
        (all.0.min(clock::saturated(span.0)), all.1.max(clock::saturated(span.1)))
    })
}
