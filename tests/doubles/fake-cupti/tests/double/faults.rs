//! The faults that are asked for by variables.

use crate::decode::{By, Record, check_storm, kernels, records};
use crate::rig::{BUFFER_LEN, Cupti, DONE, call, scenario};
use std::path::Path;
use std::time::{Duration, Instant};

fn one_kernel() -> (Cupti, Vec<Record>, Vec<i32>) {
    let cupti = Cupti::open();
    cupti.begin_v1();
    cupti.push(By::V1, 5, 1);
    cupti.launch(652, "k", 0, (1_000, 2_000));
    cupti.drain();
    cupti.flush(1);
    let (found, ends) = records(&cupti, By::V1);
    (cupti, found, ends)
}

#[test]
fn kernels_come_apart_from_their_calls() {
    scenario(
        "faults::kernels_come_apart_from_their_calls",
        &[("FAKECUPTI_SPLIT", "1")],
        || {
            let (_, found, ends) = one_kernel();
            assert_eq!(ends.len(), 2);
            assert_eq!(kernels(&found).len(), 1);
        },
    );
}

#[test]
fn kernels_come_before_their_calls() {
    for split in ["0", "1"] {
        let variables = [("FAKECUPTI_ORDER", "reversed"), ("FAKECUPTI_SPLIT", split)];
        scenario(
            "faults::kernels_come_before_their_calls",
            &variables,
            || {
                let (_, found, _) = one_kernel();
                assert_eq!(found.len(), 3);
                assert!(matches!(found[0], Record::Kernel(_)), "{found:?}");
                assert!(matches!(found[2], Record::External { .. }), "{found:?}");
            },
        );
    }
}

#[test]
fn a_shuffle_loses_nothing() {
    for order in ["made", "shuffled:5"] {
        let variables = [("FAKECUPTI_ORDER", order), ("FAKECUPTI_SPLIT", "1")];
        scenario("faults::a_shuffle_loses_nothing", &variables, || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            let made: Vec<u32> = (1..=100)
                .map(|turn| cupti.launch(652, "k", 0, (turn * 1_000, turn * 1_000 + 5)))
                .collect();
            cupti.drain();
            cupti.flush(1);
            let (found, _) = records(&cupti, By::V1);
            let mut seen: Vec<u32> = kernels(&found)
                .iter()
                .map(|kernel| kernel.correlation)
                .collect();
            assert_eq!(seen == made, order == "made", "{seen:?}");
            seen.sort_unstable();
            assert_eq!(seen, made);
        });
    }
    scenario(
        "faults::a_shuffle_loses_nothing",
        &[("FAKECUPTI_ORDER", "shuffled:8")],
        || {
            *BUFFER_LEN.lock() = 4096;
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.storm(By::V1, 3, 200);
            check_storm(&records(&cupti, By::V1).0, 3, 200);
        },
    );
}

#[test]
fn every_second_kernel_has_no_times() {
    scenario(
        "faults::every_second_kernel_has_no_times",
        &[("FAKECUPTI_ZERO_TIMES", "2")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            for _ in 0..4 {
                cupti.launch(652, "k", 0, (1_000, 2_000));
            }
            cupti.drain();
            cupti.flush(1);
            let (found, _) = records(&cupti, By::V1);
            let times: Vec<_> = kernels(&found)
                .iter()
                .map(|kernel| (kernel.start, kernel.end))
                .collect();
            assert_eq!(
                times.iter().filter(|times| **times == (0, 0)).count(),
                2,
                "{times:?}"
            );
        },
    );
}

#[test]
fn a_kernel_can_be_nameless() {
    scenario(
        "faults::a_kernel_can_be_nameless",
        &[("FAKECUPTI_NO_NAMES", "1")],
        || {
            let (_, found, _) = one_kernel();
            assert_eq!(kernels(&found)[0].name, "");
        },
    );
}

