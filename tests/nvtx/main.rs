//! Ranges as users have them: a program in Python with the package `nvtx` around calls of the real libnccl, on the
//! GPU's double. The truth is `job.py`, which says what it does by name.

use std::collections::BTreeMap;
use std::process::Command;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::jobs::start_program;
use whole_plugin::machine::{RELEASE, tested};
use whole_plugin::process::{LIMIT, Running, run};
use whole_plugin::regions::Region;
use whole_plugin::scratch::Scratch;

/// A job of two ranks that do these parts of `job.py`. `None` if the machine lacks something.
struct Job {
    scratch: Scratch,
    release: &'static str,
    nvtx: bool,
    profiler: bool,
    steps: &'static str,
}

impl Job {
    fn new(release: &'static str) -> Self {
        Self { scratch: Scratch::new(), release, nvtx: true, profiler: true, steps: "none" }
    }

    fn start(&self, parts: &[&str]) -> Option<Vec<Running>> {
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(self.scratch.path().join("library.so"));
        let _built = run(compiler.arg(built::root().join("tests/nvtx/library.c")).arg("-ldl")).with_code(0);
        start_program(&self.scratch, self.release, parts, |command| {
            command.env("NCCL_OTF2_STEPS", self.steps);
            if self.nvtx {
                command.env("NVTX_INJECTION64_PATH", built::plugin());
            }
            if self.profiler {
                command.env("NCCL_PROFILER_PLUGIN", built::plugin());
            }
        })
    }

    fn stats(&self, words: &[&str]) -> serde_json::Value {
        let mut command = self.scratch.tool(&["stats", "out", "--json"]);
        let ended = run(command.args(words)).with_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }

    /// The archive of a job that ends well.
    fn archive(&self, parts: &[&str]) -> Option<Archive> {
        for running in self.start(parts)? {
            let _ended = running.wait(LIMIT).with_code(0);
        }
        let _finalized = self.scratch.finalize().with_code(0);
        Some(self.scratch.sound_archive())
    }
}

fn named<'a>(regions: &'a [Region], name: &str) -> Vec<&'a Region> {
    regions.iter().filter(|region| region.name == name).collect()
}

fn is_within(inner: &Region, outer: &Region) -> bool {
    inner.location == outer.location
        && inner.group == outer.group
        && outer.start_ns <= inner.start_ns
        && inner.end_ns <= outer.end_ns
}

fn tally(regions: &[Region], of: impl Fn(&Region) -> bool) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for region in regions.iter().filter(|region| of(region)) {
        *tally.entry(region.name.as_str()).or_default() += 1;
    }
    tally
}

/// The same program on a release whose profiler interface reports no calls, and on those that report them.
#[test]
fn ranges_and_calls_are_there_once_on_all_releases() {
    for release in tested(["2.23.4", "2.28.9", "2.32.3"], |release| release) {
        let job = Job::new(release);
        let Some(archive) = job.archive(&["steps", "split", "empty", "unbalanced", "threads", "fork"]) else {
            return;
        };
        let regions = archive.regions();
        let calls = tally(&regions, |region| region.name.starts_with("ncclComm") || region.name == "ncclAllReduce");
        // Three steps, one in the split communicator, one of no element; each also is an operation but the last.
        let calls_of =
            |name: &str| named(&regions, name).into_iter().filter(|region| region.location.starts_with("API")).count();
        assert_eq!(calls_of("ncclAllReduce"), 2 * 5, "{release}: {calls:?}");
        assert_eq!(calls_of("ncclCommSplit"), 2, "{release}: {calls:?}");
        assert_eq!(calls_of("ncclCommInitRank"), 2, "{release}: {calls:?}");
        assert_eq!(calls_of("ncclCommDestroy"), 2 * 2, "{release}: {calls:?}");

        let steps = named(&regions, "step #");
        let mut numbers: Vec<_> = steps.iter().map(|region| region.number("nvtx.number")).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 0, 1, 1, 2, 2].map(Some), "{release}");
        for step in &steps {
            let payload = step.number("nvtx.number").map(|number| 10 * number);
            assert_eq!((step.text("nvtx.domain"), step.text("nvtx.category")), (Some("app"), Some("train")));
            assert_eq!((step.number("nvtx.payload_signed"), step.number("nvtx.color")), (payload, Some(0xff)));
            let inside =
                |name: &str| named(&regions, name).into_iter().filter(|region| is_within(region, step)).count();
            assert_eq!((inside("forward"), inside("backward"), inside("ncclAllReduce")), (1, 1, 1), "{release}");
        }
        // Operations run on another location, at another time.
        let in_steps = regions.iter().filter(|region| {
            region.name == "NCCL AllReduce" && region.text("nvtx.ranges") == Some("whole job > step # > backward")
        });
        assert_eq!(in_steps.filter(|region| region.location.starts_with("NCCL")).count(), 2 * 3, "{release}");
        // Open when recording began, at the first communicator.
        for name in ["whole job", "setup"] {
            let init = named(&regions, "ncclCommInitRank");
            assert!(
                init.iter().all(|region| named(&regions, name).iter().any(|open| is_within(region, open))),
                "{release}"
            );
        }
        assert!(named(&regions, "before everything").is_empty(), "it ended before anything was recorded");
        assert_eq!(named(&regions, "worker").len(), 2 * 4, "{release}");
        let handed_over = named(&regions, "handed over");
        assert!(handed_over.len() == 2 && handed_over.iter().all(|region| region.number("nccl.unfinished").is_none()));
        let left_open = named(&regions, "left open");
        assert!(
            left_open.len() == 2 && left_open.iter().all(|region| region.number("nccl.closed") == Some(1)),
            "{left_open:?}"
        );
        assert_eq!(named(&regions, "all are back").len(), 2, "{release}");
        assert!(named(&regions, "in the child").is_empty(), "a forked child records nothing");
        assert_eq!((archive.count("RANGES_UNBALANCED_POPS"), archive.count("RANGES_LOST")), (10, 0), "{release}");
    }
}

