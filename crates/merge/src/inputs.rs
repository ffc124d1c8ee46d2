//! The inputs of a merge: the archives, the pairs of processes, and the clock of every location.

use std::collections::BTreeMap;

use crate::pairing::{Nccl, Pair};
use crate::scorep::ScoreP;
use crate::{clock, pairing, scorep};
use otf2::{ClockOffset, LocationGroupRef, LocationRef};

#[derive(Debug)]
pub(crate) struct Inputs {
    /// At least one. All archives are written on the clock of the first.
    pub(crate) scoreps: Vec<ScoreP>,
    pub(crate) nccls: Vec<Nccl>,
    pub(crate) pairs: Vec<Pair>,
    /// The locations of each of `nccls`.
    pub(crate) locals: Vec<Locals>,
    /// Whether the user guessed how the clocks relate (`--align-start`).
    pub(crate) is_guess: bool,
}

/// Locations by process (`None` for ranks without a part), then by device and inode of their local definitions.
pub(crate) type Locals = BTreeMap<Option<LocationGroupRef>, BTreeMap<(u64, u64), Local>>;

/// Locations that share their local definitions.
#[derive(Debug)]
pub(crate) struct Local {
    /// Local definitions are read from the file of the first location.
    pub(crate) locations: Vec<LocationRef>,
    pub(crate) events: u64,
    /// The clock offsets in the file, in time order.
    pub(crate) before: Vec<ClockOffset>,
    pub(crate) after: Vec<ClockOffset>,
}

impl Local {
    /// The range of times in the file that contains its events.
    pub(crate) fn covered(&self) -> Option<(u64, u64)> {
        Some((self.before.first()?.time, self.before.last()?.time)).filter(|_| self.events > 0)
    }

    /// The first and last tick in the merged archive that its events can have.
    pub(crate) fn span(&self) -> Option<(i128, i128)> {
        let (first, last) = self.covered()?;
        Some((clock::applied(&self.after, first), clock::applied(&self.after, last)))
    }
}

impl Inputs {
    pub(crate) fn first(&self) -> &ScoreP {
        &self.scoreps[0]
    }

    pub(crate) fn scorep(&self, pair: &Pair) -> &ScoreP {
        &self.scoreps[pair.scorep.archive]
    }

    pub(crate) fn nccl(&self, pair: &Pair) -> &Nccl {
        &self.nccls[pair.nccl.archive]
    }

    pub(crate) fn ours(&self, pair: &Pair) -> &pairing::Process {
        &self.nccl(pair).processes[pair.nccl.process]
    }

    pub(crate) fn theirs(&self, pair: &Pair) -> &scorep::Process {
        &self.scorep(pair).processes[pair.scorep.process]
    }

    pub(crate) fn locals_of(&self, pair: &Pair) -> impl Iterator<Item = &Local> {
        self.locals[pair.nccl.archive].get(&Some(self.ours(pair).group)).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn all_locals(&self) -> impl Iterator<Item = &Local> {
        self.locals.iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }

    pub(crate) const fn clock(&self) -> &'static str {
        if self.is_guess { "guess" } else { "anchors" }
    }
}
