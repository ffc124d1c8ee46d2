//! Communication records of a communicator's rank. All go on the rank's own location, even for overlapping operations
//! shown on a sibling: readers find the rank by the location, and a message or collective on a location outside the
//! communicator would have no partner.
//!
//! Messages carry a request and may overlap. Blocking collectives may not: those of one fused kernel follow each other
//! in the communicator's order, the same on all ranks. Nonblocking collectives are requested in it and may overlap.

use std::iter::Peekable;

use crate::timeline::events::{EventBody, Message, Role, TimelineEvent};
use crate::timeline::instance::{InstanceKind, RegionInstance};

/// A record with its time and its operation's position in the communicator's order.
#[derive(Clone, Copy, Debug)]
struct Timed {
    time: u64,
    position: u32,
    message: Message,
    instance: RegionInstance,
    /// Whether the operation is shown on the communicator's primary location, not on a sibling.
    on_primary_location: bool,
    /// Whether this or a later record of the same time belongs to a region that ends before another begins then.
    is_behind: bool,
}

#[derive(Debug, Default)]
pub struct Messages {
    all: Vec<Timed>,
    position: u32,
    collective_free: u64,
    requested: u64,
}

impl Messages {
    /// An empty list with room for the records of `count` operations.
    pub fn for_operations(count: usize) -> Self {
        Self { all: Vec::with_capacity(2 * count), ..Self::default() }
    }

    /// Adds the records of the next operation; `instance.order` is the index of its activity.
    pub fn add(&mut self, instance: RegionInstance, kind: Exchange, span: (u64, u64), on_primary_location: bool) {
        let activity = instance.order;
        self.position += 1;
        let (mut start, mut end) = span;
        let mut is_behind = false;
        let (first, second) = match kind {
            Exchange::Collective => {
                start = start.max(self.collective_free);
                end = end.max(start);
                self.collective_free = end;
                is_behind = on_primary_location && span.0 < span.1 && span.1 <= start;
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
                instance,
                on_primary_location,
                is_behind,
            });
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn sort(&mut self) {
        self.all.sort_by_key(|timed| (timed.time, timed.position, timed.message.role));
        let mut behind = None;
        for timed in self.all.iter_mut().rev() {
            if timed.is_behind {
                behind = Some(timed.time);
            }
            timed.is_behind = behind == Some(timed.time);
        }
    }

    /// Merges the sorted records into the communicator's location: inside of their operation if it is shown there.
    pub fn merge<I: Iterator<Item = TimelineEvent>>(&self, shown: I) -> Merged<'_, I> {
        Merged { shown: shown.peekable(), records: self.all.iter(), begun: None }
    }
}

/// The events of the communicator's own location, merged with the records of [`Messages`].
#[derive(Debug)]
pub struct Merged<'a, I: Iterator<Item = TimelineEvent>> {
    shown: Peekable<I>,
    records: std::slice::Iter<'a, Timed>,
    /// The instance just entered and its time: its own records at that time come before nested instances.
    begun: Option<(u64, RegionInstance)>,
}

impl<I: Iterator<Item = TimelineEvent>> Iterator for Merged<'_, I> {
    type Item = TimelineEvent;

    #[inline]
    fn next(&mut self) -> Option<TimelineEvent> {
        let Some(record) = self.records.as_slice().first() else {
            return self.shown.next();
        };
        if let Some((now, instance)) = self.begun {
            if record.time <= now && record.instance == instance {
                return self.record();
            }
            self.begun = None;
        }
        let Some(next) = self.shown.peek() else {
            return self.record();
        };
        let now = next.time;
        let is_due = match next.body {
            EventBody::Leave(instance) => {
                let own = instance == record.instance;
                record.time < now || record.time == now && (own || !record.on_primary_location)
            }
            _ => record.time < now || record.time == now && record.is_behind,
        };
        if is_due {
            return self.record();
        }
        let next = self.shown.next();
        if let Some(TimelineEvent { time, body: EventBody::Enter(instance) }) = next
            && instance.kind == InstanceKind::Derived
        {
            self.begun = Some((time, instance));
        }
        next
    }
}

