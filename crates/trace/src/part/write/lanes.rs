//! The event files of a part: one lane after the other.

use std::path::Path;

use otf2::{EventWriter, LocationRef, PartWriter};

use super::{TRACES, WriteOptions, check};
use crate::emit::definitions::Tables;
use crate::emit::events::{Emitter, Written};
use crate::error::{Error, otf2_error};
use crate::part::describe;
use crate::part::sidecar::LaneDefinition;
use crate::progress::Progress;
use crate::tables::counts::Counts;
use crate::tables::place::place;
use crate::timeline::canvas::{Lane, Scene};
use crate::timeline::lanes::{Happening, Nested, Woven};
use crate::timeline::measurement;

/// How many events are written between two looks at the clock.
const EVENTS_PER_CHECK: usize = 16 * 1024;

/// What writing lanes needs.
pub(super) struct Lanes<'a> {
    pub(super) directory: &'a Path,
    pub(super) options: &'a WriteOptions,
    pub(super) scene: &'a Scene<'a>,
    pub(super) tables: &'a Tables,
    pub(super) threads: &'a [u32],
}

impl Lanes<'_> {
    /// Writes the event files, one lane at a time: memory is one chunk beside what is drawn.
    pub(super) fn write(
        &self,
        lanes: Vec<Lane>,
        into: &Path,
        counts: &mut Counts,
        progress: &dyn Progress,
    ) -> Result<Vec<LaneDefinition>, Error> {
        let mut part = PartWriter::create(into, TRACES).map_err(otf2_error(self.directory))?;
        let mut emitter = Emitter::new(self.scene, self.tables);
        let mut definitions = Vec::with_capacity(lanes.len());
        progress.begin("lanes", lanes.len() as u64);
        for (number, lane) in lanes.into_iter().enumerate() {
            let location = LocationRef::new(u64::from(place(number)));
            let kind = describe::lane(self.scene, self.threads, lane.key);
            let sibling = lane.sibling;
            // Also where recording was switched: it would be all there is on the row.
            if lane.is_empty() {
                let file = part.event_file(location);
                otf2::write_stub_events(&file).map_err(otf2_error(self.directory))?;
                definitions.push(LaneDefinition {
                    kind,
                    sibling,
                    events: 0,
                    first_ns: 0,
                    last_ns: 0,
                    collectives: 0,
                });
                progress.step();
                continue;
            }
            let mut writer = part
                .event_writer(location)
                .map_err(otf2_error(self.directory))?;
            let written = self.write_one(&mut emitter, &mut writer, lane, &mut counts.clamped)?;
            let events = writer.close().map_err(otf2_error(self.directory))?;
            let (first_ns, last_ns) = written.span_ns.unwrap_or_default();
            definitions.push(LaneDefinition {
                kind,
                sibling,
                events,
                first_ns,
                last_ns,
                collectives: written.collectives,
            });
            progress.step();
        }
        progress.end();
        part.close().map_err(otf2_error(self.directory))?;
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
            return self.write_happenings(emitter, writer, Nested::new(items, cut));
        }
        let happenings = Woven::new(lane.happenings(items, cut), switches.into_iter());
        self.write_happenings(emitter, writer, happenings)
    }

    fn write_happenings(
        &self,
        emitter: &mut Emitter<'_>,
        writer: &mut EventWriter<'_>,
        mut happenings: impl Iterator<Item = Happening>,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        loop {
            check(self.options, self.directory)?;
            let before = written.happenings;
            let some = happenings.by_ref().take(EVENTS_PER_CHECK);
            emitter
                .write_all(writer, some, &mut written)
                .map_err(otf2_error(self.directory))?;
            if written.happenings - before < EVENTS_PER_CHECK {
                return Ok(written);
            }
        }
    }
}
