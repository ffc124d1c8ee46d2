//! Pairs the ENTERs and LEAVEs of a location: [`Instances`] with the attributes that readers need, [`Slices`] with all.

use std::ops::ControlFlow;

use otf2::{AttributeRef, AttributeValue, Event, EventKind, LocationRef, RegionRef};

use crate::archive::{Role, Trace};
use crate::clock::Clock;
use crate::fields::Fields;

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
    pub const fn of(trace: &'a Trace) -> Self {
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
    pub const fn of(trace: &'a Trace, location: LocationRef) -> Self {
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
        let mut instances = Instances::of(self);
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
        let clock = Clock::of(self);
        let mut slices = Slices::of(self, location);
        self.archive.for_each_event(&[location], |_, event| match slices.step(clock.ns(event.time), event) {
            Some(slice) => each(&slice),
            None => ControlFlow::Continue(()),
        })?;
        Ok(())
    }
}
