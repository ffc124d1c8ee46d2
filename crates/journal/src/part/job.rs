//! Assigns directories to jobs. The first process that records in a directory claims it for its job, in the file `job`;
//! other jobs that record there get their own directories, `jobs/<job>`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use regular_files::MOST_DESCRIPTION_BYTES;
use serde::{Deserialize, Serialize};

use crate::host::{self, Life};
use crate::part::environment::{JOB_VARIABLE, JobEnvironment};
use crate::part::{DONE, PARTS, read_process};
use crate::private;

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
    Other,
    /// The two have no id variable in common.
    Unknown,
}

/// Finds a job's directory: the requested one if it belongs to the job or to no job, otherwise one below it.
///
/// Processes that share a communicator belong to the same job. Without ids to compare, a process joins the recording
/// unless its processes have ended, or one of the two has ids and their communicators differ. `first_comm` is NCCL's id
/// of the process's first communicator, 0 if there is none.
pub fn directory(out: &Path, job: &JobEnvironment, first_comm: u64) -> io::Result<JobDirectory> {
    let mut other = None;
    for number in 1..=MOST_DIRECTORIES {
        let path = candidate(out, number, job);
        private::directories(&path)?;
        let claim = claim(&path, || Claim { first_comm, ..Claim::of(job, number) })?;
        let shares_comm = first_comm != 0 && claim.first_comm == first_comm;
        let is_joined = match claim.relation(job) {
            _ if shares_comm => true,
            Relation::Same => true,
            Relation::Other => false,
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
        let advice = "remove it if no job records there, or name another directory";
        io::Error::other(format!("{}: no claim of a job: {error}; {advice}", path.display()))
    };
    match regular_files::read(&path, MOST_DESCRIPTION_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| refused(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(of_first_part(out)),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))),
    }
}

