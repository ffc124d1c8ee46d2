//! The tables of [`analysis`] as Parquet, for DuckDB, Dask, Spark and other readers.
//!
//! ```text
//!  process   instances and ranks of collectives; the rows of a process (operations, transfers, steps, kernels) and of
//!            its threads (calls, ranges)
//!  columns   the columns of each table (docs/REFERENCE.md, "Parquet tables"), a file of rows, the archive's values
//! ```
//!
//! Each table is a folder `table=…`. Rows of a process are in `host=…/process=…` below it: readers treat these as
//! columns, and read only the files that a query needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use crate::error::{Error, Outcome, Result};
use crate::parquet::columns::{TableFiles, host};
use crate::parquet::process::{Collectives, Nics, Process};
use crate::source::{Selection, Source};
use analysis::Trace;
use nccl_events::archive::LocationKind;
use nccl_events::schema::definition::ChannelNics;
use otf2::{LocationGroupRef, LocationRef};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use topology::ChannelNic;

mod columns;
mod process;

/// A table, by the name that its folder and `--table` have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Instances,
    Ranks,
    Operations,
    Calls,
    Ranges,
    Transfers,
    Steps,
    Kernels,
}

impl Table {
    pub const ALL: [Self; 8] = [
        Self::Instances,
        Self::Ranks,
        Self::Operations,
        Self::Calls,
        Self::Ranges,
        Self::Transfers,
        Self::Steps,
        Self::Kernels,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Ranks => "ranks",
            Self::Operations => "operations",
            Self::Calls => "calls",
            Self::Ranges => "ranges",
            Self::Transfers => "transfers",
            Self::Steps => "steps",
            Self::Kernels => "kernels",
        }
    }
}

/// A unit of writing: files of a process that are made from the same locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Threads,
    Operations,
    Network,
    Kernels,
}

impl Part {
    const fn from_kind(kind: LocationKind) -> Option<Self> {
        match kind {
            LocationKind::ApiThread | LocationKind::CallbackThread | LocationKind::Ranges => Some(Self::Threads),
            LocationKind::Communicator => Some(Self::Operations),
            LocationKind::ProxyThread => Some(Self::Network),
            LocationKind::Stream => Some(Self::Kernels),
            LocationKind::NotRecorded => None,
        }
    }

    const fn tables(self) -> &'static [Table] {
        match self {
            Self::Threads => &[Table::Calls, Table::Ranges],
            Self::Operations => &[Table::Operations],
            Self::Network => &[Table::Transfers, Table::Steps],
            Self::Kernels => &[Table::Kernels],
        }
    }
}

/// Writes the `wanted` tables, and reads only what they need.
pub fn write(source: &Source<'_>, out: &Path, wanted: &[Table]) -> Result<Outcome> {
    let trace = source.trace;
    let selection = Selection::new(*source)?;
    fs::create_dir(out).map_err(Error::io("make", out))?;
    let files = TableFiles::new(out, source.begin_ns(), wanted);
    let (collectives, mut written) = Collectives::write(source, &files)?;
    let mut parts = parts(trace, selection.locations());
    parts.retain(|((_, part), _)| part.tables().iter().any(|table| files.wants(*table)));
    let is_all = Table::ALL.iter().all(|table| files.wants(*table));
    // Filters do not apply to these tables, unless they are what is asked for.
    let described = if is_all { written.iter().map(|table| table.rows).sum() } else { 0 };
    // A part is identified by its first location.
    let firsts: Vec<LocationRef> = parts.iter().filter_map(|(_, locations)| locations.first().copied()).collect();
    let comms = trace.definitions.comms.keys().copied().zip(0..).collect();
    let (nics, without) = (nics(trace), AtomicU64::new(0));
    let by_first: BTreeMap<LocationRef, _> = firsts.iter().copied().zip(&parts).collect();
    let part_tables = source.each_location(&firsts, |first| {
        let Some(((process, part), locations)) = by_first.get(&first) else {
            return Ok(Vec::new());
        };
        let folder = folder(trace, *process);
        let rows = Process {
            trace,
            selection: &selection,
            collectives: &collectives,
            files: &files,
            folder,
            comms: &comms,
            nics: &nics,
            without: &without,
        };
        match part {
            Part::Threads => rows.threads(locations),
            Part::Operations => rows.operations(locations),
            Part::Network => rows.network(locations),
            Part::Kernels => rows.kernels(locations),
        }
    })?;
    written.extend(part_tables.into_iter().flatten());
    nccl_events::sort::sort(&mut written);
    let mut outcome = Outcome { events: written.iter().map(|table| table.rows).sum(), described, ..Outcome::default() };
    if is_all {
        let reason = "kernel channels, states of proxy threads, work of network plugins: not in any table";
        outcome.leave_out(without.into_inner(), reason);
        selection.other_records()?.left_out(false, &mut outcome);
    }
    outcome.files = written.into_iter().map(|table| table.file).collect();
    Ok(outcome)
}

fn parts(trace: &Trace, locations: &[LocationRef]) -> Vec<((LocationGroupRef, Part), Vec<LocationRef>)> {
    let mut parts: BTreeMap<(LocationGroupRef, Part), Vec<LocationRef>> = BTreeMap::new();
    for location in locations {
        if let Some(part) = trace.location_kind(*location).and_then(Part::from_kind) {
            let process = trace.process(trace.group(*location));
            parts.entry((process, part)).or_default().push(*location);
        }
    }
    parts.into_iter().collect()
}

/// The network interface of each rank's channels, by direction.
fn nics(trace: &Trace) -> Nics {
    let lines = trace.definitions.locations.keys().flat_map(|location| {
        let nics = trace.location_property(*location, ChannelNics).unwrap_or_default();
        nics.lines().filter_map(ChannelNic::parse).map(move |nic| (*location, nic))
    });
    lines.map(|(location, nic)| ((location, nic.channel, nic.is_send), nic.nic)).collect()
}

/// Characters that need no encoding in a folder's name.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The folder of a process below a table's folder, named like Hive partitions: readers decode the names.
fn folder(trace: &Trace, process: LocationGroupRef) -> PathBuf {
    let host = utf8_percent_encode(host(trace, process), PLAIN);
    PathBuf::from(format!("host={host}/process={}", process.get()))
}

#[cfg(test)]
mod tests;
