//! GPU work timed by CUPTI, from the launch to the row in the archive: real NCCL on the stand-in for a GPU with the
//! double of libcupti, a recorded job on four GPUs, and what is said where CUPTI cannot be had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::{four_gpu_stream, nccl_library};
use whole_plugin::process::{run, run_within};
use whole_plugin::scratch::Scratch;

/// The double under a name that the loader looks for.
fn libcupti(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path().join("cupti");
    std::fs::create_dir_all(&folder).expect("made");
    let path = folder.join("libcupti.so.12");
    std::os::unix::fs::symlink(built::fake_cupti(), &path).expect("linked");
    path
}

/// What the double counted, all processes together.
fn report(path: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).expect("the double reports");
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, count] = words[..] else { panic!("{line}") };
        *counts.entry(name.to_owned()).or_default() += count.parse::<u64>().expect("a number");
    }
    counts
}

/// A count of GPU work among the archive's properties; those that are 0 are left out.
fn count(properties: &BTreeMap<String, String>, name: &str) -> u64 {
    let value = properties.get(&format!("NCCL::GPU::{name}"));
    value.map_or(0, |value| value.trim().parse().expect("a number"))
}

/// Real NCCL with these variables: two processes of two threads.
fn nccl_job(scratch: &Scratch, library: &Path, variables: &[(&str, &str)]) -> Command {
    let mut job = scratch.plain(built::nccl_otf2());
    job.arg("run").arg("--out").arg(scratch.out()).arg("--");
    job.arg(built::nccl_host()).arg("--lib").arg(library);
    job.args(["--procs", "2", "--threads", "2", "--rounds", "2"]);
    job.args(["--ops", "allreduce,sendrecv,group,graph"]);
    job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
    let folder = scratch.path().join("cupti");
    job.env("LD_LIBRARY_PATH", folder);
    job.envs(variables.iter().copied());
    job
}

fn no_faults(archive: &Archive) {
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    archive.validate();
}

/// Every kernel that NCCL launched is joined to its launch; those of graphs are known by their names.
fn all_are_joined(version: &str, level: &str) {
    let Some(library) = nccl_library(version) else {
        return;
    };
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
    let ended = run_within(Duration::from_secs(120), &mut nccl_job(&scratch, &library, &variables)).with_code(0);
    let archive = scratch.archive();
    no_faults(&archive);
    let properties = archive.properties();
    let (counted, driven) = (report(&counted), report(&driven));
    let count = |name| count(&properties, name);
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
fn nccl_2_28_with_the_functions_of_the_process() {
    all_are_joined("2.28.9", "22");
}

#[test]
fn nccl_2_32_with_the_functions_of_a_subscriber() {
    all_are_joined("2.32.3", "130500");
}

/// The job that was recorded on four GPUs, with the driver's stand-in and the double, at its own pace.
fn replayed(scratch: &Scratch, stream: PathBuf) -> Archive {
    let cupti = libcupti(scratch);
    let mut replay = scratch.replay(&[stream]);
    replay.args(["--speed", "recorded", "--cupti"]).arg(&cupti);
    replay.env("LD_PRELOAD", built::fake_gpu());
    replay.env("NCCL_OTF2_GPU", "cupti");
    replay.env("NCCL_OTF2_CUPTI_LIB", &cupti);
    let _ended = run(&mut replay).with_code(0);
    scratch.archive()
}

#[test]
fn four_recorded_kernels_are_on_four_streams_of_four_gpus() {
    let Some(stream) = four_gpu_stream() else {
        return;
    };
    let scratch = Scratch::new();
    let archive = replayed(&scratch, stream);
    archive.validate();
    let properties = archive.properties();
    assert_eq!(count(&properties, "LAUNCHES"), 4);
    assert_eq!(count(&properties, "KERNELS_JOINED"), 4);
    let definitions = archive.definitions();
    let rows: BTreeMap<&str, (&str, &str)> = definitions
        .lines()
        .filter(|line| line.starts_with("LOCATION ") && line.contains("\"CUDA stream "))
        .map(|line| {
            let number = line.split_whitespace().nth(1).expect("a number");
            let mut texts = line.split('"').skip(1).step_by(2);
            let (stream, gpu) = (texts.next().expect("a name"), texts.next().expect("a group"));
            (number, (stream, gpu.split(" [").next().expect("a name")))
        })
        .collect();
    let expected = BTreeSet::from([
        ("CUDA stream 58", "GPU 0"),
        ("CUDA stream 59", "GPU 1"),
        ("CUDA stream 60", "GPU 2"),
        ("CUDA stream 61", "GPU 3"),
    ]);
    assert_eq!(rows.values().copied().collect::<BTreeSet<_>>(), expected);
    // One kernel each, under the id of its own launch.
    let events = archive.events();
    let lines: Vec<&str> = events.lines().collect();
    let mut ids = BTreeSet::new();
    let mut rows_with_kernels = BTreeSet::new();
    for pair in lines.windows(2) {
        let words: Vec<&str> = pair[0].split_whitespace().collect();
        if words.first() == Some(&"ENTER") && rows.contains_key(words[1]) {
            assert!(pair[0].contains("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), "{}", pair[0]);
            let (_, id) = pair[1].split_once("\"nccl.external_correlation\"").expect("an id");
            ids.insert(id.split(';').nth(2).expect("a value").split(')').next());
            rows_with_kernels.insert(words[1]);
        }
    }
    assert_eq!((ids.len(), rows_with_kernels.len()), (4, 4), "{rows:?}");
}

/// A job with a CUPTI that cannot be used: it is done by events, and one line says why and what to do.
fn cupti_is_refused(variables: &[(&str, &str)], words: &[&str]) {
    let Some(library) = nccl_library("2.28.9") else {
        return;
    };
    let scratch = Scratch::new();
    libcupti(&scratch);
    let mut all = vec![("NCCL_OTF2_GPU", "cupti")];
    all.extend(variables);
    let mut job = nccl_job(&scratch, &library, &all);
    let ended = run_within(Duration::from_secs(120), &mut job).with_code(0);
    let archive = scratch.archive();
    no_faults(&archive);
    let properties = archive.properties();
    assert_eq!(properties["NCCL::GPU::BACKEND"], "events", "{ended}");
    assert!(count(&properties, "LAUNCHES") > 0);
    // One line in each of the two processes.
    let said: Vec<&str> =
        ended.stderr.lines().filter(|line| line.starts_with("nccl-otf2: GPU work is timed by CUDA events")).collect();
    assert_eq!(said.len(), 2, "{ended}");
    for words in words {
        assert!(said[0].contains(words), "{words}: {}", said[0]);
        assert!(properties["NCCL::GPU::NOTICES"].contains(words), "{properties:#?}");
    }
}

#[test]
fn cupti_that_another_tool_has() {
    cupti_is_refused(
        &[("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another")],
        &["(39)", "CUPTI for Another", "run without the other tool"],
    );
}

#[test]
fn cupti_that_is_newer_than_the_driver() {
    cupti_is_refused(
        &[("FAKECUPTI_API", "24"), ("FAKECUPTI_INIT", "15")],
        &["CUPTI_ERROR_NOT_INITIALIZED (15)", "newer than the GPU driver"],
    );
}

#[test]
fn cupti_that_is_not_there() {
    cupti_is_refused(&[("NCCL_OTF2_CUPTI_LIB", "/nowhere/libcupti.so.12")], &["/nowhere/libcupti.so.12"]);
}

#[test]
fn a_communicator_without_a_device_changes_no_way() {
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
