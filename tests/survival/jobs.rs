//! Two jobs that record into one directory, as two batch scripts do that export the same `NCCL_OTF2_DIR`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::process::{FinishedProcess, LIMIT, run, start, wait_for};
use whole_plugin::scratch::Scratch;

type Variables<'a> = &'a [(&'a str, &'a str)];

const JOB_77: Variables<'_> = &[("SLURM_JOB_ID", "77"), ("SLURM_STEP_ID", "0")];
const JOB_78: Variables<'_> = &[("SLURM_JOB_ID", "78"), ("SLURM_STEP_ID", "0")];

/// A process with one all-reduce, in a communicator of its own.
fn record(scratch: &Scratch, comm: &str, variables: Variables<'_>) -> FinishedProcess {
    let script = format!(
        "init c id={comm} ranks=1 rank=0
         start co Coll ctx=c rank=0 sequence=0 func=AllReduce count=8 datatype=ncclInt8
         stop co
         finalize c"
    );
    run(scratch.script(&script).envs(variables.iter().copied())).with_code(0)
}

fn processes(directory: &Path) -> usize {
    let archive = otf2::Archive::open(&directory.join("traces.otf2")).expect("an archive");
    archive.property("NCCL::PARTS").expect("parts").lines().count()
}

fn json(scratch: &Scratch, verb: &str) -> (Value, FinishedProcess) {
    let ended = run(scratch.tool(&[verb, "--json"]).arg(scratch.out()));
    (serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}")), ended)
}

#[test]
fn a_later_job_does_not_touch_the_archive_of_an_earlier_one() {
    let scratch = Scratch::new();
    let _first = record(&scratch, "0x1", JOB_77);
    let anchor = fs::read(scratch.out().join("traces.otf2")).expect("an archive");
    let second = record(&scratch, "0x2", JOB_78);
    assert_eq!(fs::read(scratch.out().join("traces.otf2")).expect("an archive"), anchor);
    let other = scratch.out().join("jobs/78.0");
    assert_eq!((processes(&scratch.out()), processes(&other)), (1, 1));
    let lines = second.our_lines();
    assert!(lines.iter().any(|line| line.contains("another job (77.0)") && line.contains("jobs/78.0")), "{second}");

    // Whoever looks at the directory hears of the other one.
    let other = other.display().to_string();
    let (info, said) = json(&scratch, "info");
    assert_eq!(info["other_jobs"], serde_json::json!([other]), "{info:#}");
    assert_eq!(info["job"], serde_json::json!(["77.0"]));
    assert!(said.stderr.contains(&other), "{said}");
    let (finalized, said) = json(&scratch, "finalize");
    assert_eq!((&finalized["changed"], &finalized["archive"]["processes"]), (&false.into(), &1.into()));
    assert!(said.stderr.contains(&other), "{said}");
    let said = run(scratch.tool(&["stats"]).arg(scratch.out()));
    assert!(said.stderr.contains(&other), "{said}");
    let (check, said) = json(&scratch, "check");
    assert_eq!((&check["faults"], &check["rules"]["A15"]["count"]), (&0.into(), &1.into()), "{said}");
    let inside = run(scratch.tool(&["check", "--strict"]).arg(&other)).with_code(0);
    assert!(!inside.stdout.contains("A15"), "{inside}");
}

#[test]
fn jobs_at_the_same_time_have_an_archive_each() {
    let scratch = Scratch::new();
    let script = "init c id=0x1 ranks=1 rank=0\nstart g GroupApi\nstop g\nsleep 3s\nfinalize c";
    let mut first = scratch.named_script("first", script, &whole_plugin::built::plugin());
    let first = start(first.envs(JOB_77.iter().copied()));
    wait_for("part", || fs::read_dir(scratch.out().join("parts")).ok()?.next().map(|_| ()));
    let _second = record(&scratch, "0x2", JOB_78);
    assert!(!scratch.out().join("traces.otf2").exists());
    let _first = first.wait(LIMIT).with_code(0);
    assert_eq!((processes(&scratch.out()), processes(&scratch.out().join("jobs/78.0"))), (1, 1));
}

