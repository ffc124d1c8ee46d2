//! What NCCL reports, in NCCL's terms and independent of the version of its interface, and the words in which archives
//! say it ([`archive`], [`schema`]). The recorder's `abi::versions` converts a raw descriptor to a [`Start`] or a
//! [`State`]; all other code knows only these types. They live on the stack of one callback: a [`Name`] borrows NCCL's
//! string and ends with the callback (the recorder interns the string by content).
//!
//! Units: `count` in elements, `bytes` in bytes, `gpu_ns` the GPU's globaltimer in nanoseconds. Device pointers and
//! streams are stored as numbers and never dereferenced.

#![warn(missing_docs, clippy::missing_panics_doc)]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

pub mod archive;
pub mod collective;
pub mod event;
pub mod gpu;
pub mod ids;
pub mod range;
pub mod schema;
pub mod sort;
pub mod versions;

pub use crate::event::{Body, Kind, Name, NetData, Start};
pub use crate::versions::{Release, Table};

/// More ranks than any machine has. Larger values from a communicator or a launcher are ignored.
pub const MOST_RANKS: u32 = 1 << 22;

/// Description of a communicator, from `init`.
#[derive(Clone, Copy, Debug)]
pub struct CommInit<'a> {
    /// The table that NCCL called.
    pub table: Table,
    /// NCCL's id of the communicator, equal on all its ranks; 0 if the version has none (v1–v3).
    pub comm_id: u64,
    /// The user's name for the communicator; often absent.
    pub name: Name<'a>,
    /// Number of hosts; 0 if not given.
    pub nodes: i32,
    /// Number of ranks; 0 if not given.
    pub ranks: i32,
    /// This rank; −1 if not given.
    pub rank: i32,
    /// The running NCCL's version as in `ncclGetVersion` (22809 = 2.28.9); 0 if unknown.
    pub nccl_version: u32,
}

// What is recorded at present. The journal has a record of each switch.

/// A range of steps, which are counted from 1. Both ends are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first step of the range.
    pub first: u32,
    /// The last step of the range; [`u32::MAX`] if it has no end.
    pub last: u32,
}

impl Span {
    /// Number of steps in the range.
    pub const fn len(self) -> u64 {
        self.last as u64 + 1 - self.first as u64
    }

    /// Whether the range is empty: no collective was called in a step that the program names.
    pub const fn is_empty(self) -> bool {
        self.last < self.first
    }

    /// The range as one word. Never 0, because collectives are counted from 1.
    pub const fn word(self) -> u64 {
        (self.last as u64) << 32 | self.first as u64
    }

    /// The inverse of [`Self::word`]; `None` for 0.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    pub const fn from_word(word: u64) -> Option<Self> {
        let (first, last) = (word as u32, (word >> 32) as u32);
        if first == 0 { None } else { Some(Self { first, last }) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, u32::MAX) => write!(formatter, "{first}-"),
            (first, last) => write!(formatter, "{first}-{last}"),
        }
    }
}

/// The selection of what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSelection {
    /// Whether anything is recorded.
    pub is_on: bool,
    /// NCCL's mask of the selected kinds.
    pub events: u32,
}

impl EventSelection {
    /// The mask in force: 0 if recording is off.
    pub const fn in_force(self) -> u32 {
        if self.is_on { self.events } else { 0 }
    }
}

/// The cause of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The control file changed.
    File,
    /// The signal in `NCCL_OTF2_TOGGLE_SIGNAL` arrived.
    Signal,
    /// A range of steps began, ended or changed.
    Steps(StepSwitch),
}

/// A switch caused by step ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSwitch {
    /// The range of collectives that the rank enters, leaves or waits for; `None` if there are no ranges any more.
    /// Where the program names steps: the collectives since recording was switched on last.
    pub range: Option<Span>,
    /// Number of collectives that the rank had started.
    pub started: u64,
    /// Whether these ranges applied from the rank's first collective on; all such ranks record the same collectives.
    pub is_exact: bool,
    /// Whether the program's ranges with a name are the steps.
    pub is_named: bool,
}