#[test]
fn dropped_kernels_are_counted_once() {
    scenario(
        "faults::dropped_kernels_are_counted_once",
        &[("FAKECUPTI_DROP", "3")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            for _ in 0..10 {
                cupti.launch(652, "k", 0, (1_000, 2_000));
            }
            cupti.drain();
            cupti.flush(1);
            assert_eq!(kernels(&records(&cupti, By::V1).0).len(), 7);
            let dropped = || {
                let mut dropped = 0_usize;
                let code = call!(cupti, "cuptiActivityGetNumDroppedRecords", (usize, u32, *mut usize) -> i32,
                             0, 0, &raw mut dropped);
                assert_eq!(code, 0);
                dropped
            };
            assert_eq!((dropped(), dropped()), (3, 0));
        },
    );
}

#[test]
fn a_buffer_can_end_in_half_a_record() {
    scenario(
        "faults::a_buffer_can_end_in_half_a_record",
        &[("FAKECUPTI_PARTIAL", "1")],
        || {
            let (_, found, ends) = one_kernel();
            assert_eq!((kernels(&found).len(), ends), (1, vec![21]));
        },
    );
}

#[test]
fn a_buffer_that_was_never_given_comes_once() {
    scenario(
        "faults::a_buffer_that_was_never_given_comes_once",
        &[("FAKECUPTI_FOREIGN_BUFFER", "1")],
        || {
            let (cupti, found, _) = one_kernel();
            let names: Vec<_> = kernels(&found)
                .iter()
                .map(|kernel| kernel.name.clone())
                .collect();
            assert_eq!(names, ["k", "foreign_kernel"]);
            cupti.launch(652, "k", 0, (1_000, 2_000));
            cupti.drain();
            cupti.flush(1);
            assert_eq!(DONE.lock().len(), 1);
        },
    );
}

#[test]
fn buffers_can_come_after_the_flush_has_returned() {
    scenario(
        "faults::buffers_can_come_after_the_flush_has_returned",
        &[("FAKECUPTI_LATE_MS", "50")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.launch(652, "k", 0, (1_000, 2_000));
            cupti.drain();
            let began = Instant::now();
            cupti.flush(1);
            assert_eq!(DONE.lock().len(), 0);
            while DONE.lock().is_empty() {
                assert!(began.elapsed() < Duration::from_secs(20), "it never came");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(began.elapsed() >= Duration::from_millis(50));
        },
    );
}

#[test]
fn a_code_can_be_had_from_the_beginning() {
    let name = "faults::a_code_can_be_had_from_the_beginning";
    for code in ["15", "999"] {
        scenario(name, &[("FAKECUPTI_INIT", code)], || {
            let wanted: i32 = std::env::var("FAKECUPTI_INIT").unwrap().parse().unwrap();
            let cupti = Cupti::open();
            let mut version = 0_u32;
            assert_eq!(
                call!(cupti, "cuptiGetVersion", (*mut u32) -> i32, &raw mut version),
                0
            );
            assert_eq!(cupti.subscribe().0, wanted);
            assert_eq!(cupti.subscribe_v2(true).0, wanted);
        });
    }
}

#[test]
fn null_for_a_buffer_drops_records_from_12_9_on() {
    scenario(
        "faults::null_for_a_buffer_drops_records_from_12_9_on",
        &[("FAKECUPTI_API", "27")],
        || {
            *BUFFER_LEN.lock() = 0;
            let (cupti, found, _) = one_kernel();
            assert_eq!(found, []);
            assert_eq!(cupti.count("dropped"), 3, "an id, a call, a kernel");
        },
    );
}

#[test]
fn the_report_has_the_counts() {
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let in_child = std::env::var_os("FAKECUPTI_REPORT").is_some();
    if !in_child {
        // There is none the first time.
        let _ = std::fs::remove_file(&report);
    }
    let variables = [("FAKECUPTI_REPORT", report.to_str().unwrap())];
    scenario("faults::the_report_has_the_counts", &variables, || {
        let _ = one_kernel();
    });
    if !in_child {
        let text = std::fs::read_to_string(&report).unwrap();
        assert!(text.contains(" kernels 1\n"), "{text}");
        assert!(text.contains(" pops_of_nothing 0\n"), "{text}");
    }
}
