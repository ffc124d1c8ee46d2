//! The events of a location in a valid order: ENTER and LEAVE nest, and time never goes backwards.

use std::iter::Peekable;

use crate::timeline::instance::RegionInstance;
use crate::timeline::metrics::Sample;
use journal::part::environment::Metric;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    CollectiveBegin,
    CollectiveEnd,
    CollectiveRequest,
    CollectiveComplete,
    SendBegin,
    SendEnd,
    ReceiveBegin,
    ReceiveEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Index of the activity that the message belongs to.
    pub activity: u32,
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
    fn key(&self) -> (u64, u64) {
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
        matches!(self.body, EventBody::Message(Message { role: Role::CollectiveEnd | Role::CollectiveComplete, .. }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventBody {
    Enter(RegionInstance),
    Leave(RegionInstance),
    Message(Message),
    Sample(Metric, u64),
    /// Recording was switched on (`true`) or off, see [`crate::timeline::measurement`].
    Measurement(bool),
}

/// Sorts instances into the order that [`Nested`] requires.
pub fn sort(instances: &mut [TimedInstance]) {
    // A stable sort is faster here: instances come in a few sorted runs. No two keys are equal.
    instances.sort_by_key(TimedInstance::key);
}

/// ENTER and LEAVE of nested instances in a valid order. An instance that outlasts the one around it is cut there.
#[derive(Debug)]
pub struct Nested<'a, I: Iterator<Item = &'a TimedInstance>> {
    instances: Peekable<I>,
    around: Vec<TimedInstance>,
    cut: &'a mut u64,
}

impl<'a, I: Iterator<Item = &'a TimedInstance>> Nested<'a, I> {
    /// `instances` must be sorted. `cut` counts the instances that were cut.
    pub fn new(instances: I, cut: &'a mut u64) -> Self {
        Self { instances: instances.peekable(), around: Vec::new(), cut }
    }
}

impl<'a, I: Iterator<Item = &'a TimedInstance>> Iterator for Nested<'a, I> {
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

/// Merges other events into those of a location: before events at the same time.
#[derive(Debug)]
pub struct Interleaved<I: Iterator<Item = TimelineEvent>, J: Iterator<Item = TimelineEvent>> {
    row: Peekable<I>,
    others: Peekable<J>,
}

impl<I: Iterator<Item = TimelineEvent>, J: Iterator<Item = TimelineEvent>> Interleaved<I, J> {
    /// Both must be sorted.
    pub fn new(row: I, others: J) -> Self {
        Self { row: row.peekable(), others: others.peekable() }
    }
}

impl<I: Iterator<Item = TimelineEvent>, J: Iterator<Item = TimelineEvent>> Iterator for Interleaved<I, J> {
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

impl Sample {
    pub const fn event(&self) -> TimelineEvent {
        TimelineEvent { time: self.time, body: EventBody::Sample(self.metric, self.value) }
    }
}

fn leave(instance: &TimedInstance) -> TimelineEvent {
    TimelineEvent { time: instance.end, body: EventBody::Leave(instance.instance) }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::timeline::instance::{InstanceKind, RegionKey, Regions, Source};
    use nccl_events::archive::RegionClass;

    fn instance(start: u64, end: u64, operation: u32) -> TimedInstance {
        let region = Regions::default().number(RegionKey::fixed(RegionClass::Api, ""));
        let instance = RegionInstance::new(Source::CommCall(operation), operation, InstanceKind::Call, region);
        TimedInstance { start, end, instance }
    }

    fn nested(instances: &mut [TimedInstance]) -> (Vec<TimelineEvent>, u64) {
        sort(instances);
        let mut cut = 0;
        let events = Nested::new(instances.iter(), &mut cut).collect();
        (events, cut)
    }

    #[test]
    fn what_is_woven_in_comes_first() {
        let sample = |time, value| Sample { time, metric: Metric::BytesInFlight, value };
        let instances = &mut [instance(1, 5, 0)];
        let (row, _) = nested(instances);
        let samples = [sample(0, 7), sample(1, 8), sample(5, 9), sample(6, 10)];
        let times = Interleaved::new(row.into_iter(), samples.iter().map(Sample::event)).map(|event| {
            let is_sample = matches!(event.body, EventBody::Sample(..));
            (event.time, is_sample)
        });
        let expected = [(0, true), (1, true), (1, false), (5, true), (5, false), (6, true)];
        assert_eq!(times.collect::<Vec<_>>(), expected);
    }

    /// Each event with its time: `+` is an ENTER, `-` a LEAVE, with the number of the region instance.
    pub fn shown(events: &[TimelineEvent]) -> Vec<String> {
        let name = |body| match body {
            EventBody::Enter(instance) => format!("+{}", instance.order),
            EventBody::Leave(instance) => format!("-{}", instance.order),
            EventBody::Message(message) => format!("{:?}{}", message.role, message.activity),
            EventBody::Sample(..) | EventBody::Measurement(_) => "?".to_owned(),
        };
        events.iter().map(|h| format!("{}@{}", name(h.body), h.time)).collect()
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
