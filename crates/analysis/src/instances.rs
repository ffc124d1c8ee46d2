//! Pairs the ENTERs and LEAVEs of a location: [`Instances`] with the attributes that readers need, [`Slices`] with all.
//! [`Sequences`] checks whether ranks do the same things in the same order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::read::archive::{Clock, Fields, Role, Trace};
use otf2::{AttributeRef, AttributeValue, Event, EventKind, LocationRef, RegionRef};

#[derive(Clone, Copy, Debug)]
pub struct InstanceOf<F> {
    pub region: RegionRef,
    pub role: Option<Role>,
    pub start: u64,
    pub end: u64,
    pub fields: F,
}

pub type Instance<'a> = InstanceOf<Fields<'a>>;

#[derive(Clone, Copy, Debug)]
pub enum StepOf<F> {
    Entered(InstanceOf<F>),
    Left(InstanceOf<F>),
    Inside,
}

pub type Step<'a> = StepOf<Fields<'a>>;

/// The region instances of locations that are read one after another.
#[derive(Debug)]
pub struct Instances<'a, F = Fields<'a>> {
    trace: &'a Trace,
    open: Vec<InstanceOf<F>>,
}

impl<'a, F: nccl_events::schema::attribute::Fields<'a> + Copy> Instances<'a, F> {
    pub const fn new(trace: &'a Trace) -> Self {
        Self { trace, open: Vec::new() }
    }

    pub fn next_location(&mut self) {
        self.open.clear();
    }

    /// The regions entered but not left, innermost last.
    pub fn open(&self) -> &[InstanceOf<F>] {
        &self.open
    }

    /// Processes an event. A LEAVE without a matching ENTER is ignored.
    pub fn step(&mut self, event: &Event) -> StepOf<F> {
        match event.kind {
            EventKind::Enter(region) => {
                let (role, start) = (self.trace.role(region), event.time);
                let fields = self.trace.read_fields(&event.attributes);
                let entered = InstanceOf { region, role, start, end: start, fields };
                self.open.push(entered);
                StepOf::Entered(entered)
            }
            EventKind::Leave(_) => {
                let Some(mut left) = self.open.pop() else {
                    return StepOf::Inside;
                };
                self.trace.attributes.add(&self.trace.definitions, &event.attributes, &mut left.fields);
                left.end = event.time;
                StepOf::Left(left)
            }
            _ => StepOf::Inside,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub location: LocationRef,
    pub region: RegionRef,
    pub role: Option<Role>,
    pub depth: u32,
    /// In ns from the start of the trace.
    pub start_ns: u64,
    pub stop_ns: u64,
    /// The attributes of the ENTER, followed by those of the LEAVE.
    pub attributes: Vec<(AttributeRef, AttributeValue)>,
}

#[derive(Debug)]
pub struct Slices<'a> {
    trace: &'a Trace,
    location: LocationRef,
    open: Vec<Slice>,
}

impl<'a> Slices<'a> {
    pub const fn new(trace: &'a Trace, location: LocationRef) -> Self {
        Self { trace, location, open: Vec::new() }
    }

    /// The slices that have begun but not ended, innermost last.
    pub fn open(&self) -> &[Slice] {
        &self.open
    }

    /// Processes an event and returns the slice it ends, if any. A LEAVE without a matching ENTER ends none.
    pub fn step(&mut self, time_ns: u64, event: &Event) -> Option<Slice> {
        match event.kind {
            EventKind::Enter(region) => {
                self.open.push(Slice {
                    location: self.location,
                    region,
                    role: self.trace.role(region),
                    depth: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
                    start_ns: time_ns,
                    stop_ns: time_ns,
                    attributes: event.attributes.clone(),
                });
                None
            }
            EventKind::Leave(_) => {
                let mut slice = self.open.pop()?;
                slice.stop_ns = time_ns;
                slice.attributes.extend(&event.attributes);
                Some(slice)
            }
            _ => None,
        }
    }
}

impl Trace {
    /// Visits the region instances of a location in the order of their ends.
    pub fn instances<'a>(&'a self, location: LocationRef, each: impl FnMut(&Instance<'a>)) -> otf2::Result<()> {
        self.instances_with(location, each)
    }

