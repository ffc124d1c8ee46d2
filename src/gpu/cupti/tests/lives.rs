//! Beginnings and ends: sessions after each other, threads that end wrongly, forks, processes without a driver.

use std::time::{Duration, Instant};

use super::rig::{
    NCCL, OTHER, Rig, launch_of, next_id, refusal, scenario, scenario_without_driver, settings,
};
use crate::gpu::cupti::Settings;
use crate::gpu::way::Timing as _;
use nccl_events::Kind;
use nccl_events::gpu::GpuCount;

#[test]
fn sessions_follow_each_other() {
    for level in ["24", "130500"] {
        scenario(
            "lives::sessions_follow_each_other",
            &[("FAKECUPTI_API", level)],
            || {
                for session in 1..=3 {
                    let mut rig = Rig::open();
                    let launched = [rig.launch(652, 0), rig.launch(307, 1)];
                    rig.finish();
                    rig.all_are_joined(&launched);
                    assert_eq!(rig.book.faults, [""; 0]);
                    assert_eq!(rig.double.count(c"unsubscribed"), session);
                    // After the end CUPTI is not called any more.
                    rig.launch(652, 0);
                    assert_eq!(rig.double.count(c"pushes"), session * 2);
                }
            },
        );
    }
}

#[test]
fn kernels_that_still_run_at_the_end_are_counted() {
    for level in ["24", "130500"] {
        scenario(
            "lives::kernels_that_still_run_at_the_end_are_counted",
            &[("FAKECUPTI_API", level)],
            || {
                let mut rig = Rig::open();
                let done = rig.launch(652, 0);
                rig.double.drain();
                let id = next_id(Kind::KernelLaunch);
                let now = journal::clock::realtime_ns();
                rig.timing.begins(launch_of(id));
                rig.double.launch_at(3, NCCL, now, now + 3_600_000_000_000);
                rig.timing.ends(id);
                let began = Instant::now();
                rig.finish_at_once();
                assert!(began.elapsed() < Duration::from_secs(5));
                rig.all_are_joined(&[done]);
                let lost = rig.book.get(GpuCount::KernelsWithoutTimes)
                    + rig.book.get(GpuCount::Unmatched)
                    + rig.book.get(GpuCount::Unfinished);
                assert_eq!(lost, 1, "{:?}", rig.book.counts);
            },
        );
    }
}

#[test]
fn a_stop_on_another_thread_does_nothing_there() {
    scenario(
        "lives::a_stop_on_another_thread_does_nothing_there",
        &[],
        || {
            let mut rig = Rig::open();
            let id = next_id(Kind::KernelLaunch);
            rig.timing.begins(launch_of(id));
            let correlation = rig.double.launch(652, 0, NCCL);
            std::thread::scope(|scope| {
                scope.spawn(|| rig.timing.ends(id));
            });
            assert_eq!(rig.double.count(c"pops"), 0);
            // The next ones have their own ids all the same, and the stack does not grow without end.
            let mut launched = vec![super::rig::Launched {
                id: id.get(),
                correlation,
            }];
            launched.push(rig.launch(652, 0));
            for _ in 0..20 {
                let id = next_id(Kind::KernelLaunch);
                rig.timing.begins(launch_of(id));
                let correlation = rig.double.launch(652, 0, NCCL);
                launched.push(super::rig::Launched {
                    id: id.get(),
                    correlation,
                });
                std::thread::scope(|scope| {
                    scope.spawn(|| rig.timing.ends(id));
                });
            }
            rig.finish();
            rig.all_are_joined(&launched);
            assert_eq!(rig.double.count(c"pushes"), 22);
            assert!(rig.double.count(c"pops") >= 14);
            assert_eq!(rig.double.count(c"pops_of_nothing"), 0);
        },
    );
}

#[test]
fn a_forked_child_leaves_cupti_alone() {
    // The double ends a child that calls it.
    scenario("lives::a_forked_child_leaves_cupti_alone", &[], || {
        let mut rig = Rig::open();
        let launched = rig.launch(652, 0);
        let id = next_id(Kind::KernelLaunch);
        // SAFETY: the child calls nothing but what is tested, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            rig.timing.begins(launch_of(id));
            rig.timing.ends(id);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: the child of this test, and a variable of its own.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
            "{status}"
        );
        rig.finish();
        rig.all_are_joined(&[launched]);
    });
}

#[test]
fn ids_of_other_tools_are_left_alone() {
    scenario("lives::ids_of_other_tools_are_left_alone", &[], || {
        let mut rig = Rig::open();
        let launched = rig.launch(652, 0);
        // Between launches: kernels of others have no id of ours.
        rig.double.launch(652, 0, OTHER);
        rig.finish();
        rig.all_are_joined(&[launched]);
        assert_eq!(rig.book.get(GpuCount::ForeignKernels), 1);
    });
}

#[test]
fn without_a_driver_cupti_is_not_touched() {
    scenario_without_driver("lives::without_a_driver_cupti_is_not_touched", || {
        let refused = refusal(&settings());
        assert!(refused.contains("libcuda.so.1 is not loaded"), "{refused}");
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.contains("fake_cupti"));
    });
}

#[test]
fn with_a_stub_of_a_driver_cupti_is_not_touched() {
    scenario(
        "lives::with_a_stub_of_a_driver_cupti_is_not_touched",
        &[("FAKEGPU_DRIVER", "stub")],
        || {
            let refused = refusal(&settings());
            assert!(refused.contains("stub of a CUDA toolkit"), "{refused}");
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            assert!(!maps.contains("fake_cupti"));
        },
    );
}

#[test]
fn a_library_that_is_not_there_is_named() {
    scenario("lives::a_library_that_is_not_there_is_named", &[], || {
        let named = Settings {
            library: Some("/nowhere/libcupti.so.12".into()),
            ..Settings::default()
        };
        let refused = refusal(&named);
        assert!(refused.contains("/nowhere/libcupti.so.12"), "{refused}");
        let refused = refusal(&Settings::default());
        assert!(
            refused.contains("libcupti was not found") && refused.contains("libcupti.so.12"),
            "{refused}"
        );
        let none = Settings {
            library: Some("libm.so.6".into()),
            ..Settings::default()
        };
        let refused = refusal(&none);
        assert!(refused.contains("is not CUPTI"), "{refused}");
    });
}