/// A change of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The cause of the change.
    pub cause: Cause,
    /// The selection before the switch.
    pub before: EventSelection,
    /// The selection from now on.
    pub after: EventSelection,
}

/// A change of an event's state, which NCCL reports between start and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The event's handle as NCCL passed it; 0 for NULL.
    pub event: u64,
    /// NCCL's state number, which need not be known (see [`state`]).
    pub state: u32,
    /// The state's argument; [`StateArgs::None`] if NCCL passed NULL.
    pub args: StateArgs,
}

/// The argument of a state, by the meaning of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub enum StateArgs {
    /// NULL, or a state without argument.
    None,
    /// v1–v3 ProxyOp states 0–7: cumulative bytes and steps.
    ProxyOp {
        bytes: u64,
        steps: i32,
    },
    /// Step states: size of the last transfer of the sub-operation.
    ProxyStep {
        bytes: u64,
    },
    ProxyCtrl {
        appended: i32,
    },
    /// KernelChStop and KernelPhaseStop.
    GpuTime {
        gpu_ns: u64,
    },
    NetPlugin {
        data: NetData,
    },
}

/// Limit on the steps in progress of a proxy operation: NCCL keeps one handle for each.
pub const STEP_SLOTS: u8 = 8;

/// The slot of a step: 0 … 7.
pub fn step_slot(step: i32) -> u8 {
    u8::try_from(step.rem_euclid(STEP_SLOTS.into())).unwrap_or(0)
}

/// NCCL's state numbers (`ncclProfilerEventState_v7_t`).
#[expect(missing_docs, reason = "the names are NCCL's")]
pub mod state {
    pub const PROXY_OP_SEND_POSTED: u32 = 0;
    pub const PROXY_OP_SEND_REM_FIFO_WAIT: u32 = 1;
    pub const PROXY_OP_SEND_TRANSMITTED: u32 = 2;
    pub const PROXY_OP_SEND_DONE: u32 = 3;
    pub const PROXY_OP_RECV_POSTED: u32 = 4;
    pub const PROXY_OP_RECV_RECEIVED: u32 = 5;
    pub const PROXY_OP_RECV_TRANSMITTED: u32 = 6;
    pub const PROXY_OP_RECV_DONE: u32 = 7;
    pub const PROXY_STEP_SEND_GPU_WAIT: u32 = 8;
    pub const PROXY_STEP_SEND_WAIT: u32 = 9;
    pub const PROXY_STEP_RECV_WAIT: u32 = 10;
    pub const PROXY_STEP_RECV_FLUSH_WAIT: u32 = 11;
    pub const PROXY_STEP_RECV_GPU_WAIT: u32 = 12;
    pub const PROXY_CTRL_IDLE: u32 = 13;
    pub const PROXY_CTRL_ACTIVE: u32 = 14;
    pub const PROXY_CTRL_SLEEP: u32 = 15;
    pub const PROXY_CTRL_WAKEUP: u32 = 16;
    pub const PROXY_CTRL_APPEND: u32 = 17;
    pub const PROXY_CTRL_APPEND_END: u32 = 18;
    pub const PROXY_OP_IN_PROGRESS: u32 = 19;
    pub const PROXY_STEP_SEND_PEER_WAIT: u32 = 20;
    pub const NET_PLUGIN_UPDATE: u32 = 21;
    pub const KERNEL_CH_STOP: u32 = 22;
    pub const GROUP_START_API_STOP: u32 = 23;
    pub const GROUP_END_API_START: u32 = 24;
    pub const KERNEL_PHASE_STOP: u32 = 31;
    /// The highest number that any release defines.
    pub const LAST: u32 = super::Table::NEWEST.properties().last_state;
}

