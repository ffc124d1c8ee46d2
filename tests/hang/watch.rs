//! `nccl-otf2 watch` beside jobs of real NCCL: what hangs is reported once, and a job that is well is not.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use whole_plugin::process::{LIMIT, Running, start, wait_for};
use whole_plugin::scratch::Scratch;

use crate::job::suspect;

/// Watches the job that will be in `out`: each report becomes a line of `reports`.
fn watch(scratch: &Scratch, arguments: &[&str]) -> Running {
    let on_hang = "tr -d '\\n' > one.$$ && echo >> one.$$ && cat one.$$ >> reports";
    let mut command = scratch.tool(&["watch", "out", "--interval", "0.2", "--on-hang", on_hang]);
    start(command.args(arguments))
}

/// The reports up to now.
fn reports(scratch: &Scratch) -> Vec<Value> {
    let reports = fs::read_to_string(scratch.path().join("reports")).unwrap_or_default();
    reports.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_process_that_dies_is_reported() {
    let scratch = Scratch::new();
    let watch = watch(&scratch, &["--hang-after", "3000"]);
    let job =
        ["--procs", "2", "--threads", "1", "--ops", "one", "--rounds", "0", "--kill-after", "1", "--kill-rank", "1"];
    let Some(mut job) = scratch.nccl("2.32.3", &job) else { return watch.kill() };
    let job = start(&mut job);
    // Before somebody waits for it the verdict is that it died.
    wait_for("report", || reports(&scratch).iter().any(|report| suspect(report).0 == "gone").then_some(()));
    let reports = reports(&scratch);
    assert!(reports.len() == 1 || reports.len() == 2 && reports[0]["verdict"]["kind"] == "died", "{reports:#?}");
    assert_eq!(reports.last().map(|report| suspect(report).1), Some(1), "{reports:#?}");
    watch.signal("TERM");
    let _ended = watch.wait(LIMIT).with_code(0);
    job.kill();
}

#[test]
fn a_job_that_is_well_is_not_reported() {
    let scratch = Scratch::new();
    let watch = watch(&scratch, &["--hang-after", "60", "--until-end"]);
    let job = ["--procs", "2", "--threads", "2", "--ops", "late", "--rounds", "20"];
    let Some(mut job) = scratch.nccl("2.32.3", &job) else { return watch.kill() };
    let _well = start(&mut job).wait(LIMIT).with_code(0);
    let ended = watch.wait(LIMIT).with_code(0);
    assert_eq!((ended.stdout.as_str(), reports(&scratch).len()), ("", 0), "{ended}");
}

/// A process begins to stand still most of the time: the other one waits in every all-reduce.
#[test]
fn collectives_that_become_slow_are_reported() {
    let scratch = Scratch::new();
    let slow = ["--hang-after", "60", "--slow-past", "5", "--on-slow", "cat > slow && mv slow slow.json"];
    let watch = watch(&scratch, &slow);
    let job = ["--procs", "2", "--threads", "1", "--ops", "one", "--rounds", "0", "--timeout", "900"];
    let Some(mut job) = scratch.nccl("2.32.3", &job) else { return watch.kill() };
    let job = start(job.env("NCCL_OTF2_GPU", "off"));
    scratch.wait_for_recording(2);
    std::thread::sleep(Duration::from_secs(6));
    let part = scratch.recording().pop().and_then(|part| Some(part.file_name()?.to_str()?.to_owned())).expect("a part");
    let pid = part.rsplit('-').nth(1).expect("a process id");
    let stand_still = format!("while kill -STOP {pid} && sleep 0.2 && kill -CONT {pid} && sleep 0.002; do :; done");
    let stand_still = start(scratch.plain("sh").args(["-c", &stand_still]));
    let report = wait_for("report", || fs::read_to_string(scratch.path().join("slow.json")).ok());
    stand_still.kill();
    watch.signal("TERM");
    let ended = watch.wait(LIMIT).with_code(0);
    job.kill();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let row = &report["operations"][0];
    assert_eq!((&row["function"], &row["timing"]), (&"ncclAllReduce".into(), &"proxy".into()), "{report:#}");
    assert!(row["algbw"].as_f64() < row["usual_algbw"].as_f64().map(|usual| usual / 2.0), "{report:#}");
    assert!(ended.stdout.contains(" SLOW: ncclAllReduce of 256 KiB to 512 KiB in "), "{ended}");
}
