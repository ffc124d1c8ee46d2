//! What is wanted just now: recording can be switched off and on, and cut to fewer kinds of events, while the job runs.
//!
//! A callback asks [`is_plain`], one relaxed load; starts that are not wanted get no handle and are counted. The
//! maintenance looks at the control file ([`Control`]), and records every switch in the journal. `docs/GUIDE.md`.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::host::hooks;
use crate::host::{logger, mask};
use nccl_events::{Kind, Name, Start};

mod counting;
mod file;
mod ledger;
mod refused;

use crate::config::windows::Windows;
pub(crate) use counting::{Answer, Verdict};
use file::Line;
pub(crate) use ledger::Ledger;
pub use nccl_events::control::{Cause, Switch, Turn, Wanted};
pub(crate) use refused::take as take_refused;

/// The file in the job's directory.
pub const FILE: &str = "control";
/// How often the maintenance looks at it.
const INTERVAL: Duration = Duration::from_secs(1);
/// More than this of the file is not read: it is no control file.
const MOST_BYTES: u64 = 64 << 10;

/// Bits of [`Kind::ALL`] by number, [`Kind::Unknown`] too.
const EVERYTHING: u32 = u32::MAX;
/// The kinds that are recorded without a further question, by number.
static PLAIN: AtomicU32 = AtomicU32::new(EVERYTHING);
/// The kinds that are wanted, by number, as far as it is not a matter of windows.
static WANTED: AtomicU32 = AtomicU32::new(EVERYTHING);
/// What was ever asked for beyond what the job was started with: NCCL must go on to call for it.
static RAISED: AtomicU32 = AtomicU32::new(0);

/// Whether starts of this kind are recorded without a further question.
#[inline]
pub(crate) fn is_plain(kind: Kind) -> bool {
    PLAIN.load(Ordering::Relaxed) & (1 << kind as u32) != 0
}

/// What becomes of a start that is not [`is_plain`]. Counts it if it is not recorded.
pub(crate) fn consider(event: &Start<Name<'_>>) -> Verdict {
    let kind = event.body.kind();
    let is_wanted = WANTED.load(Ordering::Relaxed) & (1 << kind as u32) != 0;
    let verdict = counting::decide(event, is_wanted);
    if matches!(verdict.answer, Answer::Refuse | Answer::StandIn) {
        refused::count(kind);
    }
    verdict
}

/// What NCCL is to call for, beyond what the job was started with.
pub(crate) fn raised() -> u32 {
    RAISED.load(Ordering::Relaxed)
}

/// Everything is wanted again: a recording begins or is over, and what comes then is counted as late.
pub(crate) fn end() {
    PLAIN.store(EVERYTHING, Ordering::Relaxed);
}

/// The kinds that are wanted, by number of [`Kind`]. What NCCL starts without being asked for stays in while nobody
/// cuts the set.
const fn wanted_bits(wanted: Wanted, asked: u32) -> u32 {
    if !wanted.is_on {
        0
    } else if wanted.events == asked {
        EVERYTHING
    } else {
        with_parents(wanted.events) | 1 << Kind::Unknown as u32
    }
}

/// NCCL starts the events around those it is asked for: without them these would hang in the air.
const fn with_parents(events: u32) -> u32 {
    const CHANNELS: u32 = Kind::KernelCh.mask() | Kind::KernelPhase.mask();
    const NET: u32 = Kind::ProxyOp.mask() | Kind::ProxyStep.mask() | Kind::NetPlugin.mask();
    let mut all = events;
    if all & Kind::KernelPhase.mask() != 0 {
        all |= Kind::KernelCh.mask();
    }
    if all & Kind::NetPlugin.mask() != 0 {
        all |= Kind::ProxyStep.mask();
    }
    if all & Kind::ProxyStep.mask() != 0 {
        all |= Kind::ProxyOp.mask();
    }
    if all & (CHANNELS | NET) != 0 {
        all |= Kind::Coll.mask() | Kind::P2p.mask();
    }
    if all & (Kind::CeSync.mask() | Kind::CeBatch.mask()) != 0 {
        all |= Kind::CeColl.mask();
    }
    if all & (Kind::Coll.mask() | Kind::CeColl.mask()) != 0 {
        all |= Kind::Group.mask() | Kind::GroupApi.mask() | Kind::CollApi.mask();
    }
    if all & Kind::P2p.mask() != 0 {
        all |= Kind::Group.mask() | Kind::GroupApi.mask() | Kind::P2pApi.mask();
    }
    const API: u32 = Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::KernelLaunch.mask();
    if all & API != 0 {
        all |= Kind::GroupApi.mask();
    }
    all
}

/// Follows the control file.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    /// What the job was started with.
    asked: u32,
    /// The kinds that this version of the interface has.
    known: u32,
    wanted: Wanted,
    windows: Windows,
    due: Instant,
    seen: Vec<u8>,
    has_looked: bool,
    has_failed: bool,
}