impl<I: Iterator<Item = TimelineEvent>> Merged<'_, I> {
    fn record(&mut self) -> Option<TimelineEvent> {
        let timed = self.records.next()?;
        Some(TimelineEvent { time: timed.time, body: EventBody::Message(timed.message) })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    Collective,
    /// All ranks take part; requested at this time, and others may be in progress.
    Requested {
        at: u64,
    },
    Send,
    Receive,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::events::{Nested, TimedInstance, sort, tests};
    use crate::timeline::instance::{RegionKey, Regions, Source};
    use nccl_events::archive::RegionClass;

    fn instance(operation: u32) -> RegionInstance {
        of(operation, InstanceKind::Operation)
    }

    fn of(operation: u32, kind: InstanceKind) -> RegionInstance {
        let region = Regions::default().number(RegionKey::fixed(RegionClass::Api, ""));
        RegionInstance::new(Source::Activity(operation), operation, kind, region)
    }

    fn timed(start: u64, end: u64, activity: u32) -> TimedInstance {
        let instance = instance(activity);
        TimedInstance { start, end, instance }
    }

    fn merged(mut messages: Messages, instances: &mut [TimedInstance]) -> String {
        sort(instances);
        messages.sort();
        let mut cut = 0;
        let shown = Nested::new(instances.iter(), &mut cut);
        tests::shown(&messages.merge(shown).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn back_to_back_collectives_stay_in_their_regions() {
        let mut instances = [timed(0, 5, 0), timed(5, 5, 1), timed(5, 9, 2)];
        let mut messages = Messages::default();
        for (activity, span) in [(0, (0, 5)), (1, (5, 5)), (2, (5, 9))] {
            messages.add(instance(activity), Exchange::Collective, span, true);
        }
        let expected = "+0@0 CollectiveBegin0@0 CollectiveEnd0@5 -0@5 +1@5 CollectiveBegin1@5 CollectiveEnd1@5 -1@5 \
            +2@5 CollectiveBegin2@5 CollectiveEnd2@9 -2@9";
        assert_eq!(merged(messages, &mut instances), expected);
    }

    #[test]
    fn a_collective_that_follows_its_region_is_in_no_other() {
        // Enqueued in the order 1, 2, 0.
        let mut instances = [timed(0, 5, 0), timed(5, 5, 1), timed(5, 9, 2)];
        let mut messages = Messages::default();
        messages.add(instance(1), Exchange::Collective, (5, 5), true);
        messages.add(instance(2), Exchange::Send, (5, 9), true);
        messages.add(instance(0), Exchange::Collective, (0, 5), true);
        let expected = "+0@0 -0@5 CollectiveBegin1@5 CollectiveEnd1@5 SendBegin2@5 CollectiveBegin0@5 \
            CollectiveEnd0@5 +1@5 -1@5 +2@5 SendEnd2@9 -2@9";
        assert_eq!(merged(messages, &mut instances), expected);
    }

    #[test]
    fn a_collective_of_messages_begins_before_and_ends_after_them() {
        let around = of(0, InstanceKind::Derived);
        let mut instances = [timed(0, 9, 0), TimedInstance { start: 0, end: 9, instance: around }];
        let mut messages = Messages::default();
        messages.add(around, Exchange::Collective, (0, 9), true);
        assert_eq!(merged(messages, &mut instances), "+0@0 CollectiveBegin0@0 +0@0 -0@9 CollectiveEnd0@9 -0@9");
    }

    #[test]
    fn fused_collectives_follow_each_other_and_messages_overlap() {
        let mut instances = [timed(0, 9, 0)];
        let mut messages = Messages::default();
        messages.add(instance(0), Exchange::Collective, (0, 9), true);
        messages.add(instance(1), Exchange::Collective, (0, 9), false);
        messages.add(instance(2), Exchange::Send, (1, 9), false);
        messages.add(instance(3), Exchange::Receive, (2, 11), false);
        let expected = "+0@0 CollectiveBegin0@0 SendBegin2@1 ReceiveBegin3@2 CollectiveEnd0@9 CollectiveBegin1@9 \
            CollectiveEnd1@9 SendEnd2@9 -0@9 ReceiveEnd3@11";
        assert_eq!(merged(messages, &mut instances), expected);
    }
}
