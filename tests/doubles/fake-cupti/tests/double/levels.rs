//! What a release has and how long its records are.

use crate::decode::{By, check_storm, records};
use crate::rig::{Cupti, call, dies, scenario};

/// Level, and functions that it has and has not.
const LEVELS: [(&str, &[&str], &[&str]); 15] = [
    (
        "18",
        &["cuptiDeviceGetTimestamp"],
        &["cuptiGetErrorMessage", "cuptiActivityEnableDriverApi"],
    ),
    (
        "20",
        &["cuptiGetErrorMessage"],
        &["cuptiDeviceGetTimestamp", "cuptiGetGraphExecId"],
    ),
    (
        "21",
        &["cuptiGetGraphExecId"],
        &["cuptiActivityEnableDriverApi"],
    ),
    (
        "22",
        &["cuptiGetVersion"],
        &["cuptiActivityEnableDriverApi"],
    ),
    (
        "23",
        &["cuptiActivityEnableDriverApi"],
        &["cuptiActivityEnableHWTrace"],
    ),
    (
        "24",
        &["cuptiActivityEnableRuntimeApi"],
        &["cuptiActivityEnableHWTrace"],
    ),
    (
        "26",
        &["cuptiActivityEnableHWTrace"],
        &["cuptiSubscribe_v2"],
    ),
    ("27", &["cuptiSubscribe"], &["cuptiSubscribe_v2"]),
    ("28", &["cuptiSubscribe"], &["cuptiSubscribe_v2"]),
    (
        "130001",
        &["cuptiSubscribe_v2"],
        &["cuptiActivityEnable_v2"],
    ),
    (
        "130101",
        &["cuptiSubscribe_v2"],
        &["cuptiActivityEnable_v2"],
    ),
    (
        "130202",
        &[
            "cuptiActivityEnable_v2",
            "cuptiActivityRegisterCallbacks_v2",
        ],
        &[
            "cuptiActivityPushExternalCorrelationId_v2",
            "cuptiIsTracingSessionRunning",
        ],
    ),
    (
        "130301",
        &[
            "cuptiActivityPushExternalCorrelationId_v2",
            "cuptiIsTracingSessionRunning",
        ],
        &[],
    ),
    ("130401", &["cuptiGetTimestamp_v2"], &[]),
    (
        "130500",
        &["cuptiGetTimestamp_v2", "cuptiActivityGetNextRecord_v2"],
        &["cuptiDeviceGetTimestamp"],
    ),
];

#[test]
fn a_release_exports_what_it_has_and_nothing_later() {
    for (level, has, has_not) in LEVELS {
        let name = "levels::a_release_exports_what_it_has_and_nothing_later";
        scenario(name, &[("FAKECUPTI_API", level)], || {
            let cupti = Cupti::open();
            let mut version = 0_u32;
            assert_eq!(
                call!(cupti, "cuptiGetVersion", (*mut u32) -> i32, &raw mut version),
                0
            );
            assert_eq!(version.to_string(), level);
            for name in has {
                assert!(cupti.has(name), "{level} has {name}");
            }
            for name in has_not {
                assert!(!cupti.has(name), "{level} has no {name}");
            }
        });
    }
}

#[test]
fn every_kernel_of_every_release_is_joined_to_its_launch() {
    let name = "levels::every_kernel_of_every_release_is_joined_to_its_launch";
    for (level, ..) in LEVELS {
        scenario(name, &[("FAKECUPTI_API", level)], join_all);
    }
    scenario(
        name,
        &[("FAKECUPTI_API", "18"), ("FAKECUPTI_KERNEL_LEN", "200")],
        join_all,
    );
    scenario(
        name,
        &[("FAKECUPTI_API", "140100"), ("FAKECUPTI_KERNEL_LEN", "320")],
        join_all,
    );
}

fn join_all() {
    let cupti = Cupti::open();
    let by = if cupti.has("cuptiActivityPushExternalCorrelationId_v2") {
        By::V2(cupti.begin_v2(true))
    } else {
        cupti.begin_v1();
        By::V1
    };
    cupti.storm(by, 4, 50);
    let (found, ends) = records(&cupti, by);
    check_storm(&found, 4, 50);
    // Each walk ended behind the last record.
    assert!(ends.iter().all(|code| *code == 12), "{ends:?}");
    assert_eq!(
        cupti.count("buffers_requested"),
        cupti.count("buffers_completed")
    );
    assert_eq!(cupti.count("dropped"), 0);
}

#[test]
fn the_records_have_the_length_of_the_release() {
    let name = "levels::the_records_have_the_length_of_the_release";
    for (level, kernel_len) in [
        ("28", 208),
        ("130001", 216),
        ("130202", 224),
        ("130301", 232),
        ("130500", 248),
    ] {
        scenario(name, &[("FAKECUPTI_API", level)], || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.push(By::V1, 5, 9);
            cupti.launch(652, "k", 0, (0, 0));
            cupti.drain();
            cupti.flush(1);
            let valid: usize = crate::rig::DONE.lock().iter().map(|done| done.valid).sum();
            assert_eq!(valid, 24 + 40 + kernel_len);
        });
    }
}

#[test]
fn a_driver_is_missed_as_each_release_misses_it() {
    let name = "levels::a_driver_is_missed_as_each_release_misses_it";
    // Level, what asking for the version gives, what subscribing gives.
    for (level, version, subscribe) in [
        ("28", 0, 15),
        ("130101", 0, 999),
        ("130301", 999, 999),
        ("130500", 999, 999),
    ] {
        scenario(
            name,
            &[("FAKECUPTI_API", level), ("FAKECUPTI_CUDA", "check")],
            || {
                let cupti = Cupti::open();
                let mut number = 0_u32;
                assert_eq!(
                    call!(cupti, "cuptiGetVersion", (*mut u32) -> i32, &raw mut number),
                    version
                );
                assert_eq!(cupti.subscribe().0, subscribe);
            },
        );
    }
}

#[test]
fn without_a_driver_13_2_crashes() {
    let name = "levels::without_a_driver_13_2_crashes";
    let variables = [("FAKECUPTI_API", "130202"), ("FAKECUPTI_CUDA", "check")];
    dies(name, &variables, libc::SIGSEGV, "crashes here", || {
        let mut number = 0_u32;
        let cupti = Cupti::open();
        call!(cupti, "cuptiGetVersion", (*mut u32) -> i32, &raw mut number);
    });
}
