//! Faults of CUPTI: each is reported in one line, and everything else is recorded.

use std::time::{Duration, Instant};

use crate::gpu::cupti::session::Settings;
use crate::gpu::cupti::tests::rig::{Launched, Rig, refusal, scenario, settings};
use nccl_events::gpu::GpuCount;

/// Runs a session with a number of launches.
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

/// A variable for the double, the number of launches and of recorded kernels, counts, and words of the reported line.
type Loss = ((&'static str, &'static str), u32, usize, &'static [(GpuCount, u64)], &'static str);

const LOSSES: [Loss; 3] = [
    (
        ("FAKECUPTI_ZERO_TIMES", "10"),
        500,
        450,
        &[(GpuCount::KernelsWithoutTimes, 50), (GpuCount::Unmatched, 0), (GpuCount::Unfinished, 0)],
        "without times",
    ),
    (("FAKECUPTI_DROP", "30"), 200, 170, &[(GpuCount::DroppedByCupti, 30), (GpuCount::Unmatched, 30)], "dropped"),
    (("FAKECUPTI_FOREIGN_BUFFER", "1"), 200, 200, &[(GpuCount::ForeignBuffers, 1)], "buffers of another component"),
];

#[test]
fn what_cannot_be_recorded_is_counted_and_said_once() {
    for (variable, launches, kernels, counts, words) in LOSSES {
        scenario("faults::what_cannot_be_recorded_is_counted_and_said_once", &[variable], || {
            let (rig, launched) = session(launches);
            assert_eq!(rig.output.kernels.len(), kernels, "{words}");
            if kernels == launched.len() {
                rig.all_are_joined(&launched);
            }
            for (count, number) in counts {
                assert_eq!(rig.output.get(*count), *number, "{count:?}");
            }
            rig.output.one_fault(words);
        });
    }
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

/// Launches repeatedly until a fault is reported.
fn launch_until_a_fault(rig: &mut Rig, between: impl Fn(&Rig)) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(7) && rig.output.faults.is_empty() {
        for _ in 0..40 {
            rig.launch(652, 0);
        }
        between(rig);
        rig.collect();
        std::thread::sleep(Duration::from_millis(100));
    }
    rig.finish();
    rig.output.one_fault("taken over");
}

#[test]
fn a_takeover_by_another_tool_is_reported() {
    let variables = [("FAKECUPTI_API", "24"), ("FAKECUPTI_TAKEOVER_AFTER", "150")];
    scenario("faults::a_takeover_by_another_tool_is_reported", &variables, || {
        let mut rig = Rig::open();
        // Each launch makes two calls.
        launch_until_a_fault(&mut rig, |rig| rig.double.drain());
        let (kernels, launches) = (rig.output.get(GpuCount::Kernels), rig.output.get(GpuCount::Launches));
        // The other tool got the records in the buffer that CUPTI held.
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
        launch_until_a_fault(&mut rig, |_| {});
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
        assert!(rig.output.notices[0].contains("its own clock"));
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
fn with_another_tool_or_an_old_driver_all_kernels_are_joined() {
    for (variables, words) in [
        (&[("FAKECUPTI_TAKEN", "Another"), ("FAKECUPTI_TAKEN_BY", "v2-shared")][..], "other tools can use too"),
        (&[("FAKECUPTI_OLD_DRIVER", "1")], "no other tool can use"),
    ] {
        let variables = [&[("FAKECUPTI_API", "130500")], variables].concat();
        scenario("faults::with_another_tool_or_an_old_driver_all_kernels_are_joined", &variables, || {
            let (rig, launched) = session(300);
            rig.all_are_joined(&launched);
            assert!(rig.description.contains(words), "{}", rig.description);
            assert_eq!(rig.output.faults, [""; 0]);
        });
    }
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
