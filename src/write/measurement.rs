//! Recording that was switched while the job ran: MeasurementOnOff on the rows of threads and communicators, and the
//! properties `NCCL::MEASUREMENT::…`.

use serde::{Deserialize, Serialize};

use super::job::Process;
use super::lanes::{Happening, LaneKey, What};
use crate::config;
use crate::control::{Cause, Switch};
use crate::event::Kind;

/// The kinds by which operations of ranks are counted and compared.
const COMPARED: u32 = Kind::CollApi.mask()
    | Kind::P2pApi.mask()
    | Kind::Coll.mask()
    | Kind::P2p.mask()
    | Kind::CeColl.mask();

/// A switch and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAt {
    /// In ticks, then in nanoseconds.
    pub time: u64,
    /// What.
    pub switch: Switch,
}

impl SwitchAt {
    /// Whether from here on there are other calls or operations than before: their places in the order of calls say
    /// nothing then.
    #[must_use]
    pub const fn breaks_order(&self) -> bool {
        let Switch { before, after, .. } = self.switch;
        before.in_force() & COMPARED != after.in_force() & COMPARED
    }

    const fn turns(&self) -> Option<bool> {
        let Switch { before, after, .. } = self.switch;
        if before.is_on == after.is_on {
            None
        } else {
            Some(after.is_on)
        }
    }
}

/// A switch in a part's sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchDefinition {
    /// When, CLOCK_MONOTONIC ns.
    pub ns: u64,
    /// Whether recording was on from then on.
    pub is_on: bool,
    /// Of which kinds: NCCL's mask.
    pub events: u32,
    /// Whether a signal did it; else the control file.
    pub by_signal: bool,
    /// Whether the order of operations says nothing since.
    pub breaks_order: bool,
}

impl From<&SwitchAt> for SwitchDefinition {
    fn from(at: &SwitchAt) -> Self {
        Self {
            ns: at.time,
            is_on: at.switch.after.is_on,
            events: at.switch.after.events,
            by_signal: at.switch.cause == Cause::Signal,
            breaks_order: at.breaks_order(),
        }
    }
}

/// Puts the switches on a row that shows them: before other happenings of the same time. A row on which nothing else
/// happens stays empty.
#[must_use]
pub fn weave(
    key: LaneKey,
    sibling: u32,
    happenings: Vec<Happening>,
    switches: &[SwitchAt],
) -> Vec<Happening> {
    let shows = sibling == 0 && matches!(key, LaneKey::Thread(_) | LaneKey::Communicator(_));
    if !shows || switches.is_empty() || happenings.is_empty() {
        return happenings;
    }
    let turns = switches.iter().filter_map(|at| {
        let what = What::Measurement(at.turns()?);
        Some(Happening {
            time: at.time,
            what,
        })
    });
    let mut woven: Vec<Happening> = turns.chain(happenings).collect();
    // Stable: what was in order stays so.
    woven.sort_by_key(|happening| happening.time);
    woven
}

/// Names and values. Nothing where nothing was switched.
#[must_use]
pub fn of_archive(processes: &[Process]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for process in processes {
        for switch in &process.sidecar.switches {
            let at = process.archive_ns(switch.ns);
            let what = if switch.is_on { "on" } else { "off" };
            let by = if switch.by_signal {
                "a signal"
            } else {
                "the control file"
            };
            let events = config::event_names(switch.events).join(",");
            lines.push((
                at,
                format!("{at}: {}: {what}, events {events}, by {by}", process.name()),
            ));
        }
    }
    if lines.is_empty() {
        return Vec::new();
    }
    lines.sort();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    vec![("NCCL::MEASUREMENT::LIST".to_owned(), lines.join("\n"))]
}
