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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A piece of work, by a number.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Piece {
        number: u32,
        is_nccl: bool,
        is_of_graph: bool,
    }

    impl Work for Piece {
        fn is_nccl_by_name(&self) -> bool {
            self.is_nccl
        }

        fn is_of_graph(&self) -> bool {
            self.is_of_graph
        }
    }

    const fn piece(number: u32, is_nccl: bool) -> Piece {
        Piece {
            number,
            is_nccl,
            is_of_graph: false,
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn whose(out: &[Decided<Piece>], number: u32) -> Option<Whose> {
        let mut found = out.iter().filter(|one| one.work.number == number);
        let first = found.next().map(|one| one.whose);
        assert!(found.next().is_none(), "{number} came out twice");
        first
    }

    /// What CUPTI may tell.
    #[derive(Debug, Clone, Copy)]
    enum Told {
        Call { correlation: u32, id: u64 },
        Work { correlation: u32, work: Piece },
    }

    /// Launches of ours under ids from 1 on, others' kernels, and replays, with correlation ids from `first` on.
    fn told(first: u32, launches: u32, others: u32, replays: u32) -> Vec<Told> {
        let mut all = Vec::new();
        for number in 0..launches + others + replays {
            let correlation = first.wrapping_add(number * 3);
            let is_ours = number < launches;
            if is_ours {
                all.push(Told::Call {
                    correlation,
                    id: u64::from(number) + 1,
                });
            }
            let work = Piece {
                number,
                is_nccl: number < launches || number >= launches + others,
                is_of_graph: number >= launches + others,
            };
            all.push(Told::Work { correlation, work });
        }
        all
    }

    proptest! {
        #[test]
        fn the_order_in_which_records_come_does_not_matter(
            first in prop_oneof![Just(0), Just(u32::MAX - 40), any::<u32>()],
            (launches, others, replays) in (1_u32..20, 0_u32..20, 0_u32..5),
            order in any::<prop::sample::Index>().prop_map(|index| index.index(usize::MAX)),
            turns in 1_usize..4,
        ) {
            let mut all = told(first, launches, others, replays);
            // A permutation by a small generator.
            let mut state = order as u64 | 1;
            for at in (1..all.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                all.swap(at, usize::try_from(state >> 33).unwrap() % (at + 1));
            }
            let mut join = Join::new();
            join.expect_ids();
            let mut out = Vec::new();
            for (at, one) in all.iter().enumerate() {
                let now = seconds((at / turns) as u64 / 40);
                match *one {
                    Told::Call { correlation, id } => join.call(now, correlation, id, false, &mut out),
                    Told::Work { correlation, work } => join.work(now, correlation, work, &mut out),
                }
                join.sweep(now, &mut out);
            }
            join.end(&mut out);
            prop_assert_eq!(out.len(), (launches + others + replays) as usize);
            for number in 0..launches + others + replays {
                let expected = if number < launches {
                    Whose::Launch(u64::from(number) + 1)
                } else if number < launches + others {
                    Whose::Foreign
                } else {
                    Whose::Nccl
                };
                prop_assert_eq!(whose(&out, number), Some(expected));
            }
            prop_assert_eq!((join.take_matched(), join.take_unmatched()), (u64::from(launches), 0));
        }
    }

    #[test]
    fn a_launch_whose_work_never_comes_is_counted_once() {
        let (mut join, mut out) = (Join::<Piece>::new(), Vec::new());
        // Two calls under one id, as where all driver functions are recorded.
        join.call(seconds(0), 10, 7, false, &mut out);
        join.call(seconds(0), 11, 7, false, &mut out);
        join.sweep(seconds(59), &mut out);
        assert_eq!((join.open(), join.take_unmatched()), (1, 0));
        join.sweep(seconds(60), &mut out);
        assert_eq!((join.open(), join.take_unmatched()), (0, 1));
        // Too late: it is NCCL's, but of nobody.
        join.work(seconds(61), 10, piece(1, true), &mut out);
        join.end(&mut out);
        assert_eq!(whose(&out, 1), Some(Whose::Nccl));
        assert_eq!((join.take_matched(), join.take_unmatched()), (0, 0));
    }

    #[test]
    fn other_calls_under_the_id_of_a_launch_do_not_make_it_unmatched() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        join.call(seconds(0), 10, 7, false, &mut out);
        join.launches_nothing(10);
        join.call(seconds(0), 11, 7, false, &mut out);
        join.work(seconds(0), 11, piece(1, true), &mut out);
        for now in [6, 61, 70] {
            join.sweep(seconds(now), &mut out);
        }
        join.end(&mut out);
        assert_eq!(whose(&out, 1), Some(Whose::Launch(7)));
        assert_eq!((join.take_matched(), join.take_unmatched()), (1, 0));
    }

    #[test]
    fn all_copies_of_a_collective_are_its() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        for correlation in [10, 11, 12] {
            join.call(seconds(0), correlation, 7, true, &mut out);
        }
        // By a driver function that the runtime's called.
        join.launches_nothing(10);
        // Two pieces of one batch, and one that takes long.
        join.work(seconds(1), 10, piece(1, false), &mut out);
        join.work(seconds(1), 10, piece(2, false), &mut out);
        join.sweep(seconds(20), &mut out);
        join.work(seconds(21), 12, piece(3, false), &mut out);
        for number in [1, 2, 3] {
            assert_eq!(whose(&out, number), Some(Whose::Launch(7)));
        }
        join.end(&mut out);
        assert_eq!((join.take_matched(), join.take_unmatched()), (1, 0));
    }

    #[test]
    fn work_of_others_waits_shortly_and_nccls_longer() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        join.expect_ids();
        join.work(seconds(0), 10, piece(1, false), &mut out);
        join.work(seconds(0), 11, piece(2, true), &mut out);
        assert!(out.is_empty());
        join.sweep(seconds(2), &mut out);
        assert_eq!(
            (whose(&out, 1), whose(&out, 2)),
            (Some(Whose::Foreign), None)
        );
        join.sweep(seconds(60), &mut out);
        assert_eq!(whose(&out, 2), Some(Whose::Nccl));
    }

    #[test]
    fn where_no_ids_can_be_nothing_waits() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        join.work(seconds(0), 10, piece(1, true), &mut out);
        join.work(seconds(0), 11, piece(2, false), &mut out);
        assert_eq!(
            (whose(&out, 1), whose(&out, 2)),
            (Some(Whose::Nccl), Some(Whose::Foreign))
        );
    }

    #[test]
    fn replays_of_graphs_wait_for_nothing() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        join.expect_ids();
        for (number, is_nccl) in [(1, true), (2, false)] {
            let replayed = Piece {
                is_of_graph: true,
                ..piece(number, is_nccl)
            };
            join.work(seconds(0), 10, replayed, &mut out);
        }
        assert_eq!(
            (whose(&out, 1), whose(&out, 2)),
            (Some(Whose::Nccl), Some(Whose::Foreign))
        );
    }

    #[test]
    fn correlation_ids_of_another_round_are_others() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        join.call(seconds(0), 5, 7, false, &mut out);
        for (number, correlation) in [(1, 0x7000_0000), (2, 0xe000_0000), (3, 5), (4, 0xffff_ffff)]
        {
            join.work(seconds(0), correlation, piece(number, false), &mut out);
        }
        // The first round's, late.
        join.call(seconds(0), 0xffff_ffff, 8, false, &mut out);
        join.end(&mut out);
        let expected = [
            Whose::Foreign,
            Whose::Foreign,
            Whose::Foreign,
            Whose::Launch(8),
        ];
        for (number, expected) in (1..).zip(expected) {
            assert_eq!(whose(&out, number), Some(expected), "{number}");
        }
    }

    #[test]
    fn what_waits_has_a_bound() {
        let (mut join, mut out) = (Join::new(), Vec::new());
        join.expect_ids();
        let most = u32::try_from(MOST_WAITING).unwrap();
        for number in 0..most + 10 {
            join.work(seconds(0), number, piece(number, true), &mut out);
        }
        join.sweep(seconds(0), &mut out);
        assert_eq!(out.len(), 10);
        assert_eq!(whose(&out, 0), Some(Whose::Nccl), "the oldest first");
    }
}
