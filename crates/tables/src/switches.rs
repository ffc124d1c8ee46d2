//! What was recorded of a process when: recording can be switched while the job runs.

use journal::reader::Removed;
use nccl_events::Kind;
use nccl_events::{Cause, Span, StepSwitch, Switch};

/// The kinds from which the operations of ranks are counted and compared.
const COMPARED: u32 =
    Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::Coll.mask() | Kind::P2p.mask() | Kind::CeColl.mask();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAt {
    /// In ticks until converted, then in nanoseconds.
    pub time: u64,
    /// The context of the rank that a step range switched; 0 for the whole process.
    pub context: u64,
    /// The calling thread, if one rank was switched: an index in [`super::Tables::threads`].
    pub thread: Option<u32>,
    pub switch: Switch,
}

impl SwitchAt {
    /// Whether other calls or operations are recorded from here on than before, so that their order means nothing. Step
    /// ranges of a rank are handled by [`Coverage`].
    pub const fn breaks_order(&self) -> bool {
        let Switch { before, after, cause } = self.switch;
        match cause {
            Cause::Steps(_) => self.context == 0,
            _ => before.in_force() & COMPARED != after.in_force() & COMPARED,
        }
    }

    /// Whether some of the process's calls are missing from the recording.
    pub const fn leaves_out(&self) -> bool {
        self.breaks_order() || matches!(self.switch.cause, Cause::Steps(_))
    }

    /// The effect of a step range on a rank.
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
    /// All calls, from the first one on.
    Whole,
    /// The collectives of these ranges, which are the same on all ranks that state them.
    StepRanges(Vec<Span>),
    /// The collectives of these ranges, which were in steps that the program names.
    NamedSteps(Vec<Span>),
    /// Some calls are missing, and it is unknown which.
    Unknown,
}

impl Coverage {
    /// The coverage of the rank with this context.
    pub fn of(switches: &[SwitchAt], removed: &Removed, context: u64) -> Self {
        let switches = switches.iter();
        if removed.segments > 0 || switches.clone().any(SwitchAt::breaks_order) {
            return Self::Unknown;
        }
        let of_steps = switches.filter_map(|at| Some((at.context, at.step_switch()?)));
        if of_steps.clone().next().is_none() {
            return Self::Whole;
        }
        let own = of_steps.filter(|&(of, _)| of == context).map(|(_, it)| it);
        if own.clone().next().is_none() || own.clone().any(|it| !it.is_exact) {
            return Self::Unknown;
        }
        let is_named = own.clone().any(|it| it.is_named);
        let mut ranges: Vec<Span> = Vec::new();
        for range in own.filter_map(|it| it.range) {
            match ranges.last_mut() {
                // Where the program names steps, a range has its end when the rank leaves it.
                Some(last) if last.first == range.first => *last = range,
                _ => ranges.push(range),
            }
        }
        ranges.retain(|range| !range.is_empty());
        if is_named { Self::NamedSteps(ranges) } else { Self::StepRanges(ranges) }
    }
}

#[cfg(test)]
mod tests {
    use nccl_events::Wanted;

    use super::*;

    /// The switches of a rank whose named steps hold no collective, collectives 1 and 2, none, and those from 5 on.
    #[test]
    fn a_named_step_without_collectives_covers_none() {
        let spans = [(1, 0), (1, u32::MAX), (1, 0), (1, u32::MAX), (1, 2), (3, u32::MAX), (3, 2), (5, u32::MAX)];
        let wanted = Wanted { is_on: true, events: 0 };
        let at = |(first, last)| SwitchAt {
            time: 0,
            context: 7,
            thread: None,
            switch: Switch {
                cause: Cause::Steps(StepSwitch {
                    range: Some(Span { first, last }),
                    started: 0,
                    is_exact: true,
                    is_named: true,
                }),
                before: wanted,
                after: wanted,
            },
        };
        let switches = spans.map(at);
        let covered = [Span { first: 1, last: 2 }, Span { first: 5, last: u32::MAX }];
        let of = |context| Coverage::of(&switches, &Removed::default(), context);
        assert_eq!(of(7), Coverage::NamedSteps(covered.to_vec()));
        assert_eq!(of(8), Coverage::Unknown);
    }
}
