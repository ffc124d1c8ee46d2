//! Region instances of a location, each with the attributes of NCCL's that readers ask for.

use otf2::{Event, EventKind, RegionRef};

use crate::archive::{Shows, Trace};
use crate::fields::Fields;

/// A region that is entered and not left.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    pub region: RegionRef,
    pub shows: Option<Shows>,
    pub start: u64,
    pub fields: Fields<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct Instance<'a> {
    pub region: RegionRef,
    pub shows: Option<Shows>,
    pub start: u64,
    pub end: u64,
    /// What its ENTER and LEAVE say.
    pub fields: Fields<'a>,
}

/// What an event does to the regions around.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    Entered(Open<'a>),
    Left(Instance<'a>),
    Inside,
}

/// The region instances of one location after the other.
#[derive(Debug)]
pub struct Instances<'a> {
    trace: &'a Trace,
    open: Vec<Open<'a>>,
}

impl<'a> Instances<'a> {
    pub const fn of(trace: &'a Trace) -> Self {
        Self { trace, open: Vec::new() }
    }

    /// The events of the next location follow.
    pub fn next_location(&mut self) {
        self.open.clear();
    }

    /// The regions that are entered and not left, the innermost last.
    pub fn open(&self) -> &[Open<'a>] {
        &self.open
    }

    /// Takes in an event. One that leaves what is not entered does nothing.
    pub fn step(&mut self, event: &Event) -> Step<'a> {
        match event.kind {
            EventKind::Enter(region) => {
                let open = Open {
                    region,
                    shows: self.trace.shows(region),
                    start: event.time,
                    fields: self.trace.fields(event),
                };
                self.open.push(open);
                Step::Entered(open)
            }
            EventKind::Leave(_) => {
                let Some(open) = self.open.pop() else {
                    return Step::Inside;
                };
                let mut fields = open.fields;
                self.trace.add_fields(event, &mut fields);
                Step::Left(Instance {
                    region: open.region,
                    shows: open.shows,
                    start: open.start,
                    end: event.time,
                    fields,
                })
            }
            _ => Step::Inside,
        }
    }
}
