//! Assigns directories to jobs. The first process that records in a directory claims it for its job, in the file `job`;
//! other jobs that record there get their own directories, `jobs/<job>`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::host;
use crate::host::ProcessStatus;
use crate::part::environment::{JOB_VARIABLE, JobEnvironment};
use crate::part::{DONE, PARTS, ProcessInfo, read_process};
use regular_files::MOST_DESCRIPTION_BYTES;
use serde::{Deserialize, Serialize};

/// Name of the claim in a job's directory.
pub const CLAIM: &str = "job";
/// Name of the directory of other jobs in a job's directory.
pub const OTHER_JOBS: &str = "jobs";
const FORMAT: u32 = 1;
/// Directories to try before giving up: so many jobs without an id in one place are no accident.
const MOST_DIRECTORIES: u32 = 10_000;
/// How often an incomplete claim is read before it counts as damaged.
const CLAIM_READS: u32 = 100;
const BETWEEN_CLAIM_READS: Duration = Duration::from_millis(10);

/// The job that a directory belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// [`FORMAT`] of the plugin that wrote the claim.
    pub format: u32,
    /// Name of the job: its id, or `run-<n>` if it has none.
    pub name: String,
    /// The ids of the job, by variable; empty if it has none.
    pub ids: BTreeMap<String, String>,
    /// NCCL's id of the first communicator of the process that made the claim; 0 if NCCL gives none.
    pub first_comm: u64,
}

/// The directory in which a job records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct JobDirectory {
    pub path: PathBuf,
    pub job: String,
    /// The job that had claimed the requested directory, if it is a different job.
    pub other: Option<String>,
}

/// Whether a process belongs to the job that claimed a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    /// The user gave the two different names.
    OtherName,
    /// Launchers gave the two different ids, as they do to components of a heterogeneous Slurm job, and to the parts
    /// of a job that has a launcher on each host.
    OtherLaunch,
    /// The two have no id variable in common.
    Unknown,
}

/// Finds a job's directory: the requested one if it belongs to the job or to no job, otherwise one below it.
///
/// The user's name for the job counts most, then a communicator, then launchers' ids. Without ids to compare, a process
/// joins the recording unless its processes have ended, or one of the two has ids and their communicators differ.
/// `first_comm` is NCCL's id of the process's first communicator, 0 if there is none.
pub fn directory(out: &Path, job: &JobEnvironment, first_comm: u64) -> io::Result<JobDirectory> {
    let mut other = None;
    for number in 1..=MOST_DIRECTORIES {
        let path = candidate(out, number, job);
        host::directories(&path)?;
        let claim = claim(&path, || Claim { first_comm, ..Claim::new(job, number) })?;
        let shares_comm = first_comm != 0 && claim.first_comm == first_comm;
        let is_joined = match claim.relation(job) {
            Relation::Same => true,
            Relation::OtherName => false,
            // `NCCL_COMM_ID` gives the communicators of several jobs one id, but all ranks of one run at the same time.
            Relation::OtherLaunch => shares_comm && !RecordedProcesses::in_directory(&path).have_ended(),
            Relation::Unknown if shares_comm => true,
            // torchrun restarts its workers once all of them have ended; the new workers continue the latest recording.
            Relation::Unknown if job.restarts.is_some_and(|restarts| restarts > 0) => {
                !candidate(out, number + 1, job).exists()
            }
            Relation::Unknown => !is_closed_to(&path, &claim, job, first_comm),
        };
        if is_joined {
            return Ok(JobDirectory { path, job: claim.name, other });
        }
        other.get_or_insert(claim.name);
    }
    Err(io::Error::other(format!("too many jobs in {}", out.join(OTHER_JOBS).display())))
}

/// The claim of a directory, if a job has recorded there.
///
/// # Errors
/// The claim cannot be read, so the owner is unknown.
pub fn owner(out: &Path) -> io::Result<Option<Claim>> {
    let path = out.join(CLAIM);
    let refused = |error: &dyn Display| {
        let advice = "remove it if no job is recording there, or name another directory";
        io::Error::other(format!("{}: no claim of a job: {error}; {advice}", path.display()))
    };
    match regular_files::read(&path, MOST_DESCRIPTION_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| refused(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(claim_of_first_part(out)),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))),
    }
}

/// The directories of other jobs within a job's directory.
pub fn other_jobs(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out.join(OTHER_JOBS)).into_iter().flatten().flatten();
    let mut jobs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.join(PARTS).is_dir()).collect();
    nccl_events::sort::sort(&mut jobs);
    jobs
}

fn candidate(out: &Path, number: u32, job: &JobEnvironment) -> PathBuf {
    let name = match (number, &job.job) {
        (1, _) => return out.to_owned(),
        (2, Some(id)) => file_name(id),
        (_, Some(id)) => format!("{}-{number}", file_name(id)),
        (_, None) => format!("run-{number}"),
    };
    out.join(OTHER_JOBS).join(name)
}

