//! Decides who makes the archive: the process that finishes last, if the processes of the job are known; else the tool.

use std::collections::BTreeSet;
use std::path::Path;

use crate::archive::properties::fingerprint;
use crate::archive::unify::part_directories;
use crate::error::{Error, io_error};
use crate::part::manifest::Manifest;
use job::communicators::{Communicators, Twice};
use journal::part::is_done;

use journal::host;
use nccl_events::sort::Gather;
use tables::communicators::CommIdentity;

/// Whether the caller, whose part is done, is the job's last process and unifies: only one for a set of finished parts.
pub fn is_last_process(out: &Path) -> Result<bool, Error> {
    let parts = part_directories(out)?;
    // All processes of a job ask at about the same time. Each begins elsewhere, so that most soon find an unfinished
    // part, instead of all looking at the same finished ones.
    let (before, from_here) = parts.split_at(std::process::id() as usize % parts.len().max(1));
    if !from_here.iter().chain(before).all(|part| is_done(part)) {
        return Ok(false);
    }
    let done: Vec<Manifest> = parts.iter().filter_map(|part| Manifest::read(part).ok()).collect();
    Ok(is_everything(&done) && try_claim(out, &done)?)
}

fn is_everything(done: &[Manifest]) -> bool {
    let environments = || done.iter().map(|manifest| &manifest.process.environment);
    if let Some(size) = environments().filter_map(|it| it.size).max() {
        let ranks: BTreeSet<u32> = environments().filter_map(|it| it.rank).gather();
        return ranks.len() as u64 == u64::from(size);
    }
    !done.is_empty() && has_all_ranks(done)
}

fn has_all_ranks(done: &[Manifest]) -> bool {
    let mut comms = Communicators::new(Twice::Newer);
    for (number, manifest) in done.iter().enumerate() {
        comms.add((number, &manifest.part), manifest.claims(|_, _, _| ()));
    }
    // Without a size from `init`, the number of ranks is unknown.
    let mut comms = comms.all.iter().map(|known| (&known.comm, known.members.len() as u64));
    comms.all(|(comm, members)| comm.identity == CommIdentity::Id && members == u64::from(comm.ranks))
}

/// Creates a file named after the set of parts: with more parts the name differs.
fn try_claim(out: &Path, done: &[Manifest]) -> Result<bool, Error> {
    let names = done.iter().map(|manifest| manifest.part.clone()).gather();
    let path = out.join(format!(".finished-{}", fingerprint(&names)));
    match host::new_file(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_error("make", &path)(error)),
    }
}
