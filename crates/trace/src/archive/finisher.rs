//! Who unifies: the process that finishes last, if the job's processes can be told; else nobody, and the
//! tool does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::archive::unify::part_directories;
use crate::error::{Error, io_error};
use crate::part::sidecar::{CommIdentity, LaneKind, Sidecar};
use crate::part::write::{is_done, read_sidecar};
use journal::private;

/// Whether the caller, whose part is done, is the last and unifies. There is one winner for every set of
/// finished parts.
///
/// # Errors
/// The job's directory cannot be read or written.
pub fn last_finisher(out: &Path) -> Result<bool, Error> {
    let directories = part_directories(out)?;
    let mut done = Vec::new();
    let mut all_done = true;
    for directory in &directories {
        if is_done(directory) {
            done.extend(read_sidecar(directory).ok());
        } else {
            all_done = false;
        }
    }
    Ok(is_everything(&done, all_done) && wins(out, &done)?)
}

/// Whether everything that the job is known to have is there.
fn is_everything(done: &[Sidecar], all_done: bool) -> bool {
    let environment = |sidecar: &Sidecar| sidecar.process.environment.clone();
    let size = done.iter().filter_map(|sidecar| environment(sidecar).size);
    if let Some(size) = size.max() {
        let ranks: BTreeSet<u32> = done
            .iter()
            .filter_map(|sidecar| environment(sidecar).rank)
            .collect();
        return all_done && ranks.len() as u64 == u64::from(size);
    }
    all_done && !done.is_empty() && has_all_ranks(done)
}

/// Whether all ranks of all communicators are there.
fn has_all_ranks(done: &[Sidecar]) -> bool {
    let mut comms: BTreeMap<(u64, u32, u32), BTreeSet<u32>> = BTreeMap::new();
    for sidecar in done {
        for lane in &sidecar.lanes {
            let LaneKind::Communicator { comm, rank, .. } = lane.kind else {
                continue;
            };
            let Some(comm) = sidecar.comms.get(crate::tables::place::index(comm)) else {
                continue;
            };
            // Without a size from `init` nobody can know how many are to come.
            if comm.identity != CommIdentity::Id {
                return false;
            }
            let ranks = comms.entry((comm.id, comm.ranks, comm.repetition));
            ranks.or_default().insert(rank);
        }
    }
    comms
        .iter()
        .all(|((_, ranks, _), there)| there.len() as u64 == u64::from(*ranks))
}

/// The file that the winner makes is named by the set of parts: more parts, another winner.
fn wins(out: &Path, done: &[Sidecar]) -> Result<bool, Error> {
    let names: BTreeSet<&str> = done.iter().map(|sidecar| sidecar.part.as_str()).collect();
    let path = out.join(format!(".finished-{:016x}", fingerprint(&names)));
    match private::new_file(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_error("make", &path)(error)),
    }
}

/// FNV-1a over the names: the same in every process, whatever the compiler's own hash does.
pub(crate) fn fingerprint(names: &BTreeSet<&str>) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