/// `NCCL_COMM_ID` gives the communicators of both jobs one id.
#[test]
fn jobs_with_the_same_communicator_id_have_an_archive_each() {
    for (first, second, other) in
        [(&[("NCCL_OTF2_JOB", "x")][..], &[("NCCL_OTF2_JOB", "y")][..], "y"), (JOB_77, JOB_78, "78.0")]
    {
        let scratch = Scratch::new();
        let _first = record(&scratch, "0x1", first);
        let _second = record(&scratch, "0x1", second);
        let other = scratch.out().join("jobs").join(other);
        assert_eq!((processes(&scratch.out()), processes(&other)), (1, 1));
    }
}

/// The components of a heterogeneous Slurm job have ids of their own, and one communicator.
#[test]
fn launches_with_a_communicator_of_one_time_are_one_job() {
    let scratch = Scratch::new();
    let rank = |rank: usize| {
        let script = format!(
            "init c id=0x1 ranks=2 rank={rank}\nstart rank{rank} GroupApi\nstop rank{rank}\ngive rank{rank}
             take rank{other}\nfinalize c",
            other = 1 - rank
        );
        scratch.named_script(&format!("rank{rank}"), &script, &whole_plugin::built::plugin())
    };
    let first = start(rank(0).envs(JOB_77.iter().copied()));
    scratch.wait_for_recording(1);
    let _second = run(rank(1).envs(JOB_78.iter().copied())).with_code(0);
    let _first = first.wait(LIMIT).with_code(0);
    assert_eq!(processes(&scratch.out()), 2);
    assert!(!scratch.out().join("jobs").exists());
}

#[test]
fn without_ids_the_next_run_begins_when_all_processes_have_ended() {
    let scratch = Scratch::new();
    let _first = record(&scratch, "0x1", &[]);
    let _second = record(&scratch, "0x2", &[]);
    // A rank of the first run's communicator, however late it ends.
    let _third = record(&scratch, "0x1", &[]);
    assert_eq!((processes(&scratch.out()), processes(&scratch.out().join("jobs/run-2"))), (2, 1));
}

#[test]
fn steps_that_are_to_be_one_archive_are() {
    let scratch = Scratch::new();
    for (comm, step) in [("0x1", "0"), ("0x2", "1")] {
        let job = [("SLURM_JOB_ID", "77"), ("SLURM_STEP_ID", step), ("NCCL_OTF2_JOB", "both")];
        let _step = record(&scratch, comm, &job);
    }
    assert_eq!(processes(&scratch.out()), 2);
    let (info, _) = json(&scratch, "info");
    assert_eq!((&info["job"], &info["other_jobs"]), (&serde_json::json!(["both"]), &serde_json::json!([])));
}

/// Parts that somebody put together by hand: `check` names the jobs.
#[test]
fn an_archive_of_two_jobs_says_so() {
    let scratch = Scratch::new();
    let _first = record(&scratch, "0x1", JOB_77);
    let _second = record(&scratch, "0x2", JOB_78);
    let other = scratch.out().join("jobs/78.0/parts");
    for part in fs::read_dir(&other).expect("parts") {
        let part = part.expect("a part");
        fs::rename(part.path(), scratch.out().join("parts").join(part.file_name())).expect("moved");
    }
    fs::remove_dir_all(scratch.out().join("jobs")).expect("removed");
    let _finalized = scratch.finalize();
    let (check, said) = json(&scratch, "check");
    assert_eq!(check["rules"]["A15"]["count"], 1, "{said}");
    assert!(said.stdout.contains("jobs 77.0, 78.0"), "{said}");
    let _archive: Archive = scratch.archive();
}

/// `%j` without a job id is the same for all jobs: the warning says that, and not to use `%j`.
#[test]
fn a_name_after_the_job_needs_a_job_id() {
    let scratch = Scratch::new();
    let named = scratch.path().join("trace-%j");
    let variables = [("NCCL_OTF2_DIR", named.to_str().expect("UTF-8"))];
    let _first = record(&scratch, "0x1", &variables);
    let second = record(&scratch, "0x2", &variables);
    let warned = second.our_lines().iter().any(|line| {
        line.contains("there is no job id here, so %j")
            && line.contains("NCCL_OTF2_JOB")
            && !line.contains("trace-%j is")
    });
    assert!(warned, "{second}");
}
