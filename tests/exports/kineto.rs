//! `nccl-otf2 export --format kineto`, read by HTA (HolisticTraceAnalysis, a Python package): a file for each rank, and
//! the same events in traces as torch.profiler makes them. `tests/support/kineto.py` holds them against the archive.

use std::fs;
use std::path::Path;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::jobs::{jobs, ranges};
use whole_plugin::machine::{RELEASE, python_with, two_process_streams};
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

/// Asks Python; nothing where HTA is not installed.
fn asked(scratch: &Scratch, words: &[&str]) -> Option<Value> {
    let mut python = scratch.plain(python_with("hta")?);
    python.arg("-B").arg(built::root().join("tests/support/kineto.py")).args(words);
    let said = run(&mut python).with_code(0).stdout;
    Some(said.lines().last().map_or(Value::Null, |line| serde_json::from_str(line).expect("JSON")))
}

/// Real NCCL on the stand-in for a GPU: four ranks in two processes or in four.
fn job(scratch: &Scratch, shape: [&str; 2], operations: &str) -> Option<()> {
    job_with(scratch, shape, operations, &[])
}

/// The same, each round in a range `step N`.
fn job_with_steps(scratch: &Scratch, shape: [&str; 2], operations: &str) -> Option<()> {
    job_with(scratch, shape, operations, &["--ranges"])
}

fn job_with(scratch: &Scratch, shape: [&str; 2], operations: &str, more: &[&str]) -> Option<()> {
    let words = ["--procs", shape[0], "--threads", shape[1], "--rounds", "4", "--ops", operations];
    let words = [&words[..], more].concat();
    let _ran = run(&mut scratch.run_nccl(RELEASE, &["--events", "full"], &words)?).with_code(0);
    Some(())
}

fn export(scratch: &Scratch, words: &[&str]) -> FinishedProcess {
    run(&mut scratch.tool(&[&["export", "--format", "kineto", "out"], words].concat()))
}

/// HTA finds the kernels of each rank, their launches, and as much time in communication and the same steps as `stats`
/// does; returns the numbers of the steps.
fn a_file_for_each_rank(scratch: &Scratch) -> Vec<u64> {
    let report = run(&mut scratch.tool(&["stats", "--json", "out"])).with_code(0).stdout;
    fs::write(scratch.path().join("report.json"), report).expect("a file");
    let _exported = export(scratch, &["-o", "kineto"]).with_code(0);
    let Some(said) = asked(scratch, &["alone", "out/traces.otf2", "report.json", "kineto"]) else {
        return Vec::new();
    };
    assert!(said["communication_ns"].as_f64().expect("a number") > 0.0, "{said}");
    said["steps"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

#[test]
fn hta_reads_a_job_of_processes_and_one_of_threads_with_messages_and_groups() {
    for (shape, operations) in [(["4", "1"], "one,allreduce"), (["2", "2"], "allreduce,sendrecv,group")] {
        let scratch = Scratch::new();
        let Some(()) = job(&scratch, shape, operations) else { return };
        let _none = a_file_for_each_rank(&scratch);
    }
}

/// Also where a process has a thread for each of its ranks, and where the program itself names torch.profiler's steps,
/// of which the archive keeps `ProfilerStep##` and the number.
#[test]
fn hta_lists_the_steps_of_the_program_on_each_rank() {
    if python_with("hta").is_none() {
        return;
    }
    for shape in [["4", "1"], ["2", "2"]] {
        let scratch = Scratch::new();
        let Some(()) = job_with_steps(&scratch, shape, "allreduce") else { return };
        assert_eq!(a_file_for_each_rank(&scratch), [0, 1, 2, 3], "{shape:?}");
    }
    let scratch = Scratch::new();
    let Some(()) = ranges(&scratch, &["steps=ProfilerStep#"]) else { return };
    assert_eq!(a_file_for_each_rank(&scratch), [0, 1, 2]);
}

/// The steps of torch.profiler stay the only ones.
#[test]
fn a_trace_of_torch_without_steps_gets_the_programs() {
    let scratch = Scratch::new();
    let Some(()) = job_with_steps(&scratch, ["2", "1"], "allreduce") else { return };
    let Some(_) = asked(&scratch, &["made", "out/traces.otf2", "torch"]) else { return };
    let into = |out: &str| {
        let traces = listed(&scratch.path().join("torch"));
        let words: Vec<&str> = ["-o", out, "--into"].into_iter().chain(traces.iter().map(String::as_str)).collect();
        let _exported = export(&scratch, &words).with_code(0);
        asked(&scratch, &["steps", out]).expect("HTA")
    };
    // The middle of the job was traced: two of its four steps, and what they touch of the others.
    let said = into("both");
    let numbers: Vec<u64> = said["HTA"]["0"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    assert!([1, 2].iter().all(|number| numbers.contains(number)), "{said}");
    assert_eq!(said["files"][0], said["HTA"]["0"], "{said}");
    assert_eq!(said["files"][1], said["HTA"]["1"], "{said}");
    let _ = asked(&scratch, &["stepped", "torch"]);
    assert_eq!(into("own"), serde_json::json!({"files": [[1000], [1000]], "HTA": {"0": [1000], "1": [1000]}}));
}

#[test]
fn hta_reads_kernels_that_cupti_reported() {
    let scratch = Scratch::new();
    std::os::unix::fs::symlink(built::fake_cupti(), scratch.path().join("libcupti.so.12")).expect("linked");
    let words = ["--procs", "2", "--threads", "2", "--rounds", "2", "--ops", "allreduce,sendrecv,group,graph"];
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "full"], &words) else { return };
    let _ran = run(job.env("LD_LIBRARY_PATH", scratch.path()).env("NCCL_OTF2_GPU", "cupti")).with_code(0);
    let _none = a_file_for_each_rank(&scratch);
}

#[test]
fn only_the_ranks_that_are_wanted_have_files() {
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(&two_process_streams())).with_code(0);
    let said = export(&scratch, &["-o", "kineto", "--rank", "1", "--json"]).with_code(0).stdout;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["files"], serde_json::json!(["kineto/rank-1.pt.trace.json"]));
    let trace = fs::read_to_string(scratch.path().join("kineto/rank-1.pt.trace.json")).expect("text");
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    assert_eq!(trace["distributedInfo"]["rank"], 1);
}