/// What `stats` says of phases, steps and communicators: sums over two ranks.
#[test]
fn stats_tells_phases_steps_and_communicators() {
    let job = Job::new(RELEASE);
    if job.archive(&["steps", "split"]).is_none() {
        return;
    }
    let stats = |words: &[&str]| job.stats(words);
    let report = stats(&[]);
    let phases = report["phases"].as_array().expect("phases");
    let phase = |path: &[&str]| phases.iter().find(|phase| phase["path"] == serde_json::json!(path)).expect("a phase");
    let backward = phase(&["whole job", "step #", "backward"]);
    // An all-reduce of 1000 floats in each of three steps on two ranks.
    assert_eq!(
        (&backward["ranges"], &backward["operations"], &backward["bytes"]),
        (&6.into(), &6.into(), &24_000.into())
    );
    assert_eq!(phase(&["whole job", "step #", "forward"])["operations"], 0);
    assert_eq!(phase(&["whole job"])["operations"], 2, "that of the split communicator");
    let steps = &report["steps"];
    let numbers: Vec<_> =
        steps["steps"].as_array().expect("steps").iter().map(|step| step["number"].as_u64()).collect();
    assert_eq!(
        (&steps["name"], &steps["processes"], numbers),
        (&"step #".into(), &2.into(), [0, 1, 2].map(Some).into())
    );
    assert_eq!(stats(&["--step", "forward"])["steps"]["name"], "forward");
    // A step of which only a part is in the time does not count, nor a call before it.
    let inside_second = format!("{}ns", steps["steps"][1]["start_ns"].as_u64().expect("a time") + 1);
    let later = stats(&["--from", &inside_second]);
    assert_eq!(
        [&later["steps"]["steps"][0]["number"], &later["steps"]["steps"][1]],
        [&2.into(), &serde_json::Value::Null]
    );
    assert!(!later["communicator_calls"].to_string().contains("ncclCommInitRank"), "{later:#}");
    let calls = report["communicator_calls"].as_array().expect("calls");
    let functions: Vec<_> = calls.iter().map(|call| (call["function"].as_str(), call["ranks"].as_u64())).collect();
    let expected = ["ncclCommInitRank", "ncclCommSplit", "ncclCommDestroy", "ncclCommDestroy"];
    assert_eq!(functions, expected.map(|name| (Some(name), Some(2))));
}

