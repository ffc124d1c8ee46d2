//! Writes a Score-P location with NCCL calls between its events.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context as _, Result};
use otf2::verbatim::{EventRecords, ReferenceKind};
use otf2::{
    ArchiveWriter, AttributeRef, Attributes, EVENT_CHUNK_BYTES, EventKind, EventWriter, LocationRef, PartWriter,
    RegionRef,
};

use super::local::{Appended, LocalNumbers};
use crate::calls::Thread;
use crate::definitions::Merged;
use crate::scorep::ScoreP;

pub(super) fn write(
    writer: &mut ArchiveWriter,
    directory: &Path,
    scorep: &ScoreP,
    archive: &Appended<'_>,
    thread: &Thread,
    merged: &Merged,
) -> Result<()> {
    let locals = LocalNumbers::read(scorep, thread.theirs, merged)?;
    let number = |kind, old| locals.of(kind, archive.numbers.or_undefined(kind, old));
    let own = records(directory, thread.theirs, |to| {
        let mut attributes = Attributes::new();
        let mut written = Ok(());
        let read = archive.archive.for_each_event(&[thread.ours], |_, event| {
            attributes.clear();
            let time = thread.ticks.at(event.time);
            let number_32 = |kind, old: u32| u32::try_from(number(kind, old.into())).unwrap_or(u32::MAX);
            let region = |region: RegionRef| RegionRef::new(number_32(ReferenceKind::Region, region.get()));
            let added = event.attributes.iter().try_for_each(|(attribute, value)| {
                let mut value = *value;
                value.renumber(number);
                attributes.add(AttributeRef::new(number_32(ReferenceKind::Attribute, attribute.get())), value)
            });
            written = added.and_then(|()| match event.kind {
                EventKind::Enter(it) => to.enter(time, region(it), &attributes),
                EventKind::Leave(it) => to.leave(time, region(it), &attributes),
                EventKind::MeasurementOnOff(mode) => to.measurement_on_off(time, mode, &attributes),
                _ => Ok(()),
            });
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.context("cannot read NCCL's calls")?;
        written.context("cannot write NCCL's calls")
    })?;
    let theirs = scorep.records(thread.theirs)?;
    theirs.write_with(&own, &thread.order, &writer.event_file(thread.theirs), writer.chunks().events)?;
    locals.write(writer, thread.theirs)
}

/// The encoded records of events, written by themselves into a temporary folder in `directory`.
pub(crate) fn records(
    directory: &Path,
    location: LocationRef,
    write: impl FnOnce(&mut EventWriter<'_>) -> Result<()>,
) -> Result<EventRecords> {
    let directory = directory.join("nccl");
    let mut part = PartWriter::create(&directory, "traces")?;
    let mut to = part.event_writer(location)?;
    write(&mut to)?;
    let _events = to.close()?;
    let records = EventRecords::read(&part.event_file(location), EVENT_CHUNK_BYTES)?;
    part.close()?;
    std::fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    Ok(records)
}
