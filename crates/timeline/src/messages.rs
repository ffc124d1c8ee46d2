//! The events of a location in a valid order, and the communication records of a communicator's rank.
//!
//! OTF2 lets the messages of a location overlap: a request ties the two records of each. It does not let collectives
//! overlap. So the collectives of one fused kernel follow each other, in the communicator's order, which all ranks
//! share.

use std::iter::Peekable;

use crate::instance::RegionInstance;
use model::tables::Row;
use nccl_events::event::ProxyStep;

/// A record of a communicator's location, with its place among the regions there.
#[derive(Clone, Copy, Debug)]
struct TimedRecord {
    time: u64,
    slot: u32,
    /// Its operation's position in the communicator's order.
    position: u32,
    body: EventBody,
}

/// Slot 2n + 1 is inside of the n-th region, slot 2n before it.
const fn inside(region: u32) -> u32 {
    region.saturating_mul(2).saturating_add(1)
}

#[derive(Debug, Default)]
pub struct Messages {
    all: Vec<TimedRecord>,
    position: u32,
    /// The slot of the last collective, when it ended, and when its region ends.
    last_collective: (u32, u64, u64),
}

impl Messages {
    /// An empty list with room for the records of `count` operations.
    pub fn for_operations(count: usize) -> Self {
        Self { all: Vec::with_capacity(2 * count), ..Self::default() }
    }

    /// Adds the records of the next operation, which is shown in the region `around`, the n-th of its location.
    pub fn add(&mut self, operation: u32, kind: Exchange, span: (u64, u64), (region, around): (u32, &TimedInstance)) {
        // A region that was cut begins later than its operation.
        let (mut start, mut end) = (span.0.max(around.start), span.1.max(around.start));
        let mut slot = inside(region);
        self.position += 1;
        let (first, second) = match kind {
            Exchange::Collective => {
                let (last, free, region_end) = self.last_collective;
                start = start.max(free);
                if last > slot {
                    // The one before is in a later region: this one follows that region.
                    (slot, start) = (last.next_multiple_of(2), start.max(region_end));
                }
                end = end.max(start);
                self.last_collective = (slot, end, around.end.max(end));
                (Role::CollectiveBegin, Role::CollectiveEnd)
            }
            Exchange::Send => (Role::SendBegin, Role::SendEnd),
            Exchange::Receive => (Role::ReceiveBegin, Role::ReceiveEnd),
        };
        for (time, role) in [(start, first), (end, second)] {
            let body = EventBody::Message(Message { operation, role });
            self.all.push(TimedRecord { time, slot, position: self.position, body });
        }
    }

    /// Adds an operation that is shown as a record in the n-th region of its location.
    pub fn record(&mut self, operation: TimedInstance, region: u32) {
        let body = EventBody::Record(operation);
        self.all.push(TimedRecord { time: operation.end, slot: inside(region), position: u32::MAX, body });
    }

    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn sort(&mut self) {
        // A stable sort: of one position and time, the begin comes first, and records stay in their order.
        self.all.sort_by_key(|timed| (timed.time, timed.slot, timed.position));
    }

    /// Merges the sorted records into the regions of the communicator's location, which do not nest.
    pub fn merge<I: Iterator<Item = TimelineEvent>>(&self, shown: I) -> MergedEvents<'_, I> {
        MergedEvents { shown: shown.peekable(), records: self.all.iter(), region: 0 }
    }
}

/// The events of the communicator's own location, merged with the records of [`Messages`].
#[derive(Debug)]
pub struct MergedEvents<'a, I: Iterator<Item = TimelineEvent>> {
    shown: Peekable<I>,
    records: std::slice::Iter<'a, TimedRecord>,
    /// The number of the region that was entered last, or is entered next.
    region: u32,
}

impl<I: Iterator<Item = TimelineEvent>> Iterator for MergedEvents<'_, I> {
    type Item = TimelineEvent;

    #[inline]
    fn next(&mut self) -> Option<TimelineEvent> {
        let Some(record) = self.records.as_slice().first() else {
            return self.shown.next();
        };
        let is_leave = match self.shown.peek() {
            Some(TimelineEvent { time, body }) => {
                let is_leave = matches!(body, EventBody::Leave(_));
                let slot = inside(self.region);
                if (record.time, record.slot) < (*time, if is_leave { slot + 1 } else { slot }) {
                    return self.record();
                }
                is_leave
            }
            None => return self.record(),
        };
        self.region += u32::from(is_leave);
        self.shown.next()
    }
}

