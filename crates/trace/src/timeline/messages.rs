//! Communication records of a communicator's rank. They all go on the rank's own lane, also those of
//! operations that overlap and are drawn on a sibling: readers find the rank by the location, and a
//! message or collective on a location outside the communicator would have no partner.
//!
//! Messages carry a request and may overlap. Blocking collectives do not: those of one fused kernel follow each
//! other, in the communicator's order, which is the same on all ranks. Nonblocking ones are requested in that order
//! and may overlap.

use std::iter::Peekable;

use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::{Happening, What};

/// Which record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `MpiCollectiveBegin`
    CollectiveBegin,
    /// `MpiCollectiveEnd`
    CollectiveEnd,
    /// `NonBlockingCollectiveRequest`
    CollectiveRequest,
    /// `NonBlockingCollectiveComplete`
    CollectiveComplete,
    /// `MpiIsend`
    SendBegin,
    /// `MpiIsendComplete`
    SendEnd,
    /// `MpiIrecvRequest`
    ReceiveBegin,
    /// `MpiIrecv`
    ReceiveEnd,
}

/// A communication record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whose: a place in the activities.
    pub activity: u32,
    /// Which.
    pub role: Role,
}

/// A record with its time and its operation's place in the communicator's order.
#[derive(Clone, Copy, Debug)]
struct Timed {
    time: u64,
    position: u32,
    message: Message,
    /// What it is a record of.
    figure: Figure,
    /// Whether the operation is drawn on the communicator's own lane.
    at_home: bool,
}

/// The records of one communicator rank, gathered in its order.
#[derive(Debug, Default)]
pub struct Messages {
    all: Vec<Timed>,
    position: u32,
    collective_free: u64,
    requested: u64,
}

impl Messages {
    /// None yet, with room for those of so many operations.
    #[must_use]
    pub fn for_operations(count: usize) -> Self {
        Self {
            all: Vec::with_capacity(2 * count),
            ..Self::default()
        }
    }

    /// Adds the records of the next operation.
    pub fn add(&mut self, figure: Figure, kind: Exchange, span: (u64, u64), at_home: bool) {
        let activity = figure.operation;
        self.position += 1;
        let (mut start, mut end) = span;
        let (first, second) = match kind {
            Exchange::Collective => {
                start = start.max(self.collective_free);
                end = end.max(start);
                self.collective_free = end;
                (Role::CollectiveBegin, Role::CollectiveEnd)
            }
            Exchange::Requested { at } => {
                start = at.max(self.requested);
                self.requested = start;
                end = end.max(start);
                (Role::CollectiveRequest, Role::CollectiveComplete)
            }
            Exchange::Send => (Role::SendBegin, Role::SendEnd),
            Exchange::Receive => (Role::ReceiveBegin, Role::ReceiveEnd),
        };
        for (time, role) in [(start, first), (end, second)] {
            self.all.push(Timed {
                time,
                position: self.position,
                message: Message { activity, role },
                figure,
                at_home,
            });
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Puts the records in the order of time.
    pub fn sort(&mut self) {
        self.all
            .sort_by_key(|timed| (timed.time, timed.position, timed.message.role));
    }

    /// Puts the records, which are in order, between the ENTER and LEAVE of the communicator's own lane: inside their
    /// operation where it is drawn there.
    pub fn merge<I: Iterator<Item = Happening>>(&self, drawn: I) -> Merged<'_, I> {
        Merged {
            drawn: drawn.peekable(),
            records: self.all.iter(),
            begun: None,
        }
    }
}

/// What is drawn on the communicator's own lane, with the records of [`Messages`].
#[derive(Debug)]
pub struct Merged<'a, I: Iterator<Item = Happening>> {
    drawn: Peekable<I>,
    records: std::slice::Iter<'a, Timed>,
    /// What is around others, has just been entered, and begins, as a record, before those are.
    begun: Option<(u64, Figure)>,
}

impl<I: Iterator<Item = Happening>> Iterator for Merged<'_, I> {
    type Item = Happening;

    #[inline]
    fn next(&mut self) -> Option<Happening> {
        let Some(record) = self.records.as_slice().first() else {
            return self.drawn.next();
        };
        if let Some((now, figure)) = self.begun {
            if record.time <= now && record.figure == figure {
                return self.record();
            }
            self.begun = None;
        }
        let Some(next) = self.drawn.peek() else {
            return self.record();
        };
        let now = next.time;
        let is_due = match next.what {
            What::Leave(figure) => {
                let own = figure == record.figure;
                record.time < now || record.time == now && (own || !record.at_home)
            }
            _ => record.time < now,
        };
        if is_due {
            return self.record();
        }
        let next = self.drawn.next();
        if let Some(Happening {
            time,
            what: What::Enter(figure),
        }) = next
            && figure.shape == Shape::Composite
        {
            self.begun = Some((time, figure));
        }
        next
    }
}

