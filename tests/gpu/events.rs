//! Launches timed by CUDA events: a real NCCL on the emulated GPU, whose driver answers as a real one does.

use nccl_events::gpu::Backend;
use nccl_events::gpu::GpuCount;
use whole_plugin::machine::{RELEASE, tested};

use crate::run::{Process, Run, run};

const TIMED: (&str, &str) = ("NCCL_OTF2_GPU", "events");

/// Every launch has its times, except captured ones; and no function was called where CUDA forbids it.
fn every_launch_is_timed(run: &Run) {
    for process in &run.processes {
        assert!(!process.launches.is_empty(), "NCCL launches");
        assert_eq!(
            process.times.len() as u64 + process.count(GpuCount::Captured),
            process.launches.len() as u64,
            "{:?}",
            process.counts
        );
        assert_eq!(process.count(GpuCount::Launches), process.launches.len() as u64);
        for count in [
            GpuCount::NoEventLeft,
            GpuCount::Refused,
            GpuCount::OnCallbackThread,
            GpuCount::Unfinished,
            GpuCount::NoRoom,
        ] {
            assert_eq!(process.count(count), 0, "{count:?}");
        }
        for (id, (time, _)) in &process.times {
            let launched = &process.launches[id];
            assert_eq!(time.stream, launched.stream);
            assert_eq!(time.ordinal, process.of_communicator[&launched.context]);
        }
    }
    assert_eq!(
        run.calls.get("cuThreadExchangeStreamCaptureMode"),
        Some(&(run.processes.len() as u64)),
        "the worker may ask for events while others capture"
    );
    for fault in ["in_host_callback", "recorded_in_capture", "spoiled_captures"] {
        assert_eq!(run.calls.get(fault), None, "{:?}", run.calls);
    }
}

/// The work of a launch ran after NCCL launched it and before its end was known, within the uncertainty of the clocks.
fn times_are_possible(process: &Process) {
    for (id, (time, known)) in &process.times {
        let launched = &process.launches[id];
        let (start, start_off) = process.ticks_of(time.ordinal, time.start_ns);
        let (end, end_off) = process.ticks_of(time.ordinal, time.end_ns);
        // Between samples the precision depends on the host's own clocks.
        const SLACK: f64 = 200_000.0;
        #[expect(clippy::cast_precision_loss, reason = "differences count")]
        let (begin, known) = (launched.begin as f64, *known as f64);
        assert!(start >= begin - start_off - SLACK, "started {} ticks before it was launched: {time:?}", begin - start);
        assert!(end >= start, "{time:?}");
        assert!(end <= known + end_off + SLACK, "ended {} ticks after that was known: {time:?}", end - known);
    }
}

#[test]
fn launches_are_timed_and_captures_are_not() {
    // A GPU clock that is slow or fast by a twentieth: times on the host's clock would be far off.
    for (version, ppm) in tested([("2.28.9", "-50000"), ("2.32.3", "50000")], |case| case.0) {
        let variables = [
            TIMED,
            ("FAKEGPU_CLOCK_PPM", ppm),
            ("FAKEGPU_CLOCK_OFFSET_NS", "-3600000000000"),
            ("FAKEGPU_CAPTURE_MODE", "global"),
        ];
        let operations = ["--ops", "allreduce,sendrecv,group,graph", "--rounds", "2"];
        let Some(run) = run(version, &operations, &variables) else {
            return;
        };
        every_launch_is_timed(&run);
        let [process] = &run.processes[..] else {
            panic!("one process");
        };
        assert!(process.count(GpuCount::Captured) >= 4, "graphs");
        assert!(process.times.len() >= 10, "{}", process.times.len());
        times_are_possible(process);
        assert!(
            matches!(&process.notices[..], [(Backend::Events, line)] if line.contains("NCCL_OTF2_GPU=events")),
            "{:?}",
            process.notices
        );
        let properties = run.scratch.archive().properties();
        assert_eq!(properties["NCCL::GPU::BACKEND"], "events");
        assert_eq!(
            run.calls["cuEventCreate"], run.calls["cuEventDestroy_v2"],
            "all are destroyed with the last communicator"
        );
    }
}

