//! Who is waited for in the end. A rank that came late because it had waited itself, since it last met the one that
//! waits for it, is not to blame for that, but the one that it waited for.

use std::collections::{BTreeMap, BTreeSet};

use super::compared::{Messages, job_rank};
use super::ranks::Wait;
use crate::tables::{Tables, large};

/// A longer chain of ranks says nothing, nor a smaller part of a wait.
const LONGEST: u32 = 64;
const LEAST_PART: u64 = 256;

/// An operation that others waited for.
#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Meeting {
    /// Ranks of the job that waited.
    pub(in crate::derived) waited: BTreeSet<u32>,
    /// How long they waited in receives, summed over them.
    pub(in crate::derived) for_send_ns: u64,
    /// How long they waited in sends.
    pub(in crate::derived) for_receive_ns: u64,
}

impl Meeting {
    /// How long they waited.
    pub(in crate::derived) fn lost_ns(&self) -> u64 {
        self.for_send_ns + self.for_receive_ns
    }
}

/// For what was waited, by the rank of the job and when it came.
#[derive(Clone, Debug, Default)]
pub(in crate::derived) struct Blame {
    pub(in crate::derived) meetings: BTreeMap<(u32, u64), Meeting>,
    /// By communicator, sender and receiver there: how long the receiver waited for the sender, and the other way.
    pub(in crate::derived) pairs: BTreeMap<(u32, u32, u32), (u64, u64)>,
}

impl Blame {
    /// Adds what a rank waited.
    pub(in crate::derived) fn add(&mut self, tables: &Tables, messages: &Messages, rank: u32, wait: &Wait) {
        let operation = tables.operations.row(large(wait.row));
        let member = tables.members.row(operation.member);
        let ends = if wait.is_send { (member.rank, operation.partner) } else { (operation.partner, member.rank) };
        let pair = self.pairs.entry((member.communicator, ends.0, ends.1)).or_default();
        let waited = if wait.is_send { &mut pair.1 } else { &mut pair.0 };
        let all_ns = wait.stop_ns - wait.start_ns;
        *waited += all_ns;
        // A wait, how much of it, whose, and after how many others.
        let mut open = vec![(*wait, all_ns, rank, 0_u32)];
        while let Some((wait, mut left_ns, waits, depth)) = open.pop() {
            let awaited = job_rank(tables, wait.other);
            let came_ns = tables.operations.start_ns[large(wait.other)];
            if depth < LONGEST && left_ns > all_ns / LEAST_PART {
                let since_ns = messages.last_met_ns((awaited, waits), came_ns);
                let its = messages.ranks.get(large(awaited)).map_or(&[][..], |it| it.waits.as_slice());
                let its = &its[..its.partition_point(|it| it.stop_ns <= came_ns)];
                for its in its.iter().rev().take_while(|it| it.stop_ns > since_ns) {
                    let ns = left_ns.min(its.stop_ns - its.start_ns.max(since_ns));
                    left_ns -= ns;
                    open.push((*its, ns, awaited, depth + 1));
                    if left_ns == 0 {
                        break;
                    }
                }
            }
            if left_ns > 0 && rank != awaited {
                let meeting = self.meetings.entry((awaited, came_ns)).or_default();
                meeting.waited.insert(rank);
                let sum = if wait.is_send { &mut meeting.for_receive_ns } else { &mut meeting.for_send_ns };
                *sum += left_ns;
            }
        }
    }

    /// How long others waited for a rank of the job: in receives for its sends, and in sends for its receives.
    pub(in crate::derived) fn of_rank(&self, rank: u32) -> (u64, u64) {
        let meetings = self.meetings.range((rank, 0)..=(rank, u64::MAX)).map(|(_, meeting)| meeting);
        meetings.fold((0, 0), |sum, it| (sum.0 + it.for_send_ns, sum.1 + it.for_receive_ns))
    }
}
