//! Determines the clock of every NCCL location in the merged archive, and checks its plausibility. Finds the NCCL calls
//! that are placed between Score-P's events, and joins several Score-P traces into one.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;

use crate::clock::{NS_PER_SECOND, Timer};
use crate::inputs::{Inputs, Local, Locals};
use crate::pairing::{Nccl, Pair};
use crate::scorep::{ScoreP, Step};
use crate::{clock, pairing, scorep};
use anyhow::{Context as _, Result, bail};
use clocks::piecewise::Piecewise;
use nccl_events::archive::LocationKind;
use nccl_events::schema::definition::ThreadId;
use nccl_events::sort::Gather;
use otf2::verbatim::RecordKind;
use otf2::{ClockOffset, EventKind, LocationGroupRef, LocationRef};

/// How long after Score-P's last event, or before its first, a process may have called NCCL.
const MARGIN_SECONDS: u64 = 5;
/// How much a counter's rate may differ from the trace's rate on one machine.
const MOST_PPM: u64 = 1000;

/// Converts the common time of an NCCL archive to the ticks of Score-P's timer in a process, as in its event files.
#[derive(Debug)]
pub(crate) struct TickConversion {
    common: Piecewise,
    ticks: Piecewise,
    /// From the process's ticks to the trace's; `None` if they are the same.
    correction: Option<Piecewise>,
}

impl TickConversion {
    /// For the events of a location of the pair; `None` if the location has no clock.
    pub(crate) fn read(inputs: &Inputs, pair: &Pair, location: LocationRef) -> Result<Option<Self>> {
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
                nccl_events::sort::sort_by_key(&mut before, |offset| offset.time);
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
        let process_locals = inputs.locals[pair.nccl.archive].get_mut(&Some(ours.group));
        for local in process_locals.into_iter().flat_map(|all| all.values_mut()) {
            let Some(covered) = local.covered() else {
                continue;
            };
            local.after = clock::composed(&curve, &correction, covered);
            local.span().map_or(Ok(()), |span| fits(scorep, ours, span))?;
        }
    }
    Ok(())
}

pub(crate) fn local_curve(scorep: &ScoreP, ours: &pairing::Process) -> Result<Piecewise> {
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
        bail!("{name}: its clocks were read only once, so their speed is unknown; guess with --align-start");
    };
    if timer == Timer::Counter && !is_same_rate(scorep, ours) {
        bail!(
            "{name}: its counter does not run at the {} ticks per second of Score-P's trace: they were recorded on \
             different machines. --align-start aligns them by a guess",
            scorep.ticks_per_second
        );
    }
    Ok(curve)
}

/// Whether the counter runs at the rate of the trace, as far as the anchors show.
fn is_same_rate(scorep: &ScoreP, ours: &pairing::Process) -> bool {
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
fn fits(scorep: &ScoreP, ours: &pairing::Process, span: (i128, i128)) -> Result<()> {
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
        the same run, or the host was rebooted in between. --align-start aligns them by a guess",
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

/// NCCL calls are placed between Score-P's events of the same thread, if Score-P has that thread and the regions of
/// both nest. Otherwise they keep a separate location.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// For each NCCL archive, the threads whose calls are on Score-P's locations.
    pub(crate) threads: Vec<Vec<Thread>>,
    /// Number of threads that keep a separate location, by reason.
    pub(crate) own: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) ours: LocationRef,
    pub(crate) theirs: LocationRef,
    /// The order of both writers' events: whether the next one is NCCL's.
    pub(crate) order: Vec<bool>,
    pub(crate) ticks: TickConversion,
}

