//! The file `remote-transfers` of a part: what its process transferred for others, see [`process_model::links::pxn`].

use std::fs;
use std::path::{Path, PathBuf};

use regular_files::MOST_MANIFEST_BYTES;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::part::files::{is_final, write_json};
use journal::part::ProcessInfo;
use journal::part::part_name;
use nccl_events::ids::EventId;
use process_model::links::pxn::RemoteTransfers;

/// Name of the file in a part. Exists only if there were transfers.
pub(crate) const REMOTE_TRANSFERS: &str = "remote-transfers";

const FORMAT: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TransfersFile {
    format: u32,
    /// The worker's host: event ids are only meaningful between processes of one host.
    host: String,
    boot_id: String,
    transfers: Vec<RemoteTransfers>,
}

impl TransfersFile {
    /// The transfers of a process for others; `None` if there are none.
    pub(crate) fn new(process: &ProcessInfo, transfers: Vec<RemoteTransfers>) -> Option<Self> {
        (!transfers.is_empty()).then(|| Self {
            format: FORMAT,
            host: process.host.clone(),
            boot_id: process.boot_id.clone(),
            transfers,
        })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_json(path, self)
    }

    fn read(part: &Path) -> Option<Self> {
        let bytes = regular_files::read(&part.join(REMOTE_TRANSFERS), MOST_MANIFEST_BYTES).ok()?;
        let read: Self = serde_json::from_slice(&bytes).ok()?;
        (read.format == FORMAT).then_some(read)
    }
}

/// Whether two parts belong to one host, by their names, which begin with the host's.
fn are_neighbours(part: &Path, other: &Path) -> bool {
    let (own, other) = (part_name(part), part_name(other));
    let host = own.rsplitn(3, '-').nth(2).unwrap_or_default();
    other != own && other.starts_with(host)
}

/// Whether some part of the same host is not completely written yet.
pub(crate) fn has_unwritten_neighbours(part: &Path, all: &[PathBuf]) -> bool {
    let mut neighbours = all.iter().filter(|other| are_neighbours(part, other));
    neighbours.any(|other| !is_final(other))
}

/// What the neighbours of a part's process did for it, as far as written: their names, and their transfers.
pub(crate) fn from_neighbours(
    part: &Path,
    process: &ProcessInfo,
    process_tag: u16,
) -> (Vec<String>, Vec<RemoteTransfers>) {
    let paths = part.parent().and_then(|parts| fs::read_dir(parts).ok()).into_iter().flatten().flatten();
    let paths = paths.map(|entry| entry.path());
    let mut neighbours: Vec<PathBuf> = paths.filter(|path| are_neighbours(part, path)).collect();
    nccl_events::sort::sort(&mut neighbours);
    let (mut names, mut transfers) = (Vec::new(), Vec::new());
    for neighbour in neighbours {
        let Some(there) = TransfersFile::read(&neighbour) else {
            continue;
        };
        if (&there.host, &there.boot_id) != (&process.host, &process.boot_id) {
            continue;
        }
        let before = transfers.len();
        let is_ours = |one: &RemoteTransfers| EventId::from_raw(one.parent).tag() == process_tag;
        transfers.extend(there.transfers.into_iter().filter(is_ours));
        if transfers.len() > before {
            names.push(part_name(&neighbour));
        }
    }
    (names, transfers)
}
