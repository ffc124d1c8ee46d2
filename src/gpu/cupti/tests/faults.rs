//! What can go wrong with CUPTI goes wrong, one line says so, the rest is recorded.

use std::time::{Duration, Instant};

use super::rig::{Launched, Rig, refusal, scenario, settings};
use crate::gpu::cupti::Settings;
use nccl_events::gpu::GpuCount;

/// Launches, collects in between, and ends.
fn session(launches: u32) -> (Rig, Vec<Launched>) {
    let mut rig = Rig::open();
    let mut launched = Vec::new();
    for number in 0..launches {
        launched.push(rig.launch(652, number % 3));
        if number % 100 == 99 {
            rig.double.drain();
            rig.collect();
        }
    }
    rig.finish();
    (rig, launched)
}

#[test]
fn kernels_without_times_are_counted_and_not_drawn() {
    scenario(
        "faults::kernels_without_times_are_counted_and_not_drawn",
        &[("FAKECUPTI_ZERO_TIMES", "10")],
        || {
            let (rig, launched) = session(500);
            assert_eq!((rig.book.kernels.len(), launched.len()), (450, 500));
            assert_eq!(rig.book.get(GpuCount::KernelsWithoutTimes), 50);
            assert_eq!(
                rig.book.get(GpuCount::Unmatched) + rig.book.get(GpuCount::Unfinished),
                0
            );
            rig.book.one_fault("without times");
        },
    );
}

#[test]
fn kernels_without_names_are_joined_all_the_same() {
    scenario(
        "faults::kernels_without_names_are_joined_all_the_same",
        &[("FAKECUPTI_NO_NAMES", "1")],
        || {
            let (rig, launched) = session(200);
            rig.all_are_joined(&launched);
            assert!(
                rig.book
                    .kernels
                    .iter()
                    .all(|(_, kernel)| kernel.name.is_empty())
            );
        },
    );
}

#[test]
fn dropped_records_are_counted() {
    scenario(
        "faults::dropped_records_are_counted",
        &[("FAKECUPTI_DROP", "30")],
        || {
            let (rig, _) = session(200);
            assert_eq!(rig.book.kernels.len(), 170);
            assert_eq!(rig.book.get(GpuCount::DroppedByCupti), 30);
            assert_eq!(rig.book.get(GpuCount::Unmatched), 30);
            rig.book.one_fault("dropped");
        },
    );
}

#[test]
fn half_a_record_at_the_end_of_a_buffer_is_not_read() {
    for level in ["24", "130301", "130500"] {
        let variables = [("FAKECUPTI_PARTIAL", "1"), ("FAKECUPTI_API", level)];
        scenario(
            "faults::half_a_record_at_the_end_of_a_buffer_is_not_read",
            &variables,
            || {
                let (rig, launched) = session(200);
                rig.all_are_joined(&launched);
                assert!(rig.book.get(GpuCount::BadRecords) > 0);
                rig.book.one_fault("CUPTI_ERROR_INVALID_KIND (21)");
                assert!(
                    rig.book
                        .kernels
                        .iter()
                        .all(|(_, kernel)| kernel.source_graph_node == 0)
                );
            },
        );
    }
}

#[test]
fn a_buffer_of_another_tool_is_neither_read_nor_freed() {
    scenario(
        "faults::a_buffer_of_another_tool_is_neither_read_nor_freed",
        &[("FAKECUPTI_FOREIGN_BUFFER", "1")],
        || {
            let (rig, launched) = session(200);
            rig.all_are_joined(&launched);
            assert_eq!(rig.book.get(GpuCount::ForeignBuffers), 1);
            rig.book.one_fault("buffers of another component");
        },
    );
}

#[test]
fn another_tool_that_takes_over_is_noticed() {
    let variables = [("FAKECUPTI_API", "24"), ("FAKECUPTI_TAKEOVER_AFTER", "150")];
    scenario(
        "faults::another_tool_that_takes_over_is_noticed",
        &variables,
        || {
            let mut rig = Rig::open();
            let began = Instant::now();
            // Two calls a launch.
            while began.elapsed() < Duration::from_secs(7) && rig.book.faults.is_empty() {
                for _ in 0..40 {
                    rig.launch(652, 0);
                }
                rig.double.drain();
                rig.collect();
                std::thread::sleep(Duration::from_millis(100));
            }
            rig.finish();
            rig.book.one_fault("taken over");
            let (kernels, launches) = (
                rig.book.get(GpuCount::Kernels),
                rig.book.get(GpuCount::Launches),
            );
            // What was in the buffer that CUPTI had then went to the other tool, with the buffer.
            assert!((40..80).contains(&kernels), "{:?}", rig.book.counts);
            assert_eq!(rig.book.get(GpuCount::LateBuffers), 1);
            let lost = rig.book.get(GpuCount::Unfinished) + rig.book.get(GpuCount::Unmatched);
            assert_eq!(lost, launches - kernels);
        },
    );
}

