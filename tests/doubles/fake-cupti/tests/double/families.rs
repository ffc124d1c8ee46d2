//! V1 and V2, and several tools.

use crate::decode::{By, kernels, records};
use crate::rig::{Cupti, call, scenario};

fn timestamp_v1(cupti: &Cupti) -> i32 {
    let mut now = 0_u64;
    call!(cupti, "cuptiGetTimestamp", (*mut u64) -> i32, &raw mut now)
}

#[test]
fn whoever_comes_first_excludes_the_other_family() {
    let name = "families::whoever_comes_first_excludes_the_other_family";
    scenario(name, &[("FAKECUPTI_API", "130301")], || {
        let cupti = Cupti::open();
        cupti.begin_v2(true);
        assert_eq!(cupti.subscribe().0, 39);
        assert_eq!(cupti.register_v1(), 14);
        assert_eq!(call!(cupti, "cuptiActivityEnable", (u32) -> i32, 10), 14);
        assert_eq!(cupti.push(By::V1, 5, 1), 14);
        assert_eq!(timestamp_v1(&cupti), 14);
        // The other tool of the process finds the same.
        assert_eq!(cupti.other_tool(1), 14);
    });
}

#[test]
fn v1_in_use_refuses_a_subscriber_of_v2() {
    let name = "families::v1_in_use_refuses_a_subscriber_of_v2";
    scenario(name, &[("FAKECUPTI_API", "130500")], || {
        let cupti = Cupti::open();
        // Kineto's way: activity without a subscription.
        assert_eq!(cupti.register_v1(), 0);
        assert_eq!(cupti.subscribe_v2(true).0, 14);
        assert_eq!(cupti.subscribe().0, 0);
        let (code, _, holder) = cupti.subscribe_v2(true);
        assert_eq!((code, holder.as_str()), (39, "CUPTI"));
    });
}

#[test]
fn before_13_3_the_families_mix() {
    scenario(
        "families::before_13_3_the_families_mix",
        &[("FAKECUPTI_API", "130202")],
        || {
            let cupti = Cupti::open();
            assert_eq!(cupti.subscribe_v2(false).0, 0);
            assert_eq!(cupti.register_v1(), 0);
            assert_eq!(timestamp_v1(&cupti), 0);
        },
    );
}

#[test]
fn a_second_subscriber_is_told_who_the_first_is() {
    let name = "families::a_second_subscriber_is_told_who_the_first_is";
    scenario(
        name,
        &[("FAKECUPTI_API", "28"), ("FAKECUPTI_TAKEN", "nsys")],
        || {
            assert_eq!(Cupti::open().subscribe().0, 39);
        },
    );
}

#[test]
fn a_taken_library_names_the_holder() {
    let name = "families::a_taken_library_names_the_holder";
    for (by, activity) in [("v1", 0), ("v2", 14)] {
        let variables = [
            ("FAKECUPTI_API", "130500"),
            ("FAKECUPTI_TAKEN", "X"),
            ("FAKECUPTI_TAKEN_BY", by),
        ];
        scenario(name, &variables, || {
            let cupti = Cupti::open();
            let (code, _, holder) = cupti.subscribe_v2(true);
            assert_eq!((code, holder.as_str()), (39, "CUPTI for X"));
            assert_eq!(cupti.register_v1(), activity);
            let mut running = 0_u8;
            assert_eq!(
                call!(cupti, "cuptiIsTracingSessionRunning", (*mut u8) -> i32, &raw mut running),
                0
            );
            assert_eq!(running, 1);
        });
    }
}

#[test]
fn who_allows_others_gets_along_with_them() {
    let name = "families::who_allows_others_gets_along_with_them";
    let variables = [
        ("FAKECUPTI_TAKEN", "X"),
        ("FAKECUPTI_TAKEN_BY", "v2-shared"),
    ];
    scenario(name, &variables, || {
        let cupti = Cupti::open();
        assert_eq!(cupti.subscribe_v2(false).0, 39, "alone it cannot be");
        let by = By::V2(cupti.begin_v2(true));
        cupti.storm(by, 1, 10);
        crate::decode::check_storm(&records(&cupti, by).0, 1, 10);
        let period = call!(cupti, "cuptiActivityFlushPeriod", (u32) -> i32, 100);
        assert_eq!(period, 14);
    });
    scenario(name, &[("FAKECUPTI_OLD_DRIVER", "1")], || {
        let cupti = Cupti::open();
        assert_eq!(cupti.subscribe_v2(true).0, 39);
        assert_eq!(cupti.subscribe_v2(false).0, 0);
    });
}

#[test]
fn the_state_of_sharing_can_be_asked_for() {
    scenario(
        "families::the_state_of_sharing_can_be_asked_for",
        &[],
        || {
            let cupti = Cupti::open();
            let ask = |own: usize| {
                let (mut len, mut state) = (1_usize, 9_u8);
                let code = call!(cupti, "cuptiActivityGetAttribute_v2", (usize, u32, *mut usize, *mut u8) -> i32,
                             own, 12, &raw mut len, &raw mut state);
                assert_eq!(code, 0);
                state
            };
            assert_eq!(ask(0), 2);
            let own = cupti.begin_v2(true);
            assert_eq!(ask(own), 1);
            let mut kinds = [0_u32; 4];
            let (mut len, mut count) = (16_u32, 0_u32);
            let code = call!(cupti, "cuptiActivityGetEnabledKinds", (usize, *mut u32, *mut u32, *mut u32) -> i32,
                         0, kinds.as_mut_ptr(), &raw mut len, &raw mut count);
            assert_eq!((code, count, kinds), (0, 2, [10, 39, 0, 0]));
        },
    );
}

#[test]
fn an_ended_subscription_gets_nothing() {
    scenario("families::an_ended_subscription_gets_nothing", &[], || {
        let cupti = Cupti::open();
        let own = cupti.begin_v2(false);
        cupti.launch(652, "before", 0, (1, 2));
        cupti.drain();
        cupti.flush(1);
        assert_eq!(call!(cupti, "cuptiUnsubscribe", (usize) -> i32, own), 0);
        assert_eq!(cupti.push(By::V2(own), 5, 1), 1);
        // Its buffers can no longer be read.
        let (found, ends) = records(&cupti, By::V2(own));
        assert_eq!((found, ends), (vec![], vec![1]));
        assert_eq!(call!(cupti, "cuptiUnsubscribe", (usize) -> i32, own), 1);
    });
}

#[test]
fn another_tool_takes_the_buffers_of_v1() {
    scenario(
        "families::another_tool_takes_the_buffers_of_v1",
        &[("FAKECUPTI_TAKEOVER_AFTER", "3")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            for _ in 0..2 {
                cupti.launch(652, "ours", 0, (1, 2));
            }
            cupti.drain();
            cupti.flush(1);
            assert_eq!(kernels(&records(&cupti, By::V1).0).len(), 2);
            for _ in 0..5 {
                cupti.launch(652, "gone", 0, (1, 2));
            }
            cupti.drain();
            cupti.flush(1);
            assert_eq!(records(&cupti, By::V1).0, []);
        },
    );
}

#[test]
fn another_tool_switches_the_kinds_off() {
    scenario(
        "families::another_tool_switches_the_kinds_off",
        &[("FAKECUPTI_API", "22")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            assert_eq!(cupti.other_tool(2), 0);
            cupti.launch(652, "gone", 0, (1, 2));
            cupti.drain();
            cupti.flush(1);
            assert_eq!(records(&cupti, By::V1).0, []);
        },
    );
}
