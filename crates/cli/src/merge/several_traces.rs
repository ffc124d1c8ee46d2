//! Several traces of Score-P's, each of one process, as torchrun's jobs have them: they become one.
//!
//! The first keeps its numbers and its clock. The others are put behind it as NCCL's archive is: new numbers, and clock
//! offsets from the anchors of the same process in NCCL's archive.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

use super::clock;
use super::clocks::{self, ByProcess, Local};
use super::nccl::{self, Nccl};
use super::pairing::Pair;
use super::scorep::ScoreP;

/// Refuses traces that cannot become one.
pub(super) fn refuse(scoreps: &[ScoreP]) -> Result<()> {
    for scorep in scoreps {
        let anchor = scorep.archive.anchor_file().display();
        if scorep.processes.len() != 1 {
            bail!(
                "{anchor} has {} processes: several traces of Score-P's can be merged where each is of one",
                scorep.processes.len()
            );
        }
        if scorep.archive.anchor_file().with_extension("marker").exists() {
            bail!("{anchor} has markers, which would be lost; one trace of Score-P's alone keeps them");
        }
    }
    Ok(())
}

/// Puts the traces into the order of NCCL's ranks, and gives each a rank.
pub(super) fn order(scoreps: &mut Vec<ScoreP>, nccls: &[Nccl], pairs: &mut [Pair]) {
    let first = first_of_each(pairs);
    let rank = |place: usize| {
        let pair = first.get(&place)?;
        let process = nccls.get(pair.nccl.0)?.processes.get(pair.nccl.1)?;
        process.rank.or(process.rank_in_communicator)
    };
    let mut order: Vec<(u32, usize)> =
        (0..scoreps.len()).map(|place| (rank(place).unwrap_or(u32::MAX), place)).collect();
    order.sort_unstable();
    let mut before: Vec<Option<ScoreP>> = scoreps.drain(..).map(Some).collect();
    for (rank, (_, place)) in (0..).zip(&order) {
        if let Some(mut scorep) = before.get_mut(*place).and_then(Option::take) {
            for process in &mut scorep.processes {
                process.rank = rank;
            }
            scoreps.push(scorep);
        }
    }
    let new: BTreeMap<usize, usize> = order.iter().map(|(_, place)| *place).zip(0..).collect();
    for pair in pairs {
        pair.scorep.0 = new.get(&pair.scorep.0).copied().unwrap_or(pair.scorep.0);
    }
}

/// Of each of Score-P's traces the first process of NCCL's.
fn first_of_each(pairs: &[Pair]) -> BTreeMap<usize, Pair> {
    let mut first = BTreeMap::new();
    for pair in pairs {
        first.entry(pair.scorep.0).or_insert(*pair);
    }
    first
}

/// Finds the clock offsets that bring each trace onto the clock of the first.
pub(super) fn align(scoreps: &mut [ScoreP], nccls: &[Nccl], pairs: &[Pair], locals: &[Vec<Local>]) -> Result<()> {
    let first = first_of_each(pairs);
    let processes: Vec<ByProcess<'_>> = locals.iter().map(|all| ByProcess::of(all)).collect();
    let mut all = Vec::new();
    for number in 1..scoreps.len() {
        all.push(onto_first(scoreps, nccls, &first, &processes, number)?);
    }
    for (scorep, onto) in scoreps.iter_mut().skip(1).zip(all) {
        scorep.onto = Some(onto);
    }
    Ok(())
}

fn onto_first(
    scoreps: &[ScoreP],
    nccls: &[Nccl],
    pairs: &BTreeMap<usize, Pair>,
    locals: &[ByProcess<'_>],
    number: usize,
) -> Result<Vec<otf2::ClockOffset>> {
    let (Some(first), Some(scorep)) = (scoreps.first(), scoreps.get(number)) else {
        return Ok(Vec::new());
    };
    let anchor = scorep.archive.anchor_file().display();
    let (Some(theirs), Some(own)) = (first.processes.first(), scorep.processes.first()) else {
        return Ok(Vec::new());
    };
    if first.timer != scorep.timer {
        bail!("{anchor} has the timer {}, others have {}", scorep.timer.name(), first.timer.name());
    }
    if !theirs.host.is_empty() && theirs.host == own.host {
        // All processes of a host read the same clock.
        let (from, to) = scorep.span;
        let nothing = |time| otf2::ClockOffset { time, offset: 0, standard_deviation: 0.0 };
        return Ok([from, to.max(from + 1)].map(nothing).into());
    }
    let process = |number: usize| {
        let pair = pairs.get(&number)?;
        let process = nccls.get(pair.nccl.0)?.processes.get(pair.nccl.1)?;
        Some((pair.nccl.0, process))
    };
    let (Some((archive, ours)), Some((other, base))) = (process(number), process(0)) else {
        bail!("{anchor}: its process did not record NCCL, so nothing relates the clock of its host to the others");
    };
    if archive != other {
        bail!("{anchor}: its process is in another archive of NCCL's than that of the first trace");
    }
    let common = |process: &nccl::Process| {
        let local = locals.get(archive)?.with_events(process.group).next()?;
        clock::common_curve(&local.before)
    };
    let without = || format!("{anchor}: its process has no events in NCCL's archive");
    let own_common = common(ours).with_context(without)?;
    let base_common = common(base).with_context(without)?;
    let own_local = clocks::local_curve(scorep, ours)?;
    let base_local = clocks::local_curve(first, base)?;
    Ok(clock::onto((&own_local, &own_common), (&base_local, &base_common), scorep.span))
}

/// The locations of a trace that is put behind the first. Each has a file of its own.
pub(super) fn locals(scorep: &ScoreP) -> Result<Vec<Local>> {
    let Some(onto) = &scorep.onto else {
        return Ok(Vec::new());
    };
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
            is_scorep: true,
            process: None,
            locations: vec![*location],
            events: definition.number_of_events,
            before: Vec::new(),
            after: onto.clone(),
        });
    }
    Ok(all)
}
