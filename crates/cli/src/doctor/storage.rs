//! Where the recording goes: whether it can be written there, on what kind of file system, and how much.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regular_files::refuse_foreign;
use rustix::fs::{statfs, statvfs};
use settings::PathValues;

use super::environment::Environment;
use super::report::Findings;
use crate::place::PARTS;
use crate::units;
use archive::ANCHOR;

/// If `/dev/shm` is smaller than this, it has Docker's default size or is nearly full.
pub(super) const SMALL_SHM: u64 = 256 << 20;
/// The amount a process writes at a time.
const SEGMENT: usize = 1 << 20;
const SLOW: Duration = Duration::from_millis(500);

/// File systems by `statfs` magic number, and whether a server or other hosts provide them.
#[rustfmt::skip]
const KINDS: [(u32, &str, bool); 14] = [
    (0x6969, "NFS", true), (0x0bd0_0bd0, "Lustre", true), (0x4750_4653, "GPFS", true), (0x1983_0326, "BeeGFS", true),
    (0x00c3_6400, "Ceph", true), (0x6573_5546, "FUSE", true), (0x0102_1997, "9p", true), (0xff53_4d42, "CIFS", true),
    (0x0102_1994, "tmpfs", false), (0x794c_7630, "overlay", false), (0xef53, "ext4", false), (0x5846_5342, "XFS", false),
    (0x9123_683e, "Btrfs", false), (0x2fc1_2fc1, "ZFS", false),
];

pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let system = statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of 32 bits")]
fn kind(path: &Path) -> (&'static str, bool) {
    let number = statfs(path).map_or(0, |system| system.f_type as u32);
    let known = KINDS.iter().find(|(known, ..)| *known == number);
    known.map_or(("another file system", false), |(_, name, is_remote)| (name, *is_remote))
}

/// Examines the directories of the recording. Returns the output directory that would be used.
pub(super) fn directories(here: &Environment, findings: &mut Findings) -> PathBuf {
    let values = PathValues {
        host: here.host.clone(),
        process_id: std::process::id(),
        job: here.job.job.clone(),
        rank: here.job.rank,
    };
    let absolute = |template: &str| {
        let path = PathBuf::from(settings::expand(template, &values));
        std::path::absolute(&path).unwrap_or(path)
    };
    let mut current = || {
        env::current_dir().unwrap_or_else(|error| {
            let text = format!("the current directory cannot be used: {error}");
            findings.problem("directory", text, "change to another one, or set NCCL_OTF2_DIR");
            PathBuf::new()
        })
    };
    let out = here.config.directory.as_deref().map_or_else(&mut current, absolute);
    if out.join(ANCHOR).exists() {
        let (what, way_out) = if out.join(PARTS).exists() {
            (
                "a job of the same id adds to it, others record into jobs/ there",
                "name another directory, or nccl-otf2 run --force",
            )
        } else {
            ("its parts are gone, so a job that records there makes no archive", "name another directory")
        };
        findings.note("directory", format!("{} holds an archive: {what}", out.display()), way_out);
    }
    let journal = here.config.journal_directory.as_deref().map(absolute);
    directory(here, &out, "NCCL_OTF2_DIR", journal.is_none(), findings);
    if let Some(journal) = journal {
        directory(here, &journal, "NCCL_OTF2_JOURNAL_DIR", true, findings);
    }
    shared_memory(findings);
    out
}

fn directory(here: &Environment, path: &Path, variable: &str, has_journals: bool, findings: &mut Findings) {
    if let Err(reason) = refuse_foreign(path, variable) {
        findings.problem("directory", reason, "");
        return;
    }
    // A missing directory is created when recording begins.
    let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let shown = path.display();
    let elsewhere = format!("{variable} names another place");
    let time = match try_writing(there) {
        Ok(time) => time,
        Err(error) => {
            let text = format!("{shown}: nothing can be written in {}: {error}", there.display());
            findings.problem("directory", text, &elsewhere);
            return;
        }
    };
    let (kind, is_remote) = kind(there);
    let free = free_bytes(there);
    let text = format!(
        "{shown} ({kind}, {} free, 1 MiB written in {})",
        free.map_or_else(|| "unknown space".to_owned(), units::bytes),
        units::time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    );
    let most = here.config.limit_bytes().saturating_mul(here.processes());
    if free.is_some_and(|free| free < 64 << 20) {
        findings.problem("directory", format!("{text}: too small for a recording"), &elsewhere);
    } else if has_journals && (is_remote || time > SLOW) {
        let text =
            format!("{text}: journals are memory that is mapped from files, which such a file system may make slow");
        findings.warning("directory", text, "NCCL_OTF2_JOURNAL_DIR (run --journal-dir) on a disk of the node");
    } else if has_journals && free.is_some_and(|free| free < most) {
        let (n, limit) = (here.processes(), units::bytes(here.config.limit_bytes()));
        findings.note("directory", format!("{text}: less than {n} × {limit}, the most that the processes here may record; when the disk is full recording stops"), "NCCL_OTF2_MAX_SIZE, NCCL_OTF2_MODE=flight, or fewer events");
    } else if kind == "overlay" {
        let text = format!("{text}: gone when the container is removed");
        findings.note("directory", text, "mount a directory of the host");
    } else {
        findings.ok("directory", text);
    }
}

/// Writes as much as a process writes at a time, into an unnamed file.
fn try_writing(folder: &Path) -> std::io::Result<Duration> {
    let begin = Instant::now();
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![1; SEGMENT])?;
    file.sync_all()?;
    Ok(begin.elapsed())
}

fn shared_memory(findings: &mut Findings) {
    let shm = Path::new("/dev/shm");
    match free_bytes(shm) {
        Some(bytes) if bytes >= SMALL_SHM => findings.ok("shm", format!("/dev/shm has {} free", units::bytes(bytes))),
        Some(bytes) => findings.warning(
            "shm",
            format!("/dev/shm has only {} free: NCCL between processes of a host can fail", units::bytes(bytes)),
            "docker run --shm-size=8g or --ipc=host; remove what ended jobs left (/dev/shm/nccl-*)",
        ),
        None => findings.warning("shm", "there is no /dev/shm: NCCL between processes of a host fails", "mount it"),
    }
}
