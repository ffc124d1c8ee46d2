//! Writes a location of Score-P's with calls of NCCL's between its events.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context as _, Result};
use otf2::verbatim::ReferenceKind;
use otf2::{Archive, ArchiveWriter, AttributeRef, Attributes, EventKind, PartWriter, RegionRef};

use super::local::LocalNumbers;
use crate::merge::calls::Thread;
use crate::merge::definitions::Ends;
use crate::merge::definitions::numbers::Numbers;
use crate::merge::records::Records;
use crate::merge::scorep::ScoreP;

/// Writes the location, with an archive's new numbers; `directory` is where the calls are written alone meanwhile.
pub(super) fn write(
    writer: &mut ArchiveWriter,
    directory: &Path,
    scorep: &ScoreP,
    (archive, numbers): (&Archive, &Numbers),
    thread: &Thread,
    ends: &Ends,
) -> Result<()> {
    let locals = LocalNumbers::read(scorep, thread.theirs, ends)?;
    let number = |kind, old| locals.of(kind, numbers.get(kind, old).unwrap_or(u64::MAX));
    let number_32 = |kind, old: u32| u32::try_from(number(kind, old.into())).unwrap_or(u32::MAX);
    let directory = directory.join("calls");
    let mut part = PartWriter::create(&directory, "traces")?;
    let mut to = part.event_writer(thread.theirs)?;
    let mut attributes = Attributes::new();
    let mut written = Ok(());
    archive
        .for_each_event(&[thread.ours], |_, event| {
            attributes.clear();
            let time = thread.ticks.at(event.time);
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
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })
        .context("cannot read NCCL's calls")?;
    written.context("cannot write NCCL's calls")?;
    let _events = to.close()?;
    let own = Records::read(&part.event_file(thread.theirs))?;
    part.close()?;
    std::fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    let theirs = Records::read(&scorep.archive.event_file(thread.theirs))?;
    let _events = theirs.write_with(&own, &thread.order, &writer.event_file(thread.theirs))?;
    locals.write(writer, thread.theirs)
}