impl<I: Iterator<Item = TimelineEvent>> MergedEvents<'_, I> {
    fn record(&mut self) -> Option<TimelineEvent> {
        let timed = self.records.next()?;
        Some(TimelineEvent { time: timed.time, body: timed.body })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    Collective,
    Send,
    Receive,
}

// In a valid order, ENTER and LEAVE nest, and time never goes backwards.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    CollectiveBegin,
    CollectiveEnd,
    SendBegin,
    SendEnd,
    ReceiveBegin,
    ReceiveEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Index of the operation that the message belongs to.
    pub operation: u32,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedInstance {
    pub start: u64,
    /// Not before `start`.
    pub end: u64,
    pub instance: RegionInstance,
}

impl TimedInstance {
    /// The order in which what begins is around what begins later or at the same time.
    pub fn key(&self) -> (u64, u64) {
        (self.start, self.instance.tie())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    pub time: u64,
    pub body: EventBody,
}

impl TimelineEvent {
    pub const fn ends_collective(&self) -> bool {
        matches!(self.body, EventBody::Message(Message { role: Role::CollectiveEnd, .. }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventBody {
    Enter(RegionInstance),
    Leave(RegionInstance),
    Message(Message),
    /// What is shown ends here.
    Record(TimedInstance),
    /// A step puts data into its peer's memory; its number is also that of the put's end.
    Put(Row<ProxyStep>, u32),
    /// The data of the put with this number is all sent.
    PutComplete(Row<ProxyStep>, u32),
    /// Recording was switched on (`true`) or off, see [`crate::locations::switches`].
    Measurement(bool),
}

/// Sorts instances into the order that [`NestedEvents`] requires.
pub fn sort(instances: &mut [TimedInstance]) {
    // A stable sort is faster here: instances come in a few sorted runs. No two keys are equal.
    instances.sort_by_key(TimedInstance::key);
}

/// ENTER and LEAVE of nested instances in a valid order. An instance that outlasts the one around it is cut there.
#[derive(Debug)]
pub struct NestedEvents<'a, I: Iterator<Item = &'a TimedInstance>> {
    instances: Peekable<I>,
    around: Vec<TimedInstance>,
    cut: &'a mut u64,
}

impl<'a, I: Iterator<Item = &'a TimedInstance>> NestedEvents<'a, I> {
    /// `instances` must be sorted. `cut` counts the instances that were cut.
    pub fn new(instances: I, cut: &'a mut u64) -> Self {
        Self { instances: instances.peekable(), around: Vec::new(), cut }
    }
}

impl<'a, I: Iterator<Item = &'a TimedInstance>> Iterator for NestedEvents<'a, I> {
    type Item = TimelineEvent;

    #[inline]
    fn next(&mut self) -> Option<TimelineEvent> {
        let next = self.instances.peek();
        let is_over = |top: &mut TimedInstance| next.is_none_or(|next| top.end <= next.start);
        if let Some(top) = self.around.pop_if(is_over) {
            return Some(leave(&top));
        }
        let mut instance = *self.instances.next()?;
        if let Some(top) = self.around.last()
            && instance.end > top.end
        {
            instance.end = top.end;
            *self.cut += 1;
        }
        self.around.push(instance);
        Some(TimelineEvent { time: instance.start, body: EventBody::Enter(instance.instance) })
    }
}

/// Merges records into the events of a location: each inside of the region that ends at its time.
#[derive(Debug)]
pub struct RecordedEvents<'a, I: Iterator<Item = TimelineEvent>> {
    row: Peekable<I>,
    records: std::slice::Iter<'a, TimelineEvent>,
}

impl<'a, I: Iterator<Item = TimelineEvent>> RecordedEvents<'a, I> {
    /// Both must be sorted.
    pub fn new(row: I, records: &'a [TimelineEvent]) -> Self {
        Self { row: row.peekable(), records: records.iter() }
    }
}

impl<I: Iterator<Item = TimelineEvent>> Iterator for RecordedEvents<'_, I> {
    type Item = TimelineEvent;

