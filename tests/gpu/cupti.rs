//! GPU work timed by CUPTI, from the launch to the row in the archive: real NCCL on the stand-in for a GPU with the
//! double of libcupti, and what is reported where CUPTI cannot be had.

use std::path::PathBuf;
use std::process::Command;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::RELEASE;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::run::calls;

/// The double under a name that the loader looks for.
fn libcupti(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path().join("cupti");
    std::fs::create_dir_all(&folder).expect("made");
    let path = folder.join("libcupti.so.12");
    std::os::unix::fs::symlink(built::fake_cupti(), &path).expect("linked");
    path
}

/// Real NCCL with these variables: two processes of two threads.
fn nccl_job(scratch: &Scratch, release: &str, variables: &[(&str, &str)]) -> Option<Command> {
    let operations = ["--procs", "2", "--threads", "2", "--rounds", "2", "--ops", "allreduce,sendrecv,group,graph"];
    let mut job = scratch.run_nccl(release, &[], &operations)?;
    job.env("LD_LIBRARY_PATH", scratch.path().join("cupti"));
    job.envs(variables.iter().copied());
    Some(job)
}

/// Every kernel that NCCL launched is joined to its launch; kernels of graphs are known by their names.
fn all_are_joined(version: &str, level: &str) {
    let scratch = Scratch::new();
    // Found by its name, after the mapped ones.
    libcupti(&scratch);
    let counted = scratch.path().join("counted");
    let driven = scratch.path().join("driven");
    let variables = [
        ("FAKEGPU_REPORT", driven.to_str().expect("UTF-8")),
        ("NCCL_OTF2_GPU", "cupti"),
        ("FAKECUPTI_API", level),
        ("FAKECUPTI_REPORT", counted.to_str().expect("UTF-8")),
    ];
    let Some(mut job) = nccl_job(&scratch, version, &variables) else {
        return;
    };
    let ended = run(&mut job).with_code(0);
    let archive = scratch.sound_archive();
    let properties = archive.properties();
    let (counted, driven) = (calls(&counted), calls(&driven));
    let count = |name| archive.gpu_count(name);
    assert_eq!(properties["NCCL::GPU::BACKEND"], "cupti", "{ended}");
    assert_eq!(properties["NCCL::GPU::NOTICES"].lines().count(), 1);
    let ran = count("LAUNCHES") - count("CAPTURED");
    assert!(ran >= 40 && count("CAPTURED") > 0, "{properties:#?}");
    assert_eq!((count("KERNELS_JOINED"), count("LAUNCHES_TIMED")), (ran, ran));
    assert_eq!(count("KERNELS"), counted["kernels"], "all that ran are there");
    for name in [
        "UNMATCHED",
        "UNFINISHED",
        "REFUSED",
        "FOREIGN_KERNELS",
        "KERNELS_WITHOUT_TIMES",
        "DROPPED_BY_CUPTI",
        "BAD_RECORDS",
        "FOREIGN_BUFFERS",
        "LATE_BUFFERS",
        "NO_BUFFER_LEFT",
        "NO_ROOM",
    ] {
        assert_eq!(count(name), 0, "{name}: {properties:#?}");
    }
    // Nothing was called that a host callback or a capture forbids.
    for name in ["in_host_callback", "recorded_in_capture", "spoiled_captures"] {
        assert_eq!(driven.get(name), None, "{name}");
    }
    assert_eq!(driven["cuStreamIsCapturing"], count("LAUNCHES"));
    // CUPTI is left as it was found.
    assert_eq!((counted["pushes"], counted["pops"]), (ran, ran));
    assert_eq!(counted["pops_of_nothing"], 0);
    assert_eq!((counted["subscribed"], counted["unsubscribed"]), (2, 2));
    assert_eq!(counted["buffers_requested"], counted["buffers_completed"]);
}

#[test]
fn kernels_of_nccl_are_joined() {
    // The functions of the process, then those of a subscriber.
    all_are_joined("2.28.9", "22");
    all_are_joined("2.32.3", "130500");
}

