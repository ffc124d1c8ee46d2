//! Matches sends with receives.

use std::collections::BTreeMap;

use nccl_events::collective::Function;

use crate::archive::Trace;
use crate::tables::{NO_SEQUENCE, NONE, Tables};
use nccl_events::ids::{index as large, index_u32 as small};

/// Which sends and receives belong together.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// By row; both empty without messages.
    ends: Vec<End>,
    /// The row of the other end; [`NONE`] if it is unknown.
    others: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No send or receive, or part of a collective, which is compared as a whole.
    None,
    Send,
    Receive,
}

/// By communicator, sender and receiver: the sends, and the matching receives.
type Ends = BTreeMap<(u32, u32, u32), [Vec<u32>; 2]>;

impl Pairing {
    /// NCCL matches messages in order. If records are missing, both ranks must have equally many.
    pub(super) fn of(trace: &Trace, tables: &Tables) -> Self {
        let operations = &tables.operations;
        let mut found = Self::default();
        let mut ends = Ends::new();
        let collectives = Collectives::of(trace, tables);
        for row in 0..small(operations.len()) {
            let it = operations.row(large(row));
            let is_send = trace.function(it.function).and_then(Function::is_send);
            let Some(is_send) = is_send.filter(|_| it.partner != NONE) else {
                continue;
            };
            if collectives.have(it.member, (it.start_ns, it.stop_ns)) {
                continue;
            }
            let member = tables.members.row(it.member);
            let (from, to) = if is_send { (member.rank, it.partner) } else { (it.partner, member.rank) };
            ends.entry((member.communicator, from, to)).or_default()[usize::from(!is_send)].push(row);
            if found.ends.is_empty() {
                found = Self { ends: vec![End::None; operations.len()], others: vec![NONE; operations.len()] };
            }
            found.ends[large(row)] = if is_send { End::Send } else { End::Receive };
        }
        let is_whole = is_whole(trace);
        for [mut sends, mut receives] in ends.into_values() {
            for rows in [&mut sends, &mut receives] {
                rows.sort_unstable_by_key(|row| (operations.start_ns[large(*row)], operations.event.get(large(*row))));
            }
            let bytes = |row: u32| operations.bytes.get(large(row));
            let is_clear = is_whole || sends.len() == receives.len();
            let pairs = sends.into_iter().zip(receives).filter(|_| is_clear);
            // After sizes differ once, later pairs are unreliable.
            for (send, receive) in pairs.take_while(|(send, receive)| bytes(*send) == bytes(*receive)) {
                (found.others[large(send)], found.others[large(receive)]) = (receive, send);
            }
        }
        found
    }

    fn end(&self, row: u32) -> End {
        self.ends.get(large(row)).copied().unwrap_or(End::None)
    }

    pub(in crate::derived) fn is_message(&self, row: u32) -> bool {
        self.end(row) != End::None
    }

    pub(super) fn is_send(&self, row: u32) -> bool {
        self.end(row) == End::Send
    }

    pub(in crate::derived) fn other(&self, row: u32) -> Option<u32> {
        self.others.get(large(row)).copied().filter(|other| *other != NONE)
    }
}

/// Whether the archive contains all messages of every rank, up to its end.
fn is_whole(trace: &Trace) -> bool {
    !trace.statements.lacks().any(|lack| {
        use nccl_events::schema::Lack::{Beginning, Callbacks, Places, Processes, WhileOff};
        matches!(lack, Callbacks(_) | Processes(_) | Places(_) | Beginning | WhileOff)
    })
}

/// All-to-alls made of sends and receives: their ranks are compared as in a collective.
struct Collectives(BTreeMap<u32, Vec<(u64, u64)>>);

impl Collectives {
    fn of(trace: &Trace, tables: &Tables) -> Self {
        let mut found: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for it in tables.operations.rows().filter(|it| it.sequence == NO_SEQUENCE && it.partner == NONE) {
            if trace.function(it.function).and_then(Function::collective).is_some() {
                found.entry(it.member).or_default().push((it.start_ns, it.stop_ns));
            }
        }
        found.values_mut().for_each(|times| times.sort_unstable());
        Self(found)
    }

    fn have(&self, member: u32, (start_ns, stop_ns): (u64, u64)) -> bool {
        self.0.get(&member).is_some_and(|times| {
            let after = times.partition_point(|(begin_ns, _)| *begin_ns <= start_ns);
            after.checked_sub(1).is_some_and(|at| times[at].1 >= stop_ns)
        })
    }
}
