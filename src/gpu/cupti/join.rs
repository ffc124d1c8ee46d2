//! Which launch a kernel is of.
//!
//! CUPTI tells of a launch in two records: that some call of CUDA's, by its correlation id, was made under our external
//! id; and that a kernel with that correlation id ran. They come in any order, in different buffers, minutes apart. A
//! kernel that has no external id is NCCL's if its name says so (a replay of a graph has none), else another's.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Something that ran.
pub(super) trait Work {
    /// Whether it is NCCL's by its name.
    fn is_nccl_by_name(&self) -> bool;
    /// Whether it ran as a part of a graph: then no call was made for it alone.
    fn is_of_graph(&self) -> bool;
}

/// What was found out about a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of the launch with this event id.
    Launch(u64),
    /// NCCL's by its name; of which launch is not known.
    Nccl,
    /// Another's.
    Foreign,
}

/// Work whose owner is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decided<W> {
    pub(super) whose: Whose,
    pub(super) work: W,
}

/// A launch whose work has come is remembered for as long, for other calls were made under its id.
const KEEP_MATCHED: Duration = Duration::from_secs(5);
/// A launch without work, and work of NCCL's without a launch, wait for as long.
const KEEP: Duration = Duration::from_secs(60);
/// Other work waits for as long: buffers that were handed out at the same time are back within two flushes.
const KEEP_OTHERS: Duration = Duration::from_secs(2);
/// More work than this does not wait; the oldest is let go.
const MOST_WAITING: usize = 1 << 16;

/// That work came at this time, and waits for the call with this correlation unless that has come.
#[derive(Debug, Clone, Copy)]
struct Turn {
    since: Duration,
    key: u64,
}

#[derive(Debug)]
struct Launch {
    matched: bool,
    /// Copy-engine collectives have several pieces of work.
    of_many: bool,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    since: Duration,
    key: u64,
    id: u64,
}

/// Joins the two.
#[derive(Debug)]
pub(super) struct Join<W> {
    /// The highest correlation id seen, with what it lost by running over.
    newest: Option<u64>,
    /// By correlation: the external id.
    calls: HashMap<u64, u64>,
    /// By external id.
    launches: HashMap<u64, Launch>,
    /// In the order in which they came; those that are still there when it is their turn are looked at.
    young: VecDeque<Call>,
    old: VecDeque<Call>,
    /// By correlation: what came before its call.
    waiting: HashMap<u64, Vec<W>>,
    nccls_turns: VecDeque<Turn>,
    others_turns: VecDeque<Turn>,
    /// Whether there can be external ids at all.
    expects_ids: bool,
    matched: u64,
    unmatched: u64,
}

impl<W: Work> Join<W> {
    pub(super) fn new() -> Self {
        Self {
            newest: None,
            calls: HashMap::new(),
            launches: HashMap::new(),
            young: VecDeque::new(),
            old: VecDeque::new(),
            waiting: HashMap::new(),
            nccls_turns: VecDeque::new(),
            others_turns: VecDeque::new(),
            expects_ids: false,
            matched: 0,
            unmatched: 0,
        }
    }

    /// From now on there can be external ids; before, no work needs to wait for one.
    pub(super) fn expect_ids(&mut self) {
        self.expects_ids = true;
    }

    /// Launches whose work came, since this was asked last.
    pub(super) fn take_matched(&mut self) -> u64 {
        std::mem::take(&mut self.matched)
    }

    /// Launches that were given up, since this was asked last.
    pub(super) fn take_unmatched(&mut self) -> u64 {
        std::mem::take(&mut self.unmatched)
    }