impl Control {
    /// For the job in `out`, which was started to record `events` of `windows`. NCCL calls the `table`th version of the
    /// interface, which has the kinds `known`.
    pub(crate) fn new(out: &Path, events: u32, windows: Windows, table: u8, known: u32) -> Self {
        RAISED.store(0, Ordering::Relaxed);
        let _of_no_recording = refused::take();
        let _of_no_recording = hooks::TOGGLE.take();
        counting::begin(table, &windows);
        let control = Self {
            path: out.join(FILE),
            asked: events,
            known,
            wanted: Wanted {
                is_on: true,
                events,
            },
            windows,
            due: Instant::now(),
            seen: Vec::new(),
            has_looked: false,
            has_failed: false,
        };
        control.put();
        control
    }

    /// Does what the signal says, and looks at the file when it is time to and does what it says. The switch, if this is one: the caller records it.
    pub(crate) fn poll(&mut self) -> Vec<Switch> {
        let before = self.wanted;
        if hooks::TOGGLE.take() {
            self.wanted.is_on = !before.is_on;
            return self.switch(before, Cause::Signal);
        }
        let now = Instant::now();
        if now < self.due {
            return Vec::new();
        }
        self.due = now + INTERVAL;
        let has_looked = std::mem::replace(&mut self.has_looked, true);
        let text = match self.read() {
            Ok(text) => text,
            // Who removes it changes nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    let path = self.path.display();
                    logger::warn(&format!("{path}: {error}; recording goes on as before"));
                }
                return Vec::new();
            }
        };
        if text == self.seen {
            return Vec::new();
        }
        let mut windows = self.windows.clone();
        for (number, line) in file::lines(&String::from_utf8_lossy(&text)) {
            match line {
                Ok(Line::Recording(is_on)) => self.wanted.is_on = is_on,
                Ok(Line::Events(events)) => self.wanted.events = events,
                Ok(Line::Window(said)) => windows = said,
                Err(reason) => {
                    let path = self.path.display();
                    logger::warn(&format!("{path}:{number}: {reason}; the line is ignored"));
                }
            }
        }
        self.seen = text;
        let changed = (windows != self.windows).then(|| self.set_windows(windows));
        let mut switches = self.switch(before, Cause::File);
        // Before there are communicators it is as if the job had been started with these.
        switches.extend(changed.filter(|_| has_looked));
        switches
    }

    /// Puts other windows into force.
    fn set_windows(&mut self, windows: Windows) -> Switch {
        self.windows = windows;
        counting::set_windows(&self.windows);
        Switch {
            cause: Cause::Window(Turn {
                window: self.windows.spans().first().copied(),
                started: 0,
                is_exact: false,
            }),
            before: self.wanted,
            after: self.wanted,
        }
    }

    /// Puts into force what is wanted.
    fn switch(&self, before: Wanted, cause: Cause) -> Vec<Switch> {
        let after = self.wanted;
        self.put();
        let switch = Switch {
            cause,
            before,
            after,
        };
        (before != after).then_some(switch).into_iter().collect()
    }

    fn put(&self) {
        let wanted = wanted_bits(self.wanted, self.asked);
        // Collectives are counted whatever is recorded of them.
        let counted = 1 << counting::counted_kind() as u32;
        let plain = if counting::is_windowed() {
            0
        } else {
            wanted & !counted
        };
        counting::set_events(self.wanted.events);
        WANTED.store(wanted, Ordering::Relaxed);
        PLAIN.store(plain, Ordering::Relaxed);
        let counted = if self.windows.is_empty() {
            0
        } else {
            Kind::Coll.mask() | Kind::CollApi.mask()
        };
        self.raise(self.wanted.events | counted & self.known);
    }

    /// Lets NCCL call for more. Never for less: from 2.28 on it stops the event of an earlier call again at every
    /// call that its mask leaves out.
    fn raise(&self, events: u32) {
        let before = RAISED.fetch_or(events, Ordering::Relaxed);
        if events & !(before | self.asked) != 0 {
            mask::set_mask((self.asked | before | events) & self.known);
        }
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let file = std::fs::File::open(&self.path)?;
        file.take(MOST_BYTES).read_to_end(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_takes_in_what_its_events_hang_on() {
        let names = |mask| crate::config::event_names(with_parents(mask)).join(",");
        assert_eq!(names(Kind::GroupApi.mask()), "GroupApi");
        assert_eq!(names(Kind::KernelLaunch.mask()), "GroupApi,KernelLaunch");
        assert_eq!(names(Kind::Coll.mask()), "Group,Coll,GroupApi,CollApi");
        assert_eq!(
            names(Kind::NetPlugin.mask()),
            "Group,Coll,P2p,ProxyOp,ProxyStep,NetPlugin,GroupApi,CollApi,P2pApi"
        );
        assert_eq!(
            names(crate::config::FULL),
            crate::config::event_names(0xffff).join(",")
        );
    }
}
