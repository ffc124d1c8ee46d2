//! Lanes: what a row of the trace is, and how intervals are put on it so that ENTER and LEAVE nest and
//! time never goes backwards.
//!
//! Two rules, by the kind of lane:
//! * **thread**: calls nest by construction. One that would end after the call around it is cut there.
//! * **everything else**: intervals follow each other. One that starts before the lane is free goes to
//!   the lowest free sibling, `#2`, `#3` …: the fewest rows, because intervals come by start.

use std::iter::Peekable;

use crate::links::comm::Comms;
use crate::links::gpu_work::Row as GpuRow;
use crate::timeline::figure::Figure;
use crate::timeline::messages::{Message, Role};
use crate::timeline::metrics::Sample;
use journal::part::metrics::Metric;
use nccl_events::Kind;

/// What a lane is about. Rows are in the order of [`LaneKey::row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKey {
    /// A thread that called NCCL, by place in the list of such threads (first event first).
    Thread(u32),
    /// A proxy thread between transfers, by place in [`crate::tables::assembly::Assembly::threads`].
    Proxy(u32),
    /// A rank of a communicator, by place of the context.
    Communicator(u32),
    /// A CUDA stream.
    Stream(GpuRow),
    /// A channel of a communicator's rank.
    Channel(Owner, u8),
    /// A network connection of such a rank: channel, whether it sends, peer.
    Net(Owner, u8, bool, i32),
    /// A slot of that connection, where one step after the other is under way.
    Step(Owner, u8, bool, i32, u8),
    /// What the network plugin does for that slot.
    Plugin(Owner, u8, bool, i32, u8),
}

/// Whose lane: a context's of this process, or one that this process has no beginning of or only works for (PXN).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A place in [`crate::tables::assembly::Assembly::contexts`].
    Context(u32),
    /// What NCCL gave as the context of another process's operation, or of one whose beginning was lost.
    Foreign(u64),
}

impl Owner {
    /// Whether it is another process's.
    #[must_use]
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }
}

/// Where a row is among those of its process: threads, communicators, CUDA streams, channels, network; in each by
/// communicator, rank, channel, direction, peer and slot. Contexts come in order of arrival, which differs from
/// run to run, so they only break ties.
pub type Row = (u8, Whose, u8, bool, i32, u8);

/// A row's communicator and rank, foreign ones after the process's own; then its context or thread (proxy
/// threads after those that call).
pub type Whose = (u32, u32, u64);

impl LaneKey {
    /// The kind of event that the lane is there for: a level that leaves it out leaves out the lane.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            // What it shows is no event, and wanted by who asked for it.
            Self::Thread(_) | Self::Communicator(_) | Self::Stream(_) => Kind::Coll,
            Self::Proxy(_) => Kind::ProxyCtrl,
            Self::Channel(..) => Kind::KernelCh,
            Self::Net(..) => Kind::ProxyOp,
            Self::Step(..) => Kind::ProxyStep,
            Self::Plugin(..) => Kind::NetPlugin,
        }
    }

    /// Where it is among the rows of its process.
    #[must_use]
    pub fn row(self, comms: &Comms) -> Row {
        let whose = |owner| match owner {
            Owner::Context(context) => match comms.member(context) {
                Some(member) => (member.comm, member.rank, u64::from(context)),
                None => (u32::MAX, 0, u64::from(context)),
            },
            Owner::Foreign(id) => (u32::MAX, u32::MAX, id),
        };
        match self {
            Self::Thread(number) => (0, (0, 0, u64::from(number)), 0, false, 0, 0),
            Self::Proxy(thread) => (0, (1, 0, u64::from(thread)), 0, false, 0, 0),
            Self::Communicator(context) => (1, whose(Owner::Context(context)), 0, false, 0, 0),
            Self::Stream(GpuRow {
                ordinal,
                context,
                stream,
            }) => (2, (ordinal, context, stream.into()), 0, false, 0, 0),
            Self::Channel(owner, channel) => (3, whose(owner), channel, false, 0, 0),
            Self::Net(owner, channel, send, peer) => (4, whose(owner), channel, send, peer, 0),
            Self::Step(owner, channel, send, peer, slot) => {
                (4, whose(owner), channel, send, peer, 2 * slot + 1)
            }
            Self::Plugin(owner, channel, send, peer, slot) => {
                (4, whose(owner), channel, send, peer, 2 * slot + 2)
            }
        }
    }
}

