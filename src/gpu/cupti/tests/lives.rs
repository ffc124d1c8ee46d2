//! Beginnings and ends: several sessions, stops on other threads, forks, processes without a driver.

use std::time::{Duration, Instant};

use crate::gpu::cupti::session::Settings;
use crate::gpu::cupti::tests::rig::{NCCL, Rig, launch_of, next_id, refusal, scenario};
use crate::gpu::output::Backend as _;
use nccl_events::Kind;
use nccl_events::gpu::GpuCount;

#[test]
fn sessions_follow_each_other() {
    for level in ["24", "130500"] {
        scenario("lives::sessions_follow_each_other", &[("FAKECUPTI_API", level)], || {
            for session in 1..=3 {
                let mut rig = Rig::open();
                let launched = [rig.launch(652, 0), rig.launch(307, 1)];
                rig.finish();
                rig.all_are_joined(&launched);
                assert_eq!(rig.output.faults, [""; 0]);
                assert_eq!(rig.double.count(c"unsubscribed"), session);
                // After the end the plugin makes no calls to CUPTI.
                rig.launch(652, 0);
                assert_eq!(rig.double.count(c"pushes"), session * 2);
            }
        });
    }
}

#[test]
fn kernels_that_still_run_at_the_end_are_counted() {
    for level in ["24", "130500"] {
        scenario("lives::kernels_that_still_run_at_the_end_are_counted", &[("FAKECUPTI_API", level)], || {
            let mut rig = Rig::open();
            let done = rig.launch(652, 0);
            rig.double.drain();
            let id = next_id(Kind::KernelLaunch);
            let now = journal::clock::realtime_ns();
            rig.backend.begins(launch_of(id));
            rig.double.launch_at(3, NCCL, now, now + 3_600_000_000_000);
            rig.backend.ends(id);
            let began = Instant::now();
            rig.finish_at_once();
            assert!(began.elapsed() < Duration::from_secs(5));
            rig.all_are_joined(&[done]);
            let lost = rig.output.get(GpuCount::KernelsWithoutTimes)
                + rig.output.get(GpuCount::Unmatched)
                + rig.output.get(GpuCount::Unfinished);
            assert_eq!(lost, 1, "{:?}", rig.output.counts);
        });
    }
}

#[test]
fn a_stop_on_another_thread_does_nothing_there() {
    scenario("lives::a_stop_on_another_thread_does_nothing_there", &[], || {
        let mut rig = Rig::open();
        let id = next_id(Kind::KernelLaunch);
        rig.backend.begins(launch_of(id));
        let correlation = rig.double.launch(652, 0, NCCL);
        std::thread::scope(|scope| {
            scope.spawn(|| rig.backend.ends(id));
        });
        assert_eq!(rig.double.count(c"pops"), 0);
        // Later launches have their own ids, and the stack does not grow without bound.
        let mut launched = vec![super::rig::Launched { id: id.get(), correlation }];
        launched.push(rig.launch(652, 0));
        for _ in 0..20 {
            let id = next_id(Kind::KernelLaunch);
            rig.backend.begins(launch_of(id));
            let correlation = rig.double.launch(652, 0, NCCL);
            launched.push(super::rig::Launched { id: id.get(), correlation });
            std::thread::scope(|scope| {
                scope.spawn(|| rig.backend.ends(id));
            });
        }
        rig.finish();
        rig.all_are_joined(&launched);
        assert_eq!(rig.double.count(c"pushes"), 22);
        assert!(rig.double.count(c"pops") >= 14);
        assert_eq!(rig.double.count(c"pops_of_nothing"), 0);
    });
}

#[test]
fn a_forked_child_does_not_call_cupti() {
    // The double aborts a child that calls it.
    scenario("lives::a_forked_child_does_not_call_cupti", &[], || {
        let mut rig = Rig::open();
        let launched = rig.launch(652, 0);
        let id = next_id(Kind::KernelLaunch);
        // SAFETY: the child only calls the functions under test and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            rig.backend.begins(launch_of(id));
            rig.backend.ends(id);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: waits for this test's child, and writes to a local variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
        rig.finish();
        rig.all_are_joined(&[launched]);
    });
}

#[test]
fn a_missing_library_is_named() {
    scenario("lives::a_missing_library_is_named", &[], || {
        let named = Settings { library: Some("/nowhere/libcupti.so.12".into()), ..Settings::default() };
        let refused = refusal(&named);
        assert!(refused.contains("/nowhere/libcupti.so.12"), "{refused}");
        let refused = refusal(&Settings::default());
        assert!(refused.contains("libcupti was not found") && refused.contains("libcupti.so.12"), "{refused}");
        let none = Settings { library: Some("libm.so.6".into()), ..Settings::default() };
        let refused = refusal(&none);
        assert!(refused.contains("is not CUPTI"), "{refused}");
    });
}