/// The smallest preset that contains a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// [`LIGHT`].
    Light,
    /// [`STANDARD`].
    Standard,
    /// [`FULL`].
    Full,
}

impl Preset {
    /// The preset of a kind. Unknown kinds are always shown.
    pub const fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::Group | Kind::Coll | Kind::P2p | Kind::GroupApi | Kind::CollApi | Kind::P2pApi => Self::Light,
            Kind::KernelLaunch | Kind::CeColl | Kind::CeSync | Kind::CeBatch | Kind::Unknown => Self::Light,
            Kind::ProxyOp => Self::Standard,
            Kind::ProxyStep | Kind::ProxyCtrl | Kind::KernelCh | Kind::KernelPhase | Kind::NetPlugin => Self::Full,
        }
    }

    const fn mask(self) -> u32 {
        let (mut mask, mut rest) = (0, Kind::ALL.as_slice());
        while let [kind, others @ ..] = rest {
            if Self::for_kind(*kind) as u8 <= self as u8 {
                mask |= kind.mask();
            }
            rest = others;
        }
        mask
    }
}

/// API calls, launches, collectives, point-to-point and copy-engine events.
pub const LIGHT: u32 = Preset::Light.mask();
/// [`LIGHT`] and proxy operations.
pub const STANDARD: u32 = Preset::Standard.mask();
/// All kinds.
pub const FULL: u32 = Preset::Full.mask();

/// The names of the kinds in a mask, for users.
pub fn event_names(mask: u32) -> Vec<&'static str> {
    Kind::ALL.iter().filter(|kind| mask & kind.mask() != 0).map(|kind| kind.name()).collect()
}

/// Extends a mask by `rules`, in order: each adds its second mask if any kind of its first mask is present by then.
pub const fn completed(mask: u32, mut rules: &[(u32, u32)]) -> u32 {
    let mut all = mask;
    while let [(children, parents), rest @ ..] = rules {
        if all & *children != 0 {
            all |= *parents;
        }
        rules = rest;
    }
    all
}

/// Formats ranks in ascending order: `0-6, 8`.
pub fn rank_list<'a>(ranks: impl IntoIterator<Item = &'a u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in BTreeSet::from_iter(ranks) {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => ranges.push((*rank, *rank)),
        }
    }
    let text = |(first, last): &(u32, u32)| if last == first { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Escapes control characters, as `\n` and `\u{1b}`: names come from other programs, and a terminal executes control
/// sequences, shows a line break like a new message, and reorders text at Unicode's directional marks.
pub fn visible(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_control) else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(&text[..first]);
    for letter in text[first..].chars() {
        if is_control(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal acts on the character instead of showing it: C0, DEL, C1, line separators, directional marks.
const fn is_control(letter: char) -> bool {
    matches!(
        letter,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Receives the progress of long work, such as writing an archive. All working threads may call it. `()` ignores all
/// reports.
pub trait Progress: Send + Sync {
    /// Begins a phase with a name to show. `steps` calls of [`Progress::step`] follow.
    fn begin(&self, what: &str, steps: u64) {
        let _ = (what, steps);
    }

    /// One step is done.
    fn step(&self) {}

    /// The work is done.
    fn end(&self) {}

    /// Reports something that a user should know.
    fn remark(&self, remark: &str) {
        let _ = remark;
    }
}

impl Progress for () {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_instead() {
        assert_eq!(visible("a\x1b[2Jb\nc\r\t\x7f"), r"a\u{1b}[2Jb\nc\r\t\u{7f}");
        assert_eq!(visible("\u{9b}2J\u{202e}x\u{2066}\u{200f}\u{61c}"), r"\u{9b}2J\u{202e}x\u{2066}\u{200f}\u{61c}");
        for plain in ["", "world", "größe → 4 µs", "a\\n", "日本", "\u{a0}"] {
            assert!(matches!(visible(plain), Cow::Borrowed(text) if text == plain), "{plain}");
        }
    }
}