impl Calls {
    pub(crate) fn read(inputs: &Inputs) -> Result<Self> {
        let mut calls = Self { threads: inputs.nccls.iter().map(|_| Vec::new()).collect(), own: BTreeMap::new() };
        let for_all = for_all(inputs);
        let mut taken = BTreeSet::new();
        for pair in &inputs.pairs {
            let known = match for_all {
                None => inputs.scorep(pair).threads(inputs.theirs(pair))?,
                Some(_) => BTreeMap::new(),
            };
            for (location, thread_id) in threads(inputs, pair) {
                let theirs = thread_id.and_then(|id| known.get(&id)).copied();
                let found = match (for_all, thread_id, theirs) {
                    (Some(reason), ..) => Err(reason),
                    (None, None, _) => Err("NCCL's archive does not say which threads they are"),
                    (None, Some(_), None) => Err("Score-P does not say that it has these threads"),
                    (.., Some(theirs)) if !taken.insert(theirs) => {
                        Err("another archive of NCCL's has the same threads")
                    }
                    (.., Some(theirs)) => thread(inputs, pair, location, theirs)?,
                };
                match found {
                    Ok(thread) => calls.threads[pair.nccl.archive].push(thread),
                    Err(reason) => *calls.own.entry(reason).or_default() += 1,
                }
            }
        }
        Ok(calls)
    }

    pub(crate) fn events(&self) -> BTreeMap<LocationRef, u64> {
        self.threads.iter().flatten().map(|thread| (thread.theirs, thread.order.len() as u64)).gather()
    }
}

fn for_all(inputs: &Inputs) -> Option<&'static str> {
    if inputs.is_guess {
        return Some("where NCCL's events lie is a guess");
    }
    match inputs.scoreps.as_slice() {
        [scorep] if scorep.has_regions_of_nccl() => Some(
            "NCCL calls were shown to Score-P while the job ran and would appear twice (NCCL_OTF2_SCOREP=off \
                avoids this)",
        ),
        [_] => None,
        _ => Some("every process has a trace of its own"),
    }
}

/// The locations of a process's threads that call NCCL, with their system thread ids.
fn threads(inputs: &Inputs, pair: &Pair) -> Vec<(LocationRef, Option<u64>)> {
    let (trace, group) = (&inputs.nccl(pair).trace, inputs.ours(pair).group);
    let is_of_process = |location: &LocationRef| trace.process(trace.group(*location)) == group;
    let own = trace.locations_of(&[LocationKind::ApiThread]).into_iter().filter(is_of_process);
    own.map(|location| (location, trace.location_property(location, ThreadId))).collect()
}

/// The Score-P thread for a location, or the reason why its calls cannot be there.
fn thread(
    inputs: &Inputs,
    pair: &Pair,
    ours: LocationRef,
    theirs: LocationRef,
) -> Result<Result<Thread, &'static str>> {
    let scorep = inputs.scorep(pair);
    let Some(ticks) = TickConversion::read(inputs, pair, ours)? else {
        return Ok(Err("they have no clock"));
    };
    let mut steps = Vec::new();
    let mut is_calls = true;
    inputs
        .nccl(pair)
        .trace
        .archive
        .for_each_event(&[ours], |_, event| {
            let step = match event.kind {
                EventKind::Enter(_) => Step::Enter,
                EventKind::Leave(_) => Step::Leave,
                EventKind::MeasurementOnOff(_) => Step::Other,
                _ => {
                    is_calls = false;
                    return ControlFlow::Break(());
                }
            };
            steps.push((ticks.at(event.time), step));
            ControlFlow::Continue(())
        })
        .context("cannot read NCCL's calls")?;
    if !is_calls {
        return Ok(Err("they have other events than calls"));
    }
    let records = scorep.records(theirs)?;
    let their_steps = records.as_slice().iter().map(|record| {
        let step = match record.kind {
            RecordKind::Enter(_) | RecordKind::CallingContextEnter => Step::Enter,
            RecordKind::Leave(_) | RecordKind::CallingContextLeave => Step::Leave,
            RecordKind::MpiCollectiveEnd | RecordKind::Other => Step::Other,
        };
        (record.time, step)
    });
    Ok(scorep::order(their_steps, &steps).map(|order| Thread { ours, theirs, order, ticks }))
}

// Several Score-P traces of one process each, as torchrun jobs produce them, are joined. The first trace keeps its
// numbers and its clock. The others are appended as NCCL's archive is, with new numbers, and clock offsets from the
// anchors of the same process in NCCL's archive.

pub(crate) fn refuse(scoreps: &[ScoreP]) -> Result<()> {
    for scorep in scoreps {
        let anchor = scorep.archive.anchor_file().display();
        if scorep.processes.len() != 1 {
            bail!(
                "{anchor} has {} processes: several Score-P traces can be merged only if each is of one process",
                scorep.processes.len()
            );
        }
        if scorep.archive.anchor_file().with_extension("marker").exists() {
            bail!("{anchor} has markers, which would be lost; merge it alone to keep them");
        }
    }
    Ok(())
}

