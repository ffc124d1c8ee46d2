//! Faults of CUPTI: one line reports each, and the rest is recorded.

use std::time::{Duration, Instant};

use super::rig::{Launched, Rig, refusal, scenario, settings};
use crate::gpu::cupti::Settings;
use nccl_events::gpu::GpuCount;

/// A session with a number of launches.
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
fn kernels_without_times_are_counted() {
    scenario("faults::kernels_without_times_are_counted", &[("FAKECUPTI_ZERO_TIMES", "10")], || {
        let (rig, launched) = session(500);
        assert_eq!((rig.output.kernels.len(), launched.len()), (450, 500));
        assert_eq!(rig.output.get(GpuCount::KernelsWithoutTimes), 50);
        assert_eq!(rig.output.get(GpuCount::Unmatched) + rig.output.get(GpuCount::Unfinished), 0);
        rig.output.one_fault("without times");
    });
}

#[test]
fn dropped_records_are_counted() {
    scenario("faults::dropped_records_are_counted", &[("FAKECUPTI_DROP", "30")], || {
        let (rig, _) = session(200);
        assert_eq!(rig.output.kernels.len(), 170);
        assert_eq!(rig.output.get(GpuCount::DroppedByCupti), 30);
        assert_eq!(rig.output.get(GpuCount::Unmatched), 30);
        rig.output.one_fault("dropped");
    });
}

#[test]
fn half_a_record_at_the_end_of_a_buffer_is_not_read() {
    for level in ["24", "130301", "130500"] {
        let variables = [("FAKECUPTI_PARTIAL", "1"), ("FAKECUPTI_API", level)];
        scenario("faults::half_a_record_at_the_end_of_a_buffer_is_not_read", &variables, || {
            let (rig, launched) = session(200);
            rig.all_are_joined(&launched);
            assert!(rig.output.get(GpuCount::BadRecords) > 0);
            rig.output.one_fault("CUPTI_ERROR_INVALID_KIND (21)");
            assert!(rig.output.kernels.iter().all(|(_, kernel)| kernel.source_graph_node == 0));
        });
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
            assert_eq!(rig.output.get(GpuCount::ForeignBuffers), 1);
            rig.output.one_fault("buffers of another component");
        },
    );
}

#[test]
fn a_takeover_by_another_tool_is_reported() {
    let variables = [("FAKECUPTI_API", "24"), ("FAKECUPTI_TAKEOVER_AFTER", "150")];
    scenario("faults::a_takeover_by_another_tool_is_reported", &variables, || {
        let mut rig = Rig::open();
        let began = Instant::now();
        // Two calls a launch.
        while began.elapsed() < Duration::from_secs(7) && rig.output.faults.is_empty() {
            for _ in 0..40 {
                rig.launch(652, 0);
            }
            rig.double.drain();
            rig.collect();
            std::thread::sleep(Duration::from_millis(100));
        }
        rig.finish();
        rig.output.one_fault("taken over");
        let (kernels, launches) = (rig.output.get(GpuCount::Kernels), rig.output.get(GpuCount::Launches));
        // The records in the buffer that CUPTI had then went to the other tool.
        assert!((40..80).contains(&kernels), "{:?}", rig.output.counts);
        assert_eq!(rig.output.get(GpuCount::LateBuffers), 1);
        let lost = rig.output.get(GpuCount::Unfinished) + rig.output.get(GpuCount::Unmatched);
        assert_eq!(lost, launches - kernels);
    });
}

#[test]
fn disabled_kinds_are_reported() {
    scenario("faults::disabled_kinds_are_reported", &[("FAKECUPTI_API", "24")], || {
        let mut rig = Rig::open();
        rig.launch(652, 0);
        rig.double.drain();
        rig.collect();
        assert_eq!(rig.double.other_tool(2), 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(7) && rig.output.faults.is_empty() {
            for _ in 0..40 {
                rig.launch(652, 0);
            }
            rig.collect();
            std::thread::sleep(Duration::from_millis(100));
        }
        rig.finish();
        rig.output.one_fault("taken over");
        assert_eq!(rig.output.kernels.len(), 1);
    });
}

#[test]
fn a_clock_of_another_tool_is_reported_and_sampled() {
    scenario("faults::a_clock_of_another_tool_is_reported_and_sampled", &[("FAKECUPTI_CLOCK", "foreign")], || {
        let mut rig = Rig::open();
        let launched = rig.launch(652, 0);
        for _ in 0..4 {
            rig.collect();
            std::thread::sleep(Duration::from_secs(1));
        }
        rig.finish();
        rig.all_are_joined(&[launched]);
        assert_eq!(rig.output.notices.len(), 1, "{:?}", rig.output.notices);
        assert!(rig.output.notices[0].contains("a clock of its own"));
        assert_eq!(rig.output.faults, [""; 0]);
        let (first, last) = (rig.output.clocks[0], rig.output.clocks[rig.output.clocks.len() - 1]);
        assert!(last.gpu_ns - first.gpu_ns > 11_000_000_000, "ticks, 2.9 a ns");
    });
}

#[test]
fn an_error_of_the_subscription_is_explained() {
    for (variables, words) in [
        (vec![("FAKECUPTI_API", "24"), ("FAKECUPTI_INIT", "15")], "newer than the GPU driver"),
        (vec![("FAKECUPTI_API", "130500"), ("FAKECUPTI_INIT", "999")], "CUPTI_ERROR_UNKNOWN (999)"),
        (
            vec![("FAKECUPTI_API", "24"), ("FAKECUPTI_TAKEN", "Another")],
            "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)",
        ),
        (vec![("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another")], "held by \"CUPTI for Another\""),
        (
            vec![("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another"), ("FAKECUPTI_TAKEN_BY", "v2")],
            "held by \"CUPTI for Another\"",
        ),
    ] {
        scenario("faults::an_error_of_the_subscription_is_explained", &variables, || {
            let refused = refusal(&settings());
            assert!(refused.contains(words), "{refused}");
        });
    }
}

#[test]
fn tools_that_share_cupti_both_get_their_records() {
    let variables = [("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another"), ("FAKECUPTI_TAKEN_BY", "v2-shared")];
    scenario("faults::tools_that_share_cupti_both_get_their_records", &variables, || {
        let (rig, launched) = session(300);
        rig.all_are_joined(&launched);
        assert_eq!(rig.output.faults, [""; 0]);
    });
}

#[test]
fn a_driver_that_serves_only_one_tool_is_enough() {
    let variables = [("FAKECUPTI_API", "130500"), ("FAKECUPTI_OLD_DRIVER", "1")];
    scenario("faults::a_driver_that_serves_only_one_tool_is_enough", &variables, || {
        let (rig, launched) = session(300);
        rig.all_are_joined(&launched);
        assert!(rig.description.contains("no other tool can use"), "{}", rig.description);
    });
}

#[test]
fn by_default_a_tool_that_traces_has_precedence() {
    let variables = [("FAKECUPTI_API", "130500"), ("FAKECUPTI_TAKEN", "Another"), ("FAKECUPTI_TAKEN_BY", "v2-shared")];
    scenario("faults::by_default_a_tool_that_traces_has_precedence", &variables, || {
        let yielding = Settings { yields: true, ..settings() };
        let refused = refusal(&yielding);
        assert!(refused.contains("NCCL_OTF2_GPU=cupti"), "{refused}");
    });
}
