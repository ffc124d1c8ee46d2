//! What of a process was recorded when: recording may be switched while the job runs.

use journal::reader::Removed;
use nccl_events::Kind;
use nccl_events::control::{Cause, Span, StepSwitch, Switch};

/// The kinds by which operations of ranks are counted and compared.
const COMPARED: u32 =
    Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::Coll.mask() | Kind::P2p.mask() | Kind::CeColl.mask();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAt {
    /// In ticks, then in nanoseconds.
    pub time: u64,
    /// The context of the rank that a step range switched; 0 for the whole process.
    pub context: u64,
    /// The thread that called then, where it was for one rank: an index in [`super::Tables::threads`].
    pub thread: Option<u32>,
    pub switch: Switch,
}

impl SwitchAt {
    /// Whether from here on there are other calls or operations of the process than before: their order says
    /// nothing then. Step ranges of a rank are another matter ([`Coverage`]).
    pub const fn breaks_order(&self) -> bool {
        let Switch { before, after, cause } = self.switch;
        match cause {
            Cause::Steps(_) => self.context == 0,
            _ => before.in_force() & COMPARED != after.in_force() & COMPARED,
        }
    }

    /// Whether there are calls of the process that are not in the recording.
    pub const fn leaves_out(&self) -> bool {
        self.breaks_order() || matches!(self.switch.cause, Cause::Steps(_))
    }

    /// What a step range did to a rank.
    pub const fn step_switch(&self) -> Option<StepSwitch> {
        match self.switch.cause {
            Cause::Steps(step_switch) => Some(step_switch),
            _ => None,
        }
    }
}

/// Which calls of a rank were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All, from the first one on.
    Whole,
    /// The collectives of these ranges: the same on all ranks that say so.
    StepRanges(Vec<Span>),
    /// Some calls are missing, and nothing shows which.
    Unknown,
}

impl Coverage {
    /// Of the rank with a context.
    pub fn of(switches: &[SwitchAt], removed: &Removed, context: u64) -> Self {
        let switches = switches.iter();
        if removed.segments > 0 || switches.clone().any(SwitchAt::breaks_order) {
            return Self::Unknown;
        }
        let mut of_steps = switches.filter_map(|at| Some((at.context, at.step_switch()?)));
        if of_steps.clone().next().is_none() {
            return Self::Whole;
        }
        let mut own = of_steps.by_ref().filter(|&(of, _)| of == context);
        let mut ranges = Vec::new();
        let is_exact = own.all(|(_, it)| {
            ranges.extend(it.range.filter(|range| !ranges.contains(range)));
            it.is_exact
        });
        if is_exact && !ranges.is_empty() { Self::StepRanges(ranges) } else { Self::Unknown }
    }
}
