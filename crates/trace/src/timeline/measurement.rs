//! Recording that was switched while the job ran: MeasurementOnOff on the rows of threads and communicators.

use std::collections::BTreeMap;

use crate::tables::assembly::Assembly;
use crate::timeline::lanes::{Happening, LaneKey, What};
use nccl_events::Kind;
use nccl_events::control::Span;
use nccl_events::control::{Cause, Switch, Turn};

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
    /// The context of the rank that a window of steps switched; 0 for the whole process.
    pub context: u64,
    /// The place of the thread that called then, where it was for one rank.
    pub thread: u32,
    /// What.
    pub switch: Switch,
}

impl SwitchAt {
    /// Whether from here on there are other calls or operations of the process than before: their places in the order of
    /// calls say nothing then. Windows of a rank are another matter ([`Cut`]).
    #[must_use]
    pub const fn breaks_order(&self) -> bool {
        let Switch {
            before,
            after,
            cause,
        } = self.switch;
        match cause {
            Cause::Window(_) => self.context == 0,
            _ => before.in_force() & COMPARED != after.in_force() & COMPARED,
        }
    }

    /// Whether there are calls of the process that are not in the recording.
    #[must_use]
    pub const fn leaves_out(&self) -> bool {
        self.breaks_order() || matches!(self.switch.cause, Cause::Window(_))
    }

    /// What a window did to a rank.
    const fn turn(&self) -> Option<Turn> {
        match self.switch.cause {
            Cause::Window(turn) => Some(turn),
            _ => None,
        }
    }
}

/// What is there of the calls of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All, from the first one on.
    Whole,
    /// The collectives of these windows: the same on all ranks that say so.
    Windows(Vec<Span>),
    /// Something is not, and it is not known what.
    Unknown,
}

impl Cut {
    /// Of the rank with a context.
    #[must_use]
    pub fn of(assembly: &Assembly, context: u64) -> Self {
        let switches = assembly.switches.iter();
        if assembly.not_kept.segments > 0 || switches.clone().any(SwitchAt::breaks_order) {
            return Self::Unknown;
        }
        let mut turns = switches.filter_map(|at| Some((at.context, at.turn()?)));
        if turns.clone().next().is_none() {
            return Self::Whole;
        }
        let mut own = turns.by_ref().filter(|&(of, _)| of == context);
        let mut windows = Vec::new();
        let is_exact = own.all(|(_, turn)| {
            windows.extend(turn.window.filter(|window| !windows.contains(window)));
            turn.is_exact
        });
        if is_exact && !windows.is_empty() {
            Self::Windows(windows)
        } else {
            Self::Unknown
        }
    }
}

/// The switches that a row shows, in order.
#[must_use]
pub fn of_row(key: LaneKey, sibling: u32, assembly: &Assembly) -> Vec<Happening> {
    let shows = sibling == 0 && matches!(key, LaneKey::Thread(_) | LaneKey::Communicator(_));
    if !shows || assembly.switches.is_empty() {
        return Vec::new();
    }
    let turns = turns(key, assembly).into_iter();
    let turns = turns.map(|(time, is_on)| Happening {
        time,
        what: What::Measurement(is_on),
    });
    turns.collect()
}

/// When recording went on or off for a row.
fn turns(key: LaneKey, assembly: &Assembly) -> Vec<(u64, bool)> {
    let ranks = ranks_of(key, assembly);
    let mut is_on = true;
    let mut wanted = true;
    let mut open: BTreeMap<u64, bool> = BTreeMap::new();
    let mut turns = Vec::new();
    for at in &assembly.switches {
        match at.turn() {
            None => wanted = at.switch.after.is_on,
            Some(turn) if at.context == 0 => {
                if turn.window.is_none() {
                    open.clear();
                }
            }
            Some(_) => {
                if ranks.is_empty() || ranks.contains(&at.context) {
                    open.insert(at.context, at.switch.after.is_on);
                }
            }
        }
        let now = wanted && (open.is_empty() || open.values().any(|&is_open| is_open));
        if now != is_on {
            is_on = now;
            turns.push((at.time, now));
        }
    }
    turns
}

/// The contexts whose windows count for a row: of a communicator its own, of a thread those that turned while it called.
/// Without any, what is not in a communicator that is counted, all do.
fn ranks_of(key: LaneKey, assembly: &Assembly) -> Vec<u64> {
    let windows = assembly.switches.iter().filter(|at| at.context != 0);
    let of_row = windows.filter(|at| match key {
        LaneKey::Communicator(context) => assembly.find_context(at.context) == Some(context),
        // The one that made a communicator need not be the one that calls.
        LaneKey::Thread(thread) => {
            let is_call = at.turn().is_some_and(|turn| turn.started > 0);
            is_call && assembly.first_place_of_thread(at.thread) == thread
        }
        _ => false,
    });
    of_row.map(|at| at.context).collect()
}