#[test]
fn devices_are_described_and_belong_to_communicators() {
    let arguments = ["--procs", "2", "--threads", "2", "--ops", "one"];
    let variables = [TIMED, ("FAKEGPU_MIG", "1")];
    let Some(run) = run(RELEASE, &arguments, &variables) else {
        return;
    };
    every_launch_is_timed(&run);
    assert_eq!(run.processes.len(), 2);
    for process in &run.processes {
        assert_eq!(process.devices.len(), 2, "each once");
        assert_eq!(process.of_communicator.len(), 2);
        for device in &process.devices {
            assert!(device.is_mig);
            assert_eq!(device.name, "Fake GPU MIG 1g.10gb");
            assert_eq!(&device.uuid[1..], [0xfb; 15], "of the instance, not of the whole device");
            assert_eq!(u32::from(device.uuid[0]), device.ordinal + 1);
            assert_eq!(device.compute_capability, [8, 0]);
            assert!(device.multiprocessors > 0 && device.driver_version > 11_000);
            let used = process.of_communicator.values().any(|ordinal| *ordinal == device.ordinal);
            assert!(used, "{device:?}");
        }
    }
}

#[test]
fn a_process_that_does_not_end_its_communicators_has_its_times() {
    let arguments = ["--ops", "allreduce", "--end", "exit"];
    let Some(run) = run(RELEASE, &arguments, &[TIMED]) else {
        return;
    };
    every_launch_is_timed(&run);
    assert_eq!(run.calls.get("cuEventDestroy_v2"), None, "the driver is left to end by itself");
}

/// The job runs and the trace is written, whatever the driver does; a line says what is missing and what to do.
#[test]
fn the_job_survives_a_driver_that_fails() {
    let event_functions = ["cuEventCreate", "cuEventRecord"];
    let cases = [
        (RELEASE, &[("FAKEGPU_DRIVER", "absent")][..], "no libcuda.so.1 is loaded", &["cuDriverGetVersion"][..]),
        (RELEASE, &[("FAKEGPU_DRIVER", "stub")], "LD_LIBRARY_PATH", &event_functions),
        (RELEASE, &[("FAKEGPU_EVENTS", "none"), TIMED], "CUDA_ERROR_OUT_OF_MEMORY", &["cuEventRecord"]),
        (RELEASE, &[("FAKEGPU_EVENTS", "record-fails"), TIMED], "CUDA_ERROR_UNKNOWN (999)", &[]),
        // A device that hangs: the end of the job waits for a bounded time.
        (RELEASE, &[("FAKEGPU_EVENTS", "never-done"), TIMED], "NCCL_OTF2_GPU=events", &[]),
        ("2.26.5", &[TIMED], "2.28 and later do", &event_functions),
        (RELEASE, &[("NCCL_OTF2_EVENTS", "coll"), TIMED], "NCCL_OTF2_EVENTS", &event_functions),
        (RELEASE, &[("NCCL_OTF2_GPU", "off")], "", &["cuDriverGetVersion", "cuCtxGetCurrent"]),
    ];
    for (version, variables, said, not_called) in tested(cases, |case| case.0) {
        let Some(run) = run(version, &["--ops", "allreduce"], variables) else {
            return;
        };
        let lines = run.ended.our_lines();
        // The verdict, which `run` closes with, may be about GPU times, too.
        let is_verdict = |line: &&&str| line.trim_start().starts_with("Cannot tell");
        let about: Vec<_> = lines.iter().filter(|line| line.contains("GPU ") && !is_verdict(line)).collect();
        match said {
            "" => assert_eq!(about, Vec::<&&str>::new(), "{}", run.ended),
            said => assert!(
                matches!(&about[..], [.., line] if line.contains(said)) && about.len() <= 3,
                "{said}: {about:?}"
            ),
        }
        for function in not_called {
            assert_eq!(run.calls.get(*function), None, "{variables:?}: {:?}", run.calls);
        }
        for process in &run.processes {
            assert!(process.times.is_empty(), "{variables:?}");
            let settled = process.count(GpuCount::Refused) + process.count(GpuCount::Unfinished);
            assert_eq!(process.count(GpuCount::Launches), settled, "{variables:?}");
            assert_eq!(process.notices.is_empty(), said.is_empty());
        }
    }
}
