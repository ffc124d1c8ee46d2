//! The job's first `ncclCommInitRank`, to which one rank does not come. From 2.27 on NCCL calls the profiler plugin
//! only when all have.

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::tested;
use whole_plugin::process::{LIMIT, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use crate::job::suspect;

const CALL: &str = "ncclCommInitRank";

/// The times in the call of the ranks that are in it, once three of four wait for the last one.
fn waits(report: &Value) -> Option<Vec<u64>> {
    let rows = report["ranks"].as_array()?;
    let calls: Vec<&Value> = rows.iter().map(|row| &row["call"]).collect();
    let are_in_it = calls.len() == 3 && calls.iter().all(|call| call["name"] == CALL);
    (are_in_it && suspect(report) == ("never-came", 3, 3))
        .then(|| calls.iter().filter_map(|call| call["for_ns"].as_u64()).collect())
}

fn look(scratch: &Scratch, words: &[&str]) -> Value {
    let ended = run(scratch.tool(words).arg(scratch.out()));
    serde_json::from_str(&ended.stdout).unwrap_or_default()
}

#[test]
fn the_rank_that_does_not_come_is_named_and_when_it_comes_all_is_recorded() {
    for version in tested(["2.28.9", "2.32.3"], |release| release) {
        let scratch = Scratch::new();
        let go = scratch.path().join("go");
        let late = format!("3,{}", go.display());
        let job = ["--procs", "4", "--threads", "1", "--launcher", "--ops", "one", "--timeout", "900"];
        let Some(mut job) = scratch.run_nccl(version, &[], &[&job[..], &["--late-init", &late]].concat()) else {
            return;
        };
        let job = start(&mut job);
        let hang = ["hang", "--json", "--after", "1"];
        let (report, waited) = wait_for("three ranks that wait", || {
            let report = look(&scratch, &hang);
            waits(&report).map(|waited| (report, waited))
        });
        let text = report["verdict"]["line"].as_str().expect("a text");
        assert!(text.starts_with(&format!("HANG: rank 3 never reached {CALL}; ranks 0-2 wait for up to ")), "{text}");
        // There is no number yet of which there could be a wrong one.
        assert_eq!(look(&scratch, &["top", "--json"])["processes"].as_array().map(Vec::len), Some(3));
        let _metrics = run(scratch.tool(&["metrics", "--once"]).arg(scratch.out())).with_code(0);
        std::fs::write(&go, "").expect("written");
        let _ended = job.wait(LIMIT).with_code(0);

        let regions = scratch.sound_archive().regions();
        let mut lengths: Vec<u64> =
            regions.iter().filter(|region| region.name == CALL).map(|region| region.end_ns - region.start_ns).collect();
        lengths.sort_unstable();
        assert_eq!(lengths.len(), 4, "{version}: each is shown once: {regions:#?}");
        // Each look knows the clock anew.
        let shortest = waited.iter().min().expect("three") - 1_000_000;
        assert!(lengths[1..].iter().all(|length| *length > shortest), "{version}: {lengths:?}, waited {waited:?}");
        assert!(
            regions
                .iter()
                .filter(|region| region.name == CALL)
                .all(|region| region.number("nccl.unfinished").is_none())
        );
    }
}

#[test]
fn processes_that_were_killed_there_have_an_archive() {
    let scratch = Scratch::new();
    let never = scratch.path().join("never");
    let late = format!("3,{}", never.display());
    let job = ["--procs", "4", "--threads", "1", "--launcher", "--ops", "one", "--timeout", "900"];
    let Some(mut job) = scratch.nccl("2.32.3", &[&job[..], &["--late-init", &late]].concat()) else {
        return;
    };
    let job = start(job.env("NVTX_INJECTION64_PATH", built::plugin()));
    wait_for("three ranks that wait", || waits(&look(&scratch, &["hang", "--json", "--after", "2"])));
    job.kill();
    let report = wait_for("the end of all", || {
        let report = look(&scratch, &["hang", "--json", "--after", "2"]);
        let processes = report["processes"].as_array()?;
        processes.iter().all(|process| process["process_state"] == "gone").then_some(report)
    });
    let text = report["verdict"]["line"].as_str().expect("a text");
    assert!(waits(&report).is_some() && text.contains("ranks 0-2 waited"), "{report:#}");
    let _finalized = scratch.finalize().with_code(0);
    let regions = scratch.sound_archive().regions();
    let calls: Vec<_> = regions.iter().filter(|region| region.name == CALL).collect();
    assert!(calls.len() == 3 && calls.iter().all(|region| region.number("nccl.unfinished") == Some(1)), "{regions:#?}");
    let text = run(scratch.tool(&["hang"]).arg(scratch.out())).stdout;
    assert!(text.contains(CALL), "{text}");
}

/// NCCL reads its files after the call has begun, so the recording begins later.
#[test]
fn settings_in_the_files_of_nccl_count() {
    let scratch = Scratch::new();
    let file = scratch.path().join("nccl.conf");
    std::fs::write(&file, "NCCL_OTF2_EVENTS=CollApi\n").expect("written");
    let Some(mut job) = scratch.nccl("2.32.3", &["--procs", "2", "--threads", "1", "--ops", "one"]) else {
        return;
    };
    let _ended = run(job.env("NVTX_INJECTION64_PATH", built::plugin()).env("NCCL_CONF_FILE", file)).with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!(archive.regions().iter().filter(|region| region.name == CALL).count(), 2);
    let parts = std::fs::read_dir(scratch.out().join("parts")).expect("parts");
    for part in parts.flatten() {
        let process = std::fs::read_to_string(part.path().join("process.json")).expect("described");
        assert!(process.contains("CollApi") && !process.contains("ProxyOp"), "{process}");
    }
}
