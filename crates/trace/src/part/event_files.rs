//! The event files of a part, one location after the other: memory is one chunk beside the timeline.

use std::path::Path;

use otf2::{EventWriter, LocationRef, PartWriter};

use super::files::TRACES;
use super::write::Deadline;
use crate::emit::definitions::Tables;
use crate::emit::events::{Emitter, Written};
use crate::error::{Error, otf2_error};
use crate::part::manifest::LocationDefinition;
use crate::part::manifest_builder;
use crate::progress::Progress;
use crate::tables::counts::Counts;
use crate::tables::place::place;
use crate::timeline::canvas::{Lane, Scene};
use crate::timeline::lanes::{Happening, Nested, Woven};
use crate::timeline::measurement;

/// How many events are written between two looks at the clock.
const EVENTS_PER_CHECK: usize = 16 * 1024;

/// What writing event files needs.
pub(super) struct EventFiles<'a> {
    pub(super) deadline: &'a Deadline<'a>,
    pub(super) scene: &'a Scene<'a>,
    pub(super) tables: &'a Tables,
    pub(super) threads: &'a [u32],
}

impl EventFiles<'_> {
    /// Writes the files into a directory.
    pub(super) fn write(
        &self,
        lanes: Vec<Lane>,
        into: &Path,
        counts: &mut Counts,
        progress: &dyn Progress,
    ) -> Result<Vec<LocationDefinition>, Error> {
        let failed = || otf2_error(self.deadline.part);
        let mut part = PartWriter::create(into, TRACES).map_err(failed())?;
        let mut emitter = Emitter::new(self.scene, self.tables);
        let mut definitions = Vec::with_capacity(lanes.len());
        progress.begin("locations", lanes.len() as u64);
        for (number, lane) in lanes.into_iter().enumerate() {
            let location = LocationRef::new(u64::from(place(number)));
            let mut definition = LocationDefinition {
                kind: manifest_builder::location(self.scene, self.threads, lane.key),
                sibling: lane.sibling,
                events: 0,
                first_ns: 0,
                last_ns: 0,
                collectives: 0,
            };
            // Also where recording was switched: that would be the only event.
            if lane.is_empty() {
                let file = part.event_file(location);
                otf2::write_stub_events(&file).map_err(failed())?;
            } else {
                let mut writer = part.event_writer(location).map_err(failed())?;
                let written =
                    self.write_one(&mut emitter, &mut writer, lane, &mut counts.clamped)?;
                definition.events = writer.close().map_err(failed())?;
                (definition.first_ns, definition.last_ns) = written.span_ns.unwrap_or_default();
                definition.collectives = written.collectives;
            }
            definitions.push(definition);
            progress.step();
        }
        progress.end();
        part.close().map_err(failed())?;
        Ok(definitions)
    }

    fn write_one(
        &self,
        emitter: &mut Emitter<'_>,
        writer: &mut EventWriter<'_>,
        mut lane: Lane,
        cut: &mut u64,
    ) -> Result<Written, Error> {
        lane.sort();
        let switches = measurement::of_row(lane.key, lane.sibling, self.scene.assembly);
        let items = emitter.visit(&lane.items);
        if lane.has_only_items() && switches.is_empty() {
            return self.write_events(emitter, writer, Nested::new(items, cut));
        }
        let events = Woven::new(lane.happenings(items, cut), switches.into_iter());
        self.write_events(emitter, writer, events)
    }

    fn write_events(
        &self,
        emitter: &mut Emitter<'_>,
        writer: &mut EventWriter<'_>,
        mut events: impl Iterator<Item = Happening>,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        loop {
            self.deadline.check()?;
            let before = written.happenings;
            let some = events.by_ref().take(EVENTS_PER_CHECK);
            emitter
                .write_all(writer, some, &mut written)
                .map_err(otf2_error(self.deadline.part))?;
            if written.happenings - before < EVENTS_PER_CHECK {
                return Ok(written);
            }
        }
    }
}