#[test]
fn another_tool_that_turns_kinds_off_is_noticed() {
    scenario(
        "faults::another_tool_that_turns_kinds_off_is_noticed",
        &[("FAKECUPTI_API", "24")],
        || {
            let mut rig = Rig::open();
            rig.launch(652, 0);
            rig.double.drain();
            rig.collect();
            assert_eq!(rig.double.other_tool(2), 0);
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(7) && rig.book.faults.is_empty() {
                for _ in 0..40 {
                    rig.launch(652, 0);
                }
                rig.collect();
                std::thread::sleep(Duration::from_millis(100));
            }
            rig.finish();
            rig.book.one_fault("taken over");
            assert_eq!(rig.book.kernels.len(), 1);
        },
    );
}

#[test]
fn a_clock_of_another_tool_is_noticed_and_sampled() {
    scenario(
        "faults::a_clock_of_another_tool_is_noticed_and_sampled",
        &[("FAKECUPTI_CLOCK", "foreign")],
        || {
            let mut rig = Rig::open();
            let launched = rig.launch(652, 0);
            for _ in 0..4 {
                rig.collect();
                std::thread::sleep(Duration::from_secs(1));
            }
            rig.finish();
            rig.all_are_joined(&[launched]);
            assert_eq!(rig.book.notices.len(), 1, "{:?}", rig.book.notices);
            assert!(rig.book.notices[0].contains("a clock of its own"));
            assert_eq!(rig.book.faults, [""; 0]);
            let (first, last) = (
                rig.book.clocks[0],
                rig.book.clocks[rig.book.clocks.len() - 1],
            );
            assert!(
                last.gpu_ns - first.gpu_ns > 11_000_000_000,
                "ticks, 2.9 a ns"
            );
        },
    );
}

#[test]
fn a_refusal_to_begin_says_why() {
    for (variables, words) in [
        (
            vec![("FAKECUPTI_API", "24"), ("FAKECUPTI_INIT", "15")],
            "newer than the GPU driver",
        ),
        (
            vec![("FAKECUPTI_API", "130500"), ("FAKECUPTI_INIT", "999")],
            "CUPTI_ERROR_UNKNOWN (999)",
        ),
        (
            vec![("FAKECUPTI_API", "24"), ("FAKECUPTI_TAKEN", "Another")],
            "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)",
        ),
        (
            vec![("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another")],
            "held by \"CUPTI for Another\"",
        ),
        (
            vec![
                ("FAKECUPTI_API", "130500"),
                ("FAKECUPTI_TAKEN", "Another"),
                ("FAKECUPTI_TAKEN_BY", "v2"),
            ],
            "held by \"CUPTI for Another\"",
        ),
    ] {
        scenario("faults::a_refusal_to_begin_says_why", &variables, || {
            let refused = refusal(&settings());
            assert!(refused.contains(words), "{refused}");
        });
    }
}

#[test]
fn tools_that_share_cupti_both_get_their_records() {
    let variables = [
        ("FAKECUPTI_API", "130500"),
        ("FAKECUPTI_TAKEN", "Another"),
        ("FAKECUPTI_TAKEN_BY", "v2-shared"),
    ];
    scenario(
        "faults::tools_that_share_cupti_both_get_their_records",
        &variables,
        || {
            let (rig, launched) = session(300);
            rig.all_are_joined(&launched);
            assert_eq!(rig.book.faults, [""; 0]);
        },
    );
}

#[test]
fn a_driver_that_serves_one_tool_only_is_enough() {
    let variables = [("FAKECUPTI_API", "130500"), ("FAKECUPTI_OLD_DRIVER", "1")];
    scenario(
        "faults::a_driver_that_serves_one_tool_only_is_enough",
        &variables,
        || {
            let (rig, launched) = session(300);
            rig.all_are_joined(&launched);
            assert!(rig.which.contains("no other tool can use"), "{}", rig.which);
        },
    );
}

#[test]
fn a_tool_that_traces_goes_first_where_it_is_not_insisted() {
    let variables = [
        ("FAKECUPTI_API", "130500"),
        ("FAKECUPTI_TAKEN", "Another"),
        ("FAKECUPTI_TAKEN_BY", "v2-shared"),
    ];
    scenario(
        "faults::a_tool_that_traces_goes_first_where_it_is_not_insisted",
        &variables,
        || {
            let yielding = Settings {
                yields: true,
                ..settings()
            };
            let refused = refusal(&yielding);
            assert!(refused.contains("NCCL_OTF2_GPU=cupti"), "{refused}");
        },
    );
}