fn file_name(id: &str) -> String {
    let name: String = id.replace(['/', '\0'], "_").chars().take(200).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

impl Claim {
    fn new(job: &JobEnvironment, number: u32) -> Self {
        let name = job.job.clone().unwrap_or_else(|| format!("run-{number}"));
        Self { format: FORMAT, name, ids: job.ids.clone(), first_comm: 0 }
    }

    fn relation(&self, job: &JobEnvironment) -> Relation {
        match (job.ids.get(JOB_VARIABLE), self.ids.get(JOB_VARIABLE)) {
            (Some(name), _) if *name == self.name => return Relation::Same,
            (Some(name), Some(theirs)) if name != theirs => return Relation::OtherName,
            _ => {}
        }
        let mut relation = Relation::Unknown;
        for (variable, id) in &job.ids {
            match self.ids.get(variable) {
                Some(theirs) if !is_same_id(theirs, id) => return Relation::OtherLaunch,
                Some(_) => relation = Relation::Same,
                None => {}
            }
        }
        relation
    }
}

/// Whether two ids denote the same job. `mpirun` in a Slurm job starts some of its processes outside of a step.
fn is_same_id(one: &str, other: &str) -> bool {
    let is_step_of = |step: &str, job: &str| step.strip_prefix(job).is_some_and(|rest| rest.starts_with('.'));
    one == other || is_step_of(one, other) || is_step_of(other, one)
}

/// The claim of a directory; makes `ours` if there is none.
fn claim(directory: &Path, ours: impl FnOnce() -> Claim) -> io::Result<Claim> {
    if let Some(claim) = settled_owner(directory)? {
        return Ok(claim);
    }
    let ours = ours();
    let json = serde_json::to_vec_pretty(&ours).map_err(io::Error::other)?;
    // A hard link makes the file appear with its whole content.
    let path = directory.join(CLAIM);
    let draft = directory.join(format!(".{CLAIM}-{}-{}", host::host_name(), std::process::id()));
    host::write(&draft, &json)?;
    let linked = fs::hard_link(&draft, &path);
    let _best_effort = fs::remove_file(&draft);
    let made = match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // The file system has no hard links.
            host::new_file(&path).and_then(|mut file| file.write_all(&json))
        }
        made => made,
    };
    match made {
        Ok(()) => Ok(ours),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(settled_owner(directory)?.unwrap_or(ours)),
        Err(error) => Err(error),
    }
}

/// The claim, once it is complete: without hard links another process may still be writing it.
fn settled_owner(directory: &Path) -> io::Result<Option<Claim>> {
    for _ in 0..CLAIM_READS {
        if let Ok(found) = owner(directory) {
            return Ok(found);
        }
        std::thread::sleep(BETWEEN_CLAIM_READS);
    }
    owner(directory)
}

/// The claim that the first part would have made; for a directory with parts but no claim.
fn claim_of_first_part(out: &Path) -> Option<Claim> {
    let parts = fs::read_dir(out.join(PARTS)).ok()?.flatten().map(|entry| read_process(&entry.path()).0);
    let first = parts.min_by_key(|process| process.session_start_realtime_ns)?;
    let mut claim = Claim { first_comm: first.first_comm, ..Claim::new(&first.environment, 1) };
    if !first.job.is_empty() {
        claim.name = first.job;
    }
    Some(claim)
}

/// What the directory of a recording says of its processes.
struct RecordedProcesses {
    processes: Vec<ProcessInfo>,
    /// Whether all processes have ended, as far as this host can tell.
    no_process_lives: bool,
}

impl RecordedProcesses {
    fn in_directory(directory: &Path) -> Self {
        let parts = fs::read_dir(directory.join(PARTS)).into_iter().flatten().flatten();
        let mut recorded = Self { processes: Vec::new(), no_process_lives: true };
        for part in parts.map(|entry| entry.path()) {
            let process = read_process(&part).0;
            recorded.no_process_lives &= match process.life() {
                ProcessStatus::Running | ProcessStatus::Stopped => false,
                ProcessStatus::Gone => true,
                ProcessStatus::Unknown => part.join(DONE).exists(),
            };
            recorded.processes.push(process);
        }
        recorded
    }

    /// Whether the recording began and has ended.
    fn have_ended(&self) -> bool {
        self.no_process_lives && !self.processes.is_empty()
    }
}

/// Whether the recording takes no more processes: all have ended, or this process has another communicator and not the
/// claim's ids. A recording is not over for a process of one of its communicators, nor for a rank that it lacks.
fn is_closed_to(directory: &Path, claim: &Claim, job: &JobEnvironment, comm: u64) -> bool {
    let recorded = RecordedProcesses::in_directory(directory);
    let mut comms = recorded.processes.iter().map(|process| process.first_comm);
    if comm != 0 && comms.clone().any(|other| other == comm) {
        return false;
    }
    let has_ids = !(claim.ids.is_empty() && job.ids.is_empty());
    // A process whose recording begins with a range does not know its communicator yet when it makes the claim.
    let knows_comm = claim.first_comm != 0 || comms.any(|other| other != 0);
    let has_other_comm = has_ids && comm != 0 && knows_comm;
    let mut environments = recorded.processes.iter().map(|process| &process.environment);
    let is_awaited = (comm == 0 || has_other_comm)
        && job.rank.is_some()
        && job.size.is_some()
        && environments.all(|other| other.size == job.size && other.rank.is_some() && other.rank != job.rank);
    !is_awaited && (has_other_comm || recorded.have_ended())
}

#[cfg(test)]
mod tests;
