//! `nccl-otf2 export --format nccl-tests`, run by a shell with doubles of nccl-tests, and `stats --baseline` beside it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use whole_plugin::machine::RELEASE;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::{self, Job, play};

/// Real NCCL: four ranks in two processes, each of two threads.
fn job(scratch: &Scratch) -> Option<()> {
    let words = ["--procs", "2", "--threads", "2", "--rounds", "4", "--ops", "allreduce,allgather,sendrecv"];
    let _ran = run(&mut scratch.run_nccl(RELEASE, &[], &words)?).with_code(0);
    Some(())
}

fn stats(scratch: &Scratch, options: &[&str]) -> Value {
    let said = run(scratch.tool(&["stats", "out", "--json"]).args(options)).with_code(0).stdout;
    serde_json::from_str(&said).expect("JSON")
}

fn program(scratch: &Scratch, name: &str, script: &str) {
    let path = scratch.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
}

#[test]
fn the_script_measures_what_the_job_ran() {
    let scratch = Scratch::new();
    let Some(()) = job(&scratch) else { return };
    let mut tool = scratch.tool(&["export", "--format", "nccl-tests", "out", "-o", "baseline.sh"]);
    let _exported = run(&mut tool).with_code(0);
    program(&scratch, "mpirun", "echo \"mpirun $1 $2\"; shift 2; exec \"$@\"");
    for test in ["all_reduce_perf", "all_gather_perf", "sendrecv_perf"] {
        program(&scratch, test, "echo \"ran ${0##*/} $*\"");
    }
    let mut shell = scratch.plain("sh");
    shell.arg("baseline.sh").env("MPIRUN", "./mpirun").env("NCCL_TESTS", ".");
    let said = run(&mut shell).with_code(0).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.chunks(3).all(|lines| lines[1] == "mpirun -n 2"), "{said}");
    let report = stats(&scratch, &[]);
    for (test, function, factor, tail) in [
        ("all_reduce_perf", "ncclAllReduce", 1, " -o sum"),
        ("all_gather_perf", "ncclAllGather", 4, ""),
        ("sendrecv_perf", "ncclSend", 1, ""),
    ] {
        let named = format!("# Collective test starting: {test}");
        assert!(lines.contains(&named.as_str()), "{said}");
        let ran: Vec<&str> = lines.iter().copied().filter(|line| line.starts_with(&format!("ran {test} "))).collect();
        assert!(ran.iter().all(|line| line.contains(" -f 2 -t 2 -g 1 -d ") && line.ends_with(tail)), "{said}");
        let classes =
            report["operations"].as_array().expect("a list").iter().filter(|class| class["function"] == function);
        for bytes in classes.flat_map(|class| [&class["bytes_min"], &class["bytes_max"]]) {
            let bytes = bytes.as_u64().expect("a number") * factor;
            let number = |line: &str, option: &str| {
                let words: Vec<&str> = line.split(' ').collect();
                let at = words.iter().position(|word| *word == option).expect("the option");
                words[at + 1].parse::<u64>().expect("a number")
            };
            let is_measured = |line: &&str| number(line, "-b") <= bytes && bytes <= number(line, "-e");
            assert!(ran.iter().any(is_measured), "{function} of {bytes}: {said}");
        }
    }
}

/// Text as nccl-tests print it, of twice the bandwidth of the all-reduces.
fn twice(report: &Value, hosts: [&str; 4]) -> String {
    let mut text = "# Collective test starting: all_reduce_perf\n# Using devices\n".to_owned();
    for (rank, host) in hosts.iter().enumerate() {
        writeln!(text, "#  Rank  {rank} Group  0 Pid {} on {host} device {rank} [0000:0f:00] NVIDIA A100", 100 + rank)
            .expect("text");
    }
    text += "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n";
    let classes = report["operations"].as_array().expect("a list").iter();
    for class in classes.filter(|class| class["function"] == "ncclAllReduce") {
        let rate = ["transfer_busbw", "busbw"].map(|name| class[name]["median"].as_f64());
        let (bytes, rate) = (class["bytes_max"].as_u64().expect("a number"), rate[0].or(rate[1]).expect("a rate"));
        let us = bytes as f64 * 1.5 / (2.0 * rate) * 1e6;
        writeln!(text, "{bytes} {} float sum -1 {us} 0.00 0.00 0", bytes / 4).expect("text");
    }
    text
}

#[test]
fn stats_say_what_share_of_a_baseline_was_reached() {
    let scratch = Scratch::new();
    let Some(()) = job(&scratch) else { return };
    let report = stats(&scratch, &[]);
    let share = |report: &Value, function: &str| {
        let classes = report["operations"].as_array().expect("a list").iter();
        let shares =
            classes.filter(|class| class["function"] == function).map(|class| class["baseline"]["share"].as_f64());
        shares.collect::<Vec<_>>()
    };
    assert!(share(&report, "ncclAllReduce").iter().all(Option::is_none), "without a baseline");
    let basis = |report: &Value| report["verdict"]["basis"].to_string();
    for (hosts, wanted) in [(["node"; 4], Some(0.5)), (["node", "node", "other", "other"], None)] {
        fs::write(scratch.path().join("baseline.txt"), twice(&report, hosts)).expect("written");
        let compared = stats(&scratch, &["--baseline", "baseline.txt"]);
        let found = share(&compared, "ncclAllReduce");
        let is_wanted = |share: &Option<f64>| match (share, wanted) {
            (Some(share), Some(wanted)) => (share - wanted).abs() < 0.01,
            (share, wanted) => share.is_none() && wanted.is_none(),
        };
        assert!(!found.is_empty() && found.iter().all(is_wanted), "{found:?}");
        assert!(share(&compared, "ncclAllGather").iter().all(Option::is_none));
        assert_eq!(basis(&compared).contains("AllReduce on 4 ranks (2 + 2 by host)"), wanted.is_none());
    }
    // The archive itself.
    let itself = stats(&scratch, &["--baseline", "out"]);
    for function in ["ncclAllReduce", "ncclAllGather"] {
        let shares = share(&itself, function);
        assert!(
            shares.iter().all(|share| share.is_some_and(|share| (share - 1.0).abs() < 1e-9)),
            "{function}: {shares:?}"
        );
    }
    fs::write(scratch.path().join("other.txt"), "nothing\n").expect("written");
    let refused = run(&mut scratch.tool(&["stats", "out", "--baseline", "other.txt"])).with_code(2);
    assert!(refused.stderr.contains("other.txt: there is no table of nccl-tests in it"), "{refused}");
}

/// The ranks of the job computed, and called nothing.
#[test]
fn an_archive_without_operations_is_refused() {
    let scratch = Scratch::new();
    let job = Job { has_kernels: true, ..Job::healthy(1) };
    let mut ranks = play(&job);
    ranks.iter_mut().for_each(Vec::clear);
    let _anchor = synthetic::write(&scratch.out(), &job, &ranks);
    for format in ["chakra", "nccl-tests"] {
        let refused = run(&mut scratch.tool(&["export", "--format", format, "out", "-o", "made"])).with_code(2);
        assert!(refused.stderr.contains("no NCCL operation to export; `nccl-otf2 info`"), "{format}: {refused}");
        assert!(!scratch.path().join("made").exists(), "{format}");
    }
}
