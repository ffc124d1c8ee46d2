use super::*;
use crate::host::ProcessKey;
use crate::part::PROCESS;
use crate::part::environment::tests::environment::read;

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

/// `NCCL_COMM_ID` gives the communicators of all jobs the same id.
#[test]
fn a_communicator_joins_launches_of_one_time_and_no_jobs_of_other_names() {
    let out = tempfile::tempdir().expect("a directory");
    let out = out.path();
    let named = |name: &str| read(&format!("NCCL_OTF2_JOB={name} SLURM_JOB_ID=77"));
    assert_eq!(place(out, &named("x"), 5), "");
    part(out, "runs", &ProcessKey::current(), false);
    assert_eq!(place(out, &named("y"), 5), "jobs/y", "the user's word");
    assert_eq!(place(out, &read("NCCL_OTF2_JOB=x SLURM_JOB_ID=78"), 6), "", "the user's word");
    // The components of a heterogeneous Slurm job.
    assert_eq!(place(out, &read("SLURM_JOB_ID=78"), 5), "", "a rank of the communicator");
    assert_eq!(place(out, &read("SLURM_JOB_ID=79"), 6), "jobs/79");
    part(out, "runs", &ProcessKey { pid: 1 << 30, ..ProcessKey::current() }, false);
    assert_eq!(place(out, &read("SLURM_JOB_ID=80"), 5), "jobs/80", "a later job");
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
