//! One file for Perfetto's viewer (ui.perfetto.dev) and for SQL by its trace processor.
//!
//! ```text
//!  tracks    processes, threads, GPUs, communicators, network: one track per location
//!  flows     arrows: call → launch → operation → kernel and transfers; the ranks of a collective; messages
//!  sequence  the events of a location as packets; arguments: their attributes
//! ```
//!
//! Each location is a track, whose region instances nest as Perfetto requires of slices. Each location is a separate
//! packet sequence, so that locations can be written concurrently, in any order.

mod arguments;
mod flows;
mod sequence;
mod tracks;

use std::path::{Path, PathBuf};

use otf2::{EventKind, LocationRef};

use crate::error::Result;
use crate::outcome::Outcome;
use crate::output::{CHUNK_BYTES, Output};
use crate::selection::{FOREIGN_OTHERS, Selection};
use crate::source::Source;

use arguments::AttributeNames;
use flows::Flows;
use sequence::{LeftOut, Sequence};
use tracks::Tracks;

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let selection = Selection::of(*source)?;
    let flows = Flows::of(source)?;
    let tracks = Tracks::of(source, &selection);
    let names = AttributeNames::of(source.trace);
    let output = Output::create(out)?;
    output.append(tracks.packets())?;
    let statements = &source.trace.statements;
    let has_unfinished = statements.unfinished() + statements.counts.others.ranges_unfinished > 0;
    let written = source.each_location(selection.locations(), |location| {
        let unfinished = if has_unfinished { unfinished(source, &selection, location)? } else { Vec::new() };
        let mut sequence = Sequence::of(source.trace, (&tracks, &flows, &names), location, unfinished);
        let mut failed = Ok(());
        selection.events(location, |time_ns, event| {
            sequence.event(time_ns, event);
            if failed.is_ok() && sequence.bytes.len() >= CHUNK_BYTES {
                failed = output.append(&sequence.bytes);
                sequence.bytes.clear();
            }
        })?;
        failed?;
        output.append(&sequence.bytes)?;
        Ok((sequence.count, sequence.left_out))
    })?;
    output.finish()?;
    let sum = |count: fn(&(u64, LeftOut)) -> u64| written.iter().map(count).sum();
    let mut outcome = Outcome { files: vec![PathBuf::new()], events: sum(|it| it.0), ..Outcome::default() };
    outcome.leave_out(sum(|it| it.1.metrics), "records of metric instances: of which metrics they are is not read");
    outcome.leave_out(sum(|it| it.1.others), FOREIGN_OTHERS);
    Ok(outcome)
}

/// Indices of the slices that had not ended: their LEAVE says so, but the name is written at the start.
fn unfinished(source: &Source<'_>, selection: &Selection<'_>, location: LocationRef) -> Result<Vec<u64>> {
    let (mut begun, mut open, mut found) = (0, Vec::new(), Vec::new());
    selection.events(location, |_, event| match event.kind {
        EventKind::Enter(_) => {
            open.push(begun);
            begun += 1;
        }
        EventKind::Leave(_) => {
            found.extend(open.pop().filter(|_| source.trace.fields_of(&event.attributes).is_unfinished == Some(true)));
        }
        _ => {}
    })?;
    found.sort_unstable();
    Ok(found)
}