#[test]
fn ranges_that_only_launch_are_not_steps() {
    let job = Job::new(RELEASE);
    if job.archive(&["launches"]).is_none() {
        return;
    }
    let report = job.stats(&[]);
    assert_eq!(report["steps"], serde_json::Value::Null);
    let functions: Vec<_> =
        report["communicator_calls"].as_array().expect("calls").iter().map(|call| call["function"].as_str()).collect();
    assert_eq!(functions, [Some("ncclCommInitRank"), Some("ncclCommDestroy")], "ncclCommCount neither makes nor ends");
    let named = job.stats(&["--step", "module #"]);
    let steps = named["steps"]["steps"].as_array().expect("the steps that were asked for");
    let numbers: Vec<_> = steps.iter().map(|step| step["number"].as_u64()).collect();
    assert_eq!(numbers, [0, 1, 2, 3].map(Some), "ids do not count");
}

#[test]
fn the_parent_of_a_split_communicator_is_known() {
    let job = Job::new("2.32.3");
    let Some(archive) = job.archive(&["split"]) else {
        return;
    };
    let regions = archive.regions();
    for split in named(&regions, "ncclCommSplit") {
        let all_reduce = named(&regions, "ncclAllReduce");
        assert_eq!(split.text("nvtx.ranges"), Some("whole job > build groups"));
        let [new, parent] = ["nccl.comm_id", "nccl.parent_comm_id"].map(|name| split.number(name).expect(name));
        assert!(new != parent && !all_reduce.is_empty(), "{split:?}");
        assert_eq!((split.number("nccl.ranks"), split.number("nccl.split_color")), (Some(2), Some(0)));
    }
    // Nor does a job without splits lack what NVTX would have shown.
    let job = Job::new("2.32.3");
    for archive in [archive, job.archive(&["steps"]).expect("as above")] {
        let unreported = &archive.properties()["NCCL::UNREPORTED"];
        assert!(!unreported.contains("which communicator another was split from"), "{unreported}");
    }
}

/// What its NVTX said stays, though its tables and strings are gone; NVTX's domain is the same when it comes back.
#[test]
fn a_library_with_nvtx_of_its_own_is_unloaded() {
    let job = Job::new("2.32.3");
    let Some(archive) = job.archive(&["unloaded", "steps"]) else {
        return;
    };
    let regions = archive.regions();
    let outer = named(&regions, "of the library");
    assert_eq!(outer.len(), 2);
    for range in outer {
        assert_eq!((range.text("nvtx.domain"), range.number("nccl.unfinished")), (Some("library"), None), "{range:?}");
        for inner in ["without it", "of the library, again"] {
            assert!(named(&regions, inner).iter().any(|region| is_within(region, range)), "{inner}: {regions:?}");
        }
    }
    let all_reduces = ["ncclAllReduce", "NCCL AllReduce"].into_iter().flat_map(|name| named(&regions, name));
    let inside = Some("whole job > of the library > without it");
    // A call and an operation on each rank.
    assert_eq!(all_reduces.filter(|region| region.text("nvtx.ranges") == inside).count(), 2 * 2);
    assert_eq!((named(&regions, "step #").len(), archive.count("RANGES_UNBALANCED_POPS")), (2 * 3, 0));
}

#[test]
fn names_and_levels_have_bounds_that_are_counted() {
    let job = Job::new("2.32.3");
    let Some(archive) = job.archive(&["nested=64", "nested=140", "names=20000"]) else {
        return;
    };
    // One level is the whole job's.
    assert_eq!(archive.count("RANGES_TOO_DEEP"), 2 * (140 + 1 - 128));
    let others = archive.count("RANGES_OTHER_NAMES");
    // 3584 names are the program's, of which these are not the first.
    assert!(others > 2 * (20_000 - 3584) && others < 2 * (20_000 - 3500), "{others}");
    let regions = archive.regions();
    assert_eq!(named(&regions, "deep").len(), 2 * (64 + 127));
    let shown = regions.iter().filter(|region| region.name.starts_with("name") || region.name == "(other names)");
    assert_eq!(shown.count(), 2 * 20_000);
    let calls = named(&regions, "ncclCommDestroy");
    assert_eq!(calls.len(), 2, "NCCL's names find room");
}

#[test]
fn a_killed_process_has_its_open_ranges() {
    let job = Job::new(RELEASE);
    let Some(running) = job.start(&["steps", "kill"]) else {
        return;
    };
    for one in running {
        let _killed = one.wait(LIMIT);
    }
    let _finalized = job.scratch.finalize().with_code(0);
    let regions = job.scratch.sound_archive().regions();
    for name in ["whole job", "to the end", "for any thread"] {
        let open = named(&regions, name);
        assert!(
            open.len() == 2 && open.iter().all(|region| region.number("nccl.unfinished") == Some(1)),
            "{name}: {open:?}"
        );
    }
    assert_eq!(named(&regions, "step #").len(), 6);
}

