//! Every kernel is joined to its launch, in every release and for any order of records.

use crate::gpu::cupti::session::Settings;
use crate::gpu::cupti::tests::rig::{
    Double, LAUNCHES, LEVELS, Launched, NCCL, OTHER, Rig, launch_of, next_id, scenario, settings,
};
use crate::gpu::output::Backend as _;
use nccl_events::Kind;
use nccl_events::gpu::GpuCount;

const THREADS: u32 = 4;

/// Launches kernels of NCCL and of others from several threads, while the worker collects.
fn storm(rig: &mut Rig, launches: u32, others: u32) -> Vec<Launched> {
    let (per_thread, others_per_launch) = (launches / THREADS, others.div_ceil(launches.max(1)));
    let launched = parking_lot::Mutex::new(Vec::new());
    let mut output = std::mem::take(&mut rig.output);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            let (rig, launched) = (&*rig, &launched);
            threads.push(scope.spawn(move || {
                let mut own = Vec::new();
                for number in 0..per_thread {
                    let cbid = LAUNCHES[number as usize % 2];
                    own.push(rig.launch(cbid, thread));
                    if number * others / launches.max(1) != (number + 1) * others / launches.max(1) {
                        for _ in 0..others_per_launch {
                            rig.double.launch(cbid, 10 + thread, OTHER);
                        }
                    }
                }
                launched.lock().extend(own);
            }));
        }
        while threads.iter().any(|thread| !thread.is_finished()) {
            rig.backend.collect(&mut output);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    rig.output = output;
    launched.into_inner()
}

#[test]
fn all_kernels_are_joined_in_every_release() {
    for level in LEVELS {
        let level_text = level.to_string();
        let variables = [("FAKECUPTI_API", level_text.as_str()), ("FAKECUPTI_KERNEL_NS", "2000")];
        scenario("releases::all_kernels_are_joined_in_every_release", &variables, || {
            let mut rig = Rig::open();
            let launched = storm(&mut rig, 2_000, 400);
            assert_eq!(launched.len(), 2_000);
            rig.finish();
            rig.all_are_joined(&launched);
            let foreign = rig.double.count(c"kernels") - 2_000;
            assert!(foreign >= 400);
            assert_eq!(
                rig.output.all(),
                [
                    (GpuCount::Launches, 2_000),
                    (GpuCount::Kernels, 2_000 + foreign),
                    (GpuCount::ForeignKernels, foreign),
                ]
            );
            assert_eq!(rig.output.kernels.len(), 2_000, "kernels of others are not recorded");
            assert_eq!((&rig.output.faults, &rig.output.notices), (&Vec::new(), &Vec::new()));
            let kernel = &rig.output.kernels[17].1;
            assert_eq!(kernel.name.as_bytes(), NCCL.to_bytes());
            assert!(kernel.end_ns >= kernel.start_ns && kernel.start_ns > 0);
            assert!(kernel.stream < THREADS && kernel.device == kernel.stream % 2);
            // CUPTI's stacks are empty, and it holds no buffer.
            let count = |name| rig.double.count(name);
            assert_eq!((count(c"pushes"), count(c"pops")), (2_000, 2_000));
            assert_eq!((count(c"subscribed"), count(c"unsubscribed")), (1, 1));
            assert_eq!(count(c"pops_of_nothing"), 0);
            assert_eq!(count(c"buffers_requested"), count(c"buffers_completed"));
            assert!(rig.output.clocks.len() >= 3);
            let is_shared = rig.description.contains("other tools can use too");
            assert_eq!(is_shared, level >= 130_300, "{}", rig.description);
            let records_all = rig.description.contains("every call of the driver");
            assert_eq!(records_all, level < 23, "{}", rig.description);
        });
    }
}