impl<I: Iterator<Item = Happening>> Merged<'_, I> {
    fn record(&mut self) -> Option<Happening> {
        let timed = self.records.next()?;
        Some(Happening {
            time: timed.time,
            what: What::Message(timed.message),
        })
    }
}

/// What kind of exchange an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// All ranks take part.
    Collective,
    /// All ranks take part; it was asked for at this time, and others may be under way.
    Requested {
        /// When it was enqueued.
        at: u64,
    },
    /// To a peer.
    Send,
    /// From a peer.
    Receive,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::lanes::{Item, Nested, sort};

    fn figure(operation: u32) -> Figure {
        let shape = Shape::Operation;
        Figure::of(operation, shape)
    }

    fn item(start: u64, end: u64, activity: u32) -> Item {
        let figure = figure(activity);
        Item { start, end, figure }
    }

    fn merged(mut messages: Messages, items: &mut [Item]) -> Vec<String> {
        sort(items);
        messages.sort();
        let mut cut = 0;
        let drawn = Nested::new(items.iter(), &mut cut);
        let name = |what| match what {
            What::Enter(figure) => format!("enter {}", figure.operation),
            What::Leave(figure) => format!("leave {}", figure.operation),
            What::Message(message) => format!("{:?} {}", message.role, message.activity),
            What::Sample(metric, value) => format!("{metric:?} {value}"),
            What::Measurement(is_on) => format!("measurement {is_on}"),
        };
        let shown = messages.merge(drawn);
        shown
            .map(|h| format!("{} {}", h.time, name(h.what)))
            .collect()
    }

    #[test]
    fn back_to_back_collectives_stay_in_their_regions() {
        let mut items = [item(0, 5, 0), item(5, 5, 1), item(5, 9, 2)];
        let mut messages = Messages::default();
        for (activity, span) in [(0, (0, 5)), (1, (5, 5)), (2, (5, 9))] {
            messages.add(figure(activity), Exchange::Collective, span, true);
        }
        let expected = [
            "0 enter 0",
            "0 CollectiveBegin 0",
            "5 CollectiveEnd 0",
            "5 leave 0",
            "5 enter 1",
            "5 CollectiveBegin 1",
            "5 CollectiveEnd 1",
            "5 leave 1",
            "5 enter 2",
            "5 CollectiveBegin 2",
            "9 CollectiveEnd 2",
            "9 leave 2",
        ];
        assert_eq!(merged(messages, &mut items), expected);
    }

    #[test]
    fn a_collective_of_messages_begins_before_and_ends_after_them() {
        let around = Figure::of(0, Shape::Composite);
        let mut items = [
            item(0, 9, 0),
            Item {
                start: 0,
                end: 9,
                figure: around,
            },
        ];
        let mut messages = Messages::default();
        messages.add(around, Exchange::Collective, (0, 9), true);
        let expected = [
            "0 enter 0",
            "0 CollectiveBegin 0",
            "0 enter 0",
            "9 leave 0",
            "9 CollectiveEnd 0",
            "9 leave 0",
        ];
        assert_eq!(merged(messages, &mut items), expected);
    }

    #[test]
    fn fused_collectives_follow_each_other_and_messages_overlap() {
        let mut items = [item(0, 9, 0)];
        let mut messages = Messages::default();
        messages.add(figure(0), Exchange::Collective, (0, 9), true);
        messages.add(figure(1), Exchange::Collective, (0, 9), false);
        messages.add(figure(2), Exchange::Send, (1, 9), false);
        messages.add(figure(3), Exchange::Receive, (2, 11), false);
        let expected = [
            "0 enter 0",
            "0 CollectiveBegin 0",
            "1 SendBegin 2",
            "2 ReceiveBegin 3",
            "9 CollectiveEnd 0",
            "9 CollectiveBegin 1",
            "9 CollectiveEnd 1",
            "9 SendEnd 2",
            "9 leave 0",
            "11 ReceiveEnd 3",
        ];
        assert_eq!(merged(messages, &mut items), expected);
    }
}
