//! Jobs about which NCCL reports nothing: silence is no all-clear, and silence that was asked for is no hang.

use std::time::Duration;
use whole_plugin::machine::tested;

use serde_json::Value;

use crate::job::Hanging;

/// NCCL reports nothing of the call that splits a communicator: rank 0 is in it, and rank 1 never comes.
#[test]
fn a_hang_that_nobody_recorded_is_no_all_clear() {
    let arguments = ["--procs", "2", "--threads", "1", "--ops", "one,split", "--skip-last", "1"];
    for version in tested(["2.28.9", "2.32.3"], |release| release) {
        let Some(job) = Hanging::start(version, &[("NCCL_OTF2_EVENTS", "standard")], &arguments) else {
            return;
        };
        // On a busy machine it is silent before its first collective, too.
        let called = |row: &Value| row["text"].as_str().is_some_and(|text| text.starts_with("ncclAllReduce"));
        let all_called = |rows: &Vec<Value>| rows.len() == 2 && rows.iter().all(called);
        let report = job.until("2", |report| {
            report["verdict"]["kind"] == "quiet" && report["quiet"]["ranks"].as_array().is_some_and(all_called)
        });
        assert_eq!(report["verdict"]["found"], true);
        let quiet = &report["quiet"];
        let ranks: Vec<u64> =
            quiet["ranks"].as_array().into_iter().flatten().filter_map(|row| row["rank"].as_u64()).collect();
        assert_eq!(ranks.iter().sum::<u64>(), 1, "{report:#}");
        for row in quiet["ranks"].as_array().into_iter().flatten() {
            let text = row["text"].as_str().expect("a text");
            assert!(text.starts_with("ncclAllReduce of 100 000 ncclFloat32 (collective 1)"), "{report:#}");
            assert_eq!(row["inside"], serde_json::json!([]), "{report:#}");
        }
        assert_eq!(quiet["reports_calls"], true);
        let text = job.look(&["--after", "2"]).with_code(1).stdout;
        assert!(text.starts_with("QUIET: NCCL has reported nothing for "), "{text}");
        for what in ["py-spy dump", "NCCL_DEBUG=INFO", "last seen", "inside NCCL: nobody"] {
            assert!(text.contains(what), "{what}: {text}");
        }
        // For one who knows that it is silent for as long as that.
        let patient = job.look(&["--after", "3000"]).with_code(0).stdout;
        assert!(patient.starts_with("No hang:"), "{patient}");
        let _dead = job.kill();
    }
}

/// While recording is off NCCL's calls are counted, and that is a sign of life.
#[test]
fn a_job_whose_recording_is_off_is_not_quiet_while_it_works() {
    let arguments = ["--procs", "2", "--threads", "1", "--ops", "one", "--rounds", "0"];
    let Some(job) = Hanging::start("2.32.3", &[("NCCL_OTF2_STEPS", "1-2")], &arguments) else {
        return;
    };
    // A process that just begins to record says nothing of itself yet.
    let all_began = |report: &Value| report["communicators"][0]["ranks"] == 2 && report["verdict"]["kind"] != "unknown";
    let recorded = job.until("3", all_began);
    assert_eq!(recorded["verdict"]["found"], false, "{recorded:#}");
    std::thread::sleep(Duration::from_secs(6));
    let report = job.until("3", |_| true);
    assert_eq!(report["verdict"]["found"], false, "{report:#}");
    assert_ne!(report["verdict"]["kind"], "quiet", "{report:#}");
    let _dead = job.kill();
}