/// Each half works without the other.
#[test]
fn the_injection_and_the_profiler_plugin_need_not_meet() {
    let alone = Job { profiler: false, ..Job::new("2.32.3") };
    let Some(running) = alone.start(&["steps", "threads"]) else {
        return;
    };
    for one in running {
        let _ended = one.wait(LIMIT).with_code(0);
    }
    assert!(!alone.scratch.out().exists(), "without the profiler plugin nothing is written");
    let without = Job { nvtx: false, ..Job::new("2.32.3") };
    let Some(archive) = without.archive(&["steps"]) else {
        return;
    };
    let regions = archive.regions();
    assert!(named(&regions, "step #").is_empty());
    assert!(regions.iter().all(|region| region.text("nvtx.ranges").is_none()));
}

#[test]
fn only_steps_that_the_program_names_are_recorded() {
    for release in tested(["2.23.4", "2.32.3"], |release| release) {
        let job = Job { steps: "step:2-3,5-", ..Job::new(release) };
        let Some(archive) = job.archive(&["evaluated_steps", "split"]) else {
            return;
        };
        let regions = archive.regions();
        let operations =
            named(&regions, "NCCL AllReduce").into_iter().filter(|region| region.location.starts_with("NCCL"));
        let mut sequences: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for operation in operations {
            sequences.entry(operation.location.clone()).or_default().push(operation.number("nccl.seq"));
        }
        // Three a step, of which the last one is outside; NCCL counts from 0.
        let expected = [3, 4, 6, 7, 12, 13, 15, 16].map(Some);
        assert!(sequences.len() == 2 && sequences.values().all(|found| *found == expected), "{release}: {sequences:?}");
        assert_eq!(named(&regions, "step #").len(), 2 * 6, "{release}: ranges are all there");
        // The other thread has no ranges of its own. Before 2.27 NCCL does not say whether the process has other ranks.
        let other = (release == "2.32.3").then_some("whole job > step #");
        let all_reduces =
            named(&regions, "NCCL AllReduce").into_iter().filter(|region| region.number("nccl.bytes") == Some(8000));
        let other_ranges: Vec<_> = all_reduces.map(|region| region.text("nvtx.ranges")).collect();
        assert!(
            !other_ranges.is_empty() && other_ranges.iter().all(|ranges| *ranges == other),
            "{release}: {other_ranges:?}"
        );
        let properties = archive.properties();
        let list = &properties["NCCL::MEASUREMENT::LIST"];
        for line in ["off, ", "on, ", "by a step, collectives 4-5", "collectives 16-17", "before collective 1"] {
            assert!(list.contains(line), "{release}: {line}: {list}");
        }
        // The ranks are compared by the numbers of their collectives.
        assert!(!properties.keys().any(|name| name.contains("MISMATCH") || name.contains("BEHIND")), "{properties:?}");
        assert_eq!(properties.get("NCCL::MATCHING_UNKNOWN::LIST"), None, "{release}");
        // Readers match records by order, and no rank knows what the others did in their steps.
        assert!(!archive.events().contains("MPI_COLLECTIVE_END"), "{release}");
    }
}

#[test]
fn a_step_that_never_begins_is_stated() {
    let job = Job { steps: "stepp", ..Job::new("2.32.3") };
    let Some(running) = job.start(&["evaluated_steps"]) else {
        return;
    };
    for one in running {
        let ended = one.wait(LIMIT).with_code(0);
        assert!(ended.stderr.contains(": the program pushed no range \"stepp\""), "{ended}");
    }
}

#[test]
fn steps_cannot_be_named_without_nvtx() {
    let job = Job { steps: "step", nvtx: false, ..Job::new("2.32.3") };
    let Some(running) = job.start(&["evaluated_steps"]) else {
        return;
    };
    for one in running {
        let ended = one.wait(LIMIT).with_code(0);
        assert!(ended.stderr.contains("NCCL_OTF2_STEPS names the range \"step\""), "{ended}");
    }
    let _finalized = job.scratch.finalize().with_code(0);
    let archive = job.scratch.sound_archive();
    assert_eq!(archive.count("COLLAPI::NOT_SELECTED"), 0);
    assert_eq!(archive.properties().get("NCCL::STEPS"), None, "the archive is of all steps");
}