/// The plugin's exit handler runs before CUPTI's own, behind which every call of CUPTI crashes.
#[test]
fn a_process_that_does_not_end_its_communicators_has_its_kernels() {
    let scratch = Scratch::new();
    libcupti(&scratch);
    let Some(mut job) = scratch.run_nccl(RELEASE, &[], &["--threads", "2", "--ops", "allreduce", "--end", "exit"])
    else {
        return;
    };
    job.env("LD_LIBRARY_PATH", scratch.path().join("cupti")).env("NCCL_OTF2_GPU", "cupti");
    run(&mut job).with_code(0);
    let archive = scratch.sound_archive();
    let launches = archive.gpu_count("LAUNCHES");
    assert!(launches > 0);
    assert_eq!(archive.gpu_count("KERNELS_JOINED"), launches);
    let printed = run(scratch.tool(&["print", "--kind", "Gpu"]).arg(scratch.out())).with_code(0);
    let entered = printed.stdout.lines().filter(|line| line.contains("enter"));
    assert_eq!(entered.count() as u64, archive.gpu_count("KERNELS"), "{printed}");
}

/// It is done by events, and one line says why and what to do. What CUPTI may answer is for `src/gpu/cupti/tests`.
#[test]
fn cupti_that_cannot_be_used_is_replaced_by_events() {
    let scratch = Scratch::new();
    libcupti(&scratch);
    let variables = [("NCCL_OTF2_GPU", "cupti"), ("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another")];
    let Some(mut job) = nccl_job(&scratch, RELEASE, &variables) else {
        return;
    };
    let ended = run(&mut job).with_code(0);
    let archive = scratch.sound_archive();
    let properties = archive.properties();
    assert_eq!(properties["NCCL::GPU::BACKEND"], "events", "{ended}");
    assert!(archive.gpu_count("LAUNCHES") > 0);
    // One line in each of the two processes.
    let said: Vec<&str> =
        ended.stderr.lines().filter(|line| line.starts_with("nccl-otf2: GPU work is timed by CUDA events")).collect();
    assert_eq!(said.len(), 2, "{ended}");
    for words in ["(39)", "CUPTI for Another", "run without the other tool"] {
        assert!(said[0].contains(words), "{words}: {}", said[0]);
        assert!(properties["NCCL::GPU::NOTICES"].contains(words), "{properties:#?}");
    }
}

#[test]
fn a_communicator_without_a_device_changes_no_backend() {
    let scratch = Scratch::new();
    let cupti = libcupti(&scratch);
    for (wish, says) in [
        ("cupti", "the device of a communicator is not known: "),
        ("events", "is not known, and its launches are not timed: "),
    ] {
        let out = scratch.path().join(wish);
        // No context is current on the thread that makes it.
        let mut job = scratch.script("init c ranks=1 rank=0\nstart g GroupApi\nstop g\nfinalize c\n");
        job.env("LD_PRELOAD", built::fake_gpu());
        job.env("FAKEGPU_CONTEXTS", "own");
        job.env("NCCL_OTF2_GPU", wish);
        job.env("NCCL_OTF2_CUPTI_LIB", &cupti);
        job.env("NCCL_OTF2_DIR", &out);
        let _ended = run(&mut job).with_code(0);
        let properties = Archive::open(&out).properties();
        assert_eq!(properties["NCCL::GPU::BACKEND"], wish);
        let notices = &properties["NCCL::GPU::NOTICES"];
        assert!(notices.contains(says), "{notices}");
    }
}

/// Only CUPTI records kernels that are not NCCL's. Where it is left to another tool, asking for them says what to set.
#[test]
fn all_kernels_without_cupti_are_a_warning() {
    for (variable, value) in [("KINETO_USE_DAEMON", "1"), ("NCCL_OTF2_GPU", "events")] {
        let scratch = Scratch::new();
        libcupti(&scratch);
        let variables = [("NCCL_OTF2_CUPTI_KERNELS", "all"), (variable, value)];
        let Some(mut job) = nccl_job(&scratch, RELEASE, &variables) else {
            return;
        };
        let ended = run(&mut job).with_code(0);
        let line = "nccl-otf2: NCCL_OTF2_CUPTI_KERNELS=all has no effect";
        let warning = ended.stderr.lines().find(|said| said.starts_with(line));
        assert!(warning.is_some_and(|said| said.contains("set NCCL_OTF2_GPU=cupti")), "{ended}");
        let properties = scratch.sound_archive().properties();
        let said = properties.values().any(|text| text.contains("NCCL_OTF2_CUPTI_KERNELS=all has no effect"));
        assert!(said, "the archive says so, too: {properties:?}");
    }
}
