//! `otf2-print`, the Python package `otf2` and our own reader say the same of every event of an archive; and the
//! comparison notices when one of them differs in one thing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::machine::{RELEASE, four_gpu_stream, python, two_process_streams};
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::{built, scratch::Scratch};

/// Every kind, all arguments of states, and what is no NCCL kind, from two threads and two communicators.
pub(crate) const EVERYTHING: &str = include_str!("../support/everything.script");

/// How many events there are of a kind.
fn number(agreed: &Value, kind: &str) -> u64 {
    agreed["kinds"][kind].as_u64().unwrap_or(0)
}

/// A job of every kind, with its journals.
pub(crate) fn everything() -> Scratch {
    let scratch = Scratch::new();
    let mut script = scratch.script(EVERYTHING);
    script.args(["--nccl", "23103"]);
    script.env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let _recorded = run(&mut script).with_code(0);
    let _written = run(&mut scratch.tool(&["finalize", "--keep-journal", "out"])).with_code(0);
    scratch
}

#[test]
fn every_kind_of_event_reads_the_same() {
    let Some(python) = python() else { return };
    let scratch = everything();
    let agreed = scratch.archive().readers_agree(&python);
    for kind in ["Enter", "Leave", "MpiCollectiveEnd", "MpiIsend", "RmaPut"] {
        assert!(number(&agreed, kind) > 0, "{kind}: {agreed:#}");
    }
    assert_eq!(agreed["by_name_only"], Value::Array(Vec::new()));
    assert!(agreed["attributes"].as_u64() > Some(100), "{agreed:#}");
}

#[test]
fn recorded_jobs_read_the_same() {
    for (streams, events) in
        [(Some(two_process_streams().to_vec()), 800), (four_gpu_stream().map(|stream| vec![stream]), 200)]
    {
        let (Some(streams), Some(python)) = (streams, python()) else {
            return;
        };
        let scratch = Scratch::new();
        let _replayed = run(&mut scratch.replay(&streams)).with_code(0);
        let agreed = scratch.archive().readers_agree(&python);
        assert!(agreed["events"].as_u64() > Some(events), "{agreed:#}");
    }
}

#[test]
fn a_real_job_with_roots_messages_and_composites_reads_the_same() {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let operations = "allreduce,broadcast,reduce,sendrecv,alltoall,calls28";
    let arguments = ["--procs", "2", "--threads", "2", "--count", "1000", "--ops", operations];
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "full"], &arguments) else {
        return;
    };
    let _ran = run(&mut job).with_code(0);
    let agreed = scratch.archive().readers_agree(&python);
    // Four ranks: all-reduce, broadcast, reduce and all-to-all, at least.
    assert!(number(&agreed, "MpiCollectiveEnd") >= 16, "{agreed:#}");
    for kind in ["MpiIsend", "MpiIrecv", "RmaPut"] {
        assert!(number(&agreed, kind) > 0, "{kind}: {agreed:#}");
    }
}

/// Stands for a program and changes what it prints with a command of sed.
fn altered(scratch: &Scratch, program: &Path, sed: &str) -> PathBuf {
    let path = scratch.path().join("altered");
    let script = format!("#!/bin/sh\n'{}' \"$@\" | sed -e '{sed}'\n", program.display());
    std::fs::write(&path, script).expect("write a script");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, executable).expect("make it executable");
    path
}

/// The comparison with another program in the place of one reader.
fn compare(archive: &Archive, python: &Path, option: &str, program: &Path) -> FinishedProcess {
    let mut command = Archive::readers(python);
    command.arg(option).arg(program).arg(archive.anchor());
    run(&mut command)
}

#[test]
fn one_thing_said_differently_is_found() {
    let Some(python) = python() else { return };
    let scratch = everything();
    let archive = scratch.archive();
    let otf2_print = Path::new("otf2-print");
    let _same = compare(&archive, &python, "--otf2-print", &altered(&scratch, otf2_print, "")).with_code(0);
    // Always the first of its kind, and what the difference must name.
    for (sed, said) in [
        ("0,/^ENTER/s/^ENTER/LEAVE/", "Leave time="),
        ("0,/^LEAVE/{/^LEAVE/s/Region: \"/&x/}", "region=x"),
        ("0,/^LEAVE/{/^LEAVE/s/\\(Region.*<\\)/\\19/}", "regionRef=9"),
        ("0,/^MPI_ISEND /{/^MPI_ISEND /s/Receiver: /&7/}", "peer=7"),
        ("0,/^MPI_ISEND /{/^MPI_ISEND /s/Tag: /&3/}", "tag=3"),
        ("0,/^MPI_ISEND /{/^MPI_ISEND /s/Length: /&1/}", "bytes=1"),
        ("0,/^MPI_ISEND /{/^MPI_ISEND /s/Request: /&1/}", "request=1"),
        ("s/Operation: ALLG/Operation: G/", "operation=GATHER"),
        ("0,/Root: NONE/s/Root: NONE/Root: 3/", "root=3"),
        ("0,/^RMA_PUT/{/^RMA_PUT/s/Matching: /&1/}", "matching=1"),
        ("s/nccl.datatype\" \\(.*\\)ncclFloat32/nccl.datatype\" \\1float/", "float"),
        ("0,/nccl.parent/s/nccl.parent/nccl.child/", "nccl.child="),
        ("0,/^LEAVE/{/^LEAVE/d}", "index"),
    ] {
        let program = altered(&scratch, otf2_print, sed);
        let ended = compare(&archive, &python, "--otf2-print", &program);
        assert_eq!(ended.status.code(), Some(1), "{sed}: {ended}");
        let differs = ended.stdout.contains("the readers differ on event ");
        assert!(differs, "{sed}: {ended}");
        if said != "index" {
            let line = ended.stdout.lines().find(|line| line.contains("otf2-print "));
            assert!(line.is_some_and(|line| line.contains(said)), "{sed}: {ended}");
        }
    }
    for sed in
        ["0,/MpiIsend/s/\"bytes\":/&1/", "0,/\"event\":\"Enter\"/s/\"event\":\"Enter\"/\"event\":\"Leave\"/", "$d"]
    {
        let program = altered(&scratch, &built::nccl_otf2(), sed);
        let ended = compare(&archive, &python, "--nccl-otf2", &program);
        assert_eq!(ended.status.code(), Some(1), "{sed}: {ended}");
        assert!(ended.stdout.contains("(from 0) of location "), "{ended}");
    }
}
