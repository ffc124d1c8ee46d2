//! What is shown depends on what Score-P writes, on the user's filter, and on who reads the trace.

use fake_scorep::Variant;

use crate::job::{Job, ROW, all_reduces};

/// Bytes are a metric of the calls, which profiles have, too.
#[test]
fn bytes_are_a_metric() {
    let job = Job::script(Variant::USUAL, &all_reduces(3)).run();
    let expected = ("Master thread".to_owned(), "nccl_bytes".to_owned(), 64);
    assert_eq!(job.log().metrics, vec![expected; 3]);
}

#[test]
fn where_nothing_is_kept_nothing_is_shown() {
    let nothing = |job: Job| job.env("SCOREP_ENABLE_TRACING", "false").env("SCOREP_ENABLE_PROFILING", "false");
    let job = nothing(Job::script(Variant::USUAL, &all_reduces(2))).run();
    assert_eq!(job.log().intervals.len(), 0);
    assert!(job.counts().is_empty());
    assert!(job.ended.stderr.contains("neither a trace nor a profile"), "{}", job.ended);
    assert!(!job.ended.stderr.contains("Score-P got"), "{}", job.ended);
    job.assert_whole();
    // Another plugin of Score-P may read the events.
    let job = nothing(Job::script(Variant::USUAL, &all_reduces(2))).env("SCOREP_SUBSTRATE_PLUGINS", "other").run();
    assert_eq!(job.counts()["OPERATIONS"], 2);
}

#[test]
fn the_users_filter_is_respected() {
    let job = Job::script(Variant::USUAL, &all_reduces(5));
    let rules = job.scratch.path().join("filter");
    let text = "SCOREP_REGION_NAMES_BEGIN\n EXCLUDE ncclAll*\n EXCLUDE ncclLaunchPlan\nSCOREP_REGION_NAMES_END\n";
    std::fs::write(&rules, text).expect("a filter");
    let job = job.env("SCOREP_FILTERING_FILE", &rules.display().to_string()).run();
    let calls: Vec<&str> = job.log().intervals.iter().map(|call| call.region.as_str()).collect();
    assert_eq!(calls.len(), 2 + 5 * 2, "{calls:?}");
    assert!(calls.iter().all(|name| !name.starts_with("ncclAll") && *name != "ncclLaunchPlan"), "{calls:?}");
    let counts = job.counts();
    assert_eq!((counts["CALLS"], counts["CALLS_FILTERED"], counts["OPERATIONS_FILTERED"]), (12, 10, 5));
    job.assert_whole();
}

/// Scalasca's analyser rejects locations that are no threads.
#[test]
fn for_scalasca_only_calls_are_shown() {
    let calls = |job: Job| {
        let job = job.run();
        let locations = &job.log().locations;
        assert!(locations.iter().all(|name| name.ends_with(" thread")), "{locations:?} {}", job.ended);
        let counts = job.counts();
        assert_eq!((counts["CALLS"], counts["OPERATIONS_CALLS_ONLY"]), (22, 5), "{counts:?}");
        assert!(job.ended.stderr.contains("calls only"), "{}", job.ended);
        job.assert_whole();
    };
    let job = || Job::script(Variant::USUAL, &all_reduces(5));
    calls(job().env("NCCL_OTF2_SCOREP", "calls"));
    // As `scan -t` sets it.
    let driven = || job().env("SCOREP_EXPERIMENT_DIRECTORY", "./scorep_train_2_trace");
    calls(driven());
    calls(job().env("SCOREP_EXPERIMENT_DIRECTORY", "scorep_train_8_trace_c2/scorep_train_8_c1"));
    calls(job().env("SCAN_ANALYZE_OPTS", "--time-correct"));
    // Without a trace nothing is analysed; the user's word counts more.
    for (variable, value) in [("SCOREP_ENABLE_TRACING", "false"), ("NCCL_OTF2_SCOREP", "on")] {
        let job = driven().env(variable, value).run();
        assert_eq!(job.log().on(ROW).count(), 5, "{variable}={value}");
    }
}
