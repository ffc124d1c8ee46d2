//! The event files of a part, one location after the other: memory is one chunk beside the timeline.

use std::path::Path;
use std::time::Instant;

use otf2::{EventWriter, LocationRef, PartWriter};

use super::files::TRACES;
use crate::emit::definitions::Definitions;
use crate::emit::events::{Emitter, Written};
use crate::error::{Error, otf2_error};
use crate::part::manifest::{LocationDefinition, LocationKind};
use crate::part::manifest_builder;
use crate::timeline::builder::Location;
use crate::timeline::events::{Interleaved, Nested, TimelineEvent};
use crate::timeline::measurement;
use crate::timeline::model::ProcessModel;
use nccl_events::Progress;
use schema::Counts;
use tables::index::index_u32;

/// How many events are written between two looks at the clock.
const EVENTS_PER_CHECK: usize = 16 * 1024;

pub(super) struct Deadline<'a> {
    pub(super) at: Option<Instant>,
    pub(super) part: &'a Path,
}

impl Deadline<'_> {
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.at {
            Some(deadline) if Instant::now() >= deadline => Err(Error::Deadline { path: self.part.to_owned() }),
            _ => Ok(()),
        }
    }
}

pub(super) struct EventFiles<'a> {
    pub(super) deadline: &'a Deadline<'a>,
    pub(super) model: &'a ProcessModel<'a>,
    pub(super) definitions: &'a Definitions,
    pub(super) threads: &'a [u32],
}

impl EventFiles<'_> {
    pub(super) fn write(
        &self,
        locations: Vec<Location>,
        into: &Path,
        counts: &mut Counts,
        progress: &dyn Progress,
    ) -> Result<Vec<LocationDefinition>, Error> {
        let failed = || otf2_error(self.deadline.part);
        let mut part = PartWriter::create(into, TRACES).map_err(failed())?;
        let mut emitter = Emitter::new(self.model, self.definitions);
        let mut definitions = Vec::with_capacity(locations.len());
        progress.begin("locations", locations.len() as u64);
        for (number, location) in locations.into_iter().enumerate() {
            let reference = LocationRef::new(u64::from(index_u32(number)));
            let mut definition = LocationDefinition {
                kind: manifest_builder::location(self.model, self.threads, location.key),
                sibling: location.sibling,
                events: 0,
                first_ns: 0,
                last_ns: 0,
                collectives: 0,
            };
            // Also where recording was switched: that would be the only event.
            if location.is_empty() {
                otf2::write_stub_events(&part.event_file(reference)).map_err(failed())?;
            } else {
                let mut writer = part.event_writer(reference).map_err(failed())?;
                let written = self.write_one(&mut emitter, &mut writer, location, &mut counts.clamped)?;
                definition.events = writer.close().map_err(failed())?;
                (definition.first_ns, definition.last_ns) = written.span_ns.unwrap_or_default();
                definition.collectives = written.collectives;
            }
            definitions.push(definition);
            progress.step();
        }
        progress.end();
        // Readers refuse an archive without locations: a process that recorded nothing has its main thread's.
        if definitions.is_empty() {
            otf2::write_stub_events(&part.event_file(LocationRef::new(0))).map_err(failed())?;
            let kind = LocationKind::Thread {
                thread_id: self.model.tables.process_id,
                name: String::new(),
                is_callback: false,
            };
            let (events, first_ns, last_ns, collectives) = (0, 0, 0, 0);
            definitions.push(LocationDefinition { kind, sibling: 0, events, first_ns, last_ns, collectives });
        }
        part.close().map_err(failed())?;
        Ok(definitions)
    }

    fn write_one(
        &self,
        emitter: &mut Emitter<'_>,
        writer: &mut EventWriter<'_>,
        mut location: Location,
        cut: &mut u64,
    ) -> Result<Written, Error> {
        location.sort();
        let switches = measurement::of_location(location.key, location.sibling, self.model.tables);
        let instances = location.instances.iter();
        if location.has_only_instances() && switches.is_empty() {
            return self.write_events(emitter, writer, Nested::new(instances, cut));
        }
        let events = Interleaved::new(location.events(instances, cut), switches.into_iter());
        self.write_events(emitter, writer, events)
    }

    fn write_events(
        &self,
        emitter: &mut Emitter<'_>,
        writer: &mut EventWriter<'_>,
        mut events: impl Iterator<Item = TimelineEvent>,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        loop {
            self.deadline.check()?;
            let before = written.events;
            let some = events.by_ref().take(EVENTS_PER_CHECK);
            emitter.write_all(writer, some, &mut written).map_err(otf2_error(self.deadline.part))?;
            if written.events - before < EVENTS_PER_CHECK {
                return Ok(written);
            }
        }
    }
}
