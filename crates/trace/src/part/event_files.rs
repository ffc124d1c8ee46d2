//! Writes the event files of a part, one location at a time: memory use is one chunk beside the timeline.

use std::path::Path;
use std::time::Instant;

use otf2::{LocationRef, PartWriter};

use super::files::TRACES;
use crate::error::{Error, otf2_error};
use crate::part::manifest::{LocationDefinition, LocationKind};
use crate::part::manifest_builder;
use nccl_events::Progress;
use nccl_events::ids::index_u32;
use nccl_events::schema::Counts;
use process_model::emit::definitions::Definitions;
use process_model::emit::events::Emitter;
use process_model::timeline::builder::Location;
use process_model::timeline::model::ProcessModel;

pub(super) struct Deadline<'a> {
    pub(super) at: Option<Instant>,
    pub(super) part: &'a Path,
}

impl Deadline<'_> {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_over() { Err(self.error()) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.at.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn error(&self) -> Error {
        Error::Deadline { path: self.part.to_owned() }
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
        let is_late = || self.deadline.is_over();
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
            // Also if recording was switched: the switch would be the only event.
            if location.is_empty() {
                otf2::write_stub_events(&part.event_file(reference)).map_err(failed())?;
            } else {
                let mut writer = part.event_writer(reference).map_err(failed())?;
                let written = emitter.write_location(&mut writer, location, &mut counts.clamped, &is_late);
                let written = written.map_err(failed())?.ok_or_else(|| self.deadline.error())?;
                definition.events = writer.close().map_err(failed())?;
                (definition.first_ns, definition.last_ns) = written.span_ns.unwrap_or_default();
                definition.collectives = written.collectives;
            }
            definitions.push(definition);
            progress.step();
        }
        progress.end();
        // Readers refuse an archive without locations: a process that recorded nothing gets one for its main thread.
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
}
