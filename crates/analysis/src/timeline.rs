//! Every region instance of a location with all that its events say: what a timeline shows.

use std::ops::ControlFlow;

use otf2::{AttributeRef, AttributeValue, EventKind, LocationRef, RegionRef};

use crate::archive::{Shows, Trace};
use crate::clock::Clock;

#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub location: LocationRef,
    pub region: RegionRef,
    pub shows: Option<Shows>,
    /// How many regions are around it.
    pub depth: u32,
    /// When it was entered, in ns after the beginning of the trace.
    pub start_ns: u64,
    pub stop_ns: u64,
    /// What its ENTER and LEAVE say.
    pub attributes: Vec<(AttributeRef, AttributeValue)>,
}

impl Trace {
    /// Gives every region instance of a location in the order of their ends. Memory is that of one at a time.
    pub fn slices(&self, location: LocationRef, mut each: impl FnMut(&Slice) -> ControlFlow<()>) -> otf2::Result<()> {
        let clock = Clock::of(self);
        let mut open: Vec<Slice> = Vec::new();
        self.archive.for_each_event(&[location], |_, event| {
            let time_ns = clock.ns(event.time);
            match event.kind {
                EventKind::Enter(region) => open.push(Slice {
                    location,
                    region,
                    shows: self.shows(region),
                    depth: u32::try_from(open.len()).unwrap_or(u32::MAX),
                    start_ns: time_ns,
                    stop_ns: time_ns,
                    attributes: event.attributes,
                }),
                EventKind::Leave(_) => {
                    if let Some(mut slice) = open.pop() {
                        slice.stop_ns = time_ns;
                        slice.attributes.extend(event.attributes);
                        return each(&slice);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}