/// The network records of a file: `kineto.py` holds those of all ranks against the archive.
fn transfers(file: &Path) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&fs::read_to_string(file).expect("text")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let is_one = |event: &&Value| event["cat"] == "nccl_transfer" && !event["args"]["nccl.event"].is_null();
    let mut found: Vec<Value> = events.iter().filter(is_one).map(|event| event["args"].clone()).collect();
    found.sort_by_key(|args| args["nccl.event"].as_u64());
    found
}

#[test]
fn a_rank_that_shares_its_process_has_its_own_network_records() {
    let scratch = Scratch::new();
    let Some(()) = job(&scratch, ["2", "2"], "allreduce") else { return };
    let _all = export(&scratch, &["-o", "all"]).with_code(0);
    let said = export(&scratch, &["-o", "one", "--rank", "1", "--json"]).with_code(0).stdout;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["files"], serde_json::json!(["one/rank-1.pt.trace.json"]));
    let [all, one] = ["all", "one"].map(|folder| transfers(&scratch.path().join(folder).join("rank-1.pt.trace.json")));
    assert!(!all.is_empty());
    assert_eq!(all, one);
}

#[test]
fn hta_reads_recorded_jobs_the_demo_and_96_ranks() {
    for (_, scratch) in jobs() {
        let _steps = a_file_for_each_rank(&scratch);
    }
}

#[test]
fn traces_of_torch_keep_what_they_have_and_get_more() {
    let scratch = Scratch::new();
    let Some(()) = job(&scratch, ["2", "1"], "allreduce,sendrecv,group") else { return };
    let Some(_) = asked(&scratch, &["made", "out/traces.otf2", "torch"]) else { return };
    let mut traces: Vec<String> = listed(&scratch.path().join("torch"));
    let mut words = vec!["-o", "both", "--into"];
    words.extend(traces.iter().map(String::as_str));
    let _exported = export(&scratch, &words).with_code(0);
    let said = asked(&scratch, &["into", "out/traces.otf2", "torch", "both"]).expect("HTA");
    assert!(said["kernels"].as_u64() >= Some(20), "{said}");
    assert_eq!(said["enriched"], said["kernels"], "{said}");
    assert!(said["with waiting"].as_u64() > Some(0) && said["own tracks"].as_u64() >= Some(4), "{said}");

    // What cannot be related is refused, with the reason, and leaves nothing.
    let is_plain = |trace: &&String| !trace.ends_with(".gz");
    let plain = fs::read_to_string(traces.iter().find(is_plain).expect("one that is not compressed")).expect("text");
    let base = plain.split("\"baseTimeNanoseconds\": ").nth(1).and_then(|rest| rest.split(',').next()).expect("a base");
    let base = format!("\"baseTimeNanoseconds\": {base}");
    let with = |from: &str, to: &str| plain.replacen(from, to, 1);
    for (spoilt, why) in [
        (with(&base, "\"another\": 0"), "has no baseTimeNanoseconds"),
        (with(&base, "\"baseTimeNanoseconds\": 1000000000000000000"), "has nothing in common with the archive"),
        (with("\"rank\": 1,", "\"rank\": 7,"), "but the archive has 2 ranks"),
        (with("\"rank\": 1,", ""), "has no distributedInfo.rank"),
        (with("\"rank\": 1,", "\"rank\": 0,"), "is of another run or host"),
        (plain[..plain.len() / 2].to_owned(), "is not a trace of torch.profiler"),
    ] {
        fs::write(scratch.path().join("spoilt.json"), spoilt).expect("a file");
        refused(&scratch, "spoilt.json", why);
    }
    traces = listed(&scratch.path().join("both"));
    refused(&scratch, &traces[0], "already has the archive's events");
}

