//! Joins several Score-P traces of one process each, as torchrun jobs produce them.
//!
//! The first trace keeps its numbers and its clock. The others are appended as NCCL's archive is, with new numbers, and
//! clock offsets from the anchors of the same process in NCCL's archive.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use otf2::ClockOffset;

use crate::alignment;
use crate::clock;
use crate::inputs::{Inputs, Local};
use crate::pairing::Pair;
use crate::scorep::ScoreP;

pub(crate) fn refuse(scoreps: &[ScoreP]) -> Result<()> {
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

/// Sorts the traces by NCCL's ranks, and assigns each a rank.
pub(crate) fn order(inputs: &mut Inputs) {
    // Traces of processes that did not record NCCL come last.
    let mut ranks = vec![u32::MAX; inputs.scoreps.len()];
    for pair in inputs.pairs.iter().rev() {
        let ours = inputs.ours(pair);
        ranks[pair.scorep.archive] = ours.rank.or(ours.rank_in_communicator).unwrap_or(u32::MAX);
    }
    let mut order: Vec<_> = ranks.into_iter().zip(0..).zip(inputs.scoreps.drain(..)).collect();
    small_sort::sort_by_key(&mut order, |(key, _)| *key);
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
    let own_local = alignment::local_curve(scorep, inputs.ours(own))?;
    let base_local = alignment::local_curve(first, inputs.ours(base))?;
    Ok(clock::onto((&own_local, &own_common), (&base_local, &base_common), scorep.span))
}

/// The locations of a trace that is appended to the first. Each has its own file.
pub(crate) fn locals(scorep: &ScoreP) -> Result<Vec<Local>> {
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