/// An interval to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// From.
    pub start: u64,
    /// To; not before `start`.
    pub end: u64,
    /// What.
    pub figure: Figure,
}

impl Item {
    fn key(&self) -> (u64, u64) {
        (self.start, self.figure.order())
    }
}

/// A step in the drawing of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When.
    pub time: u64,
    /// What.
    pub what: What,
}

impl Happening {
    /// Whether it completes a collective on this rank.
    #[must_use]
    pub const fn ends_collective(&self) -> bool {
        matches!(
            self.what,
            What::Message(Message {
                role: Role::CollectiveEnd | Role::CollectiveComplete,
                ..
            })
        )
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A region is entered.
    Enter(Figure),
    /// It is left.
    Leave(Figure),
    /// A communication record, see [`crate::timeline::messages`].
    Message(Message),
    /// A metric has this value from now on.
    Sample(Metric, u64),
    /// Recording goes on, or stops, see [`crate::timeline::measurement`].
    Measurement(bool),
}

/// Puts items in the order that [`Nested`] takes them in.
pub fn sort(items: &mut [Item]) {
    // Stable for its speed: items come in a few runs that are in order. No two have the same key.
    items.sort_by_key(Item::key);
}

/// Draws nested items: ENTER and LEAVE in a valid order. One that ends after the item around it ends with that one.
#[derive(Debug)]
pub struct Nested<'a, I: Iterator<Item = &'a Item>> {
    items: Peekable<I>,
    around: Vec<Item>,
    cut: &'a mut u64,
}

impl<'a, I: Iterator<Item = &'a Item>> Nested<'a, I> {
    /// Of items that are in order. `cut` counts those that end earlier here.
    pub fn new(items: I, cut: &'a mut u64) -> Self {
        Self {
            items: items.peekable(),
            around: Vec::new(),
            cut,
        }
    }
}

impl<'a, I: Iterator<Item = &'a Item>> Iterator for Nested<'a, I> {
    type Item = Happening;

    #[inline]
    fn next(&mut self) -> Option<Happening> {
        let next = self.items.peek();
        let is_over = |top: &mut Item| next.is_none_or(|next| top.end <= next.start);
        if let Some(top) = self.around.pop_if(is_over) {
            return Some(leave(&top));
        }
        let mut item = *self.items.next()?;
        if let Some(top) = self.around.last()
            && item.end > top.end
        {
            item.end = top.end;
            *self.cut += 1;
        }
        self.around.push(item);
        Some(Happening {
            time: item.start,
            what: What::Enter(item.figure),
        })
    }
}

/// Puts other happenings between those of a row: before those of the same time.
#[derive(Debug)]
pub struct Woven<I: Iterator<Item = Happening>, J: Iterator<Item = Happening>> {
    row: Peekable<I>,
    others: Peekable<J>,
}

impl<I: Iterator<Item = Happening>, J: Iterator<Item = Happening>> Woven<I, J> {
    /// Both are in order.
    pub fn new(row: I, others: J) -> Self {
        Self {
            row: row.peekable(),
            others: others.peekable(),
        }
    }
}

impl<I: Iterator<Item = Happening>, J: Iterator<Item = Happening>> Iterator for Woven<I, J> {
    type Item = Happening;

    #[inline]
    fn next(&mut self) -> Option<Happening> {
        let Some(other) = self.others.peek() else {
            return self.row.next();
        };
        let time = other.time;
        match self.row.peek() {
            Some(next) if next.time < time => self.row.next(),
            _ => self.others.next(),
        }
    }
}

impl Sample {
    /// As something that happens.
    pub(crate) const fn happening(&self) -> Happening {
        Happening {
            time: self.time,
            what: What::Sample(self.metric, self.value),
        }
    }
}

fn leave(item: &Item) -> Happening {
    Happening {
        time: item.end,
        what: What::Leave(item.figure),
    }
}

/// Finds, for items that come by start, the lane that is free: 0 is the lane itself, 1 its sibling `#2`.
#[derive(Debug, Default)]
pub struct Siblings {
    free_from: Vec<u64>,
}

impl Siblings {
    /// When the lane itself is free.
    #[must_use]
    pub fn free_from(&self) -> u64 {
        self.free_from.first().copied().unwrap_or(0)
    }