#[test]
fn the_order_of_records_and_buffers_does_not_matter() {
    for level in ["22", "130500"] {
        for (name, value) in [("FAKECUPTI_ORDER", "reversed"), ("FAKECUPTI_SPLIT", "1")] {
            let variables = [("FAKECUPTI_API", level), ("FAKECUPTI_KERNEL_NS", "2000"), (name, value)];
            scenario("releases::the_order_of_records_and_buffers_does_not_matter", &variables, || {
                let mut rig = Rig::open();
                let launched = storm(&mut rig, 2_000, 400);
                rig.finish();
                rig.all_are_joined(&launched);
                assert_eq!(rig.output.get(GpuCount::Unmatched), 0);
                assert_eq!(rig.output.faults, [""; 0]);
            });
        }
    }
}

#[test]
fn kernels_of_others_are_recorded_on_request() {
    scenario("releases::kernels_of_others_are_recorded_on_request", &[], || {
        let mut rig = Rig::open_with(Settings { all_kernels: true, ..settings() }).unwrap();
        let launched = rig.launch(652, 0);
        rig.double.launch(307, 5, OTHER);
        rig.finish();
        rig.all_are_joined(&[launched]);
        let others: Vec<_> = rig.output.kernels.iter().filter(|(id, _)| *id == 0).collect();
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].1.name.as_bytes(), OTHER.to_bytes());
        assert_eq!(rig.output.get(GpuCount::ForeignKernels), 0);
    });
}

#[test]
fn replays_of_graphs_are_known_by_name_and_node() {
    for level in ["18", "28", "130500"] {
        scenario("releases::replays_of_graphs_are_known_by_name_and_node", &[("FAKECUPTI_API", level)], || {
            let mut rig = Rig::open();
            let launched = rig.launch(652, 0);
            for _ in 0..3 {
                rig.double.replay(&[NCCL, OTHER], &[0x1111, 0x2222]);
            }
            rig.finish();
            rig.all_are_joined(&[launched]);
            let replayed: Vec<_> = rig.output.kernels.iter().filter(|(id, _)| *id == 0).collect();
            assert_eq!(replayed.len(), 3);
            for (_, kernel) in replayed {
                assert_eq!((kernel.graph_node, kernel.graph), (0x1111, 9));
                assert_eq!(kernel.name.as_bytes(), NCCL.to_bytes());
            }
            assert_eq!(rig.output.get(GpuCount::ForeignKernels), 3);
            assert_eq!(rig.output.get(GpuCount::Unmatched), 0);
        });
    }
}

fn copies(double: Double) -> [u32; 3] {
    [(8, 100), (10, 200), (8, 300)].map(|(kind, bytes)| double.copy(kind, bytes))
}

#[test]
fn copies_of_copy_engine_collectives_are_joined() {
    for level in ["18", "24", "26", "130500"] {
        scenario("releases::copies_of_copy_engine_collectives_are_joined", &[("FAKECUPTI_API", level)], || {
            let mut rig = Rig::open_with(Settings { copies: true, ..settings() }).unwrap();
            let id = next_id(Kind::CeColl);
            rig.backend.begins(launch_of(id));
            let ours = copies(rig.double);
            rig.backend.ends(id);
            copies(rig.double);
            rig.finish();
            let mut found: Vec<_> =
                rig.output.copies.iter().map(|(id, copy)| (*id, copy.correlation, copy.bytes)).collect();
            found.sort();
            let expected = [(ours[0], 100), (ours[1], 200), (ours[2], 300)]
                .map(|(correlation, bytes)| (id.get(), correlation, bytes));
            assert_eq!(found, expected);
            assert_eq!(
                rig.output.all(),
                [(GpuCount::Launches, 1), (GpuCount::Copies, 6), (GpuCount::ForeignCopies, 3),]
            );
        });
    }
}

#[test]
fn copies_are_recorded_only_on_request() {
    scenario("releases::copies_are_recorded_only_on_request", &[], || {
        let mut rig = Rig::open();
        let id = next_id(Kind::CeColl);
        rig.backend.begins(launch_of(id));
        copies(rig.double);
        rig.backend.ends(id);
        rig.finish();
        assert_eq!(rig.output.all(), []);
        assert_eq!(rig.double.count(c"pushes"), 0);
    });
}