/// The names of all-gathers' and reduce-scatters' kernels end in RING_LL whatever ran. What can be two operations is
/// left as it was, and counted.
#[test]
fn kernels_say_how_they_ran_where_that_is_certain() {
    let scratch = Scratch::new();
    let words = ["--procs", "2", "--threads", "1", "--rounds", "6", "--ops", "allgather,reducescatter,calls28"];
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "full"], &words) else { return };
    let _ran = run(job.env("NCCL_PROTO", "Simple")).with_code(0);
    let Some(_) = asked(&scratch, &["made", "out/traces.otf2", "torch"]) else { return };
    let traces = listed(&scratch.path().join("torch"));
    let words: Vec<&str> = ["--json", "--into"].into_iter().chain(traces.iter().map(String::as_str)).collect();
    let _exported = export(&scratch, &[&["-o", "both"], &words[..]].concat()).with_code(0);
    let said = asked(&scratch, &["into", "out/traces.otf2", "torch", "both"]).expect("HTA");
    assert_eq!(said["enriched"], said["kernels"], "{said}");
    assert!(said["named LL, ran SIMPLE"].as_u64() >= Some(8) && said["all-to-alls"].as_u64() > Some(0), "{said}");

    let blurred = traces.iter().find(|trace| !trace.ends_with(".gz")).expect("one that is not compressed");
    let ids = asked(&scratch, &["blurred", blurred]).expect("Python");
    let exported = export(&scratch, &[&["-o", "blurred"], &words[..]].concat()).with_code(0).stdout;
    let exported: Value = serde_json::from_str(&exported).expect("JSON");
    let uncertain =
        |entry: &&Value| entry["reason"].as_str().is_some_and(|reason| reason.contains("match several operations"));
    let counted = exported["left_out"].as_array().and_then(|all| all.iter().find(uncertain)).expect("counted");
    assert_eq!(counted["events"], 2, "{exported}");
    let copy = scratch.path().join("blurred").join(Path::new(blurred).file_name().expect("a name"));
    let copy: Value = serde_json::from_str(&fs::read_to_string(copy).expect("text")).expect("JSON");
    for id in ids.as_array().expect("two") {
        let is_it = |event: &&Value| event["cat"] == "kernel" && &event["args"]["External id"] == id;
        let kernel = copy["traceEvents"].as_array().and_then(|all| all.iter().find(is_it)).expect("the kernel");
        assert!(kernel["args"].get("nccl.proto").is_none(), "{kernel}");
    }
}

/// Wall clocks that are seconds apart and drift: each trace is related by the clock of its own host.
#[test]
fn traces_of_several_hosts_are_related_each_by_its_own_clock() {
    let scratch = Scratch::new();
    let words = ["--procs", "3", "--threads", "1", "--rounds", "6", "--ops", "allreduce,sendrecv,broadcast"];
    let words = [&words[..], &["--host-clocks", "0,0;10000000000,50000;-7000000000,-50000"]].concat();
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "standard,ProxyStep"], &words) else { return };
    let _ran = run(&mut job).with_code(0);
    let clocks = "{\"nccl-host-0\": [0, 0], \"nccl-host-1\": [10000000000, 50000], \
                  \"nccl-host-2\": [-7000000000, -50000]}";
    let Some(_) = asked(&scratch, &["made", "out/traces.otf2", "torch", clocks]) else { return };
    let traces = listed(&scratch.path().join("torch"));
    let words: Vec<&str> = ["-o", "both", "--into"].into_iter().chain(traces.iter().map(String::as_str)).collect();
    let _exported = export(&scratch, &words).with_code(0);
    let said = asked(&scratch, &["into", "out/traces.otf2", "torch", "both", clocks]).expect("HTA");
    assert!(said["kernels"].as_u64() >= Some(20), "{said}");
    assert_eq!(said["enriched"], said["kernels"], "{said}");
    assert!(said["operations"].as_u64() >= Some(20), "{said}");
}

fn refused(scratch: &Scratch, trace: &str, why: &str) {
    let ended = export(scratch, &["-o", "refused", "--into", trace]).with_code(2);
    assert!(ended.stderr.contains(why) && ended.stderr.contains(trace), "{why}: {ended}");
    assert!(!scratch.path().join("refused").exists());
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut paths: Vec<String> = entries.map(|entry| entry.path().to_str().expect("UTF-8").to_owned()).collect();
    paths.sort();
    paths
}