    #[inline]
    fn next(&mut self) -> Option<TimelineEvent> {
        let Some(record) = self.records.as_slice().first() else {
            return self.row.next();
        };
        let is_due = self.row.peek().is_none_or(|next| {
            let is_leave = matches!(next.body, EventBody::Leave(_));
            record.time < next.time || record.time == next.time && is_leave
        });
        if !is_due {
            return self.row.next();
        }
        self.records.next().copied()
    }
}

/// Merges other events into those of a location: before events at the same time.
#[derive(Debug)]
pub struct InterleavedEvents<I: Iterator<Item = TimelineEvent>, J: Iterator<Item = TimelineEvent>> {
    row: Peekable<I>,
    others: Peekable<J>,
}

impl<I: Iterator<Item = TimelineEvent>, J: Iterator<Item = TimelineEvent>> InterleavedEvents<I, J> {
    /// Both must be sorted.
    pub fn new(row: I, others: J) -> Self {
        Self { row: row.peekable(), others: others.peekable() }
    }
}

impl<I: Iterator<Item = TimelineEvent>, J: Iterator<Item = TimelineEvent>> Iterator for InterleavedEvents<I, J> {
    type Item = TimelineEvent;

    #[inline]
    fn next(&mut self) -> Option<TimelineEvent> {
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

fn leave(instance: &TimedInstance) -> TimelineEvent {
    TimelineEvent { time: instance.end, body: EventBody::Leave(instance.instance) }
}

#[cfg(test)]
mod tests {
    mod messages {
        use crate::instance::{InstanceKind, RegionKey, Regions, Source};
        use crate::messages::tests::events;
        use crate::messages::*;
        use crate::messages::{NestedEvents, TimedInstance, sort};
        use nccl_events::archive::RegionClass;

        fn timed(start: u64, end: u64, operation: u32) -> TimedInstance {
            let region = Regions::default().number(RegionKey::fixed(RegionClass::Api, ""));
            let instance =
                RegionInstance::new(Source::Operation(operation), operation, InstanceKind::Operation, region);
            TimedInstance { start, end, instance }
        }

        fn merged(mut messages: Messages, instances: &mut [TimedInstance]) -> String {
            sort(instances);
            messages.sort();
            let mut cut = 0;
            let shown = NestedEvents::new(instances.iter(), &mut cut);
            events::shown(&messages.merge(shown).collect::<Vec<_>>()).join(" ")
        }

        fn all(instances: &[TimedInstance], operations: &[(u32, Exchange, (u64, u64))]) -> String {
            let mut messages = Messages::default();
            for &(operation, exchange, span) in operations {
                let at = instances.len().min(operation as usize + 1) - 1;
                messages.add(operation, exchange, span, (u32::try_from(at).expect("few"), &instances[at]));
            }
            merged(messages, &mut instances.to_vec())
        }

        const COLLECTIVE: Exchange = Exchange::Collective;

        #[test]
        fn back_to_back_collectives_stay_in_their_regions() {
            let instances = [timed(0, 5, 0), timed(5, 5, 1), timed(5, 9, 2)];
            let expected = "+0@0 CollectiveBegin0@0 CollectiveEnd0@5 -0@5 +1@5 CollectiveBegin1@5 CollectiveEnd1@5 -1@5 \
            +2@5 CollectiveBegin2@5 CollectiveEnd2@9 -2@9";
            let operations = [(0, COLLECTIVE, (0, 5)), (1, COLLECTIVE, (5, 5)), (2, COLLECTIVE, (5, 9))];
            assert_eq!(all(&instances, &operations), expected);
        }

        #[test]
        fn a_collective_that_follows_a_later_region_is_in_none() {
            // Enqueued in the order 1, 2, 0.
            let instances = [timed(0, 5, 0), timed(5, 5, 1), timed(5, 9, 2)];
            let expected = "+0@0 -0@5 +1@5 CollectiveBegin1@5 CollectiveEnd1@5 -1@5 CollectiveBegin0@5 CollectiveEnd0@5 \
            +2@5 SendBegin2@5 SendEnd2@9 -2@9";
            let operations = [(1, COLLECTIVE, (5, 5)), (2, Exchange::Send, (5, 9)), (0, COLLECTIVE, (0, 5))];
            assert_eq!(all(&instances, &operations), expected);
        }

        #[test]
        fn records_are_in_their_region_though_the_one_before_ends_then() {
            let instances = [timed(0, 5, 0), timed(5, 5, 1)];
            let mut messages = Messages::default();
            messages.add(1, Exchange::Send, (3, 4), (1, &instances[1]));
            messages.record(timed(5, 5, 1), 1);
            messages.record(timed(0, 5, 0), 0);
            let expected = "+0@0 =0@5 -0@5 +1@5 SendBegin1@5 SendEnd1@5 =1@5 -1@5";
            assert_eq!(merged(messages, &mut instances.to_vec()), expected);
        }

        #[test]
        fn fused_collectives_follow_each_other_and_messages_overlap() {
            // The region begins later than its operations, because it overlaps the one before.
            let instances = [timed(1, 11, 0)];
            let operations = [
                (0, COLLECTIVE, (0, 9)),
                (1, COLLECTIVE, (0, 9)),
                (2, Exchange::Send, (1, 9)),
                (3, Exchange::Receive, (2, 11)),
            ];
            let expected = "+0@1 CollectiveBegin0@1 SendBegin2@1 ReceiveBegin3@2 CollectiveEnd0@9 CollectiveBegin1@9 \
            CollectiveEnd1@9 SendEnd2@9 ReceiveEnd3@11 -0@11";
            assert_eq!(all(&instances, &operations), expected);
        }
    }

    mod events {
        use crate::instance::{InstanceKind, RegionKey, Regions, Source};
        use crate::messages::*;
        use nccl_events::archive::RegionClass;

        fn instance(start: u64, end: u64, operation: u32) -> TimedInstance {
            let region = Regions::default().number(RegionKey::fixed(RegionClass::Api, ""));
            let instance = RegionInstance::new(Source::CommCall(operation), operation, InstanceKind::Call, region);
            TimedInstance { start, end, instance }
        }

        fn nested(instances: &mut [TimedInstance]) -> (Vec<TimelineEvent>, u64) {
            sort(instances);
            let mut cut = 0;
            let events = NestedEvents::new(instances.iter(), &mut cut).collect();
            (events, cut)
        }

        #[test]
        fn what_is_woven_in_comes_first() {
            let instances = &mut [instance(1, 5, 0)];
            let (row, _) = nested(instances);
            let switches = [0, 1, 5, 6].map(|time| TimelineEvent { time, body: EventBody::Measurement(true) });
            let times = InterleavedEvents::new(row.into_iter(), switches.into_iter())
                .map(|event| (event.time, matches!(event.body, EventBody::Measurement(_))));
            let expected = [(0, true), (1, true), (1, false), (5, true), (5, false), (6, true)];
            assert_eq!(times.collect::<Vec<_>>(), expected);
        }

        /// Each event with its time: `+` is an ENTER, `-` a LEAVE, with the number of the region instance.
        pub(super) fn shown(events: &[TimelineEvent]) -> Vec<String> {
            let name = |body| match body {
                EventBody::Enter(instance) => format!("+{}", instance.order),
                EventBody::Leave(instance) => format!("-{}", instance.order),
                EventBody::Message(message) => format!("{:?}{}", message.role, message.operation),
                EventBody::Record(record) => format!("={}", record.instance.order),
                EventBody::Put(_, number) | EventBody::PutComplete(_, number) => format!("put{number}"),
                EventBody::Measurement(_) => "?".to_owned(),
            };
            events.iter().map(|h| format!("{}@{}", name(h.body), h.time)).collect()
        }

        #[test]
        fn a_record_is_inside_of_what_ends_with_it() {
            let (row, _) = nested(&mut [instance(1, 5, 0), instance(5, 5, 1), instance(5, 9, 2)]);
            let records = [instance(0, 0, 3), instance(2, 5, 4), instance(3, 9, 5), instance(9, 10, 6)]
                .map(|shown| TimelineEvent { time: shown.end, body: EventBody::Record(shown) });
            let all: Vec<TimelineEvent> = RecordedEvents::new(row.into_iter(), &records).collect();
            let expected = ["=3@0", "+0@1", "=4@5", "-0@5", "+1@5", "-1@5", "+2@5", "=5@9", "-2@9", "=6@10"];
            assert_eq!(shown(&all), expected);
        }

        #[test]
        fn a_call_that_outlives_the_one_around_it_is_cut() {
            let (out, cut) = nested(&mut [instance(0, 10, 0), instance(4, 12, 1), instance(12, 13, 2)]);
            assert_eq!(cut, 1);
            assert_eq!(shown(&out), ["+0@0", "+1@4", "-1@10", "-0@10", "+2@12", "-2@13"]);
        }

        #[test]
        fn ties_come_out_in_a_valid_order() {
            let instances = &mut [instance(5, 5, 1), instance(5, 9, 2), instance(0, 5, 0), instance(9, 9, 3)];
            let (out, cut) = nested(instances);
            assert_eq!(cut, 0);
            let expected = ["+0@0", "-0@5", "+1@5", "-1@5", "+2@5", "-2@9", "+3@9", "-3@9"];
            assert_eq!(shown(&out), expected);
        }
    }
}