    /// Launches that were seen and whose work was not.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.launches
            .values()
            .filter(|launch| !launch.matched)
            .count()
    }

    /// Correlation ids have 32 bits and run over: those close to the newest are of its round.
    fn key(&mut self, correlation: u32) -> u64 {
        const ROUND: u64 = 1 << 32;
        let Some(newest) = self.newest else {
            let first = ROUND + u64::from(correlation);
            self.newest = Some(first);
            return first;
        };
        let here = newest - newest % ROUND + u64::from(correlation);
        let half = ROUND / 2;
        let key = if here + half < newest {
            here + ROUND
        } else if here > newest + half {
            here.saturating_sub(ROUND)
        } else {
            here
        };
        self.newest = Some(newest.max(key));
        key
    }

    /// A call was made under `id`, at `now`; `of_many`: for a collective that makes several.
    pub(super) fn call(
        &mut self,
        now: Duration,
        correlation: u32,
        id: u64,
        of_many: bool,
        out: &mut Vec<Decided<W>>,
    ) {
        self.expects_ids = true;
        let key = self.key(correlation);
        self.calls.insert(key, id);
        self.launches.entry(id).or_insert(Launch {
            matched: false,
            of_many,
        });
        self.young.push_back(Call {
            since: now,
            key,
            id,
        });
        if let Some(waited) = self.waiting.remove(&key) {
            out.extend(waited.into_iter().map(|work| Decided {
                whose: Whose::Launch(id),
                work,
            }));
            self.has_matched(key, id);
        }
    }

    /// The call with this correlation launches nothing, whatever id it was made under.
    pub(super) fn launches_nothing(&mut self, correlation: u32) {
        let key = self.key(correlation);
        // Not of a copy-engine collective, whose copies are calls of the runtime's: the driver functions that these call
        // may have their correlation ids.
        let launch = self.calls.get(&key).and_then(|id| self.launches.get(id));
        if launch.is_some_and(|launch| !launch.of_many) {
            self.calls.remove(&key);
        }
    }

    /// Work that ran.
    pub(super) fn work(
        &mut self,
        now: Duration,
        correlation: u32,
        work: W,
        out: &mut Vec<Decided<W>>,
    ) {
        let key = self.key(correlation);
        if let Some(&id) = self.calls.get(&key) {
            self.has_matched(key, id);
            out.push(Decided {
                whose: Whose::Launch(id),
                work,
            });
        } else if work.is_of_graph() || !self.expects_ids {
            out.push(decided_by_name(work));
        } else {
            let turns = if work.is_nccl_by_name() {
                &mut self.nccls_turns
            } else {
                &mut self.others_turns
            };
            turns.push_back(Turn { since: now, key });
            self.waiting.entry(key).or_default().push(work);
        }
    }

    fn has_matched(&mut self, key: u64, id: u64) {
        let Some(launch) = self.launches.get_mut(&id) else {
            return;
        };
        if !launch.matched {
            launch.matched = true;
            self.matched += 1;
        }
        if !launch.of_many {
            // One kernel a call: nothing else comes.
            self.calls.remove(&key);
        }
    }

    /// Lets go of what has waited long enough.
    pub(super) fn sweep(&mut self, now: Duration, out: &mut Vec<Decided<W>>) {
        self.sweep_calls(now);
        self.sweep_work(now, out);
    }

    fn sweep_calls(&mut self, now: Duration) {
        while let Some(call) = self
            .young
            .pop_front_if(|call| has_passed(now, call.since, KEEP_MATCHED))
        {
            match self.launches.get(&call.id) {
                Some(launch) if launch.matched && !launch.of_many => {
                    self.launches.remove(&call.id);
                    self.calls.remove(&call.key);
                }
                Some(_) => self.old.push_back(call),
                None => {
                    self.calls.remove(&call.key);
                }
            }
        }
        while let Some(call) = self
            .old
            .pop_front_if(|call| has_passed(now, call.since, KEEP))
        {
            self.give_up(call);
        }
    }

    fn give_up(&mut self, call: Call) {
        self.calls.remove(&call.key);
        if self
            .launches
            .remove(&call.id)
            .is_some_and(|launch| !launch.matched)
        {
            self.unmatched += 1;
        }
    }

    fn sweep_work(&mut self, now: Duration, out: &mut Vec<Decided<W>>) {
        for (turns, keep) in [
            (&mut self.nccls_turns, KEEP),
            (&mut self.others_turns, KEEP_OTHERS),
        ] {
            while let Some(turn) = {
                let is_full = self.waiting.len() > MOST_WAITING;
                turns.pop_front_if(|turn| is_full || has_passed(now, turn.since, keep))
            } {
                let waited = self.waiting.remove(&turn.key).unwrap_or_default();
                out.extend(waited.into_iter().map(decided_by_name));
            }
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, out: &mut Vec<Decided<W>>) {
        for turn in self
            .nccls_turns
            .drain(..)
            .chain(self.others_turns.drain(..))
        {
            let waited = self.waiting.remove(&turn.key).unwrap_or_default();
            out.extend(waited.into_iter().map(decided_by_name));
        }
        for call in std::mem::take(&mut self.young)
            .into_iter()
            .chain(std::mem::take(&mut self.old))
        {
            self.give_up(call);
        }
    }
}

fn has_passed(now: Duration, since: Duration, time: Duration) -> bool {
    now.saturating_sub(since) >= time
}

fn decided_by_name<W: Work>(work: W) -> Decided<W> {
    let whose = if work.is_nccl_by_name() {
        Whose::Nccl
    } else {
        Whose::Foreign
    };
    Decided { whose, work }
}

#[cfg(test)]
mod tests;