/// The directories of other jobs within a job's directory.
pub fn other_jobs(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out.join(OTHER_JOBS)).into_iter().flatten().flatten();
    let mut jobs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.join(PARTS).is_dir()).collect();
    small_sort::sort(&mut jobs);
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
    fn of(job: &JobEnvironment, number: u32) -> Self {
        let name = job.job.clone().unwrap_or_else(|| format!("run-{number}"));
        Self { format: FORMAT, name, ids: job.ids.clone(), first_comm: 0 }
    }

    fn relation(&self, job: &JobEnvironment) -> Relation {
        if job.ids.get(JOB_VARIABLE).is_some_and(|name| *name == self.name) {
            return Relation::Same;
        }
        let mut relation = Relation::Unknown;
        for (variable, id) in &job.ids {
            match self.ids.get(variable) {
                Some(theirs) if !is_same_id(theirs, id) => return Relation::Other,
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
    private::write(&draft, &json)?;
    let linked = fs::hard_link(&draft, &path);
    let _best_effort = fs::remove_file(&draft);
    let made = match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // The file system has no hard links.
            private::new_file(&path).and_then(|mut file| file.write_all(&json))
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
fn of_first_part(out: &Path) -> Option<Claim> {
    let parts = fs::read_dir(out.join(PARTS)).ok()?.flatten().map(|entry| read_process(&entry.path()).0);
    let first = parts.min_by_key(|process| process.session_start_realtime_ns)?;
    let mut claim = Claim { first_comm: first.first_comm, ..Claim::of(&first.environment, 1) };
    if !first.job.is_empty() {
        claim.name = first.job;
    }
    Some(claim)
}

/// Whether the recording takes no more processes: all have ended, as far as this host can tell, or this process has
/// another communicator and not the claim's ids. A recording is not over for a process of one of its communicators,
/// nor for a rank that it lacks.
fn is_closed_to(directory: &Path, claim: &Claim, job: &JobEnvironment, comm: u64) -> bool {
    let parts = fs::read_dir(directory.join(PARTS)).into_iter().flatten().flatten();
    let has_ids = !(claim.ids.is_empty() && job.ids.is_empty());
    // A process whose recording begins with a range does not know its communicator yet when it makes the claim.
    let mut knows_comm = claim.first_comm != 0;
    let mut there = Vec::new();
    let mut have_ended = true;
    for part in parts.map(|entry| entry.path()) {
        let process = read_process(&part).0;
        if comm != 0 && process.first_comm == comm {
            return false;
        }
        knows_comm |= process.first_comm != 0;
        have_ended &= match process.life() {
            Life::Running | Life::Stopped => false,
            Life::Gone => true,
            Life::Unknown => part.join(DONE).exists(),
        };
        there.push(process.environment);
    }
    let has_other_comm = has_ids && comm != 0 && knows_comm;
    let is_awaited = (comm == 0 || has_other_comm)
        && job.rank.is_some()
        && job.size.is_some()
        && there.iter().all(|other| other.size == job.size && other.rank.is_some() && other.rank != job.rank);
    !is_awaited && (has_other_comm || have_ended && !there.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ProcessKey;
    use crate::part::PROCESS;
    use crate::part::environment::tests::read;
    use crate::part::process::ProcessInfo;

    fn place(out: &Path, job: &JobEnvironment, first_comm: u64) -> String {
        let path = directory(out, job, first_comm).expect("a place").path;
        path.strip_prefix(out).expect("inside").display().to_string()
    }

    /// The directories and job names of processes with these variables, which record one after the other.
    fn places(jobs: &[&str]) -> Vec<(String, String)> {
        let out = tempfile::tempdir().expect("a directory");
        let of = |job| (place(out.path(), &job, 0), directory(out.path(), &job, 0).expect("a place").job);
        jobs.iter().map(|variables| of(read(variables))).collect()
    }

    #[test]
    fn jobs_with_other_ids_are_kept_apart() {
        let found = places(&[
            "SLURM_JOB_ID=77 SLURM_STEP_ID=0",
            "SLURM_JOB_ID=78 SLURM_STEP_ID=0",
            "SLURM_JOB_ID=77 SLURM_STEP_ID=0",
            "SLURM_JOB_ID=77 SLURM_STEP_ID=1",
            "SLURM_JOB_ID=78 SLURM_STEP_ID=0",
        ]);
        let at = |place: &str, job: &str| (place.to_owned(), job.to_owned());
        let (first, second) = (at("", "77.0"), at("jobs/78.0", "78.0"));
        assert_eq!(found, [first.clone(), second.clone(), first, at("jobs/77.1", "77.1"), second]);
    }

    #[test]
    fn one_job_stays_in_one_place() {
        for jobs in [
            // The user names the job.
            ["NCCL_OTF2_JOB=x SLURM_JOB_ID=1 SLURM_STEP_ID=0", "NCCL_OTF2_JOB=x SLURM_JOB_ID=1 SLURM_STEP_ID=1"],
            // `mpirun` starts some processes outside of a step.
            ["SLURM_JOB_ID=1", "SLURM_JOB_ID=1 SLURM_STEP_ID=0"],
            // The user's variable does not reach all hosts.
            ["NCCL_OTF2_JOB=x", "PMIX_NAMESPACE=prterun-host-1"],
            ["", ""],
        ] {
            let found = places(&jobs);
            assert!(found.iter().all(|(place, name)| place.is_empty() && *name == found[0].1), "{found:?}");
        }
    }

    #[test]
    fn two_commands_of_one_batch_job_are_kept_apart_where_their_launcher_names_them() {
        let pbs = ["a", "b", "c", "b"].map(|namespace| format!("PBS_JOBID=5.head PMIX_NAMESPACE={namespace}"));
        let found = places(&pbs.each_ref().map(String::as_str));
        let inside: Vec<&str> = found.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(inside, ["", "jobs/5.head", "jobs/5.head-3", "jobs/5.head"]);
    }

    fn write(part: &Path, info: &ProcessInfo) {
        fs::create_dir_all(part).expect("made");
        fs::write(part.join(PROCESS), serde_json::to_vec(info).expect("plain data")).expect("written");
    }

    fn part(out: &Path, name: &str, key: &ProcessKey, is_done: bool) -> PathBuf {
        let part = out.join(PARTS).join(name);
        let ProcessKey { boot_id, pid_namespace, pid, start_ticks } = key.clone();
        write(&part, &ProcessInfo { boot_id, pid_namespace, pid, start_ticks, ..ProcessInfo::default() });
        if is_done {
            fs::write(part.join(DONE), "").expect("written");
        }
        part
    }

    #[test]
    fn without_ids_a_recording_ends_with_its_last_process() {
        let out = tempfile::tempdir().expect("a directory");
        let out = out.path();
        let nameless = JobEnvironment::default();
        assert_eq!(place(out, &nameless, 0), "");
        let elsewhere = ProcessKey { boot_id: "another".to_owned(), ..ProcessKey::current() };
        let parts = [
            part(out, "elsewhere", &elsewhere, false),
            part(out, "dead", &ProcessKey { pid: 1 << 30, ..ProcessKey::current() }, false),
        ];
        assert_eq!(place(out, &nameless, 0), "", "nobody knows whether the other host's process runs");
        part(out, "elsewhere", &elsewhere, true);
        let restarted = read("TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=1");
        assert_eq!(place(out, &restarted, 0), "", "torchrun's second attempt");
        assert_eq!(place(out, &nameless, 0), "jobs/run-2");
        assert_eq!(place(out, &nameless, 0), "jobs/run-2", "nothing recorded there yet");
        part(&out.join("jobs/run-2"), "elsewhere", &elsewhere, true);
        assert_eq!(other_jobs(out), [out.join("jobs/run-2")]);
        assert_eq!(place(out, &nameless, 0), "jobs/run-3");
        assert_eq!(place(out, &nameless, 0xabc), "jobs/run-3", "the communicator is nobody's");
        write(&parts[1], &ProcessInfo { first_comm: 0xabc, ..read_process(&parts[1]).0 });
        assert_eq!(place(out, &nameless, 0xabc), "", "a process there had the communicator");
        let rank = |rank| JobEnvironment { rank: Some(rank), size: Some(2), ..JobEnvironment::default() };
        for part in &parts {
            write(part, &ProcessInfo { environment: rank(0), ..read_process(part).0 });
        }
        assert_eq!(place(out, &rank(1), 0), "", "the rank that was missing");
        assert_eq!(place(out, &rank(0), 0), "jobs/run-3", "another run's");
        part(out, "ours", &ProcessKey::current(), true);
        assert_eq!(place(out, &nameless, 0), "", "this process's second session");
    }

    #[test]
    fn a_process_without_the_ids_joins_by_its_communicator_or_rank() {
        let out = tempfile::tempdir().expect("a directory");
        let out = out.path();
        let with_id = read("NCCL_OTF2_JOB=x OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
        assert_eq!(place(out, &with_id, 0), "");
        for comm in [1, 2] {
            let info = ProcessInfo { first_comm: comm, environment: with_id.clone(), ..ProcessInfo::default() };
            write(&out.join(PARTS).join(comm.to_string()), &info);
        }
        let without = JobEnvironment::default();
        assert_eq!(place(out, &without, 0), "", "NCCL before 2.27 gives no ids of communicators");
        assert_eq!(place(out, &without, 1), "", "a process's communicator");
        assert_eq!(place(out, &without, 2), "", "another process's communicator");
        assert_eq!(place(out, &without, 3), "jobs/run-2");
        assert_eq!(place(out, &read("PMIX_NAMESPACE=y"), 3), "jobs/y");
        assert_eq!(place(out, &read("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2"), 3), "", "the missing rank");
        assert_eq!(place(out, &read("NCCL_OTF2_JOB=x"), 3), "", "the same id");
    }

    #[test]
    fn a_claim_that_is_not_whole_lets_nobody_join() {
        let out = tempfile::tempdir().expect("a directory");
        fs::write(out.path().join(CLAIM), "{\"format\": 1, \"na").expect("written");
        let refused = directory(out.path(), &read("SLURM_JOB_ID=78"), 0).expect_err("whose it is, is not known");
        assert!(refused.to_string().contains("job: no claim of a job"), "{refused}");
    }

    #[test]
    fn parts_without_a_claim_are_of_the_first_process() {
        let out = tempfile::tempdir().expect("a directory");
        for (name, job, start) in [("a", "SLURM_JOB_ID=78", 2), ("b", "SLURM_JOB_ID=77", 1)] {
            let info = ProcessInfo { session_start_realtime_ns: start, ..ProcessInfo::default() };
            write(&out.path().join(PARTS).join(name), &ProcessInfo { environment: read(job), ..info });
        }
        assert_eq!(owner(out.path()).expect("read").expect("one").name, "77");
        let other = directory(out.path(), &read("SLURM_JOB_ID=78"), 0).expect("a place");
        assert_eq!((other.path, other.other.as_deref()), (out.path().join("jobs/78"), Some("77")));
    }
}