    /// Takes the lowest lane that is free at `start`, until `end`.
    pub fn take(&mut self, start: u64, end: u64) -> usize {
        let free = self.free_from.iter().position(|&from| from <= start);
        let lane = free.unwrap_or(self.free_from.len());
        match self.free_from.get_mut(lane) {
            Some(from) => *from = end,
            None => self.free_from.push(end),
        }
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::figure::Shape;
    use proptest::prelude::*;

    fn item(start: u64, end: u64, operation: u32) -> Item {
        let figure = Figure::of(operation, Shape::Call);
        Item { start, end, figure }
    }

    fn nested(items: &mut [Item]) -> (Vec<Happening>, u64) {
        sort(items);
        let mut cut = 0;
        let happenings = Nested::new(items.iter(), &mut cut).collect();
        (happenings, cut)
    }

    #[test]
    fn what_is_woven_in_comes_first() {
        let sample = |time, value| Sample {
            time,
            metric: Metric::BytesInFlight,
            value,
        };
        let items = &mut [item(1, 5, 0)];
        let (row, _) = nested(items);
        let samples = [sample(0, 7), sample(1, 8), sample(5, 9), sample(6, 10)];
        let others = samples.iter().map(Sample::happening);
        let times = Woven::new(row.into_iter(), others).map(|happening| {
            let is_sample = matches!(happening.what, What::Sample(..));
            (happening.time, is_sample)
        });
        let expected = [
            (0, true),
            (1, true),
            (1, false),
            (5, true),
            (5, false),
            (6, true),
        ];
        assert_eq!(times.collect::<Vec<_>>(), expected);
    }

    fn shown(happenings: &[Happening]) -> Vec<String> {
        let name = |what| match what {
            What::Enter(figure) => format!("+{}", figure.operation),
            What::Leave(figure) => format!("-{}", figure.operation),
            What::Message(_) | What::Sample(..) | What::Measurement(_) => "?".to_owned(),
        };
        let shown = happenings.iter();
        shown
            .map(|h| format!("{}@{}", name(h.what), h.time))
            .collect()
    }

    #[test]
    fn a_call_that_outlives_the_one_around_it_is_cut() {
        let (out, cut) = nested(&mut [item(0, 10, 0), item(4, 12, 1), item(12, 13, 2)]);
        assert_eq!(cut, 1);
        assert_eq!(
            shown(&out),
            ["+0@0", "+1@4", "-1@10", "-0@10", "+2@12", "-2@13"]
        );
    }

    #[test]
    fn ties_come_out_in_a_valid_order() {
        let items = &mut [item(5, 5, 1), item(5, 9, 2), item(0, 5, 0), item(9, 9, 3)];
        let (out, cut) = nested(items);
        assert_eq!(cut, 0);
        let expected = [
            "+0@0", "-0@5", "+1@5", "-1@5", "+2@5", "-2@9", "+3@9", "-3@9",
        ];
        assert_eq!(shown(&out), expected);
    }

    #[test]
    fn overlap_goes_to_the_lowest_free_sibling() {
        let mut siblings = Siblings::default();
        let lanes: Vec<usize> = [(0, 10), (2, 4), (3, 5), (4, 20), (10, 12)]
            .iter()
            .map(|&(start, end)| siblings.take(start, end))
            .collect();
        assert_eq!(lanes, [0, 1, 2, 1, 0]);
    }

    proptest! {
        #[test]
        fn every_lane_is_ordered_and_nested(
            spans in proptest::collection::vec((0_u64..40, 0_u64..12), 0..60)
        ) {
            let mut items: Vec<Item> = (0..)
                .zip(&spans)
                .map(|(at, &(start, length))| item(start, start + length, at))
                .collect();
            let (out, _) = nested(&mut items);
            prop_assert_eq!(out.len(), 2 * spans.len());
            prop_assert!(out.is_sorted_by_key(|happening| happening.time));
            let mut open = Vec::new();
            for happening in out {
                match happening.what {
                    What::Enter(figure) => open.push(figure),
                    What::Leave(figure) => prop_assert_eq!(open.pop(), Some(figure)),
                    What::Message(_) | What::Sample(..) | What::Measurement(_) => prop_assert!(false),
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