    /// The same with other attributes: the fewer, the faster.
    pub(crate) fn instances_with<'a, F: nccl_events::schema::attribute::Fields<'a> + Copy>(
        &'a self,
        location: LocationRef,
        mut each: impl FnMut(&InstanceOf<F>),
    ) -> otf2::Result<()> {
        let mut instances = Instances::new(self);
        self.archive.for_each_event(&[location], |_, event| {
            if let StepOf::Left(instance) = instances.step(event) {
                each(&instance);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Visits the slices of a location in the order of their ends, until `each` breaks.
    pub fn slices(&self, location: LocationRef, mut each: impl FnMut(&Slice) -> ControlFlow<()>) -> otf2::Result<()> {
        let clock = Clock::from_trace(self);
        let mut slices = Slices::new(self, location);
        self.archive.for_each_event(&[location], |_, event| match slices.step(clock.ns(event.time), event) {
            Some(slice) => each(&slice),
            None => ControlFlow::Continue(()),
        })?;
        Ok(())
    }
}

/// The actions of a communicator's ranks, given one rank after another. Ranks are compared with the longest sequence so
/// far, which takes four bytes per action, however many ranks there are.
#[derive(Clone, Debug)]
pub struct Sequences<T> {
    things: Vec<T>,
    numbers: BTreeMap<T, u32>,
    longest: Vec<u32>,
    /// From which position on which rank's actions are stored.
    whose: Vec<(usize, u32)>,
    counts: BTreeMap<u32, usize>,
}

/// What another rank did at the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart<'a, T> {
    pub place: usize,
    pub rank: u32,
    pub thing: &'a T,
}

impl<T> Default for Sequences<T> {
    fn default() -> Self {
        Self {
            things: Vec::new(),
            numbers: BTreeMap::new(),
            longest: Vec::new(),
            whose: Vec::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl<T: Ord + Clone> Sequences<T> {
    /// Adds the next action of a rank; returns what an earlier rank did at the same position, if any.
    pub fn add(&mut self, rank: u32, thing: T) -> Option<Counterpart<'_, T>> {
        let count = self.counts.entry(rank).or_default();
        let place = *count;
        *count += 1;
        let Some(number) = self.longest.get(place) else {
            let number = self.number(thing);
            self.longest.push(number);
            if self.whose.last().is_none_or(|(_, whose)| *whose != rank) {
                self.whose.push((place, rank));
            }
            return None;
        };
        let (_, other) = self.whose.get(self.whose.partition_point(|(from, _)| *from <= place).checked_sub(1)?)?;
        Some(Counterpart { place, rank: *other, thing: self.things.get(usize::try_from(*number).ok()?)? })
    }

    fn number(&mut self, thing: T) -> u32 {
        let next = u32::try_from(self.things.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(thing.clone()).or_insert(next);
        if number == next {
            self.things.push(thing);
        }
        number
    }

    pub fn count(&self, rank: u32) -> usize {
        self.counts.get(&rank).copied().unwrap_or(0)
    }

    pub fn longest(&self) -> Option<(u32, usize)> {
        let (_, rank) = self.whose.last()?;
        Some((*rank, self.longest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_compared_with_the_longest_before_them() {
        let mut sequences = Sequences::default();
        let differences = |sequences: &mut Sequences<char>, rank, things: &str| {
            let mut found = Vec::new();
            for thing in things.chars() {
                if let Some(other) = sequences.add(rank, thing)
                    && *other.thing != thing
                {
                    found.push((other.place, other.rank, *other.thing));
                }
            }
            found
        };
        assert_eq!(differences(&mut sequences, 4, "ab"), []);
        assert_eq!(differences(&mut sequences, 1, "abba"), []);
        assert_eq!(differences(&mut sequences, 2, "axby"), [(1, 4, 'b'), (3, 1, 'a')]);
        assert_eq!(sequences.longest(), Some((1, 4)));
        assert_eq!((sequences.count(4), sequences.count(7)), (2, 0));
    }
}