/// Sorts the traces by NCCL's ranks, and assigns each a rank.
pub(crate) fn order(inputs: &mut Inputs) {
    // Traces of processes that did not record NCCL come last.
    let mut ranks = vec![u32::MAX; inputs.scoreps.len()];
    for pair in inputs.pairs.iter().rev() {
        let ours = inputs.ours(pair);
        ranks[pair.scorep.archive] = ours.rank.or(ours.rank_in_communicator).unwrap_or(u32::MAX);
    }
    let mut order: Vec<_> = ranks.into_iter().zip(0..).zip(inputs.scoreps.drain(..)).collect();
    nccl_events::sort::sort_by_key(&mut order, |(key, _)| *key);
    let mut places = BTreeMap::new();
    for (rank, ((_, before), mut scorep)) in (0..).zip(order) {
        places.insert(before, inputs.scoreps.len());
        scorep.processes.iter_mut().for_each(|process| process.id.rank = rank);
        inputs.scoreps.push(scorep);
    }
    for pair in &mut inputs.pairs {
        pair.scorep.archive = places[&pair.scorep.archive];
    }
}

/// Determines the clock offsets that map each trace to the clock of the first.
pub(crate) fn align(inputs: &mut Inputs) -> Result<()> {
    let mut pairs: BTreeMap<usize, Pair> = BTreeMap::new();
    for pair in &inputs.pairs {
        pairs.entry(pair.scorep.archive).or_insert(*pair);
    }
    for number in 1..inputs.scoreps.len() {
        let onto = onto_first(inputs, &inputs.scoreps[number], pairs.get(&0), pairs.get(&number))?;
        inputs.scoreps[number].onto = Some(onto);
    }
    Ok(())
}

fn onto_first(inputs: &Inputs, scorep: &ScoreP, base: Option<&Pair>, own: Option<&Pair>) -> Result<Vec<ClockOffset>> {
    let first = inputs.first();
    let anchor = scorep.archive.anchor_file().display();
    if first.timer != scorep.timer {
        bail!("{anchor} has the timer {}, others have {}", scorep.timer.name(), first.timer.name());
    }
    let [base_host, own_host] = [first, scorep].map(|scorep| &scorep.processes[0].id.host);
    if !base_host.is_empty() && base_host == own_host {
        // All processes of a host read the same clock.
        let (from, to) = scorep.span;
        return Ok([from, to.max(from + 1)]
            .map(|time| ClockOffset { time, offset: 0, standard_deviation: 0.0 })
            .into());
    }
    let (Some(own), Some(base)) = (own, base) else {
        bail!("{anchor}: its process did not record NCCL, so nothing relates the clock of its host to the others");
    };
    if own.nccl.archive != base.nccl.archive {
        bail!("{anchor}: its process is in another archive of NCCL's than that of the first trace");
    }
    let common = |pair| {
        let local = inputs.locals_of(pair).find(|local| local.events > 0);
        local
            .and_then(|local| clock::common_curve(&local.before))
            .with_context(|| format!("{anchor}: its process has no events in NCCL's archive"))
    };
    let (own_common, base_common) = (common(own)?, common(base)?);
    let own_local = local_curve(scorep, inputs.ours(own))?;
    let base_local = local_curve(first, inputs.ours(base))?;
    Ok(clock::onto((&own_local, &own_common), (&base_local, &base_common), scorep.span))
}

/// The locations of a trace that is appended to the first. Each has its own file.
pub(crate) fn appended_locals(scorep: &ScoreP) -> Result<Vec<Local>> {
    let mut all = Vec::new();
    for (location, definition) in &scorep.definitions.locations {
        let before = scorep.archive.local_definitions(*location)?.clock_offsets;
        if before.iter().any(|offset| offset.offset != 0) {
            bail!(
                "{} corrects its clock by itself: it is of several processes",
                scorep.archive.anchor_file().display()
            );
        }
        all.push(Local {
            locations: vec![*location],
            events: definition.number_of_events,
            before: Vec::new(),
            after: scorep.onto.clone().unwrap_or_default(),
        });
    }
    Ok(all)
}
