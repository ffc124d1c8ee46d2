//! Writes the merged archive: event files are linked, definitions and the anchor are new.

pub(crate) mod anchor;
pub(crate) mod local;
pub(crate) mod thread;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nccl_events::Progress;
use otf2::verbatim::{Definition, ReferenceKind, rewrite_events};
use otf2::{Archive, ArchiveWriter, LocationRef};
use small_sort::Gather;

use crate::alignment;
use crate::calls::Calls;
use crate::definitions::Merged;
use crate::definitions::ids::{self, Ids};
use crate::inputs::{Inputs, Local};
use crate::scorep::ScoreP;
use crate::several_traces;
use local::Appended;

pub use verify::Written;

pub(crate) fn write(inputs: &Inputs, calls: &Calls, directory: &Path, progress: &dyn Progress) -> Result<Written> {
    let scorep = inputs.first();
    let others = inputs.scoreps.iter().skip(1).map(several_traces::locals).collect::<Result<Vec<_>>>()?;
    let mut merged = Merged::new(scorep.verbatim.clone());
    let appended = append(inputs, calls, &others, &mut merged)?;
    let chunks = anchor::chunks(inputs, &merged, &appended)?;
    let mut writer = anchor::begin(inputs, &inputs.nccls, directory, chunks)?;
    let locations = appended.iter().map(|it| it.definitions.locations.len()).sum::<usize>();
    progress.begin("locations", (scorep.definitions.locations.len() + locations) as u64);
    let events = calls.events();
    link_theirs(&writer, scorep, &events.keys().copied().gather(), progress)?;
    for archive in &appended {
        link_appended(&mut writer, archive, progress)?;
        for thread in archive.threads {
            thread::write(&mut writer, directory, scorep, archive, thread, &merged)?;
        }
    }
    progress.end();
    merged.set_number_of_events(&events);
    let span = alignment::span(inputs);
    finish(writer, &merged.finish(span, alignment::began_ns(inputs, span.0)), &events, progress)
}

fn append<'a>(
    inputs: &'a Inputs,
    calls: &'a Calls,
    others: &'a [Vec<Local>],
    merged: &mut Merged,
) -> Result<Vec<Appended<'a>>> {
    let mut ids = Ids::of(inputs.first());
    if !others.is_empty() {
        merged.prefix_first(&ids::prefix(inputs.first()))?;
    }
    let mut appended = Vec::new();
    for (scorep, locals) in inputs.scoreps.iter().skip(1).zip(others) {
        let numbers = merged.append(&scorep.verbatim, &ids.of_another(scorep)?)?;
        ids.add(scorep, &numbers)?;
        let (archive, definitions) = (&scorep.archive, &scorep.definitions);
        let locals = locals.iter().collect();
        appended.push(Appended { archive, definitions, is_scorep: true, numbers, locals, threads: &[] });
    }
    for (number, (nccl, threads)) in inputs.nccls.iter().zip(&calls.threads).enumerate() {
        let theirs = threads.iter().map(|thread| (thread.ours, thread.theirs)).gather();
        let numbers = merged.append(&nccl.verbatim, &ids.of_nccl(inputs, number, &theirs)?)?;
        let (archive, definitions) = (&nccl.trace.archive, &nccl.trace.definitions);
        let locals = inputs.locals[number].values().flat_map(BTreeMap::values).collect();
        appended.push(Appended { archive, definitions, is_scorep: false, numbers, locals, threads });
    }
    Ok(appended)
}

/// Writes definitions, closes, reads back. `rewritten` counts the events of Score-P's locations that got NCCL's.
pub(crate) fn finish(
    mut writer: ArchiveWriter,
    definitions: &[Definition],
    rewritten: &BTreeMap<LocationRef, u64>,
    progress: &dyn Progress,
) -> Result<Written> {
    let anchor = writer.anchor_file();
    let mut to = writer.definitions()?;
    definitions.iter().try_for_each(|definition| to.verbatim(definition))?;
    writer.close().context("cannot write the merged archive")?;
    verify::verify(&anchor, definitions, rewritten, progress)
        .context("the merged archive is not sound, and was not put in place")
}

/// Links Score-P's files under their own names, except those of some locations.
pub(crate) fn link_theirs(
    writer: &ArchiveWriter,
    scorep: &ScoreP,
    without: &BTreeSet<LocationRef>,
    progress: &dyn Progress,
) -> Result<()> {
    let archive = &scorep.archive;
    let locations = scorep.definitions.locations.iter().filter(|(location, _)| !without.contains(location));
    for (location, definition) in locations {
        let definitions = archive.definition_file(*location);
        if definitions.exists() {
            link(&definitions, &writer.definition_file(*location))?;
        }
        link_events(archive, (*location, definition.number_of_events), writer, *location)?;
        progress.step();
    }
    let markers = archive.anchor_file().with_extension("marker");
    if markers.exists() {
        link(&markers, &writer.anchor_file().with_extension("marker"))?;
    }
    Ok(())
}

/// Links a location's event file under another name, or writes it anew where its chunks are not the archive's.
fn link_events(
    from: &Archive,
    (old, events): (LocationRef, u64),
    writer: &ArchiveWriter,
    new: LocationRef,
) -> Result<()> {
    let (file, to) = (from.event_file(old), writer.event_file(new));
    if file.exists() {
        let is_written = rewrite_events(&file, from.event_chunk_bytes(), &to, writer.chunks().events)?;
        return if is_written { Ok(()) } else { link(&file, &to) };
    }
    if events > 0 {
        bail!("{}: not there, but it is said to have {events} events", file.display());
    }
    // Readers fail on a location without a file.
    Ok(otf2::write_stub_events(&to)?)
}

/// Links a file, or copies it on file systems without links or with a limit on them.
fn link(from: &Path, to: &Path) -> Result<()> {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Links an appended archive's event files under new names, with local definitions that preserve their meaning.
fn link_appended(writer: &mut ArchiveWriter, archive: &Appended<'_>, progress: &dyn Progress) -> Result<()> {
    let tables = local::tables(archive);
    for local in &archive.locals {
        let mut first: Option<LocationRef> = None;
        for old in &local.locations {
            progress.step();
            let new = archive.numbers.location(*old)?;
            if archive.numbers.shared.contains(&(ReferenceKind::Location, new.get())) {
                continue;
            }
            let events = archive.definitions.locations[old].number_of_events;
            link_events(archive.archive, (*old, events), writer, new)?;
            match first {
                Some(first) => link(&writer.definition_file(first), &writer.definition_file(new))?,
                None => {
                    local::write_appended(writer, new, archive, &tables, local)?;
                    first = Some(new);
                }
            }
        }
    }
    Ok(())
}
